/** A run as text and as `tidemark.sync/1`. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import type { ErrorCode, TidemarkError } from '../core/errors.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { duration, formatInteger, localTime, outcomeText, plural, withLocalTimes } from '../core/wording.ts';
import type { FirstRead } from '../diff/change.ts';
import { MAX_FIELDS } from '../mirror/field-shapes.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';
import { formChangeText } from '../report/notes.ts';
import { type NamedRemovals, namedRemovals, sourceLookup } from '../state/held-names.ts';
import { firstReadsIn, readNewlyReadCollections } from '../state/newly-read.ts';
import { isPublished, previousRun } from '../state/runs.ts';
import { type RecreatedCount, recreatedIn } from '../state/recreated.ts';
import type { SweepReport } from '../sync/outcome.ts';
import { heldCommands, heldUntilText, movedLine } from '../sync/removals.ts';
import type { RunReport } from '../sync/run.ts';
import { collectionsText, groupAlike, groupText, newlyReadLines } from './plan-reason.ts';
import { renderTable } from '../report/table.ts';

/** A run with what the mirror knows about it. */
export interface ReportedRun {
  readonly report: RunReport;
  readonly schemaChanges: readonly SchemaChange[];
  /** Collections read for the first time: their records are new only to the mirror. */
  readonly firstReads: readonly FirstRead[];
  /** Records that it counts as added and removed because a restore created them again. */
  readonly createdAgain: readonly RecreatedCount[];
  /** All removals that are held now, also in lists that the run did not read. */
  readonly held: readonly NamedRemovals[];
  /** The line that it was the first run to read the source at a new address; else null. */
  readonly moved: string | null;
}

/** Adds to a run that ended what the mirror knows about it. */
export function reportedRun(mirror: Mirror, report: RunReport, config: Config): ReportedRun {
  const run = mirror.runs.get(report.run);
  const isPublishedRun = run !== undefined && isPublished(run);
  const move = isPublishedRun ? mirror.runs.moveOf(run.source) : null;
  return {
    report: withReason(report, run),
    schemaChanges: mirror.runs.schemaChanges({ run: report.run }),
    firstReads: isPublishedRun ? firstReadsIn(readNewlyReadCollections(mirror, [run.run], null), run) : [],
    createdAgain: recreatedInRun(mirror, report.run),
    held: namedRemovals(mirror, report.source, sourceLookup(config)),
    moved: move?.run === report.run ? movedLine(report.source, move) : null,
  };
}

/** For a failed run of another process, the report with the error from the mirror. */
function withReason(report: RunReport, row: RunRow | undefined): RunReport {
  if (report.outcome !== 'failed' || report.error !== undefined || !row?.errorCode) return report;
  const error = { code: row.errorCode, message: row.error ?? '', hint: null, permission: null };
  return { ...report, error };
}

/** The JSON document of runs, with the errors of sources without a run (design.md, JSON documents). */
export function runDocument(
  runs: readonly ReportedRun[],
  refused: readonly { readonly source: string; readonly error: TidemarkError }[],
): object {
  const errors = refused.map(({ source, error: { code, message, hint = null } }) => ({
    ...{ source, code, message, hint },
  }));
  return {
    schema: 'tidemark.sync/1',
    runs: runs.map(({ report, schemaChanges, firstReads, createdAgain }) => {
      // The errors are in the sweeps; `tidemark.run/1` has that of the run.
      const { error: _, sweeps, ...run } = report;
      return {
        ...run,
        sweeps: sweeps.map(({ pageCap, ...sweep }) => ({ ...sweep, page_cap: pageCap })),
        first_read: firstReads,
        created_again: createdAgain,
        schema_changes: schemaChanges.map(schemaChangeDocument),
      };
    }),
    ...(errors.length === 0 ? {} : { errors }),
  };
}

/** The note that the previous run of a source crashed, and which run the mirror has; empty if it ended in any other way. */
export function crashedRunNote(mirror: Pick<Mirror, 'runs'>, source: string): string[] {
  const [last] = mirror.runs.list({ source, limit: 1 });
  // The process did not record an end: the next one that opened the mirror for writing marked the run as interrupted.
  if (last?.errorCode !== 'interrupted' || last.finishedAt !== null) return [];
  const published = mirror.runs.latest(source);
  return [
    `run ${last.run} of ${source}, begun ${localTime(last.startedAt)}, did not end: its process died; ` +
      (published === undefined ? 'nothing was published before' : `the mirror holds run ${published.run}`),
  ];
}

