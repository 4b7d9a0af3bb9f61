/** What the mirror knows of how fresh and how whole its copy of a source is, and what that asks of a person. */
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import type { ShownStatus, SourceState } from '../state/status-document.ts';
import { lastCompleteRun, lastEndedRunOfAllKinds } from '../state/whole-run.ts';
import { oldestOf } from './collection-groups.ts';

export interface SourceStatus extends ShownStatus {
  /** Null while the only runs have not ended. */
  readonly lastEnded: RunRow | null;
  /** The same of runs that were not narrowed to some kinds. */
  readonly lastWholeEnded: RunRow | null;
}

/** A writer that died leaves its run unended until the next one comes: a few may lie on top. */
const UNENDED_RUNS = 5;
/** A run that began longer ago and has not ended is taken for dead: the next writer of the mirror will say so. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1000;

export function sourceStatus(
  mirror: Mirror,
  source: string,
  facts: { readonly isConfigured: boolean; readonly now: number },
): SourceStatus {
  const runs = mirror.runs({ source, limit: UNENDED_RUNS });
  const lastPublished = mirror.latestRun(source) ?? null;
  const collections = mirror.collectionsOf(source).filter(({ retiredRun }) => retiredRun === null);
  const known = {
    source,
    isConfigured: facts.isConfigured,
    lastRun: runs[0] ?? null,
    lastEnded: runs.find(({ outcome }) => outcome !== 'running') ?? null,
    lastPublished,
    lastWholeEnded: lastEndedRunOfAllKinds(mirror, source),
    lastComplete: lastCompleteRun(mirror, source),
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
  { lastRun, lastEnded, lastWholeEnded, lastPublished, collections, held }: Omit<SourceStatus, 'state'>,
  now: number,
): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  // A run under way takes nothing from what is there.
  const isDone =
    lastEnded?.outcome === 'complete' && lastWholeEnded?.outcome === 'complete' && !isStuck(lastRun, now);
  return isDone && held.length === 0 && collections.every(isWhole) ? 'whole' : 'partial';
}
