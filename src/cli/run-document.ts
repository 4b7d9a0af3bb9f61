/** A run of the mirror as JSON documents show it. */
import type { RunRow } from '../mirror/run-rows.ts';

export function runDocument(run: RunRow): object {
  return {
    run: run.run,
    source: run.source,
    trigger: run.trigger,
    outcome: run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    root: run.root,
    error: run.errorCode === null ? null : { code: run.errorCode, message: run.error },
  };
}
