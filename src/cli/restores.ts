/** `tidemark restores` and `tidemark restores show N`: what restores did, step by step. */
import { definitionsFor } from '../config/source.ts';
import type { ExitCode } from '../core/errors.ts';
import { duration, formatInteger, localTime } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../mirror/restores.ts';
import { maskedRestore } from '../report/plan-mask.ts';
import { byText } from '../report/value-text.ts';
import { latestRestore, unknownRestore } from '../restore/apply/resume.ts';
import { restoreReport, stepsToCheck, toCheckText } from '../restore/apply/report.ts';
import { newestUnfinished, restoreNow, unendedText } from '../mirror/unfinished-restore.ts';
import { shownPlan } from '../restore/plan/plan.ts';
import { parentNames } from '../state/parent-names.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { print, printNote, type CommandContext, terminalWidth, toRun, printJson } from './context.ts';
import { restoreNumber, restoreText } from './restore-session.ts';
import { renderTable } from '../report/table.ts';
import { printAltered } from './verification-note.ts';
import { readConfigToShow } from './unmasked-keys.ts';

/** Lists restores, newest first. Exit code 1 if the audit log was altered, or contradicts the rows; they are shown nevertheless. */
export async function restores(
  context: CommandContext,
  options: { readonly limit?: number },
): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  using mirror = openConfiguredMirror(config, 'read', 'restores', context.pid);
  const names = context.options.source;
  const limit = options.limit ?? 20;
  const rows = mirror.restores
    .list()
    .filter(({ source }) => names?.includes(source) !== false)
    .slice(0, limit)
    .map((row) => restoreNow(mirror, row));
  const contradictions = mirror.restores.contradictions();
  const warnings = mirror.restores.altered();
  const exit = printAltered(context, warnings);
  if (context.options.json === true) {
    const altered = new Set(contradictions.map(({ restore }) => restore));
    const documents = rows.map((row) => ({
      ...restoreDocument(row, mirror),
      is_altered: altered.has(row.restore),
    }));
    const document = { schema: 'tidemark.restores/1', restores: documents, warnings };
    await printJson(context, document);
    return exit;
  }
  const table = renderTable(
    [
      'restore',
      'source',
      'from',
      'started',
      'by',
      'took',
      'outcome',
      'applied',
      'failed',
      'skipped',
      'blocked',
      'manual',
      'undoes',
    ],
    rows.map((row) => {
      const counts = countsOf(mirror.restores.steps(row.restore));
      const report = restoreReport(mirror, row.restore);
      // Created records that must be completed by hand count too.
      const manual = counts.manual + (report.by_hand?.length ?? 0);
      // For an abandoned restore, the end is the time of that; when it stopped working is not known.
      const isAbandoned = report.abandoned_by !== undefined;
      const isOver = row.outcome === 'interrupted' && report.undone_by !== undefined;
      const toCheck = toCheckText(mirror, row);
      const isTimed = row.finishedAt !== null && !isAbandoned;
      return [
        String(row.restore),
        row.source,
        row.from,
        localTime(row.startedAt),
        byText(row),
        isTimed ? duration(Date.parse(row.finishedAt) - Date.parse(row.startedAt)) : '',
        [
          `${row.outcome}${isAbandoned ? ' (abandoned)' : isOver ? ' (undone)' : ''}`,
          ...(isAbandoned && counts.planned > 0 ? [`${formatInteger(counts.planned)} not reached`] : []),
          ...(toCheck === '' ? [] : [toCheck]),
        ].join(', '),
        counts.unverified === 0
          ? formatInteger(counts.applied)
          : `${formatInteger(counts.applied)} (${formatInteger(counts.unverified)} not as sent)`,
        ...[counts.failed, counts.skipped, counts.blocked, manual].map(formatInteger),
        row.undoes === null ? '' : String(row.undoes),
      ];
    }),
    [
      ...(['right', 'left', 'left', 'left', 'left', 'right', 'left'] as const),
      ...(['right', 'right', 'right', 'right', 'right', 'right'] as const),
    ],
    { width: terminalWidth(context), least: ['took'] },
  );
  for (const row of rows) noteBackup(context, mirror, row);
  await print(
    context,
    rows.length === 0
      ? toRun('no restores yet: `tidemark restore` makes a plan\n', context.options)
      : `${table}\n`,
  );
  return exit;
}

/** Shows one restore step by step. Exit code 1 if its rows contradict the audit log. */
export async function showRestore(
  context: CommandContext,
  options: { readonly restore: string },
): Promise<ExitCode> {
  const asked = restoreNumber(options.restore);
  const config = readConfigToShow(context);
  using mirror = openConfiguredMirror(config, 'read', 'restores show', context.pid);
  const number = asked ?? latestRestore(mirror, context.options.source).restore;
  const found = mirror.restores.get(number);
  if (found === undefined) throw unknownRestore(mirror, number);
  const warnings = mirror.restores.contradictions(number).map(({ line }) => line);
  const exit = printAltered(context, warnings);
  const row = restoreNow(mirror, found);
  noteBackup(context, mirror, row);
  const report = { ...restoreReport(mirror, number), outcome: row.outcome };
  const definitions = definitionsFor(config, report.source);
  if (context.options.json === true) {
    const marks = { is_altered: warnings.length > 0, warnings };
    await printJson(context, { ...maskedRestore(report, definitions), ...marks });
  } else {
    const parentName = parentNames(mirror, report.source, definitions);
    const shown = { parentName, plan: shownPlan(row) ?? undefined, isWhole: true };
    await print(context, restoreText(context, config, report, shown));
  }
  return exit;
}

function restoreDocument(row: RestoreRow, mirror: Mirror): object {
  const { restore, source, planHash, from, undoes, startedAt, by, via, finishedAt } = row;
  const abandonedBy = mirror.restores.abandonedBy(restore);
  return {
    restore,
    source,
    plan: planHash,
    from,
    undoes,
    outcome: row.outcome,
    started_at: startedAt,
    by,
    ...(via === undefined ? {} : { via }),
    finished_at: finishedAt,
    ...(abandonedBy === null ? {} : { abandoned_by: abandonedBy }),
    summary: countsOf(mirror.restores.steps(restore)),
    to_check: stepsToCheck(mirror, row),
  };
}

/**
 * Notes that the mirror came from a backup in which the restore had not ended: how it ended is not known. Only for the latest
 * restore of a source, the only one that can be resumed.
 */
function noteBackup(context: CommandContext, mirror: Mirror, row: RestoreRow): void {
  const { restore, source, outcome } = row;
  if (outcome !== 'interrupted') return;
  const newest = newestUnfinished(mirror, source);
  const backupMadeAt = newest?.backupMadeAt ?? null;
  if (newest?.restore !== restore || backupMadeAt === null) return;
  printNote(context, [
    unendedText(`restore ${restore}`, { backupMadeAt }),
    `  → \`tidemark restore --resume ${restore}\` reads each record first, and sends only what is missing`,
  ]);
}

/** Steps per outcome. `unverified`: applied steps whose record, read back, does not have what was sent. */
function countsOf(
  steps: readonly RestoreStepRow[],
): Record<RestoreStepRow['outcome'] | 'unverified', number> {
  const counts = { planned: 0, sent: 0, applied: 0, failed: 0, skipped: 0, blocked: 0, manual: 0 };
  for (const { outcome } of steps) counts[outcome] += 1;
  const isUnverified = ({ outcome, verified }: RestoreStepRow): boolean =>
    outcome === 'applied' && verified === false;
  return { ...counts, unverified: steps.filter(isUnverified).length };
}
