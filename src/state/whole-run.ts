/**
 * The runs that freshness is judged by: those of all that the configuration includes. One that was narrowed to some kinds
 * is complete for these alone.
 */
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** A killed writer leaves its run without an end until the next one starts: a few of the newest may be such runs. */
const UNENDED_RUNS = 5;

/** The latest run of a source that read everything whole; null where none did. Retention keeps it (`mirror/retention.ts`). */
export function lastCompleteRun(mirror: Pick<Mirror, 'runs'>, source: string): RunRow | null {
  return mirror.runs.list({ source, outcome: 'complete', isOfAllKinds: true, limit: 1 })[0] ?? null;
}

/** The latest one that ended, however it did. */
export function lastEndedRunOfAllKinds(mirror: Pick<Mirror, 'runs'>, source: string): RunRow | null {
  const newest = mirror.runs.list({ source, isOfAllKinds: true, limit: UNENDED_RUNS });
  return newest.find(({ outcome }) => outcome !== 'running') ?? null;
}
