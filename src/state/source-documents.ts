/** The status of sources as `tidemark.status/1` has it. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import { defined } from '../core/defined.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow, SourceMove } from '../mirror/run-rows.ts';
import { latestUnfinished, type RunningRestore, runningRestore } from '../mirror/unfinished-restore.ts';
import { errorDocument, runDocument, type RunProgress } from './documents.ts';
import {
  type DatedSchemaChange,
  isStuck,
  nextSteps,
  recentMove,
  recentSchemaChanges,
  type SourceStatus,
  withLiveness,
} from './source-status.ts';
import { type UnaskedInRun, unaskedInRun } from './unasked.ts';

/** What the document of a source has in addition to its status. */
export interface LivingFacts {
  /** What the running sync has read so far; null if there is none, or if it is unknown. */
  readonly progressOf: (source: string) => RunProgress | null;
  /** Open findings of drift, or why they are unknown; null if drift is not measured. */
  readonly driftOf: (source: string) => object | null;
}

/**
 * The `sources` of `tidemark.status/1`. Keys may be added within the version, never renamed. Times are ISO 8601 UTC.
 * @param hasOthers as in `nextSteps`
 */
export function sourceDocuments(
  mirror: Mirror,
  statuses: readonly SourceStatus[],
  { now, hasOthers }: { readonly now: number; readonly hasOthers: boolean },
  living: LivingFacts,
): object[] {
  return statuses.map((status) => {
    const collections = mirror.runs
      .collections(status.source)
      .filter(({ retiredRun }) => retiredRun === null);
    const sizes = new Map(collections.map((each) => [collectionKey(each), each.records]));
    const leftOut = unaskedInRun(mirror, status.source, mirror.runs.latest(status.source)?.run ?? 0);
    const known = withLiveness(mirror, status);
    const isAtWork = known.isAtWork && status.lastRun !== null && !isStuck(status.lastRun, now);
    return {
      ...sourceSummary(known.status, hasOthers, living, isAtWork),
      running_restore: runningRestoreDocument(
        runningRestore(mirror, latestUnfinished(mirror, status.source)),
      ),
      moved: moveDocument(recentMove(mirror, status.source, now)),
      schema_changes: recentSchemaChanges(mirror, status.source, now).map(schemaChangeDocument),
      collections: collections.map((each) => collectionDocument(each, sizes, leftOut)),
    };
  });
}

/**
 * The same without reading the mirror: null for what would have to be read from it.
 * @param isAtWork as in `nextSteps`; by default true if a daemon reports progress
 */
export function sourceSummary(
  status: SourceStatus,
  hasOthers: boolean,
  { progressOf, driftOf }: LivingFacts,
  isAtWork = progressOf(status.source) !== null,
): object {
  const progress = progressOf(status.source);
  const runOf = (run: RunRow | null): object | null => (run === null ? null : runDocument(run, progress));
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
    restored_since: status.unreadRestore?.restore ?? null,
    running_restore: null,
    sampled: status.sampledKinds.map(({ kind, read, of }) => ({ kind, read, of })),
    not_read: status.unasked,
    drift: driftOf(status.source),
    moved: null,
    schema_changes: null,
    next_steps: nextSteps(status, hasOthers, isAtWork),
    collections: null,
  };
}

function runningRestoreDocument(running: RunningRestore | null): object | null {
  if (running === null) return null;
  const { restore, since, steps, ended, lastAt } = running;
  return { restore, since, steps, ended_steps: ended, last_at: lastAt };
}

function schemaChangeDocument({ run, at, kind, field, change, before, after }: DatedSchemaChange): object {
  return { run, ...defined({ at }), kind, field, change, before, after };
}

function collectionDocument(
  collection: CollectionRow,
  sizes: ReadonlyMap<string, number>,
  leftOut: UnaskedInRun,
): object {
  const { reading, discovery } = definitionOf(collection.kind);
  const of =
    reading === 'each' && discovery.from !== 'root'
      ? (sizes.get(collectionKey({ kind: discovery.from, scope: collection.scope })) ?? 0)
      : 0;
  const { lastCompleteRun, lastFullRun, lastErrorCode, lastError } = collection;
  const unasked = leftOut.of(collection.kind, collection.scope);
  return {
    kind: collection.kind,
    scope: collection.scope,
    records: collection.records,
    sampled_of: collection.records < of ? of : null,
    outcome: collection.lastOutcome,
    not_read: unasked === undefined ? null : { reason: unasked.reason, run: unasked.readRun },
    last_complete: lastCompleteRun === null ? null : { run: lastCompleteRun, at: collection.lastCompleteAt },
    last_full: lastFullRun === null ? null : { run: lastFullRun, at: collection.lastFullAt },
    error: errorDocument({ errorCode: lastErrorCode, error: lastError }),
  };
}

function moveDocument(move: SourceMove | null): object | null {
  return move === null ? null : { from: move.from, to: move.to, run: move.run, until_run: move.until };
}
