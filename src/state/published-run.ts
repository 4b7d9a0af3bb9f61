/** Runs whose state the mirror holds, and the one before each. */
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** True for a run whose state the mirror holds. */
export function isPublished({ root, outcome }: RunRow): boolean {
  return root !== null && (outcome === 'complete' || outcome === 'partial');
}

/** The run of the same source that was published last before this one. */
export function previousRun(mirror: Mirror, run: RunRow): RunRow | undefined {
  return mirror.runs.list({ source: run.source, isPublished: true, upTo: run.run - 1, limit: 1 })[0];
}
