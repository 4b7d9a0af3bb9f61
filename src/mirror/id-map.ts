/** The id map: records that came back under another id or in another place, because a restore created them again. */
import { asc, eq, getTableColumns } from 'drizzle-orm';
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { excluded, param, paramsOf, prepared } from './query.ts';
import { rowSealer } from './row-seals.ts';
import { idMap } from './schema/restore-tables.ts';
import { knownKind, storedScope, textOf } from './stored-names.ts';

/** A record that came back under another id or in another place. */
export interface IdMapping extends Readonly<
  Omit<typeof idMap.$inferSelect, 'kind' | 'oldScope' | 'newScope'>
> {
  readonly kind: Kind;
  readonly oldScope: Scope;
  readonly newScope: Scope;
}

const ID_MAP = prepared((db) =>
  db
    .select()
    .from(idMap)
    .where(eq(idMap.source, param('source')))
    .orderBy(asc(idMap.restore), asc(idMap.at), asc(idMap.kind), asc(idMap.newScope), asc(idMap.newId)),
);

export function readIdMap(connection: Connection, source: string): IdMapping[] {
  return ID_MAP(connection)
    .all({ source })
    .map((row) => ({
      ...row,
      ...{ oldId: textOf(row.oldId), newId: textOf(row.newId) },
      kind: knownKind(row.kind),
      oldScope: storedScope(row.oldScope),
      newScope: storedScope(row.newScope),
    }));
}

const STORE_MAPPING = prepared((db) => {
  const { oldScope, oldId, restore, at } = getTableColumns(idMap);
  return db
    .insert(idMap)
    .values(paramsOf(idMap))
    .onConflictDoUpdate({
      target: [idMap.source, idMap.kind, idMap.newScope, idMap.newId],
      set: excluded({ oldScope, oldId, restore, at }),
    });
});

/** Each replaces the one of the same key. */
export function storeMappings(writer: Connection, mappings: readonly IdMapping[]): void {
  if (mappings.length === 0) return;
  const seal = rowSealer(writer, 'id_map');
  for (const { oldScope, newScope: scope, ...rest } of mappings) {
    const newScope = scopeKey(scope);
    STORE_MAPPING(writer).run({ ...rest, oldScope: scopeKey(oldScope), newScope });
    seal([rest.source, rest.kind, newScope, rest.newId]);
  }
}
