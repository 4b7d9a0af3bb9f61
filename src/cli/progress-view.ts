/** What the progress bars show at one time, computed from a run's state and the client's stats. Pure. */
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
  /** Under way, in catalog order. */
  readonly kinds: readonly KindView[];
  readonly kindsDone: number;
  /** Of those done: not read completely. */
  readonly kindsUnread: number;
  readonly kindsToCome: number;
  /** Of the entire run's requests, 0 to 1; null if unknown. */
  readonly share: number | null;
  readonly records: number;
  readonly recordsPerSecond: number;
  readonly requests: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Of the limits that kinds under way or to come have of their own. */
  readonly kindLimits: readonly KindUse[];
  /** `isLeast`: at least that long. Null if unknown. */
  readonly left: { readonly ms: number; readonly isLeast: boolean } | null;
  readonly waiting: { readonly ms: number; readonly on: 'service' | 'limit' } | null;
  /** For how long the service has not answered; left out where it has. */
  readonly silentMs?: number;
  /** What happens once everything is read; null before. */
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
  /** As configured: rows of a page before the first page, and the limit before the service asked for less. */
  readonly pageSize: number;
  readonly perMinute: number;
  /** See `ProgressOptions`. */
  readonly isLive: boolean;
}

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
    records: sweeps.reduce((sum, { received }) => sum + received, 0),
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

/** Requests answered and to come; an unknown number counts as one, and then `isWhole` is false. */
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

// How many requests and how much time a run still takes, as far as known. Pure.

/** A sweep that has not ended. */
interface OpenSweep {
  readonly reading: 'full' | 'head' | 'each';
  /** Answers so far. */
  readonly pages: number;
  /** Rows or parents that it will have read in the end; null if unknown. */
  readonly expected: number | null;
  /** Rows that a page brings. */
  readonly pageRows: number;
  /** True where each listed record is retrieved too. */
  readonly needsRetrieve: boolean;
}

/** Consecutive pages overlap by 5 %, and the head is read again at the end (design.md, The sync). */
const NEW_ROWS_SHARE = 0.95;
/** A feed with more new pages than this has an unknown number of them. */
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
  /** Milliseconds that a request takes while requests flow, of all requests under way together; null before the first answers. */
  readonly requestMs: number | null;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Limits that kinds have of their own, with the requests that count for each. */
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

/** Milliseconds until that number of requests is answered; null while no pace is known. @internal */
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
 * The time that a rolling window alone takes. Requests beyond it start evenly, or in bursts when it opens: after `waitMs`
 * the first, after an entire window each further one; at least the time of the even pace.
 */
function windowMs(requests: number, { used, limit }: WindowUse, lengthMs: number, waitMs: number): number {
  if (limit === 0) return 0;
  const beyond = requests - Math.max(0, limit - used);
  if (beyond <= 0) return 0;
  const evenly = (beyond / limit) * lengthMs;
  const bursts = waitMs === 0 || used < limit ? 0 : waitMs + Math.floor((requests - 1) / limit) * lengthMs;
  return Math.max(evenly, bursts);
}

// The state of a run for progress bars: filled by its events, read for drawing.

/** One sweep as the bars see it. */
interface SweepProgress extends PlannedSweep {
  readonly phase: 'planned' | 'open' | 'ended';
  /** Answers so far. */
  readonly pages: number;
  /** Rows received, at most as many as there are; once ended: distinct records. */
  readonly received: number;
  /** As the service reports; null where it reports none. */
  readonly count: number | null;
  /** Ended other than complete. */
  readonly isUnread: boolean;
}

export class RunProgress {
  readonly #sweeps = new Map<string, SweepProgress>();
  #openKinds: readonly Kind[] = [];
  #hasPlan = false;
  #isPublishing = false;

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
        // For a list that was never read, 0 known records means unknown.
        known: reading === 'each' || known > 0 ? known : (planned?.known ?? null),
        phase: 'open',
      });
    },
    sweepProgressed: ({ kind, scope, pages, received, count }) => {
      // Consecutive pages overlap: rows seen twice are not counted twice.
      this.#change(kind, scope, { pages, received: Math.min(received, count ?? received), count });
    },
    sweepEnded: ({ kind, scope, records, outcome }) => {
      this.#change(kind, scope, { phase: 'ended', received: records, isUnread: outcome !== 'complete' });
    },
    publishing: () => {
      this.#isPublishing = true;
    },
  };

  /** In catalog order. */
  get sweeps(): readonly SweepProgress[] {
    return [...this.#sweeps.values()].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  }

  get isPublishing(): boolean {
    return this.#isPublishing;
  }

  /** True when no further sweeps can turn up. */
  get isPlanWhole(): boolean {
    return this.#hasPlan && this.#openKinds.length === 0;
  }

  /**
   * Rows or parents that the sweep will have read in the end; null if unknown, as it always is for the newest pages of a
   * feed.
   */
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
