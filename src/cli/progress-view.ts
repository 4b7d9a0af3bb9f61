/** What the progress bars show, computed from a run's state and the client's stats. Pure. */
import type { KindUse, RequestStats, WindowUse } from '../api/request-stats.ts';
import { definitionOf, CATALOG, collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { PlannedSweep, SyncEvents } from '../sync/events.ts';

export interface KindView {
  readonly kind: Kind;
  readonly received: number;
  /** Null if unknown. */
  readonly expected: number | null;
  readonly lists: number;
  readonly listsEnded: number;
}

export interface ProgressView {
  /** The kinds under way, in catalog order. */
  readonly kinds: readonly KindView[];
  readonly kindsDone: number;
  /** Those of `kindsDone` that were not read completely. */
  readonly kindsUnread: number;
  readonly kindsToCome: number;
  /** The share of the run's requests that were answered, 0 to 1; null if unknown. */
  readonly share: number | null;
  readonly records: number;
  readonly recordsPerSecond: number;
  readonly requests: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Limits that apply only to some kinds, for kinds under way or to come. */
  readonly kindLimits: readonly KindUse[];
  /** `isLeast`: at least that long. Null if unknown. */
  readonly left: { readonly ms: number; readonly isLeast: boolean } | null;
  readonly waiting: { readonly ms: number; readonly on: 'service' | 'limit' } | null;
  /** For how long the service has not answered; left out if it answers. */
  readonly silentMs?: number;
  /** What happens now that everything is read; null before. */
  readonly lastPhase: 'publishing' | 'comparing' | null;
}

interface ViewInput {
  readonly progress: RunProgress;
  readonly stats: RequestStats;
  /** Epoch milliseconds. */
  readonly now: number;
  /** See `PaceMeter`. */
  readonly requestMs: number | null;
  readonly recordsPerSecond: number;
  /** As configured: the assumed rows of a page before the first one, and the limit that the service may have lowered. */
  readonly pageSize: number;
  readonly perMinute: number;
  /** See `ProgressOptions`. */
  readonly isLive: boolean;
}

/** Computes what to show now. */
export function progressView(input: ViewInput): ProgressView {
  const { progress, stats, now } = input;
  const { sweeps } = progress;
  const byKind = [...Map.groupBy(sweeps, ({ kind }) => kind)];
  const waitMs = Math.max(0, (stats.waitingUntil ?? now) - now);
  const work = workLeft(input);
  const ofKinds = (stats.kinds ?? []).flatMap((use) => {
    const requests = use.kinds.reduce((sum, kind) => sum + (work.byKind.get(kind) ?? 0), 0);
    return requests === 0 ? [] : [{ use, requests }];
  });
  const ms = timeLeft(work.requests, {
    requestMs: input.requestMs,
    perMinute: stats.perMinute,
    perHour: stats.perHour,
    kinds: ofKinds.map(({ use: { perMinute, perHour }, requests }) => ({ requests, perMinute, perHour })),
    waitMs,
  });
  const done = byKind.filter(([, of]) => of.every(({ phase }) => phase === 'ended'));
  const isSlowed = stats.perMinute.limit > 0 && stats.perMinute.limit !== input.perMinute;
  return {
    kinds: byKind
      .filter(([, of]) => of.some(isUnderWay(of)))
      .map(([kind, of]) => kindView(progress, kind, of)),
    kindsDone: done.length,
    kindsUnread: done.filter(([, of]) => of.some(({ isUnread }) => isUnread)).length,
    kindsToCome: byKind.filter(([, of]) => of.every(({ phase }) => phase === 'planned')).length,
    share: work.isWhole ? work.answered / Math.max(1, work.answered + work.requests) : null,
    records: progress.received,
    recordsPerSecond: input.recordsPerSecond,
    requests: stats.requests,
    perMinute: stats.perMinute,
    perHour: stats.perHour,
    kindLimits: ofKinds.map(({ use }) => use),
    left: ms === null ? null : { ms, isLeast: !work.isWhole },
    waiting: waitMs === 0 ? null : { ms: waitMs, on: isSlowed ? 'service' : 'limit' },
    lastPhase: progress.isPublishing ? (input.isLive ? 'comparing' : 'publishing') : null,
  };
}

/** A kind is under way from the start of its first sweep to the end of its last one. */
function isUnderWay(of: readonly SweepProgress[]): (sweep: SweepProgress) => boolean {
  const isBegun = of.some(({ phase }) => phase !== 'planned');
  return ({ phase }) => isBegun && phase !== 'ended';
}

function kindView(progress: RunProgress, kind: Kind, of: readonly SweepProgress[]): KindView {
  const expected = of.map((sweep) => progress.expected(sweep));
  return {
    kind,
    received: of.reduce((sum, { received }) => sum + received, 0),
    expected: expected.some((each) => each === null)
      ? null
      : expected.reduce<number>((sum, each) => sum + (each ?? 0), 0),
    lists: of.length,
    listsEnded: of.filter(({ phase }) => phase === 'ended').length,
  };
}

/** Requests answered and to come. A sweep for which the number is unknown counts as one request, and `isWhole` is false. */
function workLeft({ progress, pageSize }: ViewInput): {
  requests: number;
  byKind: ReadonlyMap<Kind, number>;
  answered: number;
  isWhole: boolean;
} {
  const byKind = new Map<Kind, number>();
  let requests = 0;
  let answered = 0;
  let isWhole = progress.isPlanWhole;
  for (const sweep of progress.sweeps) {
    answered += sweep.pages;
    if (sweep.phase === 'ended') continue;
    const left = requestsLeft({
      ...sweep,
      expected: progress.expected(sweep),
      pageRows: sweep.pages === 0 ? (sweep.pageRows ?? pageSize) : sweep.received / sweep.pages,
      needsRetrieve: definitionOf(sweep.kind).listing.needsRetrieve,
    });
    requests += left ?? 1;
    byKind.set(sweep.kind, (byKind.get(sweep.kind) ?? 0) + (left ?? 1));
    if (left === null) isWhole = false;
  }
  return { requests, byKind, answered, isWhole };
}

// How many requests and how much time a run still needs, as far as known. Pure.

/** A sweep that has not ended. */
interface OpenSweep {
  readonly reading: 'full' | 'head' | 'each';
  /** Answers so far. */
  readonly pages: number;
  /** Rows or parents that it will have read in the end; null if unknown. */
  readonly expected: number | null;
  /** Rows per page. */
  readonly pageRows: number;
  /** True if each listed record is also requested by id. */
  readonly needsRetrieve: boolean;
}

/** Consecutive pages overlap by 5 %, and the head is read again at the end (design.md, The sync). */
const NEW_ROWS_SHARE = 0.95;
/** If more pages than this were new, it is unknown how many more are. */
const HEAD_PAGES = 3;

/** Requests that a sweep still needs, at least one; null if unknown. @internal */
export function requestsLeft(sweep: OpenSweep): number | null {
  const { reading, pages, expected, pageRows } = sweep;
  if (reading === 'head') return pages < HEAD_PAGES ? 1 : null;
  if (expected === null) return null;
  const rows = Math.max(1, pageRows);
  const lists = expected <= rows ? 1 : Math.ceil(expected / Math.max(1, rows * NEW_ROWS_SHARE)) + 1;
  const all = reading === 'each' ? expected : lists + (sweep.needsRetrieve ? expected : 0);
  return Math.max(reading === 'each' ? 0 : 1, all - pages);
}

interface Pace {
  /** Milliseconds per request while requests flow, however many run at a time; null before the first answers. */
  readonly requestMs: number | null;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Limits that apply only to some kinds, each with its requests to come. */
  readonly kinds?: readonly {
    readonly requests: number;
    readonly perMinute: WindowUse;
    readonly perHour: WindowUse;
  }[];
  /** Until requests flow again. */
  readonly waitMs: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Milliseconds until that many requests are answered; null while the pace is unknown. @internal */
export function timeLeft(requests: number, pace: Pace): number | null {
  if (requests === 0) return 0;
  const { requestMs, perMinute, perHour, waitMs } = pace;
  if (requestMs === null && waitMs === 0) return null;
  return Math.max(
    waitMs + requests * (requestMs ?? 0),
    windowMs(requests, perMinute, MINUTE_MS, waitMs),
    windowMs(requests, perHour, HOUR_MS, 0),
    ...(pace.kinds ?? []).flatMap((each) => [
      windowMs(each.requests, each.perMinute, MINUTE_MS, 0),
      windowMs(each.requests, each.perHour, HOUR_MS, 0),
    ]),
  );
}

/**
 * The milliseconds that the limit of a rolling window alone takes. Requests beyond the limit start evenly, or in bursts: the
 * first after `waitMs`, each further one a window later. The result is the longer of the two.
 */
function windowMs(requests: number, { used, limit }: WindowUse, lengthMs: number, waitMs: number): number {
  if (limit === 0) return 0;
  const beyond = requests - Math.max(0, limit - used);
  if (beyond <= 0) return 0;
  const evenly = (beyond / limit) * lengthMs;
  const bursts = waitMs === 0 || used < limit ? 0 : waitMs + Math.floor((requests - 1) / limit) * lengthMs;
  return Math.max(evenly, bursts);
}

// The state of a run, from its events.

interface SweepProgress extends PlannedSweep {
  readonly phase: 'planned' | 'open' | 'ended';
  /** Answers so far. */
  readonly pages: number;
  /** Rows received, capped at `count`; once ended, distinct records. */
  readonly received: number;
  /** The number that the service reports; null if it reports none. */
  readonly count: number | null;
  /** True if the sweep ended with another outcome than complete. */
  readonly isUnread: boolean;
}

/** The sweeps of a run and how far each is: `events` updates it. */
export class RunProgress {
  readonly #sweeps = new Map<string, SweepProgress>();
  #openKinds: readonly Kind[] = [];
  #hasPlan = false;
  /** True once everything is read. */
  isPublishing = false;

  readonly events: SyncEvents = {
    sweepsPlanned: ({ sweeps, open }) => {
      for (const [key, { phase }] of this.#sweeps) if (phase === 'planned') this.#sweeps.delete(key);
      for (const planned of sweeps) {
        const key = collectionKey(planned);
        if (!this.#sweeps.has(key)) this.#sweeps.set(key, { ...planned, ...UNTOUCHED });
      }
      this.#openKinds = open;
      this.#hasPlan = true;
    },
    sweepStarted: ({ kind, scope, reading, known }) => {
      const planned = this.#sweeps.get(collectionKey({ kind, scope }));
      this.#sweeps.set(collectionKey({ kind, scope }), {
        kind,
        scope,
        pageRows: null,
        budget: null,
        ...planned,
        ...UNTOUCHED,
        reading,
        // For a list that was never read, 0 means that the number is unknown.
        known: reading === 'each' || known > 0 ? known : (planned?.known ?? null),
        phase: 'open',
      });
    },
    sweepProgressed: ({ kind, scope, pages, received, count }) => {
      // Consecutive pages overlap: `received` counts some rows twice.
      this.#change(kind, scope, { pages, received: Math.min(received, count ?? received), count });
    },
    sweepEnded: ({ kind, scope, records, outcome }) => {
      this.#change(kind, scope, { phase: 'ended', received: records, isUnread: outcome !== 'complete' });
    },
    publishing: () => {
      this.isPublishing = true;
    },
  };

  /** In catalog order. */
  get sweeps(): readonly SweepProgress[] {
    return [...this.#sweeps.values()].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  }

  /** Rows received so far, in all sweeps. */
  get received(): number {
    return this.#sweeps.values().reduce((sum, { received }) => sum + received, 0);
  }

  /** True once no further sweeps can be added. */
  get isPlanWhole(): boolean {
    return this.#hasPlan && this.#openKinds.length === 0;
  }

  /** Rows or parents that the sweep will have read in the end; null if unknown, as it is for head reads. */
  expected(sweep: SweepProgress): number | null {
    if (sweep.phase === 'ended')
      return sweep.isUnread ? Math.max(sweep.count ?? sweep.known ?? 0, sweep.received) : sweep.received;
    if (sweep.reading === 'head') return null;
    if (sweep.count !== null) return Math.max(sweep.count, sweep.received);
    if (sweep.known !== null) return Math.max(sweep.known, sweep.received);
    const { from } = definitionOf(sweep.kind).discovery;
    const parent =
      sweep.reading !== 'each' || from === 'root'
        ? undefined
        : this.#sweeps.get(collectionKey({ kind: from, scope: sweep.scope }));
    const parents = parent === undefined ? null : this.expected(parent);
    return parents === null ? null : Math.min(parents, sweep.budget ?? parents);
  }

  #change(kind: Kind, scope: Scope, change: Partial<SweepProgress>): void {
    const sweep = this.#sweeps.get(collectionKey({ kind, scope }));
    if (sweep !== undefined) this.#sweeps.set(collectionKey({ kind, scope }), { ...sweep, ...change });
  }
}

const UNTOUCHED = { phase: 'planned', pages: 0, received: 0, count: null, isUnread: false } as const;

const ORDER: readonly Kind[] = CATALOG.map(({ kind }) => kind);
