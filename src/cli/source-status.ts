/** What the mirror knows of how fresh and how whole its copy of a source is, and what that asks of a person. */
import type { HeldRemovals } from '../mirror/held-removals.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';
import { oldestOf } from './collection-groups.ts';

/**
 * `never_synced`: no run yet. `unpublished`: runs, of which none could be published. `whole`: the latest run that ended
 * was complete, so was the latest look at every collection, and no removal waits. `partial`: anything else; the mirror
 * holds a copy, and part of it is old, incomplete or in doubt.
 */
export type SourceState = 'never_synced' | 'unpublished' | 'whole' | 'partial';

export interface SourceStatus {
  readonly source: string;
  /** False for what the mirror holds of a source that the configuration no longer names. */
  readonly isConfigured: boolean;
  readonly state: SourceState;
  readonly lastRun: RunRow | null;
  /** Null while the only runs have not ended. */
  readonly lastEnded: RunRow | null;
  readonly lastPublished: RunRow | null;
  /** The latest run in which everything was read; null where none of the latest 500 was. */
  readonly lastComplete: RunRow | null;
  /** When the collection that waited longest was last whole, ISO 8601; null where one never was, or there is none. */
  readonly oldestWholeAt: string | null;
  readonly records: number;
  readonly collections: readonly CollectionRow[];
  /** Removals that wait for a person or for the same finding again. */
  readonly held: readonly HeldRemovals[];
  /** What the latest published run found of fields that the service gained, lost or retyped. */
  readonly schemaChanges: readonly SchemaChange[];
}

/** Runs looked through for the latest complete one. */
const RUNS_LOOKED_THROUGH = 500;
/** A run that began longer ago and has not ended is taken for dead: the next writer of the mirror will say so. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1000;

export function sourceStatus(
  mirror: Mirror,
  source: string,
  facts: { readonly isConfigured: boolean; readonly now: number },
): SourceStatus {
  const runs = mirror.runs({ source, limit: RUNS_LOOKED_THROUGH });
  const lastPublished = mirror.latestRun(source) ?? null;
  const collections = mirror.collectionsOf(source).filter(({ retiredRun }) => retiredRun === null);
  const known = {
    source,
    isConfigured: facts.isConfigured,
    lastRun: runs[0] ?? null,
    lastEnded: runs.find(({ outcome }) => outcome !== 'running') ?? null,
    lastPublished,
    lastComplete: runs.find(({ outcome }) => outcome === 'complete') ?? null,
    oldestWholeAt: oldestOf(collections.map(({ lastCompleteAt }) => lastCompleteAt)),
    records: collections.reduce((sum, { records }) => sum + records, 0),
    collections,
    held: mirror.heldRemovals(source),
    schemaChanges: lastPublished === null ? [] : mirror.schemaChanges({ source, run: lastPublished.run }),
  };
  return { ...known, state: stateOf(known, facts.now) };
}

/** True when the latest look at the collection proved its list whole. */
export function isWhole(collection: CollectionRow): boolean {
  return collection.lastOutcome === 'complete';
}

/** True for a run that has not ended in longer than any run takes. */
export function isStuck(run: RunRow, now: number): boolean {
  return run.outcome === 'running' && now - Date.parse(run.startedAt) > LONGEST_RUN_MS;
}

function stateOf(
  { lastRun, lastEnded, lastPublished, collections, held }: Omit<SourceStatus, 'state'>,
  now: number,
): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  // A run under way takes nothing from what is there.
  const isDone = lastEnded?.outcome === 'complete' && !isStuck(lastRun, now);
  return isDone && held.length === 0 && collections.every(isWhole) ? 'whole' : 'partial';
}