/**
 * A run as text: one line, then the kinds with changes or problems (with `isVerbose` all), and incomplete sweeps with the
 * reason and what to do.
 */
export function renderRun(
  { report, schemaChanges, firstReads, createdAgain, held, moved }: ReportedRun,
  {
    mirrorPath,
    isVerbose,
    width,
  }: {
    readonly mirrorPath: string;
    readonly isVerbose: boolean;
    /** Columns of the terminal; undefined for lines of any length. */
    readonly width?: number | undefined;
  },
): string {
  const seconds = duration(Date.parse(report.finished_at) - Date.parse(report.started_at));
  const retries = report.retries > 0 ? `, ${plural(report.retries, 'retry', 'retries')}` : '';
  const table = kindTable(report.sweeps, isVerbose, width);
  const pending = report.sweeps.reduce((sum, sweep) => sum + sweep.pending, 0);
  const lines = [
    `run ${report.run} of ${report.source}: ${report.outcome} in ${seconds}, ${plural(report.requests, 'request')}${retries}`,
    ...(table === null ? [] : ['', table, '']),
    ...totalLines(report),
    ...newlyReadLines(firstReads),
    ...recreatedLines(createdAgain),
    ...shortcomings({ report, held }, isVerbose),
    ...(pending === 0
      ? []
      : [
          `Sharing not read yet for ${plural(pending, 'recording')}; later runs continue (recordings.sharingPerRun).`,
        ]),
    ...schemaChangeLines(schemaChanges),
    ...(moved === null ? [] : [moved]),
    `mirror: ${mirrorPath}`,
  ];
  return `${lines.join('\n')}\n`;
}

/** Outcomes of sweeps that read their list. */
const READ_ENDS: ReadonlySet<SweepReport['outcome']> = new Set(['complete', 'held']);

/**
 * Lines for stderr that say why a run is not complete. With `isShown` the problems are left out: the run's report, which the
 * reader of stderr has just seen, has them.
 */
export function runReason(
  { report, held }: Pick<ReportedRun, 'report' | 'held'>,
  { isShown }: { readonly isShown: boolean } = { isShown: false },
): string[] {
  const { run, source, outcome } = report;
  if (outcome === 'complete') return [];
  const isRead = report.error === undefined && report.sweeps.every((sweep) => READ_ENDS.has(sweep.outcome));
  return [
    `run ${run} of ${source} ${outcomeText(outcome)}`,
    ...(isShown ? [] : shortcomings({ report, held }, false).map((line) => `  ${line}`)),
    ...(isRead
      ? []
      : [
          `  → what was not read is unchanged; \`tidemark doctor --source ${source}\` shows what the key reaches`,
        ]),
  ];
}

/**
 * Errors of the run and its collections, with what to do. Unless `isVerbose`, an outage counts as one error, and so do removals
 * that are held in several lists of a kind.
 */
function shortcomings(
  { report: { source, error, sweeps }, held: waiting }: Pick<ReportedRun, 'report' | 'held'>,
  isVerbose: boolean,
): string[] {
  const lines: string[] = [];
  // A sweep's error is printed with its collection.
  if (error !== undefined && sweeps.every((sweep) => sweep.error === null)) {
    lines.push(error.message);
    if (error.hint !== null) lines.push(`  → ${withLocalTimes(error.hint)}`);
  }
  // A message may quote an id or an answer of the service.
  const unread = sweeps.filter(({ outcome }) => outcome !== 'complete');
  const { outage, others } = isVerbose ? { outage: [], others: unread } : withoutOutage(unread);
  const { held, rest } = isVerbose ? { held: [], rest: others } : withoutHeld(others, source, waiting);
  return [...lines, ...outage, ...problemLines(rest), ...held].map((line) => escapeControlCharacters(line));
}

/** Errors that end a sweep if the service fails or does not answer. */
const OUTAGE_CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'server_error',
  'unreachable',
  'timeout',
  'unresponsive',
  'retry_budget',
]);

/**
 * Lines for the collections that an outage left unread, if it caused different errors: which one a request meets is chance.
 * `others` are the collections with other problems.
 */
