/** What the runs of a period could not read: the mirror recorded no changes of that. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { CollectionKey } from '../catalog/order.ts';
import { isExcludedBy } from '../config/mirrored-kinds.ts';
import { cached } from '../core/cached.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Skipped, Stale } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import { leadingFilter } from './filter.ts';
import { openRunState } from './mirror-diff.ts';
import { isWithin as isInPeriod, type Period } from './period.ts';
import {
  forgottenAfter,
  forgottenInto,
  type ForgottenRuns,
  forgottenTexts,
  isPublished,
  withInterrupted,
} from './runs.ts';
import { staleReading } from './state.ts';
import { EXCLUDED, isNamedAnyway, neverAsked } from './unasked.ts';

interface UnreadList extends CollectionKey {
  readonly outcome: SweepOutcome;
  readonly reason: string;
  /** How many removals are held, if the outcome is `held`. */
  readonly held?: number;
}

/** A run that failed or was partial. */
export interface UnreadRun {
  readonly run: number;
  readonly source: string;
  /** When it ended, ISO 8601. */
  readonly at: string;
  readonly outcome: 'partial' | 'failed';
  /** Why the entire run failed; null if only lists failed. */
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
  /** The lists that it did not read: those within the filter, and those that lead to them. */
  readonly lists: readonly UnreadList[];
  /**
   * The later run of the period by which all these lists were read; null if some were not. For a failed run, which read
   * nothing: the run by which everything was read or, if some lists were not read since, the next run, which has those in
   * its own `lists`.
   */
  readonly readAgain: number | null;
}

/** What the runs of a period could not read of one source. */
export interface UnreadInPeriod {
  /** In order. */
  readonly runs: readonly UnreadRun[];
  /** Lists of which the state of the last published run of the period has nothing. */
  readonly skipped: readonly Skipped[];
  /** Lists that this state has as of an earlier run. */
  readonly stale: readonly Stale[];
  /** True if the only reason for `skipped` and `stale` is that the last run was limited to other kinds (`sync --kind`). */
  readonly isForLimit: boolean;
  /** Runs, perhaps of the period, that retention dropped: their changes are in none of its runs. */
  readonly forgotten: readonly ForgottenRuns[];
  /** A line for each of `forgotten`. */
  readonly forgottenLines: readonly string[];
}

/** What the runs of a period could not read, by source. */
export function unreadOfSources(
  mirror: Mirror,
  config: Parameters<typeof isExcludedBy>[0],
  {
    sources,
    ...question
  }: { readonly sources: readonly string[] } & Pick<UnreadQuestion, 'isWithin' | 'period' | 'filter'>,
): (UnreadInPeriod & { readonly source: string })[] {
  return sources.map((source) => ({
    source,
    ...unreadInPeriod(mirror, source, { ...question, isExcluded: isExcludedBy(config, source) }),
  }));
}

interface UnreadQuestion {
  readonly isWithin: (run: RunRow) => boolean;
  /** Given for the changes of the period: those of dropped runs may be missing. */
  readonly period?: Pick<Period, 'since' | 'until'>;
  readonly filter: Omit<RecordFilter, 'sources'>;
  /** True for kinds that the configuration of the source leaves out. */
  readonly isExcluded: (kind: Kind) => boolean;
}

function unreadInPeriod(
  mirror: Mirror,
  source: string,
  { isWithin, period, filter, isExcluded }: UnreadQuestion,
): UnreadInPeriod {
  const runs = withInterrupted(mirror, mirror.runs.list({ source }).filter(isWithin)).reverse();
  const published = runs.filter(isPublished);
  const last = published.at(-1);
  const leading = leadingFilter(filter);
  const needed = keysOf(mirror, source, filter).union(
    leading === null ? new Set() : keysOf(mirror, source, leading),
  );
  const isNeeded = (each: CollectionKey): boolean => needed.has(collectionKey(each));
  const completeIn = new Map<number, ReadonlySet<string>>();
  const isCompleteIn = (run: number, key: string): boolean => {
    const complete = () => mirror.runs.sweeps(run).filter(({ outcome }) => outcome === 'complete');
    return cached(completeIn, run, () => new Set(complete().map(collectionKey))).has(key);
  };
  const kinds = [...(filter.kinds ?? KINDS), ...(leading?.kinds ?? [])];
  const listsOf = ({ run }: RunRow): UnreadList[] => {
    const unread = mirror.runs.sweeps(run).filter((sweep) => sweep.outcome !== 'complete' && isNeeded(sweep));
    // A list that the service does not offer lacks nothing, unless lists that are found through it were skipped.
    const leadsToSkipped = new Set(
      unread.flatMap(({ kind, scope, outcome }) => {
        const { from } = definitionOf(kind).discovery;
        return outcome === 'skipped' && from !== 'root' ? [collectionKey({ kind: from, scope })] : [];
      }),
    );
    return unread
      .filter((sweep) => sweep.outcome !== 'missing' || leadsToSkipped.has(collectionKey(sweep)))
      .map(({ kind, scope, outcome, error, held }) => ({
        ...{ kind, scope, outcome, reason: `${outcome}${error === null ? '' : `: ${error}`}` },
        ...(outcome === 'held' ? { held } : {}),
      }));
  };
  const after = ({ run }: RunRow): readonly RunRow[] => published.filter((each) => each.run > run);
  // Null if one of the lists was not read since.
  const lastReader = (run: RunRow, lists: readonly UnreadList[]): number | null => {
    const readers = lists
      .filter((list) => list.outcome !== 'missing')
      .map((list) => after(run).find((each) => isCompleteIn(each.run, collectionKey(list))));
    const numbers = readers.flatMap((each) => each?.run ?? []);
    return numbers.length === readers.length ? Math.max(...numbers) : null;
  };
  const unread = runs.flatMap((run): UnreadRun[] => {
    const { outcome } = run;
    if (outcome !== 'partial' && outcome !== 'failed') return [];
    const lists = listsOf(run);
    const ofRun = kinds.filter((kind) => run.kinds?.includes(kind) !== false);
    // Nothing that a failed run read was published.
    const isWhole = outcome === 'failed' || mirror.runs.sweeps(run.run).length === 0;
    if (isWhole ? ofRun.length === 0 : lists.length === 0) return [];
    const next = after(run).find(
      (later) => later.kinds === null || ofRun.every((kind) => later.kinds?.includes(kind)),
    );
    const leftByNext = (next === undefined ? [] : listsOf(next)).filter(({ kind }) => ofRun.includes(kind));
    const readByNext = next === undefined ? null : Math.max(next.run, lastReader(next, leftByNext) ?? 0);
    return [
      {
        ...{ run: run.run, source, outcome, lists },
        at: run.finishedAt ?? run.startedAt,
        error: run.errorCode === null ? null : { code: run.errorCode, message: run.error ?? '' },
        readAgain: isWhole ? readByNext : lastReader(run, lists),
      },
    ];
  });
  // If nothing was published, all kinds are missing, unless failed runs of the period say so.
  const isNever = mirror.runs.latest(source) === undefined;
  const all = unread.length > 0 ? [] : KINDS.filter((kind) => !isExcluded(kind));
  const skipped = (isNever ? (filter.kinds ?? all) : []).map((kind) => ({
    ...{ kind, scope: {}, reason: isExcluded(kind) ? EXCLUDED : 'no run read it' },
  }));
  const state =
    last === undefined
      ? { skipped, stale: [], isForLimit: skipped.every(({ kind }) => !isExcluded(kind)) }
      : lackedBy(mirror, last, { filter, isNeeded, isExcluded });
  const forgotten = period === undefined ? [] : forgottenIn(mirror, source, period);
  return { runs: unread, ...state, forgotten, forgottenLines: forgottenTexts(forgotten) };
}

