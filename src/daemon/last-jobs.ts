/** The latest ended job of each name and source. */
import { compareTexts } from '../catalog/order.ts';
import type { JobName, JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { summaryOf } from './jobs/summaries.ts';

/** The latest jobs. With many mirrors, of all of them. */
export interface LastJobs {
  /** The latest of a name, one for each source in order of the names; that of the mirror as a whole first. */
  of(name: JobName): readonly JobRow[];
  /** The latest of a source; null for the mirror as a whole. */
  one(name: JobName, source: string | null): JobRow | null;
  /** The latest of each source that did not fail and was not interrupted. */
  finished(name: JobName): readonly JobRow[];
  /**
   * The verification of each mirror that counts: the latest; if that did not complete and the one before it found problems, that one.
   */
  readonly verifications: readonly JobRow[];
  /**
   * The jobs that found the mirror damaged, oldest first, until a verification or the check of a backup succeeds: whatever the same jobs
   * did since, and whatever is configured now.
   */
  readonly damaged: readonly JobRow[];
}

/** Reads the latest jobs. @param sources only of these, and of the mirror as a whole; if left out, of all */
export function readLastJobs(mirror: Mirror, sources?: readonly string[]): LastJobs {
  const isOwn = ({ source }: JobRow): boolean =>
    source === null || sources === undefined || sources.includes(source);
  const newest = mirror.daemon.newestJobs().filter(isOwn);
  const ended = newest.flatMap((row): JobRow[] => {
    if (row.outcome !== 'running') return [row];
    // Only the newest of a name and source can be running.
    return mirror.daemon
      .jobs({ name: row.name, source: row.source, limit: 2 })
      .filter(({ outcome }) => outcome !== 'running');
  });
  const [verify] = ended.filter(({ name }) => name === 'verify');
  const before = mirror.daemon.lastVerification();
  const hasFound = before !== undefined && (summaryOf('verify', before)?.problems ?? 0) > 0;
  const isCut = verify !== undefined && summaryOf('verify', verify) === null;
  const verification = isCut && hasFound && isOwn(before) ? before : verify;
  const finished = new Map<JobName, readonly JobRow[]>();
  return {
    of: (name) => ended.filter((row) => row.name === name),
    one: (name, source) => ended.find((row) => row.name === name && row.source === source) ?? null,
    finished: (name) => {
      const known = finished.get(name) ?? mirror.daemon.newestFinishedJobs(name).filter(isOwn);
      finished.set(name, known);
      return known;
    },
    verifications: verification === undefined ? [] : [verification],
    damaged: mirror.daemon.damagedJobs().filter(isOwn),
  };
}

/** The same with the jobs that could not be recorded. */
export function withUnwritten(jobs: LastJobs, unwritten: readonly JobRow[]): LastJobs {
  const isSame = (a: JobRow, b: JobRow): boolean => a.name === b.name && a.source === b.source;
  const of = (name: JobName): readonly JobRow[] => {
    const written = jobs.of(name);
    const newer = unwritten.filter((row) => {
      const known = written.find((each) => isSame(each, row));
      return row.name === name && (known === undefined || known.startedAt <= row.startedAt);
    });
    return [...written.filter((row) => !newer.some((each) => isSame(each, row))), ...newer].toSorted((a, b) =>
      compareTexts(a.source ?? '', b.source ?? ''),
    );
  };
  return {
    ...jobs,
    of,
    one: (name, source) => of(name).find((row) => row.source === source) ?? null,
  };
}

/** The scores of the last drill of a source and the one before, 0 to 1; null if there was none. */
export interface DrillScores {
  readonly last: number | null;
  readonly before: number | null;
}

/** A smaller fall of the score may be a single new record with a secret. The same as in the alert TidemarkDrillFell. @internal */
export const DRILL_FALL = 0.05;

/** True if a drill restores less than one before it, and somebody should find out why. */
export function hasDrillFallen(score: number, before: number): boolean {
  return score < before - DRILL_FALL;
}

/** The scores by source; an empty name for a drill without one. */
export function readDrillScores(mirror: Mirror, jobs: LastJobs): ReadonlyMap<string, DrillScores> {
  return new Map(jobs.of('drill').map(({ source }) => [source ?? '', drillScores(mirror, source)]));
}

function drillScores(mirror: Mirror, source: string | null): DrillScores {
  const scores = mirror.daemon
    .jobs({ name: 'drill', source, limit: 10 })
    .flatMap((row) => summaryOf('drill', row)?.score ?? []);
  return { last: scores[0] ?? null, before: scores[1] ?? null };
}
