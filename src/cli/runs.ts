/** `tidemark runs` and `tidemark runs show N`. */
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { count, duration, localMinute, localTime } from '../core/wording.ts';
import { starterText } from '../daemon/http/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { type ForgottenRuns, forgottenInto, forgottenText, withInterrupted } from '../state/runs.ts';
import { missingRun } from '../state/resolved-state.ts';
import { errorDocument, runDocument } from '../state/documents.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { groupAlike, groupText, newlyReadLines } from './plan-reason.ts';
import type { Located } from './command-row.ts';
import { print, printNote, type CommandContext, terminalWidth } from './context.ts';
import { printAltered } from './verification-note.ts';
import { progressInDaemon, progressText } from './daemon-requests.ts';
import { recreatedInRun, recreatedLines, schemaChangeDocument, schemaChangeLines } from './run.ts';
import {
  NOTHING_COMPARED,
  type PrintedChanges,
  printRunChanges,
  runChangesDocument,
} from './runs-changes.ts';
import { acceptedDocument, removalsText } from '../report/audit-report.ts';
import { byText } from '../report/value-text.ts';
import { renderTable } from '../report/table.ts';
import { definitionsFor } from '../config/source.ts';
import type { Kind } from '../catalog/kinds.ts';
import { collectionOutcome, sampledByRun } from '../state/source-status.ts';
import { heldLines, namedRemovals, sourceLookup } from '../state/held-names.ts';
import { parentNames } from '../state/parent-names.ts';
import { placeText } from '../report/notes.ts';
import { alteredRun } from '../state/intact.ts';
import { readConfigToShow } from './unmasked-keys.ts';

/** Exit code 1 where another program altered, inserted or deleted the row of a run: shown even so. */
export async function runs(context: CommandContext, options: { readonly limit?: number }): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'runs', context.pid);
  try {
    const names = new Set(config.sources.map(({ name }) => name));
    const limit = options.limit ?? 20;
    // Without a configured source, the mirror itself knows whose runs it holds.
    const found =
      names.size === 0
        ? mirror.runs.list({ limit })
        : [...names].flatMap((source) => mirror.runs.list({ source, limit }));
    const hasAny = mirror.runs.list({ limit: 1 }).length > 0;
    const never = [...names]
      .filter((source) => hasAny && !found.some((row) => row.source === source))
      .map((source) => `no run of ${source} yet: run \`tidemark sync --source ${source}\``);
    const rows = withInterrupted(mirror, found.sort((a, b) => b.run - a.run).slice(0, limit));
    // What is older than those shown is not looked at.
    const oldest = found.length < limit ? 0 : (rows.at(-1)?.run ?? 0);
    // Those that are not shown, too: another program may have given them to another source.
    const unlike = mirror.runs.unlikeSealed({ from: oldest });
    // Of a run whose row is gone with its hash, what it read is left.
    const warnings = [...new Set([...unlike.map(({ line }) => line), ...mirror.runs.hidden(null)])];
    const exit = printAltered(context, warnings);
    const progress = await progressInDaemon(context, config, rows);
    if (context.options.json === true) {
      const altered = new Set(unlike.map(({ run }) => run));
      const documents = rows.map((row) => ({
        ...runDocument(row, progress.get(row.source)?.progress),
        is_altered: altered.has(row.run),
      }));
      await print(context, `${JSON.stringify({ schema: 'tidemark.runs/1', runs: documents, warnings })}\n`);
      printNote(context, never);
      return exit;
    }
    const width = terminalWidth(context);
    const hasOneSource = new Set(rows.map(({ source }) => source)).size === 1;
    const table = renderTable(
      ['run', 'source', 'started', 'took', 'outcome', 'added', 'changed', 'removed', 'requests', 'by'],
      rows.map((row) => [
        String(row.run),
        row.source,
        width === undefined ? localTime(row.startedAt) : localMinute(row.startedAt),
        row.finishedAt === null ? '' : duration(Date.parse(row.finishedAt) - Date.parse(row.startedAt)),
        row.outcome + (row.errorCode === null ? '' : ` (${row.errorCode})`) + onlyText(row),
        ...countsOf(row, progress.get(row.source)?.progress.requests),
        starterText(row),
      ]),
      ['right', 'left', 'left', 'right', 'left', 'right', 'right', 'right', 'right', 'left'],
      { width, least: [...(hasOneSource ? ['source'] : []), 'by', 'requests'] },
    );
    if (found.length > 0) {
      await print(context, `${table}\n`);
      printNote(context, never);
    } else await print(context, `${never.join('\n') || 'no runs yet: run `tidemark sync`'}\n`);
    return exit;
  } finally {
    mirror.close();
  }
}