function withoutOutage(unread: readonly SweepReport[]): {
  readonly outage: readonly string[];
  readonly others: readonly SweepReport[];
} {
  const isOutage = ({ error }: SweepReport): boolean => error !== null && OUTAGE_CODES.has(error.code);
  const hit = unread.filter(isOutage);
  const failed = hit.filter(({ outcome }) => outcome === 'failed');
  const skipped = hit.filter(({ outcome }) => outcome !== 'failed');
  const alike = groupAlike(failed, ({ error }) => error?.message ?? '');
  if (alike.length <= 1) return { outage: [], others: unread };
  // Spent retries are a consequence of the other errors.
  const causes = alike.filter(([{ error }]) => error?.code !== 'retry_budget');
  const [most, ...others] = (causes.length > 0 ? causes : alike).toSorted((a, b) => b.length - a.length);
  const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other error')}`;
  return {
    outage: [
      `${collectionsText(failed)}: failed: ${most?.[0].error?.message ?? ''}${more}`,
      '  → the next sync reads them again; -v lists each',
      ...(skipped.length === 0 ? [] : [`${collectionsText(skipped)}: skipped for the same reason`]),
    ],
    others: unread.filter((sweep) => !isOutage(sweep)),
  };
}

/**
 * Lines for removals that are held in several lists of a kind: their errors differ only in numbers. `rest` are all other
 * collections with problems.
 */
function withoutHeld(
  unread: readonly SweepReport[],
  source: string,
  waiting: readonly NamedRemovals[],
): { readonly held: readonly string[]; readonly rest: readonly SweepReport[] } {
  const waits = new Set(waiting.map(collectionKey));
  const isHeld = ({ error }: SweepReport): boolean => error?.code === 'removals_held';
  // A component that is missing from `plugins` and from the list of its family is held only in the latter.
  const isRepeat = (sweep: SweepReport): boolean =>
    isHeld(sweep) && definitionOf(sweep.kind).isUnionOfFamily === true && !waits.has(collectionKey(sweep));
  const once = unread.filter((sweep) => !isRepeat(sweep));
  const alike = groupAlike(once.filter(isHeld), ({ kind }) => kind).filter(({ length }) => length > 1);
  if (alike.length === 0) return { held: [], rest: once };
  const several = new Set(alike.flat());
  const kinds = new Set(alike.map(([{ kind }]) => kind));
  return {
    held: [
      ...alike.map((sweeps) => {
        const keys = new Set(sweeps.map(collectionKey));
        const own = waiting.filter((each) => keys.has(collectionKey(each)));
        const records = own.reduce((sum, each) => sum + each.records, 0);
        return `${groupText(sweeps)}: held: the lists no longer show ${plural(records, 'record')}; their removal is ${withLocalTimes(heldUntilText(own))}`;
      }),
      ...heldCommands(
        waiting.filter(({ kind }) => kinds.has(kind)),
        { all: waiting, source },
      ).map((line) => `  → ${line}`),
    ],
    rest: once.filter((sweep) => !several.has(sweep)),
  };
}

/** True for a list that came back empty although its records exist: such errors differ only in the number of records. */
function isEmptied({ outcome, records, leaked }: SweepReport): boolean {
  return outcome === 'incomplete' && records === 0 && leaked > 0;
}

const EMPTIED = 'the lists are empty, and records of each exist by id: nothing was removed';

/** Prints an error of several collections once: a refused key is refused everywhere. */
function problemLines(unread: readonly SweepReport[]): string[] {
  const groups = groupAlike(unread, (sweep) =>
    isEmptied(sweep) ? EMPTIED : JSON.stringify([sweep.outcome, sweep.error?.message, sweep.error?.hint]),
  );
  const printed = new Set<string>();
  return groups.flatMap((sweeps) => {
    const [{ outcome, error }, ...others] = sweeps;
    const message = others.some(isEmptied) ? EMPTIED : (error?.message ?? '');
    const hint = error?.hint ?? '';
    const why = message === '' ? '' : printed.has(message) ? ' for the same reason' : `: ${message}`;
    const hints = hint === '' || printed.has(hint) ? [] : [`  → ${withLocalTimes(hint)}`];
    printed.add(message).add(hint);
    return [`${collectionsText(sweeps)}: ${outcome}${why}`, ...hints];
  });
}

const NARROW = 80; // columns; such a terminal has no room for the number of collections

