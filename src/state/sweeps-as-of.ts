/** What the mirror had seen of each collection by a run: the last sweep up to it, and whether any had read it. */
import { collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import { wasRead } from '../sync/outcome.ts';

export interface SeenCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  /** The last run up to that one which tried; null for none, or where retention dropped it. */
  readonly lastRun: number | null;
  readonly outcome: SweepOutcome | null;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  readonly wasRead: boolean;
  /** The last run up to that one which read it. */
  readonly readRun: number | null;
  /** The last run up to that one which read it whole; null where none is known. */
  readonly completeRun: number | null;
}

/** In catalog order, then by scope. */
export function sweepsAsOf(mirror: Mirror, source: string, run: number): SeenCollection[] {
  const collections = mirror.runs.collections(source);
  // Without a later sweep the collections' own rows say it all, and a long history need not be read.
  if (collections.every(({ lastRun }) => lastRun === null || lastRun <= run))
    return collections.map(seenLast);
  const sweeps = new Map<string, SeenCollection>(
    mirror.runs
      .sweepsAsOf(source, run)
      .map((row) => [collectionKey(row), { ...row, wasRead: row.readRun !== null }]),
  );
  return collections.map((collection) => {
    if (collection.lastRun !== null && collection.lastRun <= run) return seenLast(collection);
    const { kind, scope, lastCompleteRun } = collection;
    const found = sweeps.get(collectionKey({ kind, scope }));
    const isRead = lastCompleteRun !== null && lastCompleteRun <= run;
    // Retention drops the sweeps of forgotten runs; the collection still knows its last whole reading.
    if (found !== undefined) return isRead ? { ...found, completeRun: lastCompleteRun } : found;
    return {
      kind,
      scope,
      lastRun: isRead ? lastCompleteRun : null,
      outcome: isRead ? 'complete' : null,
      errorCode: null,
      error: null,
      wasRead: isRead,
      readRun: isRead ? lastCompleteRun : null,
      completeRun: isRead ? lastCompleteRun : null,
    };
  });
}

function seenLast(row: CollectionRow): SeenCollection {
  const isRead = row.lastOutcome !== null && wasRead({ outcome: row.lastOutcome });
  return {
    kind: row.kind,
    scope: row.scope,
    lastRun: row.lastRun,
    outcome: row.lastOutcome,
    errorCode: row.lastErrorCode,
    error: row.lastError,
    wasRead: isRead || row.lastCompleteRun !== null || row.records > 0,
    readRun: isRead ? row.lastRun : row.lastCompleteRun,
    completeRun: row.lastCompleteRun,
  };
}
