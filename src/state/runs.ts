/** Questions about runs: which have a state in the mirror, which is the latest complete one, which did retention drop. */
import { collectionKey } from '../catalog/catalog.ts';
import type { CollectionKey } from '../catalog/order.ts';
import { cached } from '../core/cached.ts';
import { formatInteger, localTime } from '../core/wording.ts';
import type { StateReference } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ForgottenBefore, RetentionStore } from '../mirror/retention-store.ts';
import type { RestoreOutcome } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { RunStore } from '../mirror/run-store.ts';
import { withWriter } from '../mirror/lock.ts';

/** True for a run whose state is in the mirror. */
export function isPublished({ root, outcome }: RunRow): boolean {
  return root !== null && (outcome === 'complete' || outcome === 'partial');
}

/** The published run of the same source before this one. */
export function previousRun(mirror: Mirror, run: RunRow): RunRow | undefined {
  return mirror.runs.list({ source: run.source, isPublished: true, upTo: run.run - 1, limit: 1 })[0];
}

/** Returns the last run before another one that read the entire list of a collection, if the mirror still has that run. */
export function lastReadings(
  { runs }: Pick<Mirror, 'runs'>,
  source: string,
): (collection: CollectionKey, before: number) => number | undefined {
  const known = new Map<number, ReadonlyMap<string, number | null>>();
  const readings = (before: number): [string, number | null][] =>
    runs.sweepsAsOf(source, before - 1).map((each) => [collectionKey(each), each.completeRun]);
  return (collection, before) => {
    const completeRuns = cached(known, before, () => new Map(readings(before)));
    const run = completeRuns.get(collectionKey(collection)) ?? undefined;
    return run === undefined || runs.get(run) === undefined ? undefined : run;
  };
}

/**
 * The runs; those whose process died are shown as the next writer will record them: `failed`, with the code `interrupted`.
 * A running sync has the lock of the mirror. Not to be called within `atOnce`.
 */
export function withInterrupted(mirror: Mirror, found: readonly RunRow[]): RunRow[] {
  const { rows, writer } = withWriter(mirror.path, found, ({ run }) => mirror.runs.get(run));
  return rows.map((row) => (writer === null ? ifDead(row) : row));
}

/** A run whose process died, as the next writer of the mirror will record it. */
export function ifDead(row: RunRow): RunRow {
  if (row.outcome !== 'running') return row;
  return {
    ...row,
    outcome: 'failed',
    errorCode: 'interrupted',
    error: 'the process ended before the run was published',
  };
}

/** Smaller corrections of a clock are usual. */
const AHEAD_MS = 60_000;

/** Names the first of the runs that began in the future, as after the clock was set back: ages mean nothing then. Null for none. */
export function futureRunText(
  runs: readonly (Pick<RunRow, 'run' | 'startedAt'> | null)[],
  now: number,
): string | null {
  const found = runs.find((each) => each !== null && Date.parse(each.startedAt) > now + AHEAD_MS) ?? null;
  return found === null
    ? null
    : `run ${found.run} began at ${localTime(found.startedAt)}, which is in the future: check this machine's clock`;
}

// Freshness is measured by runs of all kinds: a run that was limited to some kinds is complete for these only.

/** A killed writer leaves its run without an end until the next one starts: a few of the newest runs may be such. */
export const UNENDED_RUNS = 5;

/** The latest run that read everything of a source completely; null if none did. Retention keeps it (`mirror/retention.ts`). */
export function lastCompleteRun(mirror: Pick<Mirror, 'runs'>, source: string): RunRow | null {
  return mirror.runs.list({ source, outcome: 'complete', isOfAllKinds: true, limit: 1 })[0] ?? null;
}

/**
 * True if a complete run, such as one by hand, ended after the last backup began. A partial run after it makes no
 * difference: a backup has the rows of both, and if a kind stays denied, no complete run follows.
 */
export function isBackupDue(mirror: Pick<Mirror, 'runs' | 'daemon'>): boolean {
  const [last] = mirror.daemon.jobs({ name: 'backup', limit: 1 });
  return mirror.runs.sources().some((source) => {
    const endedAt = lastCompleteRun(mirror, source)?.finishedAt ?? null;
    return endedAt !== null && (last === undefined || endedAt > last.startedAt);
  });
}

/** True if a run of all kinds was published after this run. */
export function isReadAfter(mirror: Pick<Mirror, 'runs'>, source: string, run: number): boolean {
  const [newest] = mirror.runs.list({ source, isPublished: true, isOfAllKinds: true, limit: 1 });
  return newest !== undefined && newest.run > run;
}

/** The latest run of all kinds that ended, whatever its outcome. */
export function lastEndedRunOfAllKinds(mirror: Pick<Mirror, 'runs'>, source: string): RunRow | null {
  const newest = mirror.runs.list({ source, isOfAllKinds: true, limit: UNENDED_RUNS });
  return newest.find(({ outcome }) => outcome !== 'running') ?? null;
}

