/** `tidemark.status/1`: the status of every source as one JSON document. */
import { nextSteps } from './next-steps.ts';
import { runDocument } from './run-document.ts';
import type { SourceStatus } from './source-status.ts';

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
export function statusDocument(mirror: string, sources: readonly SourceStatus[]): object {
  return {
    schema: 'tidemark.status/1',
    mirror,
    sources: sources.map((status) => ({
      source: status.source,
      is_configured: status.isConfigured,
      state: status.state,
      records: status.records,
      oldest_whole_at: status.oldestWholeAt,
      last_run: status.lastRun === null ? null : runDocument(status.lastRun),
      last_published_run: status.lastPublished === null ? null : runDocument(status.lastPublished),
      last_complete_run: status.lastComplete === null ? null : runDocument(status.lastComplete),
      held_removals: status.held,
      schema_changes: status.schemaChanges.map(({ run, kind, field, change, before, after }) => ({
        run,
        kind,
        field,
        change,
        before,
        after,
      })),
      next_steps: nextSteps(status, sources.length > 1),
      collections: status.collections.map((collection) => ({
        kind: collection.kind,
        scope: collection.scope,
        records: collection.records,
        outcome: collection.lastOutcome,
        last_complete:
          collection.lastCompleteRun === null
            ? null
            : { run: collection.lastCompleteRun, at: collection.lastCompleteAt },
        last_full:
          collection.lastFullRun === null ? null : { run: collection.lastFullRun, at: collection.lastFullAt },
        error:
          collection.lastErrorCode === null
            ? null
            : { code: collection.lastErrorCode, message: collection.lastError },
      })),
    })),
  };
}
