/** What runs changed: the changes of a run and of a period, and counts by run and by day. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { activityKinds, collectionKey, definitionOf, familyKinds } from '../../catalog/catalog.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { parseLossless } from '../../core/json.ts';
import { type RecordChange, compareRecords } from '../../diff/change.ts';
import { changesOnce } from '../../diff/families.ts';
import type { ChangeCounts } from '../../mirror/change-counts.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { maskedChange, withMaskedId } from '../../report/mask.ts';
import { isWithin, type Period } from '../../state/period.ts';
import { type ForgottenRuns, forgottenInto, previousRun } from '../../state/runs.ts';
import { requireCountedWithin } from '../../state/intact.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { readNewlyReadRecords } from '../../state/newly-read.ts';
import { newlyReadRecords } from '../../state/unknown-records.ts';
import { recreatedIn, RecreatedBetween } from '../../state/recreated.ts';
import { RestoreWrites } from '../../state/written-by-restore.ts';

/** Kinds of activity, listed separately: they have many records, which are not configuration. */
export const ACTIVITY_KINDS: readonly Kind[] = activityKinds();
export const CONFIGURED_KINDS: readonly Kind[] = KINDS.filter((kind) => !ACTIVITY_KINDS.includes(kind));

export const CHANGES = ['added', 'changed', 'removed'] as const;
const NO_CHANGES: ChangeCounts = { added: 0, changed: 0, removed: 0 };

/** A map that drops the least recently used values beyond a total cost. */
class RecentlyUsed<Value> {
  readonly #values = new Map<string, Value>();
  readonly #mostCost: number;
  readonly #costOf: (value: Value) => number;
  #cost = 0;

  constructor(mostCost: number, costOf: (value: Value) => number = () => 1) {
    this.#mostCost = mostCost;
    this.#costOf = costOf;
  }

