/** A record's revisions up to a point, with the looks at its collection in between: what log and blame read. */
import type { Sighting } from '../diff/history.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordRow, Revision } from '../mirror/records.ts';

export interface RecordHistory {
  /** Newest first; none where the record came later. */
  readonly revisions: readonly Revision[];
  /** The last published run before `run` that listed the record's whole collection; null where there was none. */
  readonly sightingBefore: (run: number) => Sighting | null;
  /** When the record was last seen there: at a look at its whole collection, or by its own revision. */
  readonly lastSeen: Sighting | null;
}

/** The history of a record as a reader of run `until` would have told it. */
export function recordHistory(mirror: Mirror, row: RecordRow, until: number): RecordHistory {
  const revisions = mirror.revisionsOf(row).filter(({ run }) => run <= until);
  const [newest] = revisions;
  const written = revisions.find(({ body }) => body !== null);
  const removed = newest?.body === null ? newest : null;
  return {
    revisions,
    sightingBefore: (run) => mirror.lastFullLook(row.collection, run) ?? null,
    lastSeen: written === undefined ? null : lastSeen(mirror, row, { written, removed }, until),
  };
}

/**
 * When a record was last seen, as a reader of run `until` would have told it: by its own revision, or at a later look at
 * its whole collection.
 */
export function lastSeen(
  mirror: Mirror,
  row: RecordRow,
  { written, removed }: { readonly written: Sighting; readonly removed: Sighting | null },
  until: number,
): Sighting {
  // Only a complete sweep of the whole list tells of every record: a walk from the head may have ended before it.
  const look = mirror.lastFullLook(row.collection, removed === null ? until + 1 : removed.run);
  return look === undefined || look.run < written.run ? { run: written.run, at: written.at } : look;
}
