/**
 * One table per kind, named as the kind: its current records only, with every documented field as a typed column, so
 * that `SELECT name FROM batch_exports WHERE paused` just works. To filter by source, organization or project, join
 * `collections` on `collections.id = _collection`. Columns of ours begin with an underscore; no field of the interface does.
 */
import { sql } from 'drizzle-orm';
import { customType, integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { definitionOf } from '../catalog/catalog.ts';
import type { FieldDefinition } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';

/** An open value: a column without affinity keeps numbers as numbers and text as text. */
const anyValue = customType<{ data: unknown }>({ dataType: () => 'blob' });

function storedColumns() {
  return {
    /** Number of the record: unique over all kinds, given once, never reused; a returning record has its old one. */
    record: integer('_record').primaryKey(),
    /** `collections.id`. */
    collection: integer('_collection').notNull(),
    /** The id that the API gave, as text. */
    remoteId: text('_remote_id').notNull(),
    /** `runs.run` of the current revision. */
    run: integer('_run').notNull(),
    /** The record, exactly as received. */
    body: text('body').notNull(),
  };
}

/** The columns of a kind's table that the program reads: those that are stored. */
export function recordTable(kind: Kind) {
  return sqliteTable<string, ReturnType<typeof storedColumns>>(kind, storedColumns());
}

/** The table of a kind. The catalog's descriptions document the generated columns. */
export function kindTable(kind: Kind) {
  return sqliteTable(kind, {
    ...storedColumns(),
    ...Object.fromEntries(definitionOf(kind).fields.map((field) => [field.name, fieldColumn(field)])),
  });
}

/**
 * A documented field as a column computed from the body when it is read: it costs nothing on disk. Booleans read as 1
 * and 0, objects and arrays as JSON text, absent and null both as NULL (the body tells them apart).
 */
function fieldColumn(field: FieldDefinition) {
  const value = sql.raw(`json_extract("body", '$."${field.name}"')`);
  switch (field.type) {
    case 'integer':
      return integer(field.name).generatedAlwaysAs(value, { mode: 'virtual' });
    case 'boolean':
      return integer(field.name, { mode: 'boolean' }).generatedAlwaysAs(value, { mode: 'virtual' });
    case 'number':
      return real(field.name).generatedAlwaysAs(value, { mode: 'virtual' });
    case 'any':
      return anyValue(field.name).generatedAlwaysAs(value, { mode: 'virtual' });
    case 'string':
    case 'uuid':
    case 'timestamp':
    case 'object':
    case 'array':
      return text(field.name).generatedAlwaysAs(value, { mode: 'virtual' });
  }
}