  get(key: string): Value | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, found);
    return found;
  }

  set(key: string, value: Value): void {
    if (this.#costOf(value) > this.#mostCost || this.#values.has(key)) return;
    this.#values.set(key, value);
    this.#cost += this.#costOf(value);
    for (const [oldest, held] of this.#values) {
      if (this.#cost <= this.#mostCost) break;
      this.#values.delete(oldest);
      this.#cost -= this.#costOf(held);
    }
  }
}

/** Cached changes, masked: some 2 MB. */
const KEPT_CHANGES = 1_000;
/** A quarter of a year of half-hourly runs. */
const KEPT_COUNTS = 5_000;

/** What runs changed, compared and masked under one configuration. The keys contain the root hashes of the runs. */
export class ChangesCache {
  #known: ReturnType<typeof emptyCache> | null = null;

  /** What is known under this configuration; another one starts afresh. */
  of(config: Config): ReturnType<typeof emptyCache> {
    if (this.#known?.config !== config) this.#known = emptyCache(config);
    return this.#known;
  }
}

function emptyCache(config: Config) {
  // To find out that nothing changed takes as long: an empty list counts as well.
  const costOf = ({ length }: readonly RecordChange[]): number => length + 1;
  const changes = new RecentlyUsed<readonly RecordChange[]>(KEPT_CHANGES + 1, costOf);
  return { config, changes, counts: new RecentlyUsed<ChangeCounts>(KEPT_COUNTS) };
}

interface ChangesQuestion {
  readonly period: Pick<Period, 'since' | 'until'>;
  readonly sources: readonly string[];
  /** Null for all. */
  readonly kinds: readonly Kind[] | null;
  /** Changes returned at most. */
  readonly limit: number;
  /** True includes runs without changes: they may have read something for the first time. */
  readonly hasQuiet?: true;
}

/** A run and what it changed, masked. */
export interface RunChanges {
  readonly run: RunRow;
  /** The run that it is compared with; null for the first one of its source that is kept, in which everything is new. */
  readonly previous: number | null;
  /** Null for the first run, and where too much changed to list it. */
  readonly changes: readonly RecordChange[] | null;
  /** Counts all changes of the requested kinds, also those that `changes` leaves out. */
  readonly summary: ChangeCounts;
  /** Runs that retention dropped, whose changes are now among these. */
  readonly forgotten: ForgottenRuns | null;
}

export interface FoundChanges {
  /** Newest first; runs that changed nothing are left out, unless the question has them. */
  readonly runs: readonly RunChanges[];
  /** True if there are more changes than the limit. */
  readonly isCut: boolean;
  /** Counts all changes of the period, also those beyond the limit. */
  readonly countAll: () => Promise<ChangeCounts>;
}

/** Runs of a source that are searched: six weeks of half-hourly ones. */
const RUNS_READ = 2_000;
/** Of a run that changed more, only the counts are reported: to gather its records would block everything else. */
const MOST_CHANGES = 50_000;
/** Records that are compared, and runs that are counted, before other work gets its turn. */
const RECORDS_SLICE = 100;
const RUNS_SLICE = 50;

/** The changes of the runs of a period, newest run first. */
export async function findChanges(
  mirror: Mirror,
  config: Config,
  question: ChangesQuestion,
  cache: ChangesCache,
): Promise<FoundChanges> {
  const { kinds, sources } = question;
  requireCountedWithin(mirror, { sources, ...(kinds === null ? {} : { kinds }) });
  const { changes: knownChanges, counts } = cache.of(config);
  const found: RunChanges[] = [];
  let left = question.limit;
  let isCut = false;
  // An id that a restore maps later turns a removal and an addition into one change.
  const restoredIds = new Map<string, number>();
  const keyOf = (run: RunRow, previous: RunRow | null): string => {
    const ids = restoredIds.get(run.source) ?? mirror.restores.idMap(run.source).length;
    restoredIds.set(run.source, ids);
    return [previous?.root ?? '', run.root ?? '', kinds?.join(',') ?? '', ids].join(' ');
  };
  const countsOf = (run: RunRow): ChangeCounts => {
    const known = counts.get(keyOf(run, null));
    if (known !== undefined) return known;
    const read = readChangeCounts(mirror, [run.run], kinds).get(run.run) ?? NO_CHANGES;
    counts.set(keyOf(run, null), read);
    return read;
  };
  const pairs = pairsOf(mirror, question);
  let looked = 0;
  for (const { run, previous } of pairs) {
    if (left === 0) {
      isCut = true;
      break;
    }
    looked += 1;
    const forgotten = forgottenInto(mirror, run.run) ?? null;
    const known = previous === null ? undefined : knownChanges.get(keyOf(run, previous));
    if (previous === null || (known === undefined && totalOf(countsOf(run)) > MOST_CHANGES)) {
      const summary = countsOf(run);
      found.push({ run, previous: previous?.run ?? null, changes: null, summary, forgotten });
      continue;
    }
    const { changes, isMore } =
      known === undefined
        ? await gather(mirror, config, { run, previous }, { kinds, limit: left })
        : { changes: known.slice(0, left), isMore: known.length > left };
    if (known === undefined && !isMore) knownChanges.set(keyOf(run, previous), changes);
    left -= changes.length;
    isCut ||= isMore;
    if (changes.length === 0 && question.hasQuiet !== true) continue;
    const summary = isMore && known === undefined ? countsOf(run) : countChanges(known ?? changes);
    found.push({ run, previous: previous.run, changes, summary, forgotten });
  }
  const countAll = async (): Promise<ChangeCounts> => {
    const sum = { ...NO_CHANGES };
    // A first run counts for nothing: everything in it is new.
    for (const { summary, previous } of found) if (previous !== null) addCounts(sum, summary);
    for (const [index, { run, previous }] of pairs.slice(looked).entries()) {
      if (index % RUNS_SLICE === RUNS_SLICE - 1) await nextTurn();
      if (previous !== null) addCounts(sum, countsOf(run));
    }
    return sum;
  };
  return { runs: found, isCut, countAll };
}

function addCounts(
  sum: { -readonly [Change in keyof ChangeCounts]: number },
  more: ChangeCounts | undefined,
): void {
  for (const change of CHANGES) sum[change] += more?.[change] ?? 0;
}

interface RunPair {
  readonly run: RunRow;
  readonly previous: RunRow;
}

interface GatherOptions {
  readonly kinds: readonly Kind[] | null;
  readonly limit: number;
}

interface Gathered {
  readonly changes: readonly RecordChange[];
  readonly isMore: boolean;
}

/**
 * The changes of a run against the one published before it, up to a limit; `summary` counts all of them. Null for a run that published
 * nothing, or has none before it.
 */
export async function changesOf(
  mirror: Mirror,
  config: Config,
  run: RunRow,
  options: GatherOptions,
): Promise<(Gathered & { readonly previous: number; readonly summary: ChangeCounts }) | null> {
  const { kinds } = options;
  const previous = run.root === null ? undefined : previousRun(mirror, run);
  if (previous === undefined) return null;
  requireCountedWithin(mirror, { sources: [run.source], ...(kinds === null ? {} : { kinds }) });
  const gathered = await gather(mirror, config, { run, previous }, options);
  const summary = gathered.isMore
    ? (readChangeCounts(mirror, [run.run], kinds).get(run.run) ?? NO_CHANGES)
    : countChanges(gathered.changes);
  return { ...gathered, previous: previous.run, summary };
}

async function gather(
  mirror: Mirror,
  config: Config,
  { run, previous }: RunPair,
  { kinds, limit }: GatherOptions,
): Promise<Gathered> {
  const definitions = definitionsFor(config, run.source);
  const changes: RecordChange[] = [];
  const at = previous.finishedAt ?? previous.startedAt;
  const before = { ref: `run:${previous.run}`, run: previous.run, at, isLatest: false };
  // A record that was only read for the first time does not count as added.
  const reads = newlyReadRecords(openMirrorState(mirror, run.source, before));
  let read = 0;
  const again = RecreatedBetween.runs(mirror, { from: previous, to: run }, definitions);
  const writes = new RestoreWrites(mirror, run.source);
  // The mirror has its own connection here: others may read and publish meanwhile.
  const between = mirror.records.changesBetween(previous.run, run.run, {
    sources: [run.source],
    ...(kinds === null ? {} : { kinds }),
  });
  for (const { kind, scope, id, before: was, after: is } of again.joined(between)) {
    const definition = definitions(kind);
    const parsed = (body: string | undefined): Parameters<typeof compareRecords>[1] =>
      body === undefined ? undefined : { kind, scope, id, body: parseLossless(body) };
    const change = compareRecords(definition, parsed(was), parsed(is), 'default');
    read += 1;
    if (read % RECORDS_SLICE === 0) await nextTurn();
    if (change === null) continue;
    if (change.change === 'added' && reads.isUnknown({ kind, scope, id }, 'added')) continue;
    if (changes.length === limit) return { changes: changesOnce(changes, undefined), isMore: true };
    const marked = writes.marked(again.withRecreation(change), { from: previous, to: run });
    changes.push(withMaskedId(maskedChange(marked, definition), definition));
  }
  return { changes: changesOnce(changes, undefined), isMore: false };
}

/** Runs of the period that changed something of the kinds, newest first, each with the published one before it. */
function pairsOf(
  mirror: Mirror,
  { period, sources, kinds }: ChangesQuestion,
): { readonly run: RunRow; readonly previous: RunRow | null }[] {
  const pairs = sources
    .flatMap((source) => {
      const runs = mirror.runs.list({
        source,
        isPublished: true,
        endedBy: period.until.at,
        limit: RUNS_READ,
      });
      return runs.flatMap((run, index) =>
        isWithin(period, run.finishedAt ?? run.startedAt, run.run)
          ? [{ run, previous: runs[index + 1] ?? previousRun(mirror, run) ?? null }]
          : [],
      );
    })
    .sort((a, b) => b.run.run - a.run.run);
  const numbers = pairs.map(({ run }) => run.run);
  const changing = new Set(mirror.runs.changing({ runs: numbers, kinds }));
  const earliest = Math.min(...pairs.map(({ run, previous }) => previous?.run ?? run.run));
  const gone =
    pairs.length === 0 ? [] : mirror.runs.unlikeSealed({ from: earliest }).filter(({ isGone }) => isGone);
  return pairs.filter(
    ({ run, previous }) =>
      previous === null ||
      changing.has(run.run) ||
      gone.some((each) => each.run > previous.run && each.run < run.run),
  );
}

function countChanges(changes: readonly { readonly change: keyof ChangeCounts }[]): ChangeCounts {
  const counts = { ...NO_CHANGES };
  for (const { change } of changes) counts[change] += 1;
  return counts;
}

export function totalOf({ added, changed, removed }: ChangeCounts): number {
  return added + changed + removed;
}

/**
 * How many records of the kinds (null for all) each run added, changed and removed, without first reads. A run that took over the changes
 * of runs that retention dropped is counted by its revisions, as its sweeps do not include these. Runs without changes may be missing.
 */
function readChangeCounts(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): ReadonlyMap<number, ChangeCounts> {
  if (runs.length === 0) return new Map();
  const counted = new Map(mirror.runs.changeCounts({ runs, kinds }));
  const { collections: firsts, looks } = readNewlyReadRecords(mirror, runs, kinds);
  for (const { run, records } of [...firsts, ...looks]) {
    const counts = counted.get(run);
    if (counts !== undefined) counted.set(run, { ...counts, added: counts.added - records });
  }
  for (const { run, familyKind, ...repeated } of mirror.runs.repeatedChanges({ runs, kinds })) {
    const counts = counted.get(run);
    if (counts === undefined) continue;
    const { scope } = repeated;
    const lists = [collectionKey(repeated), collectionKey({ kind: familyKind, scope })];
    const isFirst = firsts.some((each) => each.run === run && lists.includes(collectionKey(each)));
    counted.set(run, {
      added: counts.added - (isFirst ? 0 : repeated.added),
      changed: counts.changed - repeated.changed,
      removed: counts.removed - repeated.removed,
    });
  }
  for (const [number, { added, changed, removed }] of counted) {
    if (added === 0 || removed === 0) continue;
    const run = mirror.runs.get(number);
    const previous = run === undefined ? undefined : previousRun(mirror, run);
    if (run === undefined || previous === undefined) continue;
    // A record that a restore created again under another id is one change.
    const again = recreatedIn(mirror, { from: previous, to: run })
      .filter(({ kind }) => kinds?.includes(kind) !== false)
      .filter(({ kind }, _index, all) => !isRepeatedIn(kind, all))
      .reduce((sum, { records }) => sum + records, 0);
    counted.set(number, { added: added - again, changed: changed + again, removed: removed - again });
  }
  return counted;
}

/** True for a union of families of which some family is among the counts. */
function isRepeatedIn(kind: Kind, counts: readonly { readonly kind: Kind }[]): boolean {
  if (definitionOf(kind).isUnionOfFamily !== true) return false;
  return counts.some((each) => each.kind !== kind && familyKinds(kind).includes(each.kind));
}

export interface DayOfChanges extends ChangeCounts {
  /** `YYYY-MM-DD`. */
  readonly day: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** Half a year of half-hourly runs. */
const KEPT_RUNS = 10_000;

/**
 * Changes by day, of one kind or of all configuration. The totals of runs would not do: in them, thousands of new recordings hide
 * everything else. Each run is counted once and remembered.
 */
export class DayCounts {
  /** By kind and root hash of a run, which is another one in a replaced mirror, or after retention. */
  readonly #known = new RecentlyUsed<ChangeCounts>(KEPT_RUNS);

  /** The latest days up to today, also those without changes. The first run of a source, in which all is new, does not count. */
  async read(mirror: Mirror, days: number, now: number, kind: Kind | null = null): Promise<DayOfChanges[]> {
    const keyOf = (root: string): string => `${kind ?? ''} ${root}`;
    const dayOf = (index: number): string => isoTime(now - (days - 1 - index) * DAY_MS).slice(0, 10);
    const runs = mirror.runs.changedSince(dayOf(0));
    const counts = new Map(runs.map(({ run, root }) => [run, this.#known.get(keyOf(root))]));
    const unknown = runs.filter(({ run }) => counts.get(run) === undefined);
    for (let start = 0; start < unknown.length; start += RUNS_SLICE) {
      if (start > 0) await nextTurn();
      const slice = unknown.slice(start, start + RUNS_SLICE);
      const read = readChangeCounts(
        mirror,
        slice.map(({ run }) => run),
        kind === null ? CONFIGURED_KINDS : [kind],
      );
      for (const { run, root } of slice) {
        const own = read.get(run) ?? NO_CHANGES;
        this.#known.set(keyOf(root), own);
        counts.set(run, own);
      }
    }
    const byDay = Map.groupBy(runs, ({ finishedAt }) => finishedAt.slice(0, 10));
    return Array.from({ length: days }, (_unused, index) => {
      const day = dayOf(index);
      const sum = { ...NO_CHANGES };
      for (const { run } of byDay.get(day) ?? []) addCounts(sum, counts.get(run));
      return { day, ...sum };
    });
  }
}
