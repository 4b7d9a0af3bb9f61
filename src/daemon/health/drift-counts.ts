/** The drift of all sources as numbers: from a comparison now, or from the latest drift job. */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { severityCounts } from '../../report/drift-document.ts';
import { uncomparedCollections } from '../../report/notes.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { type DriftSummary, summaryOf } from '../jobs/summaries.ts';
import type { LastJobs } from '../last-jobs.ts';
import type { HealthSnapshot } from './health-facts.ts';

/** What is known of drift. */
export interface DriftCounts {
  readonly open: number;
  readonly severities: Readonly<Record<Severity, number>>;
  /** The sources with open findings; empty for a single source. */
  readonly bySource: readonly { readonly source: string; readonly open: number }[];
  /** The run that was compared; null with several sources. */
  readonly run: number | null;
  /** When that run ended, ISO 8601. */
  readonly at: string | null;
  /** The number of collections that could not be compared in their present state: each may hide drift. */
  readonly uncompared: number;
  /** Why the drift of a source is not known at all, neither now nor from an earlier job; null if that of all is known. */
  readonly unknown: UnknownDrift | null;
}

interface UnknownDrift {
  /** In a few words, for a tile, with all these sources. */
  readonly brief: string;
  /** In one line, for the first of these sources. */
  readonly reason: string;
}

/** Why the drift of a source could not be found. */
export interface DriftProblem {
  readonly source: string;
  /** In a few words, without the source. */
  readonly cause: string;
  /** In one line; with several sources it names the source. */
  readonly reason: string;
  /** The same with what to do. */
  readonly line: string;
  /** True if too much changed to compare it here: then the latest drift job shows what is open. */
  readonly isTooMuch: boolean;
}

/** The drift of each source, or why it could not be found. */
export interface FoundDrifts {
  readonly drifts: readonly SourceDrift[];
  readonly problems: readonly DriftProblem[];
}

/** The summary of the latest drift job, for a source of which too much changed to compare it now; null without one. */
function latestJobSummary({ source, isTooMuch }: DriftProblem, lastJobs: LastJobs): DriftSummary | null {
  if (!isTooMuch) return null;
  const job = lastJobs.finished('drift').find((each) => each.source === source);
  const summary = job === undefined ? null : summaryOf('drift', job);
  return summary?.hasBaseline === true ? summary : null;
}

/** Open findings of the sources whose drift is known. */
export function openBySource(
  { drifts, problems }: FoundDrifts,
  lastJobs: LastJobs,
): ReadonlyMap<string, Readonly<Record<Severity, number>>> {
  return new Map([
    ...drifts.map(({ source, open }) => [source, severityCounts(open)] as const),
    ...problems.flatMap((problem) => {
      const summary = latestJobSummary(problem, lastJobs);
      return summary === null ? [] : [[problem.source, summary.severities] as const];
    }),
  ]);
}

/** `drift` of a source in `tidemark.status/1`: null without a baseline, and if nothing was published. */
export function driftStatus(found: FoundDrifts, lastJobs: LastJobs, source: string): object | null {
  const severities = openBySource(found, lastJobs).get(source) ?? null;
  const problem = found.problems.find((each) => each.source === source);
  if (severities === null && problem === undefined) return null;
  return {
    open: severities === null ? null : SEVERITIES.reduce((sum, level) => sum + severities[level], 0),
    severities,
    unknown: severities === null ? (problem?.reason ?? null) : null,
  };
}

/** The numbers of findings, from a comparison now, or from the latest drift job if too much changed for that. */
export function driftCounts(snapshot: HealthSnapshot, found: FoundDrifts): DriftCounts | null {
  const { drifts, problems } = found;
  if (snapshot.mirror?.snapshots.baseline() === undefined) return null;
  if (drifts.length === 0 && problems.length === 0) return null;
  const severities = { critical: 0, high: 0, medium: 0, low: 0 };
  const counted = [...openBySource(found, snapshot.lastJobs)].map(([source, own]) => {
    for (const level of SEVERITIES) severities[level] += own[level];
    return { source, open: SEVERITIES.reduce((sum, level) => sum + own[level], 0) };
  });
  const isOne = drifts.length + problems.length === 1;
  const bySource = isOne ? [] : counted.filter(({ open }) => open > 0);
  const summaries = problems.map((problem) => latestJobSummary(problem, snapshot.lastJobs));
  const uncompared =
    drifts.reduce((sum, { document }) => sum + uncomparedCollections(document).length, 0) +
    summaries.reduce((sum, summary) => sum + (summary?.skipped ?? 0), 0);
  const unmeasured = problems.filter((_problem, index) => summaries[index] === null);
  const unknown = unknownOf(unmeasured, isOne);
  const open = Object.values(severities).reduce((sum, each) => sum + each, 0);
  const only = drifts.length === 1 && problems.length === 0 ? drifts[0]?.document.to : undefined;
  return { open, severities, bySource, run: only?.run ?? null, at: only?.at ?? null, uncompared, unknown };
}

/** @param isOne true for a single source, which need not be named */
function unknownOf(problems: readonly DriftProblem[], isOne: boolean): UnknownDrift | null {
  const [first] = problems;
  if (first === undefined) return null;
  const names = isOne ? '' : `${problems.map(({ source }) => source).join(', ')} `;
  const isSame = problems.every(({ cause }) => cause === first.cause);
  return { brief: `${names}not compared${isSame ? `: ${first.cause}` : ''}`, reason: first.reason };
}