// Runs that retention dropped next to a point of the mirror: when changes between two kept runs happened is unknown.

/** Dropped runs, and the kept run that has their changes: also a key of JSON documents. */
export interface ForgottenRuns extends ForgottenBefore {
  readonly into: number;
}

interface History {
  readonly runs: Pick<RunStore, 'list'>;
  readonly retention: Pick<RetentionStore, 'forgottenBefore'>;
}

/**
 * Runs that were forgotten between the run to which a time resolves and the next kept one: one of them may have been the
 * state at that time. Undefined if there are none, or if the run ended at exactly that time (within the same second, for a
 * time to the second, which means the end of that second).
 */
export function forgottenAfter(
  mirror: History,
  run: RunRow,
  { at, source }: { readonly at: string; readonly source: string | undefined },
): ForgottenRuns | undefined {
  const precision = at.endsWith('.999Z') ? 'YYYY-MM-DDTHH:mm:ss'.length : at.length;
  if (run.finishedAt?.slice(0, precision) === at.slice(0, precision)) return undefined;
  const next = mirror.runs
    .list({ isPublished: true, ...(source === undefined ? {} : { source }) })
    .findLast((each) => each.run > run.run);
  return next === undefined ? undefined : forgottenInto(mirror, next.run);
}

/** The runs that were dropped before a kept run; their changes are part of it. */
export function forgottenInto(mirror: History, run: number): ForgottenRuns | undefined {
  const before = mirror.retention.forgottenBefore(run);
  return before === undefined ? undefined : { ...before, into: run };
}

/** `runs 3–4 were dropped by retention on 2026-…; what they changed is part of run 5`. */
export function forgottenText({ runs, count: dropped, at, into }: ForgottenRuns): string {
  const ranges = runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const which = ranges.length <= RANGES_SHOWN ? ` ${ranges.join(', ')}` : '';
  const [who, they] =
    dropped === 1
      ? [`run${which} was`, 'it']
      : [`${which === '' ? `${dropped} ` : ''}runs${which} were`, 'they'];
  return `${who} dropped by retention on ${at}: what ${they} changed is part of run ${into}`;
}

/** A line for each run of a period that has the changes of dropped runs, which may be older than the period. */
export function forgottenTexts(forgotten: readonly ForgottenRuns[]): string[] {
  const more = forgotten.length - MERGED_SHOWN;
  return [
    ...forgotten.slice(0, MERGED_SHOWN).map(forgottenText),
    ...(more > 0 ? [`${formatInteger(more)} more runs have changes of runs that retention dropped`] : []),
  ];
}

/** A line for each side of a comparison that names a time at which runs were dropped. */
export function forgottenNotes(sides: Readonly<Record<'from' | 'to', StateReference>>): string[] {
  return [sides.from, sides.to].flatMap(({ ref, run, forgotten }) =>
    forgotten === undefined
      ? []
      : [`${ref} is run ${run ?? ''}, the last one kept before then: ${forgottenText(forgotten)}`],
  );
}

const RANGES_SHOWN = 3;
const MERGED_SHOWN = 3; // documents name all

/** The newest run that ended, if it failed: then the latest state is older than the last attempt to read the source. */
export function newestRunIfFailed(mirror: Mirror, source: string): RunRow | null {
  const ended = mirror.runs
    .list({ source, limit: UNENDED_RUNS })
    .find(({ outcome }) => outcome !== 'running');
  return ended?.outcome === 'failed' ? ended : null;
}

/** A restore whose changes no run has read yet. */
export interface UnreadRestore {
  readonly restore: number;
  /** When it ended, ISO 8601; if it has not ended, when it last sent a request. */
  readonly endedAt: string | null;
  readonly outcome: RestoreOutcome;
  /** False if no step was applied, but one was sent and it is unknown whether the service executed it. */
  readonly isApplied: boolean;
  /** The newest published run of all kinds of the source. */
  readonly run: number;
}

/**
 * Restores and undos with applied or sent steps since the newest published run of all kinds (if there is none, of some
 * kinds) of the source, newest first.
 */
export function unreadRestores(mirror: Pick<Mirror, 'runs' | 'restores'>, source: string): UnreadRestore[] {
  const [ofAll] = mirror.runs.list({ source, isPublished: true, isOfAllKinds: true, limit: 1 });
  const latest = ofAll ?? mirror.runs.latest(source);
  if (latest === undefined) return [];
  return mirror.restores.sentAfter(latest).map((each) => ({ ...each, run: latest.run }));
}

/** @param of names the source after the restore (` of prod`), if the context does not */
export function unreadRestoreText({ restore, run, outcome, isApplied }: UnreadRestore, of = ''): string {
  const isEnded = outcome !== 'running' && isApplied;
  const how = outcome === 'interrupted' ? outcome : isEnded ? 'applied' : 'begun';
  return `restore ${restore}${of} was ${how} after run ${run}: \`tidemark sync\` of all kinds reads what it changed`;
}