/** Kinds of a limited run that are named. */
const KINDS_NAMED = 2;

/** `, only roles, members +1` for a run that was limited to some kinds. */
function onlyText({ kinds }: RunRow): string {
  if (kinds === null) return '';
  const more = kinds.length - KINDS_NAMED;
  return `, only ${kinds.slice(0, KINDS_NAMED).join(', ')}${more > 0 ? ` +${more}` : ''}`;
}

/** What the mirror does not know before the run has ended is empty. */
function countsOf(run: RunRow, requestsNow: number | undefined): string[] {
  if (run.outcome === 'running') return ['', '', '', requestsNow === undefined ? '' : count(requestsNow)];
  return [count(run.added), count(run.changed), count(run.removed), count(run.requests)];
}

/** The run that `runs show` is about: each mirror has numbers of its own. */
export function locateRun({ run }: { readonly run: string }): Located {
  return { what: `run ${run}`, isIn: (mirror) => mirror.runs.get(runNumber(run)) !== undefined };
}

function runNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', `a run is a number, not ${text}`, { hint: '`tidemark runs` lists them' });
}

export async function showRun(
  context: CommandContext,
  options: { readonly run: string; readonly showSecrets?: boolean },
): Promise<ExitCode> {
  const number = runNumber(options.run);
  const showsSecrets = options.showSecrets === true;
  const config = readConfigToShow(context);
  const mirror = openConfiguredMirror(config, 'read', 'runs show', context.pid);
  try {
    const [run] = withInterrupted(
      mirror,
      [mirror.runs.get(number)].filter((row) => row !== undefined),
    );
    if (run === undefined) throw missingRun(mirror, number);
    const altered = alteredRun(mirror, number);
    const progress = (await progressInDaemon(context, config, [run])).get(run.source)?.progress;
    const sweeps = mirror.runs.sweeps(run.run);
    const schemaChanges = mirror.runs.schemaChanges({ run: run.run });
    const forgotten = forgottenInto(mirror, run.run);
    const accepted = mirror.acceptedRemovals(run.run);
    if (context.options.json === true) {
      const { found, damage } = unlessDamaged(() =>
        runChangesDocument(mirror, config, run, { showsSecrets }),
      );
      const compared = found ?? null;
      const warnings = [...altered, ...damage];
      const exit = printAltered(context, warnings);
      await print(
        context,
        `${JSON.stringify({
          schema: 'tidemark.run/1',
          ...runDocument(run, progress),
          is_altered: warnings.length > 0,
          warnings,
          forgotten: forgotten ?? null,
          accepted_removals: acceptedDocument(accepted),
          schema_changes: schemaChanges.map(schemaChangeDocument),
          sweeps: sweeps.map(sweepDocument),
          summary: compared === null ? null : changeCounts(compared.summary),
          first_read: compared?.first_read ?? [],
          created_again: recreatedInRun(mirror, run.run),
          changes: compared,
        })}\n`,
      );
      return exit;
    }
    const definitions = definitionsFor(config, run.source);
    const parentName = parentNames(mirror, run.source, definitions, run.run);
    const hasIds = context.options.verbose === true;
    const placeOf = (scope: SweepRow['scope']): string =>
      placeText(scope, { definitions, parentName }, { hasIds });
    const sampled = sampledByRun(mirror, { source: run.source, run: run.run, sweeps });
    const { found, damage } = unlessDamaged(() =>
      printRunChanges(context, mirror, config, run, { showsSecrets }),
    );
    const printed = found ?? { text: 'its changes cannot be read\n', ...NOTHING_COMPARED };
    const exit = printAltered(context, [...altered, ...damage]);
    const lines = [
      `run ${run.run} of ${run.source}: ${run.outcome}${onlyText(run)}, ${timeText(run)}, started by ${starterText(run)}`,
      ...(run.error === null ? [] : [run.error]),
      ...(progress === undefined ? [] : [progressText(progress)]),
      stateText(run),
      ...(accepted === undefined
        ? []
        : [
            `removals accepted by ${byText(accepted)}: ${removalsText(accepted.subject, definitions)} (entry ${accepted.entry} of the audit log)`,
          ]),
      ...(forgotten === undefined ? [] : [tookOver(forgotten, printed)]),
      ...(sweeps.length === 0
        ? []
        : ['', sweepTable(sweeps, { width: terminalWidth(context), placeOf, sampled })]),
      ...newlyReadLines(printed.firstReads),
      ...recreatedLines(printed.createdAgain),
      ...sweepErrorLines(sweeps),
      // What is held now: of an earlier run it may be settled.
      ...(mirror.runs.latest(run.source)?.run === run.run
        ? heldLines(namedRemovals(mirror, run.source, sourceLookup(config)), definitions)
        : []),
      ...schemaChangeLines(schemaChanges),
    ].map((line) => line.split('\n').map(escapeControlCharacters).join('\n'));
    await print(context, `${lines.join('\n')}\n${printed.text === '' ? '' : `\n${printed.text}`}`);
    return exit;
  } finally {
    mirror.close();
  }
}

