/** A record's revisions up to a point, with the looks at its collection in between: what show, log and blame read. */
import { scopeKey } from '../catalog/catalog.ts';
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
  const collection = mirror
    .collectionsOf(row.source)
    .find(({ kind, scope }) => kind === row.kind && scopeKey(scope) === scopeKey(row.scope));
  const sightingBefore = (run: number): Sighting | null =>
    collection === undefined ? null : fullLook(mirror, collection.id, run);
  const [newest] = revisions;
  const present = revisions.find(({ body }) => body !== null);
  const end = newest?.body === null ? newest.run : until + 1;
  return { revisions, sightingBefore, lastSeen: latest(present, sightingBefore(end)) };
}

/** Only a complete sweep of the whole list tells of every record: a walk from the head may have ended before it. */
function fullLook(mirror: Mirror, collection: number, before: number): Sighting | null {
  const { rows } = mirror.query(
    `SELECT s.run, r.finished_at FROM sweeps s JOIN runs r ON r.run = s.run
     WHERE s.collection = ${collection} AND s.run < ${before} AND s.outcome = 'complete' AND s.mode = 'full'
       AND r.root IS NOT NULL ORDER BY s.run DESC LIMIT 1`,
  );
  const [run, at] = rows[0] ?? [];
  return typeof run === 'number' && typeof at === 'string' ? { run, at } : null;
}

function latest(present: Sighting | undefined, look: Sighting | null): Sighting | null {
  if (present === undefined) return null;
  const own = { run: present.run, at: present.at };
  return look === null || look.run < own.run ? own : look;
}
