/** Runs and sources as JSON documents show them: `tidemark.runs/1`, `tidemark.status/1` and all that name a run. */
import type { HeldRemovals } from '../mirror/held-removals.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, CollectionRow } from '../mirror/run-rows.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';

export function runDocument(run: RunRow): object {
  return {
    run: run.run,
    source: run.source,
    trigger: run.trigger,
    kinds: run.kinds,
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
    error: errorDocument(run),
  };
}

/** Why a run, a sweep or a job did not do what it should; null where it did. */
export function errorDocument({
  errorCode,
  error,
}: {
  readonly errorCode: string | null;
  readonly error: string | null;
}): object | null {
  return errorCode === null ? null : { code: errorCode, message: error };
}

/**
 * `never_synced`: no run yet. `unpublished`: runs, of which none could be published. `whole`: the latest run that ended
 * was complete, so was the latest one of all kinds and the latest look at every collection, and no removal waits.
 * `partial`: anything else; the mirror holds a copy, and part of it is old, incomplete or in doubt.
 */
export type SourceState = 'never_synced' | 'unpublished' | 'whole' | 'partial';

export interface ShownStatus {
  readonly source: string;
  /** False for what the mirror holds of a source that the configuration no longer names. */
  readonly isConfigured: boolean;
  readonly state: SourceState;
  readonly records: number;
  /** When the collection that waited longest was last whole, ISO 8601; null where one never was, or there is none. */
  readonly oldestWholeAt: string | null;
  readonly lastRun: RunRow | null;
  readonly lastPublished: RunRow | null;
  /** Of all kinds: a run of some kinds does not show the state of the others. */
  readonly lastComplete: RunRow | null;
  /** Removals that wait for a person or for the same finding again. */
  readonly held: readonly HeldRemovals[];
  /** What the runs of the last 30 days found of fields that the service gained, lost or retyped; newest run first. */
  readonly schemaChanges: readonly DatedSchemaChange[];
  readonly collections: readonly CollectionRow[];
}

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
export function sourceDocument(status: ShownStatus, nextSteps: readonly string[]): object {
  const runOf = (run: RunRow | null): object | null => (run === null ? null : runDocument(run));
  return {
    source: status.source,
    is_configured: status.isConfigured,
    state: status.state,
    records: status.records,
    oldest_whole_at: status.oldestWholeAt,
    last_run: runOf(status.lastRun),
    last_published_run: runOf(status.lastPublished),
    last_complete_run: runOf(status.lastComplete),
    held_removals: status.held,
    schema_changes: status.schemaChanges.map((found) => ({
      run: found.run,
      ...(found.at === undefined ? {} : { at: found.at }),
      kind: found.kind,
      field: found.field,
      change: found.change,
      before: found.before,
      after: found.after,
    })),
    next_steps: nextSteps,
    collections: status.collections.map(collectionDocument),
  };
}

function collectionDocument(collection: CollectionRow): object {
  const { lastCompleteRun, lastFullRun, lastErrorCode, lastError } = collection;
  return {
    kind: collection.kind,
    scope: collection.scope,
    records: collection.records,
    outcome: collection.lastOutcome,
    last_complete: lastCompleteRun === null ? null : { run: lastCompleteRun, at: collection.lastCompleteAt },
    last_full: lastFullRun === null ? null : { run: lastFullRun, at: collection.lastFullAt },
    error: errorDocument({ errorCode: lastErrorCode, error: lastError }),
  };
}

// Changes of the form of records that are still news: a later run without any does not hide them.

const RECENT_MS = 30 * 24 * 60 * 60 * 1000;

/** A change of form and when the run that found it ended. */
interface DatedSchemaChange extends SchemaChange {
  /** ISO 8601. */
  readonly at?: string;
}

/** What the published runs of a source found in the last 30 days, newest run first. `now` in milliseconds. */
export function recentSchemaChanges(
  mirror: Pick<Mirror, 'runs'>,
  source: string,
  now: number,
): DatedSchemaChange[] {
  const times = new Map<number, string | undefined>();
  const recent: DatedSchemaChange[] = [];
  for (const change of mirror.runs.schemaChanges({ source })) {
    if (!times.has(change.run)) {
      const run = mirror.runs.get(change.run);
      times.set(change.run, run?.finishedAt ?? run?.startedAt);
    }
    const at = times.get(change.run);
    // Newest first: what comes now is older still.
    if (at !== undefined && now - Date.parse(at) > RECENT_MS) break;
    recent.push({ ...change, ...(at === undefined ? {} : { at }) });
  }
  return recent;
}
