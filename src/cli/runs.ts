/** `tidemark runs` and `tidemark runs show N`: lists runs; shows one run and what it changed. */
import { collectionKey } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { duration, formatInteger, localMinute, localTime, plural } from '../core/wording.ts';
import { starterText } from '../daemon/http/wording.ts';
import type { DiffDocument, FirstRead, LeftOut, Skipped, Stale } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import { diffReport } from '../report/diff-report.ts';
import { maskedDocument } from '../report/mask.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import {
  type ForgottenRuns,
  forgottenInto,
  forgottenText,
  isPublished,
  previousRun,
  withInterrupted,
} from '../state/runs.ts';
import { missingRun } from '../state/resolved-state.ts';
import { errorDocument, runDocument } from '../state/documents.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { groupAlike, groupText, newlyReadLines } from './plan-reason.ts';
import type { Located } from './command-row.ts';
import { lineOptions, print, printNote, type CommandContext, terminalWidth, printJson } from './context.ts';
import { printAltered } from './verification-note.ts';
import { progressInDaemon, progressText } from './daemon-requests.ts';
import { recreatedInRun, recreatedLines, schemaChangeDocument, schemaChangeLines } from './run.ts';
import { changesBetween, comparisonNotes, recordsAt, stateOfRun } from './run-comparison.ts';
import { acceptedDocument, removalsText } from '../report/audit-report.ts';
import { byText } from '../report/value-text.ts';
import { renderTable } from '../report/table.ts';
import { definitionsFor } from '../config/source.ts';
import type { Kind } from '../catalog/kinds.ts';
import { collectionOutcome, sampledByRun } from '../state/source-status.ts';
import { heldLines, namedRemovals, sourceLookup } from '../state/held-names.ts';
import { parentNames } from '../state/parent-names.ts';
import { namedPlaces, placeText } from '../report/notes.ts';
import { renderText } from '../report/render-text.ts';
import { alteredRun, requireCountedWithin } from '../state/intact.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { type RecreatedCount, recreatedIn } from '../state/recreated.ts';
import { staleReading } from '../state/state.ts';
import { readConfigToShow } from './unmasked-keys.ts';

/** Lists runs, newest first. Exit code 1 if another program altered, inserted or deleted the row of one; it is shown nevertheless. */
export async function runs(context: CommandContext, options: { readonly limit?: number }): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  using mirror = openConfiguredMirror(config, 'read', 'runs', context.pid);
  const names = new Set(config.sources.map(({ name }) => name));
  const limit = options.limit ?? 20;
  // Without a configured source, the runs of all sources in the mirror.
  const found =
    names.size === 0
      ? mirror.runs.list({ limit })
      : [...names].flatMap((source) => mirror.runs.list({ source, limit }));
  const hasAny = mirror.runs.list({ limit: 1 }).length > 0;
  const never = [...names]
    .filter((source) => hasAny && !found.some((row) => row.source === source))
    .map((source) => `no run of ${source} yet: run \`tidemark sync --source ${source}\``);
  const rows = withInterrupted(mirror, found.sort((a, b) => b.run - a.run).slice(0, limit));
  // Runs that are older than those shown are not checked.
  const oldest = found.length < limit ? 0 : (rows.at(-1)?.run ?? 0);
  // Runs of all sources: another program may have given a run to another source.
  const unlike = mirror.runs.unlikeSealed({ from: oldest });
  // `hidden`: if the row of a run and its hash were deleted, what the run read is left.
  const warnings = [...new Set([...unlike.map(({ line }) => line), ...mirror.runs.hidden(null)])];
  const exit = printAltered(context, warnings);
  const progress = await progressInDaemon(context, config, rows);
  if (context.options.json === true) {
    const altered = new Set(unlike.map(({ run }) => run));
    const documents = rows.map((row) => ({
      ...runDocument(row, progress.get(row.source)?.progress),
      is_altered: altered.has(row.run),
    }));
    await printJson(context, { schema: 'tidemark.runs/1', runs: documents, warnings });
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
}

/** At most this many kinds of a limited run are named. */
const KINDS_NAMED = 2;

/** `, only roles, members +1` for a run that was limited to some kinds. */
function onlyText({ kinds }: RunRow): string {
  if (kinds === null) return '';
  const more = kinds.length - KINDS_NAMED;
  return `, only ${kinds.slice(0, KINDS_NAMED).join(', ')}${more > 0 ? ` +${more}` : ''}`;
}