/** One row per kind; unless `isVerbose`, only kinds with changes or problems. Skipped kinds are one line below the table. */
function kindTable(
  sweeps: readonly SweepReport[],
  isVerbose: boolean,
  width: number | undefined,
): string | null {
  const isNews = ({ added, changed, removed, outcome }: SweepReport): boolean =>
    added + changed + removed > 0 || (outcome !== 'complete' && outcome !== 'skipped');
  const kinds = groupAlike(sweeps, ({ kind }) => kind).filter((of) => isVerbose || of.some(isNews));
  if (kinds.length === 0) return null;
  const isNarrow = width !== undefined && width <= NARROW;
  const fitting = <T>(cells: readonly T[]): T[] => cells.filter((_cell, index) => !isNarrow || index !== 1);
  const sum = (of: readonly SweepReport[], key: 'records' | 'added' | 'changed' | 'removed'): number =>
    of.reduce((total, sweep) => total + sweep[key], 0);
  const shown = (value: number): string => (value === 0 ? '·' : formatInteger(value));
  return renderTable(
    fitting(['kind', 'collections', 'records read', 'added', 'changed', 'removed', 'outcome']),
    kinds.map((of) =>
      fitting([
        of[0].kind,
        formatInteger(of.length),
        formatInteger(sum(of, 'records')),
        shown(sum(of, 'added')),
        shown(sum(of, 'changed')),
        shown(sum(of, 'removed')),
        outcomes(of),
      ]),
    ),
    fitting(['left', 'right', 'right', 'right', 'right', 'right', 'left'] as const),
    { width },
  );
}

/** The run's totals, if they are not the sums of the table: a component is in two lists, but counts once. */
function totalLines({ sweeps, ...totals }: RunReport): string[] {
  const keys = ['added', 'changed', 'removed'] as const;
  if (keys.every((key) => sweeps.reduce((sum, sweep) => sum + sweep[key], 0) === totals[key])) return [];
  const counts = keys.filter((key) => totals[key] > 0).map((key) => `${formatInteger(totals[key])} ${key}`);
  return [
    `In total ${counts.join(', ')}: a pipeline component is also in the list of plugins, and is counted here once.`,
  ];
}

function outcomes(sweeps: readonly SweepReport[]): string {
  const counts = new Map<string, number>();
  for (const { outcome, mode, pending } of sweeps) {
    const isSampled = outcome === 'complete' && pending > 0;
    const name = isSampled ? 'sampled' : mode === 'head' ? `${outcome} (newest)` : outcome;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, times]) => (counts.size === 1 ? name : `${times} ${name}`)).join(', ');
}

/** The run's added and removed records that restores created again. */
export function recreatedInRun(mirror: Mirror, number: number): RecreatedCount[] {
  const run = mirror.runs.get(number);
  const previous = run === undefined || !isPublished(run) ? undefined : previousRun(mirror, run);
  return run === undefined || previous === undefined ? [] : recreatedIn(mirror, { from: previous, to: run });
}

/** A line per restore: `2 of the added and 2 of the removed are the same records, under a new id since restore 1: projects (1), roles (1)`. */
export function recreatedLines(counts: readonly RecreatedCount[]): string[] {
  return [...Map.groupBy(counts, ({ restore }) => restore)].map(([restore, own]) => {
    const records = own.reduce((sum, each) => sum + each.records, 0);
    const what = records === 1 ? 'is one record' : 'are the same records';
    const kinds = own.map((each) => `${each.kind} (${formatInteger(each.records)})`).join(', ');
    return `${formatInteger(records)} of the added and ${formatInteger(records)} of the removed ${what}, under a new id since restore ${restore}: ${kinds}`;
  });
}

// Changes of the form of records, which are not drift: new, missing and retyped fields.

/** One line, e.g. `roles: /name is gone (string)`. */
function schemaChangeLine({ kind, field, change, before, after }: SchemaChange): string {
  return change === 'unwatched'
    ? `${kind}: more than ${MAX_FIELDS} fields; changes of further ones are not noticed`
    : formChangeText({ kind, field, change, before, after });
}

/** As JSON documents show it (`schema_changes`). */
export function schemaChangeDocument({ kind, field, change, before, after }: SchemaChange): object {
  return { kind, field, change, before, after };
}

/** A heading and a line per change; empty without changes. */
export function schemaChangeLines(changes: readonly SchemaChange[]): string[] {
  if (changes.length === 0) return [];
  return [
    'the service changed the form of its records:',
    ...changes.map((change) => `  ${schemaChangeLine(change)}`),
  ];
}