/**
 * Dropped runs that may have been in the period and whose changes are in none of its runs: they are part of the first run
 * after it, or of the oldest kept run, which has nothing to be compared with.
 */
function forgottenIn(
  mirror: Mirror,
  source: string,
  { since, until }: Pick<Period, 'since' | 'until'>,
): ForgottenRuns[] {
  const kept = mirror.runs.list({ source, isPublished: true });
  const oldest = kept.at(-1);
  if (oldest === undefined) return [];
  const begin = { at: '' };
  const last = kept.find((run) =>
    isInPeriod({ since: begin, until }, run.finishedAt ?? run.startedAt, run.run),
  );
  const isOldestIn = isInPeriod({ since, until }, oldest.finishedAt ?? oldest.startedAt, oldest.run);
  const found = [
    isOldestIn || last === undefined ? forgottenInto(mirror, oldest.run) : undefined,
    last === undefined ? undefined : forgottenAfter(mirror, last, { at: until.at, source }),
  ];
  return found.filter(
    (each): each is ForgottenRuns =>
      each !== undefined &&
      // Runs that were dropped before the period began were before it too.
      each.at >= since.at &&
      each.runs.some(
        ([from, to]) =>
          (since.run === undefined || to > since.run) && (until.run === undefined || from <= until.run),
      ),
  );
}

/**
 * What the state of the run lacks, or has as of an earlier run. What the configuration leaves out counts only if the filter
 * names it.
 */
function lackedBy(
  mirror: Mirror,
  { run, source }: RunRow,
  {
    filter,
    isNeeded,
    isExcluded,
  }: Pick<UnreadQuestion, 'filter' | 'isExcluded'> & {
    readonly isNeeded: (collection: CollectionKey) => boolean;
  },
): Pick<UnreadInPeriod, 'skipped' | 'stale' | 'isForLimit'> {
  const state = openRunState(mirror, source, run);
  const skipped: Skipped[] = [];
  const stale: Stale[] = [];
  const known = new Set<Kind>();
  let others = 0;
  for (const collection of state.collections()) {
    const { kind, scope } = collection;
    if (!isNeeded(collection)) continue;
    const coverage = state.coverage(kind, scope);
    if (coverage.how !== 'read' && coverage.how !== 'unread') continue;
    known.add(kind);
    const isNamed = filter.kinds?.includes(kind) !== false;
    if (coverage.unasked !== undefined && !(isNamed && isNamedAnyway(filter, coverage.unasked))) continue;
    if (coverage.how === 'unread' && coverage.code === 'not_found') continue;
    if (coverage.how === 'unread') skipped.push({ kind, scope, reason: coverage.reason });
    else stale.push(...staleReading(collection, 'to', coverage, filter.kinds));
    if (coverage.how === 'unread' || coverage.stale !== undefined) others += 1;
  }
  const never = neverAsked(mirror, { source, run });
  for (const kind of filter.kinds ?? []) {
    if (known.has(kind)) continue;
    if (isExcluded(kind)) others += 1;
    const reason = isExcluded(kind) ? EXCLUDED : never(kind);
    if (reason !== null) skipped.push({ kind, scope: {}, reason });
  }
  return { skipped, stale, isForLimit: others === 0 };
}

function keysOf(mirror: Mirror, source: string, filter: Omit<RecordFilter, 'sources'>): Set<string> {
  const run = mirror.runs.latest(source)?.run ?? 0;
  return new Set(
    mirror.records.countsAt(run, { ...filter, sources: [source], followsIds: true }).map(collectionKey),
  );
}