/** The cells for what a run changed and requested; empty as long as the mirror does not know it. */
function countsOf(run: RunRow, requestsNow: number | undefined): string[] {
  if (run.outcome === 'running')
    return ['', '', '', requestsNow === undefined ? '' : formatInteger(requestsNow)];
  return [
    formatInteger(run.added),
    formatInteger(run.changed),
    formatInteger(run.removed),
    formatInteger(run.requests),
  ];
}

/** Finds the mirror that has the run: each mirror numbers its own runs. */
export function locateRun({ run }: { readonly run: string }): Located {
  return { what: `run ${run}`, isIn: (mirror) => mirror.runs.get(runNumber(run)) !== undefined };
}

function runNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', `a run is a number, not ${text}`, { hint: '`tidemark runs` lists them' });
}

/** Shows a run: its sweeps and what it changed. Exit code 1 if another program altered it. */
export async function showRun(
  context: CommandContext,
  options: { readonly run: string; readonly showSecrets?: boolean },
): Promise<ExitCode> {
  const number = runNumber(options.run);
  const showsSecrets = options.showSecrets === true;
  const config = readConfigToShow(context);
  using mirror = openConfiguredMirror(config, 'read', 'runs show', context.pid);
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
    const { found: compared = null, damage } = unlessDamaged(() =>
      runChangesDocument(mirror, config, run, { showsSecrets }),
    );
    const { added, removed, changed } = compared?.summary ?? {};
    const warnings = [...altered, ...damage];
    const exit = printAltered(context, warnings);
    await printJson(context, {
      schema: 'tidemark.run/1',
      ...runDocument(run, progress),
      is_altered: warnings.length > 0,
      warnings,
      forgotten: forgotten ?? null,
      accepted_removals: acceptedDocument(accepted),
      schema_changes: schemaChanges.map(schemaChangeDocument),
      sweeps: sweeps.map(({ errorCode, error, ...sweep }) => ({
        ...sweep,
        error: errorDocument({ errorCode, error }),
      })),
      summary: compared === null ? null : { added, removed, changed },
      first_read: compared?.first_read ?? [],
      created_again: recreatedInRun(mirror, run.run),
      changes: compared,
    });
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
    // Removals that are held now; those of an earlier run may be settled.
    ...(mirror.runs.latest(run.source)?.run === run.run
      ? heldLines(namedRemovals(mirror, run.source, sourceLookup(config)), definitions)
      : []),
    ...schemaChangeLines(schemaChanges),
  ].map((line) => line.split('\n').map(escapeControlCharacters).join('\n'));
  await print(context, `${lines.join('\n')}\n${printed.text === '' ? '' : `\n${printed.text}`}`);
  return exit;
}

/** The comparison, or a line that says why it cannot be made: the rest of the run is shown nevertheless. */
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

/** Explains, before both, why the counts of the run and the changes below it differ. */
function tookOver(forgotten: ForgottenRuns, { summary }: PrintedChanges): string {
  const all =
    summary === null
      ? ''
      : `: ${formatInteger(summary.added)} added, ${formatInteger(summary.changed)} changed, ${formatInteger(summary.removed)} removed`;
  return `${forgottenText(forgotten)}. The counts are those of this run, the changes below those of all of them${all}`;
}

function timeText({ startedAt, finishedAt, outcome }: RunRow): string {
  if (finishedAt !== null)
    return `${localTime(startedAt)} to ${localTime(finishedAt)} (${duration(Date.parse(finishedAt) - Date.parse(startedAt))})`;
  return outcome === 'running'
    ? `since ${localTime(startedAt)}`
    : `began ${localTime(startedAt)}, its end is not known`;
}

/** A line per error, with the collections that have it. */
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
      ...[sweep.pages, sweep.records, sweep.added, sweep.changed, sweep.removed, sweep.held].map(
        formatInteger,
      ),
    ]),
    ['left', 'left', 'left', 'right', 'right', 'right', 'right', 'right', 'right'],
    { width, least: isHeld ? ['pages'] : ['held', 'pages'] },
  );
}

// What `runs show` prints of the changes: the comparison with the published run before.

/** At most this many records of a run are printed: it can have changed all. */
const RECORDS_SHOWN = 100;

