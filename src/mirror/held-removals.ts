/** Removals that wait, collection by collection: for a person, or for the same finding again. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { Connection } from './database.ts';
import { readCollections } from './run-rows.ts';

export interface HeldRemovals {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Records that a sweep found absent and that were kept. */
  readonly records: number;
  /** Records below them that would go with them: accepting needs room for these too. */
  readonly below: number;
  /** The latest run that found one of them absent for the first time. */
  readonly run: number;
}

/** In catalog order, then by scope; only collections that hold some. */
export function readHeldRemovals(connection: Connection, source: string): HeldRemovals[] {
  const counts = new Map(
    connection
      .prepare<[], { collection: number; records: number; run: number }>(
        `SELECT collection, count(*) AS records, max(since_run) AS run FROM held_records GROUP BY collection`,
      )
      .all()
      .map(({ collection, ...rest }) => [collection, rest]),
  );
  if (counts.size === 0) return [];
  const collections = readCollections(connection, source).filter(({ retiredRun }) => retiredRun === null);
  return collections.flatMap(({ id, kind, scope }) => {
    const held = counts.get(id);
    if (held === undefined) return [];
    const key = scopeKeyNaming(kind);
    const parents =
      key === undefined ? new Set<string>() : new Set(heldIn(connection, kind, id).map((each) => each.id));
    const below = collections
      .filter((each) => key !== undefined && parents.has(each.scope[key] ?? ''))
      .reduce((sum, { records }) => sum + records, 0);
    return [{ kind, scope, ...held, below }];
  });
}

/** A record that a run found absent, and whose removal waits. */
export interface HeldRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  /** The run that found it absent first. */
  readonly since: number;
}

/** Every one of a source's, collection by collection. */
export function readHeldRecords(connection: Connection, source: string): HeldRecord[] {
  if (readHeldRemovals(connection, source).length === 0) return [];
  return readCollections(connection, source)
    .filter(({ retiredRun }) => retiredRun === null)
    .flatMap(({ id, kind, scope }) => heldIn(connection, kind, id).map((each) => ({ kind, scope, ...each })));
}

function heldIn(connection: Connection, kind: Kind, collection: number): Pick<HeldRecord, 'id' | 'since'>[] {
  return connection
    .prepare<[number], Pick<HeldRecord, 'id' | 'since'>>(
      `SELECT t._remote_id AS id, h.since_run AS since FROM held_records h JOIN "${kind}" t ON t._record = h.record
       WHERE h.collection = ?`,
    )
    .all(collection);
}
