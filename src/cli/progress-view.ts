/** What the bars show at one instant, worked out from a run's state and the client's figures. Pure. */
import type { KindUse, RequestStats, WindowUse } from '../api/request-stats.ts';
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import { requestsLeft, timeLeft } from './progress-left.ts';
import type { RunProgress, SweepProgress } from './progress-state.ts';

export interface KindView {
  readonly kind: Kind;
  readonly received: number;
  /** Null where nobody can say. */
  readonly expected: number | null;
  readonly lists: number;
  readonly listsEnded: number;
}

export interface ProgressView {
  /** Under way, in catalog order. */
  readonly kinds: readonly KindView[];
  readonly kindsDone: number;
  /** Of those done: not read whole. */
  readonly kindsTroubled: number;
  readonly kindsToCome: number;
  /** Of the whole run's requests, 0 to 1; null where nobody can say. */
  readonly share: number | null;
  readonly records: number;
  readonly recordsPerSecond: number;
  readonly requests: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Of the limits that kinds under way or to come have of their own. */
  readonly kindLimits: readonly KindUse[];
  /** `isLeast`: at least so long. Null where nothing can be said. */
  readonly left: { readonly ms: number; readonly isLeast: boolean } | null;
  readonly waiting: { readonly ms: number; readonly on: 'service' | 'limit' } | null;
  readonly isPublishing: boolean;
}

interface ViewInput {
  readonly progress: RunProgress;
  readonly figures: RequestStats;
  /** Epoch milliseconds. */
  readonly now: number;
  /** See `PaceMeter`. */
  readonly requestMs: number | null;
  readonly recordsPerSecond: number;
  /** As configured: what a page brings until the first came, and the limit before the service asked for less. */
  readonly pageSize: number;
  readonly perMinute: number;
}

export function progressView(input: ViewInput): ProgressView {
  const { progress, figures, now } = input;
  const { sweeps } = progress;
  const byKind = [...Map.groupBy(sweeps, ({ kind }) => kind)];
  const waitMs = Math.max(0, (figures.waitingUntil ?? now) - now);
  const work = workLeft(input);
  const ofKinds = (figures.kinds ?? []).flatMap((use) => {
    const requests = use.kinds.reduce((sum, kind) => sum + (work.byKind.get(kind) ?? 0), 0);
    return requests === 0 ? [] : [{ use, requests }];
  });
  const ms = timeLeft(work.requests, {
    requestMs: input.requestMs,
    perMinute: figures.perMinute,
    perHour: figures.perHour,
    kinds: ofKinds.map(({ use: { perMinute, perHour }, requests }) => ({ requests, perMinute, perHour })),
    waitMs,
  });
  const done = byKind.filter(([, of]) => of.every(({ phase }) => phase === 'ended'));
  const isSlowed = figures.perMinute.limit > 0 && figures.perMinute.limit !== input.perMinute;
  return {
    kinds: byKind
      .filter(([, of]) => of.some(isUnderWay(of)))
      .map(([kind, of]) => kindView(progress, kind, of)),
    kindsDone: done.length,
    kindsTroubled: done.filter(([, of]) => of.some(({ isTroubled }) => isTroubled)).length,
    kindsToCome: byKind.filter(([, of]) => of.every(({ phase }) => phase === 'planned')).length,
    share: work.isWhole ? work.answered / Math.max(1, work.answered + work.requests) : null,
    records: sweeps.reduce((sum, { received }) => sum + received, 0),
    recordsPerSecond: input.recordsPerSecond,
    requests: figures.requests,
    perMinute: figures.perMinute,
    perHour: figures.perHour,
    kindLimits: ofKinds.map(({ use }) => use),
    left: ms === null ? null : { ms, isLeast: !work.isWhole },
    waiting: waitMs === 0 ? null : { ms: waitMs, on: isSlowed ? 'service' : 'limit' },
    isPublishing: progress.isPublishing,
  };
}

/** A kind is under way from its first sweep's beginning to its last one's end. */
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

/** Requests answered and to come; what nobody can say counts as one, and then the work is not whole. */
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
