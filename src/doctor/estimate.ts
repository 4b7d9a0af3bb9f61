/** Estimates the requests for reading a source, per collection, with the basis of each estimate. Pure. */
import type { CollectionKey } from '../catalog/order.ts';
import { collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { RateLimits, SourceConfig } from '../config/config.ts';
import { cached } from '../core/cached.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow, SweepRow } from '../mirror/run-rows.ts';
import { MAX_LOOKUPS } from '../state/live-absence.ts';
import { SAMPLE } from '../sync/absence.ts';
import { isFullReadRecent } from '../sync/run-extent.ts';
import type { CollectionProbe } from './collection-probe.ts';
import type { KindReach, SourceReach } from './source-reach.ts';

/** `last_run`: as in the last run. `count`: from the `count` of the list. `guess`: without either. */
export type Basis = 'last_run' | 'count' | 'guess';

export interface CollectionEstimate extends CollectionKey {
  readonly requests: number;
  readonly bytes: number;
  readonly records: number | null;
  readonly basis: Basis;
}

export interface SourceEstimate {
  readonly source: SourceConfig;
  /** The basis of the estimate: the mirror, or the first pages of the lists (`probe`). */
  readonly from: 'mirror' | 'probe';
  readonly collections: readonly CollectionEstimate[];
  /** Milliseconds that one request takes; null if unknown. */
  readonly requestMs: number | null;
  readonly known: readonly string[];
  readonly guessed: readonly string[];
  /** Requests that the probe took; 0 from the mirror. */
  readonly asked: number;
}

/**
 * For how many parents a kind is requested that is read one by one. In a sync: as many as its budget allows. In a live diff:
 * all parents of a collection if they are within the budget, otherwise none; all if the user names the kind
 * (src/state/live-state.ts).
 */
type ParentRule = 'budget' | 'all_or_none' | 'all';

/** What is known about one collection before it is read. */
interface Prospect {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Records of the list; for kinds read one by one, those of the list of parents. Null if unknown. */
  readonly records: number | null;
  readonly recordBytes: number | null;
  readonly pageCap: number | null;
  /** Pages that the same reading took last time; null if unknown. */
  readonly lastPages: number | null;
  readonly parents: ParentRule;
  /** True for a feed of which only the head is read. */
  readonly isHead: boolean;
  /** Records whose removal is held: each is looked up. */
  readonly held?: number;
  /** True if the service refused it the last time: then it costs one request. */
  readonly isRefused: boolean;
}

/** Bytes of a response besides its records. */
const ANSWER_BYTES = 150;
/** Bytes of a record of unknown size: a typical mean. */
const RECORD_BYTES = 700;

function estimateOf(prospect: Prospect, source: SourceConfig): CollectionEstimate {
  const { definition, scope, records, recordBytes, lastPages, isHead, isRefused, pageCap } = prospect;
  const { kind } = definition;
  const perRecord = recordBytes ?? RECORD_BYTES;
  const made = (requests: number, rows: number, basis: Basis): CollectionEstimate => ({
    ...{ kind, scope, requests, records, basis },
    bytes: Math.round(rows * perRecord + requests * ANSWER_BYTES),
  });
  if (isRefused) return made(1, 0, 'last_run');
  if (definition.reading === 'each') {
    const { sharingPerRun } = source.recordings;
    const budget = sharingPerRun === 'all' || prospect.parents === 'all' ? Infinity : sharingPerRun;
    const known = records ?? (budget === Infinity ? 0 : budget);
    const asked = known <= budget ? known : prospect.parents === 'all_or_none' ? 0 : budget;
    return made(asked, asked, records === null ? 'guess' : 'count');
  }
  const page = Math.min(source.pageSize, pageCap ?? source.pageSize);
  if (isHead) {
    const pages = lastPages ?? 1;
    return made(pages, Math.min(records ?? page, pages * page), lastPages === null ? 'guess' : 'last_run');
  }
  const pages = lastPages ?? (records === null ? 1 : pagesFor(records, source.pageSize, pageCap));
  const rows = records ?? page;
  const most = prospect.parents === 'budget' ? SAMPLE : MAX_LOOKUPS;
  const hasRetrieve = definition.operation('retrieve') !== undefined;
  const looks = hasRetrieve ? Math.min(prospect.held ?? 0, most) : 0;
  // If the list shows a reduced form, each record is retrieved too.
  const retrieved = definition.listing.needsRetrieve ? rows : 0;
  const basis = lastPages === null ? (records === null ? 'guess' : 'count') : 'last_run';
  return made(pages + retrieved + looks, rows * (retrieved > 0 ? 2 : 1), basis);
}

// An estimate from the first pages of the lists, for a source without runs.

export function estimateFromReach(reach: SourceReach, parents: ParentRule): SourceEstimate {
  const { source, kinds, organizations, organizationCount, pageCap, requests, tookMs } = reach;
  const guessed: string[] = [];
  const feeds = new Map(
    kinds
      .filter(({ definition }) => definition.reading === 'feed')
      .flatMap(({ probes }) => probes.map((probe): [string, CollectionProbe] => [keyOf(probe), probe])),
  );
  const collections = kinds.flatMap((row) => rowEstimates(row, reach, feeds, parents));
  const uncounted = [
    ...new Set(collections.filter(({ records }) => records === null).map(({ kind }) => kind)),
  ];
  if (uncounted.length > 0)
    guessed.push(
      `${uncounted.join(', ')}: the list does not say how much it holds; one page is counted, each further one adds a request`,
    );
  const cut = kinds.filter(({ collections: all, probes }) => all > probes.length).map(({ kind }) => kind);
  if (cut.length > 0)
    guessed.push(
      `${[...new Set(cut)].join(', ')}: not all lists were read, the others are assumed to be alike`,
    );
  const total = Math.max(organizationCount ?? 0, organizations.length);
  const share = organizations.length === 0 ? 1 : total / organizations.length;
  if (share > 1)
    guessed.push(
      `${total - organizations.length} more organizations are assumed to be like those that were read`,
    );
  guessed.push('bytes: the mean of the few records that were shown');
  return {
    source,
    from: 'probe',
    collections: withinBudget(
      collections.map((each) => (each.kind === 'organizations' ? each : scaled(each, share))),
      source,
      parents,
    ),
    requestMs: requests === 0 ? null : tookMs / requests,
    known: [
      'records by what the lists say that they hold',
      ...(pageCap?.isCap === true ? [`pages of ${pageCap.received} records, the service's limit`] : []),
    ],
    guessed,
    asked: requests,
  };
}

/** A recording and its sharing configuration have the project in common. */
function keyOf({ scope }: CollectionProbe): string {
  return scope.project_id ?? '';
}

function rowEstimates(
  row: KindReach,
  { source, pageCap }: SourceReach,
  feeds: ReadonlyMap<string, CollectionProbe>,
  parents: ParentRule,
): CollectionEstimate[] {
  const { definition, probes, collections } = row;
  // Without a parent record, there is no list to request.
  const requested = probes.filter(
    ({ state, scope }) =>
      state !== 'not_reached' && definition.scope.every((key) => scope[key] !== undefined),
  );
  const share = requested.length === 0 ? 1 : Math.max(1, collections / requested.length);
  return requested.map((probe) => {
    const records =
      definition.reading === 'each' ? (feeds.get(keyOf(probe))?.records ?? null) : probe.records;
    return scaled(
      estimateOf(
        {
          definition,
          scope: probe.scope,
          records,
          recordBytes: probe.recordBytes,
          pageCap: pageCap?.isCap === true ? pageCap.received : null,
          lastPages: null,
          parents,
          isHead: false,
          isRefused: probe.state === 'denied' || probe.state === 'not_offered' || probe.state === 'failing',
        },
        source,
      ),
      share,
    );
  });
}

/** The budget of kinds read one by one is for all their collections together, in a live diff from the smallest one. */
function withinBudget(
  collections: readonly CollectionEstimate[],
  source: SourceConfig,
  rule: ParentRule,
): CollectionEstimate[] {
  const { sharingPerRun } = source.recordings;
  if (sharingPerRun === 'all' || rule === 'all') return [...collections];
  const readEach = new Set(
    source.definitions.filter(({ reading }) => reading === 'each').map(({ kind }) => kind),
  );
  const granted = new Map<CollectionEstimate, number>();
  let left = sharingPerRun;
  const inOrder = collections.filter(({ kind }) => readEach.has(kind));
  if (rule === 'all_or_none') inOrder.sort((a, b) => a.requests - b.requests);
  for (const each of inOrder) {
    const requests = rule === 'all_or_none' && each.requests > left ? 0 : Math.min(each.requests, left);
    granted.set(each, requests);
    left -= requests;
  }
  return collections.map((each) => {
    const requests = granted.get(each) ?? each.requests;
    return requests === each.requests ? each : scaledTo(each, requests);
  });
}

function scaledTo(estimate: CollectionEstimate, requests: number): CollectionEstimate {
  return { ...estimate, requests, bytes: Math.round((estimate.bytes * requests) / estimate.requests) };
}

function scaled(estimate: CollectionEstimate, share: number): CollectionEstimate {
  if (share === 1) return estimate;
  const { requests, bytes, records } = estimate;
  return {
    ...estimate,
    requests: Math.round(requests * share),
    bytes: Math.round(bytes * share),
    records: records === null ? null : Math.round(records * share),
    basis: 'guess',
  };
}

// An estimate from the last runs: nothing is sent.

interface MirrorEstimateOptions {
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  readonly run: RunRow;
  readonly kinds: ReadonlySet<Kind>;
  /** True if every list is read entirely, including feeds. */
  readonly isWhole: boolean;
  readonly parents: ParentRule;
  readonly now: number;
}

/** The number of bodies of which the mean is taken, per kind. */
const MEASURED = 300;

export function estimateFromMirror(options: MirrorEstimateOptions): SourceEstimate {
  const { mirror, source, run, kinds } = options;
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const held = mirror.runs.collections(source.name).filter(({ retiredRun }) => retiredRun === null);
  const sweeps = sweepsByRun(mirror);
  const sizes = new Map<Kind, number | null>();
  const removals = new Map(
    mirror.runs.heldRemovals(source.name).map((each) => [collectionKey(each), each.records]),
  );
  const parents = new Map(held.map((row) => [collectionKey(row), row.records]));
  const collections = held.flatMap((row): CollectionEstimate[] => {
    const definition = definitions.get(row.kind);
    if (definition === undefined || !kinds.has(row.kind)) return [];
    if (!sizes.has(row.kind)) sizes.set(row.kind, mirror.records.meanBytes(row.kind, MEASURED));
    const recordBytes = sizes.get(row.kind) ?? null;
    const prospect = {
      ...prospectOf(options, definition, row, sweeps, parents),
      recordBytes,
      held: removals.get(collectionKey(row)) ?? 0,
    };
    return [estimateOf(named(prospect, source), source)];
  });
  const at = (run.finishedAt ?? run.startedAt).slice(0, 16);
  const missing = [...kinds].filter((kind) => !collections.some((each) => each.kind === kind));
  return {
    source,
    from: 'mirror',
    collections: withinBudget(collections, source, options.parents),
    requestMs: requestMs(run, source),
    known: [`collections, pages and records as of run ${run.run} (${at}Z)`],
    guessed: [
      `bytes: the mean of up to ${MEASURED} mirrored records of each kind`,
      'nothing was added since, in particular no organization, project or role; removed records cost a request each',
      ...(missing.length === 0 ? [] : [`not known yet, and not counted: ${missing.join(', ')}`]),
    ],
    asked: 0,
  };
}

type Sweeps = (run: number | null, row: CollectionRow) => SweepRow | undefined;

function sweepsByRun(mirror: Mirror): Sweeps {
  const runs = new Map<number, Map<string, SweepRow>>();
  return (run, row) => {
    if (run === null) return undefined;
    const sweeps = () => new Map(mirror.runs.sweeps(run).map((sweep) => [collectionKey(sweep), sweep]));
    return cached(runs, run, sweeps).get(collectionKey(row));
  };
}

function prospectOf(
  { source, isWhole, parents: parentRule, now }: MirrorEstimateOptions,
  definition: ResourceDefinition,
  row: CollectionRow,
  sweeps: Sweeps,
  parents: ReadonlyMap<string, number>,
): Prospect {
  const isEach = definition.reading === 'each';
  const isHead = definition.reading === 'feed' && !isWhole && isFullReadRecent(row.lastFullAt, source, now);
  const last = sweeps(row.lastRun, row);
  const whole = sweeps(row.lastFullRun, row);
  const same = [last, whole].find(
    (sweep) => (sweep?.mode === 'head') === isHead && sweep?.mode !== undefined,
  );
  const { from } = definition.discovery;
  return {
    definition,
    scope: row.scope,
    records:
      isEach && from !== 'root'
        ? (parents.get(collectionKey({ kind: from, scope: row.scope })) ?? 0)
        : row.records,
    recordBytes: null,
    pageCap: row.pageCap,
    lastPages: isEach || same === undefined || same.pages === 0 ? null : same.pages,
    parents: parentRule,
    isHead,
    isRefused: row.lastOutcome === 'denied' || row.lastOutcome === 'missing',
  };
}

/** Organizations that the configuration names are requested one by one, without a list. */
function named(prospect: Prospect, { organizations }: SourceConfig): Prospect {
  if (organizations === 'all' || prospect.definition.discovery.from !== 'root') return prospect;
  return { ...prospect, lastPages: organizations.length };
}

/** Milliseconds per request; null for a run that may have waited for rate limits: it does not show the speed of the service. */
function requestMs({ requests, startedAt, finishedAt }: RunRow, { rate }: SourceConfig): number | null {
  if (finishedAt === null || requests === 0) return null;
  if (rate.perMinute !== 0 && requests > rate.perMinute) return null;
  return (Date.parse(finishedAt) - Date.parse(startedAt)) / requests;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** For more requests, the average pace so far is assumed. */
const MOST_SIMULATED = 200_000;

/**
 * Milliseconds until the last of `requests` may start, by simulating the two sliding windows of the client; 0 if all may
 * start at once.
 * @param recent when earlier requests under the same limits started, before `now` (epoch milliseconds, oldest first)
 */
export function waitFor(
  requests: number,
  { perMinute, perHour }: Pick<RateLimits, 'perMinute' | 'perHour'>,
  recent: readonly number[],
  now: number,
): number {
  if (requests <= 0 || (perMinute === 0 && perHour === 0)) return 0;
  const started = [...recent];
  let at = now;
  const simulated = Math.min(requests, MOST_SIMULATED);
  for (let n = 0; n < simulated; n += 1) {
    const minute = perMinute === 0 ? undefined : started.at(-perMinute);
    const hour = perHour === 0 ? undefined : started.at(-perHour);
    if (minute !== undefined) at = Math.max(at, minute + MINUTE_MS);
    if (hour !== undefined) at = Math.max(at, hour + HOUR_MS);
    started.push(at);
  }
  return Math.round((at - now) * (requests / simulated));
}

/** Pages of a walk over `records`, including the overlap and the second reading of the head (src/api/walk.ts). @internal */
export function pagesFor(records: number, pageSize: number, pageCap: number | null): number {
  const page = Math.max(1, Math.min(pageSize, pageCap ?? pageSize));
  if (records <= page) return 1;
  // Without a cap, the overlap is requested in addition to the page, and costs nothing.
  const isCapped = pageCap !== null && pageCap < pageSize;
  const overlap = isCapped ? Math.min(Math.max(10, Math.ceil(page * 0.05)), Math.floor(page / 2)) : 0;
  return 2 + Math.ceil((records - page) / Math.max(1, page - overlap));
}
