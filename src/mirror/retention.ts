/**
 * Decides which runs of the history are kept and which are forgotten. Pure. The rules are restic's: a run is kept if any rule
 * keeps it. They count published runs, separately for each source, in UTC.
 */
import type { RetentionPolicy } from '../config/config.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RunOutcome } from './sweep-result.ts';

interface RetentionRun {
  readonly run: number;
  readonly source: string;
  readonly outcome: RunOutcome;
  /** The only kinds that it read; null, or left out, for a run of all kinds. */
  readonly kinds?: readonly Kind[] | null;
  readonly startedAt: string;
  readonly finishedAt: string | null;
}

interface RetentionSnapshot {
  readonly name: string;
  readonly run: number;
  readonly isBaseline: boolean;
}

interface RetentionInput {
  /** All runs of the mirror. */
  readonly runs: readonly RetentionRun[];
  readonly snapshots: readonly RetentionSnapshot[];
  readonly policy: RetentionPolicy;
  /** Only runs of these sources may be forgotten; by default of all. */
  readonly sources?: readonly string[];
}

interface KeptRun {
  readonly run: number;
  readonly source: string;
  /** When it ended. */
  readonly at: string;
  /**
   * `latest`, `complete` (the latest run that read everything), `last`, `hourly`, …, `within`, `snapshot:NAME`, `baseline`;
   * `beside snapshot:NAME` or `beside run:N` if the snapshot, or the kept run of another source, shows this run's state of its source.
   */
  readonly reasons: readonly string[];
}

interface ForgottenRun {
  readonly run: number;
  readonly source: string;
  readonly at: string;
  readonly outcome: RunOutcome;
  /** The next kept run of its source, into which it is merged; null if it was never published, and so has no changes. */
  readonly into: number | null;
}

/** Both by source, then newest first. */
export interface RetentionPlan {
  readonly kept: readonly KeptRun[];
  readonly forgotten: readonly ForgottenRun[];
}

const DAY_MS = 86_400_000;

/** The number of the hour, day, … of a time. */
const PERIODS = {
  hourly: (at) => Math.floor(at / 3_600_000),
  daily: (at) => Math.floor(at / DAY_MS),
  // The epoch was a Thursday; weeks begin on Monday.
  weekly: (at) => Math.floor((Math.floor(at / DAY_MS) + 3) / 7),
  monthly: (at) => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth(),
  yearly: (at) => new Date(at).getUTCFullYear(),
} as const satisfies Record<string, (at: number) => number>;

/**
 * Decides about all runs. Always kept are each source's latest published run, its latest complete one (from which freshness is
 * measured), all pinned runs, and for each kept run the runs of other sources whose states it shows. The last rule is not applied
 * again to runs that are kept only because of it. All runs of sources that are not selected are kept, so that little of one source
 * can be dropped alone if sources take turns. A run that was never published is forgotten if nothing older is kept.
 * @throws TidemarkError `usage` for a policy that keeps nothing, or counts that are not integers
 */
export function planRetention(input: RetentionInput): RetentionPlan {
  checkPolicy(input.policy);
  const bySource = Map.groupBy(
    input.runs.filter(({ source }) => input.sources?.includes(source) ?? true),
    ({ source }) => source,
  );
  const own = new Map<string, Map<number, string[]>>();
  for (const [source, runs] of bySource)
    own.set(source, reasonsFor(newestFirst(runs).filter(isPublished), input));
  const shown = input.runs.filter(
    (row) => isPublished(row) && (own.get(row.source)?.has(row.run) ?? !bySource.has(row.source)),
  );
  const kept: KeptRun[] = [];
  const forgotten: ForgottenRun[] = [];
  for (const source of [...bySource.keys()].sort()) {
    const runs = newestFirst(bySource.get(source) ?? []);
    const reasons = withBeside(own.get(source) ?? new Map(), runs.filter(isPublished), {
      shown: newestFirst(shown),
      snapshots: input.snapshots,
    });
    let into: number | null = null;
    const oldest = Math.min(...reasons.keys());
    for (const row of runs) {
      const { run, outcome } = row;
      const facts = { run, source, at: row.finishedAt ?? row.startedAt };
      const why = reasons.get(run);
      if (why !== undefined) {
        kept.push({ ...facts, reasons: why });
        into = run;
      } else if (isPublished(row)) forgotten.push({ ...facts, outcome, into });
      else if (outcome !== 'running' && run < oldest && reasons.size > 0) {
        forgotten.push({ ...facts, outcome, into: null });
      }
    }
  }
  return { kept, forgotten };
}