/** What is compared, or a line that says why nothing can be: all else of the run is shown even so. */
function unlessDamaged<T>(compare: () => T): { readonly found?: T; readonly damage: readonly string[] } {
  try {
    return { found: compare(), damage: [] };
  } catch (error) {
    if (!(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') throw error;
    return { damage: [`its changes cannot be read: ${error.message}`] };
  }
}

function stateText({ outcome, root }: RunRow): string {
  if (root !== null) return `root hash ${root}`;
  return outcome === 'running'
    ? 'published when it ends: until then the mirror holds nothing of it'
    : 'not published: the mirror holds nothing of it';
}

/** Its own counts and the changes below would not fit each other: said before both. */
function tookOver(forgotten: ForgottenRuns, { summary }: PrintedChanges): string {
  const all =
    summary === null
      ? ''
      : `: ${count(summary.added)} added, ${count(summary.changed)} changed, ${count(summary.removed)} removed`;
  return `${forgottenText(forgotten)}. The counts are those of this run, the changes below those of all of them${all}`;
}

function changeCounts({ added, removed, changed }: DiffDocument['summary']): object {
  return { added, removed, changed };
}

function timeText({ startedAt, finishedAt, outcome }: RunRow): string {
  if (finishedAt !== null)
    return `${localTime(startedAt)} to ${localTime(finishedAt)} (${duration(Date.parse(finishedAt) - Date.parse(startedAt))})`;
  return outcome === 'running'
    ? `since ${localTime(startedAt)}`
    : `began ${localTime(startedAt)}, its end is not known`;
}

/** Each error once, with the collections that it concerns. */
function sweepErrorLines(sweeps: readonly SweepRow[]): string[] {
  const failed = sweeps.filter(({ error }) => error !== null);
  return groupAlike(failed, ({ kind, outcome, error }) => JSON.stringify([kind, outcome, error])).map(
    (group) => `${groupText(group)}: ${group[0].outcome}: ${group[0].error ?? ''}`,
  );
}

function sweepTable(
  sweeps: readonly SweepRow[],
  {
    width,
    placeOf,
    sampled,
  }: {
    readonly width: number | undefined;
    readonly placeOf: (scope: SweepRow['scope']) => string;
    readonly sampled: ReadonlySet<Kind>;
  },
): string {
  const isHeld = sweeps.some(({ held }) => held > 0);
  return renderTable(
    ['kind', 'scope', 'outcome', 'pages', 'records', 'added', 'changed', 'removed', 'held'],
    sweeps.map((sweep) => [
      sweep.kind,
      placeOf(sweep.scope),
      collectionOutcome(sweep, sampled),
      ...[sweep.pages, sweep.records, sweep.added, sweep.changed, sweep.removed, sweep.held].map(count),
    ]),
    ['left', 'left', 'left', 'right', 'right', 'right', 'right', 'right', 'right'],
    { width, least: isHeld ? ['pages'] : ['held', 'pages'] },
  );
}

function sweepDocument(sweep: SweepRow): object {
  const { errorCode, error, ...rest } = sweep;
  return { ...rest, error: errorDocument({ errorCode, error }) };
}