/** @throws TidemarkError `mirror_corrupt` if another program deleted records: their changes would be missing */
function changesOfRun(
  mirror: Mirror,
  config: Config,
  runs: Parameters<typeof changesBetween>[2],
): DiffDocument {
  requireCountedWithin(mirror, { sources: [runs.to.source] });
  const document = changesBetween(mirror, config, runs);
  const { skipped, stale, leftOut } = notReadBy(mirror, runs);
  return {
    ...document,
    skipped: [...document.skipped, ...skipped],
    stale: [...(document.stale ?? []), ...stale],
    left_out: [...(document.left_out ?? []), ...leftOut],
  };
}

/** Collections that the run `to` did not read completely, as in a comparison: what changed there is not known. */
function notReadBy(
  mirror: Mirror,
  { from, to }: Parameters<typeof changesBetween>[2],
): { readonly skipped: Skipped[]; readonly stale: Stale[]; readonly leftOut: LeftOut[] } {
  const before = openMirrorState(mirror, from.source, stateOfRun(from));
  const after = openMirrorState(mirror, to.source, stateOfRun(to));
  const found = { skipped: new Array<Skipped>(), stale: new Array<Stale>(), leftOut: new Array<LeftOut>() };
  const known = new Set(before.collections().map(collectionKey));
  for (const { kind, scope } of after.collections()) {
    const now = after.coverage(kind, scope);
    if (now.how !== 'read' && now.how !== 'unread') continue;
    if (now.unasked !== undefined) found.leftOut.push({ kind, scope, reason: now.unasked.reason });
    else if (now.how === 'read') found.stale.push(...staleReading({ kind, scope }, 'to', now, undefined));
    // A list that the service does not have cannot differ.
    else if (now.code !== 'not_found') found.skipped.push({ kind, scope, reason: now.reason });
    if (now.how === 'read' && known.has(collectionKey({ kind, scope })))
      found.stale.push(...staleReading({ kind, scope }, 'from', before.coverage(kind, scope), undefined));
  }
  return found;
}

/** The `changes` of a run's JSON document; null for a source's first run and for one that was not published. */
function runChangesDocument(
  mirror: Mirror,
  config: Config,
  run: RunRow,
  { showsSecrets }: { readonly showsSecrets: boolean },
): DiffDocument | null {
  const from = isPublished(run) ? previousRun(mirror, run) : undefined;
  if (from === undefined) return null;
  const document = changesOfRun(mirror, config, { from, to: run });
  return showsSecrets ? document : maskedDocument(document, definitionsFor(config, run.source));
}

/** A run's changes as text, with facts from the same comparison. */
interface PrintedChanges {
  /** One or several lines; empty for a run that was not published. */
  readonly text: string;
  /** Null for a source's first run, and for one that was not published. */
  readonly summary: DiffDocument['summary'] | null;
  readonly firstReads: readonly FirstRead[];
  readonly createdAgain: readonly RecreatedCount[];
}

const NOTHING_COMPARED = {
  ...{ summary: null, firstReads: [], createdAgain: [] },
} as const satisfies Omit<PrintedChanges, 'text'>;

function printRunChanges(
  context: CommandContext,
  mirror: Mirror,
  config: Config,
  run: RunRow,
  { showsSecrets }: { readonly showsSecrets: boolean },
): PrintedChanges {
  if (!isPublished(run)) return { text: '', ...NOTHING_COMPARED };
  const from = previousRun(mirror, run);
  if (from === undefined) {
    const kept = mirror.retention.forgottenBefore(run.run) === undefined ? '' : ' that is kept';
    const records = plural(recordsAt(mirror, run), 'record');
    return {
      text: `the first run of ${run.source}${kept}: ${records}, all new\n`,
      ...NOTHING_COMPARED,
    };
  }
  const definitions = definitionsFor(config, run.source);
  const document = changesOfRun(mirror, config, { from, to: run });
  const named = { definitions, parentName: parentNames(mirror, run.source, definitions, run.run) };
  const report = diffReport(document, {
    ...named,
    showsSecrets,
    notes: comparisonNotes(document, definitions, namedPlaces(named)),
  });
  const text = renderText(report, {
    ...lineOptions(context),
    maxRecords: RECORDS_SHOWN,
    moreHint: `tidemark diff run:${from.run} run:${run.run}`,
  });
  return {
    text,
    summary: document.summary,
    firstReads: document.first_read ?? [],
    createdAgain: recreatedIn(mirror, { from, to: run }),
  };
}