/** Why runs of one source are kept. @param published its published runs, newest first */
function reasonsFor(
  published: readonly RetentionRun[],
  { policy, snapshots }: RetentionInput,
): Map<number, string[]> {
  const reasons = new Map<number, string[]>();
  const keep = (row: RetentionRun | undefined, reason: string): void => {
    if (row === undefined) return;
    reasons.set(row.run, [...(reasons.get(row.run) ?? []), reason]);
  };
  const [latest] = published;
  keep(latest, 'latest');
  const whole = published.find(({ outcome, kinds }) => outcome === 'complete' && (kinds ?? null) === null);
  if (whole !== latest) keep(whole, 'complete');
  for (const row of published.slice(0, policy.last ?? 0)) keep(row, 'last');
  for (const rule of Object.keys(PERIODS) as (keyof typeof PERIODS)[]) {
    const seen = new Set<number>();
    for (const row of published) {
      if (seen.size >= (policy[rule] ?? 0)) break;
      const period = PERIODS[rule](timeOf(row));
      if (!seen.has(period)) keep(row, rule);
      seen.add(period);
    }
  }
  const { withinMs = 0 } = policy;
  if (withinMs > 0 && latest !== undefined) {
    const since = timeOf(latest) - withinMs;
    for (const row of published) if (timeOf(row) >= since) keep(row, 'within');
  }
  for (const { name, run, isBaseline } of snapshots) {
    const own = published.find((row) => row.run === run);
    keep(own, `snapshot:${name}`);
    if (isBaseline) keep(own, 'baseline');
  }
  return reasons;
}

/** @throws TidemarkError `usage` for a policy that keeps nothing, or counts that are not integers */
export function checkPolicy(policy: RetentionPolicy): void {
  const counts = Object.values(policy) as number[];
  if (counts.some((value) => !Number.isSafeInteger(value) || value < 0)) {
    throw new TidemarkError('usage', 'retention rules take whole numbers, 0 or more', {
      hint: 'for example --keep-last 7 --keep-daily 30',
    });
  }
  if (counts.some((value) => value > 0)) return;
  throw new TidemarkError('usage', 'no rule says what to keep: nothing was forgotten', {
    hint: 'give at least one, for example --keep-last 7 --keep-daily 30, or set `retention` in the configuration; --dry-run shows what would go',
  });
}

function newestFirst(runs: readonly RetentionRun[]): RetentionRun[] {
  return runs.toSorted((a, b) => b.run - a.run);
}

/** Adds runs that snapshots and kept runs of other sources show. @param published of one source @param shown all kept runs */
function withBeside(
  own: ReadonlyMap<number, string[]>,
  published: readonly RetentionRun[],
  { shown, snapshots }: { shown: readonly RetentionRun[]; snapshots: readonly RetentionSnapshot[] },
): Map<number, string[]> {
  const reasons = new Map(own);
  for (const { name, run } of snapshots) {
    const beside = published.find((row) => row.run <= run);
    if (beside === undefined || beside.run === run) continue;
    reasons.set(beside.run, [...(reasons.get(beside.run) ?? []), `beside snapshot:${name}`]);
  }
  let at = 0;
  for (const { run, source } of shown) {
    while ((published[at]?.run ?? -1) > run) at += 1;
    const beside = published[at];
    if (beside === undefined) break;
    if (source !== beside.source && !reasons.has(beside.run)) reasons.set(beside.run, [`beside run:${run}`]);
  }
  return reasons;
}

function isPublished({ outcome }: RetentionRun): boolean {
  return outcome === 'complete' || outcome === 'partial';
}

function timeOf(row: RetentionRun): number {
  return Date.parse(row.finishedAt ?? row.startedAt);
}

/** Run numbers as ranges, ascending: `[[1,40],[42,42]]`. */
export function rangesOf(runs: readonly number[]): [first: number, last: number][] {
  const ranges: [number, number][] = [];
  for (const run of runs.toSorted((a, b) => a - b)) {
    const open = ranges.at(-1);
    if (open !== undefined && open[1] === run - 1) open[1] = run;
    else ranges.push([run, run]);
  }
  return ranges;
}
