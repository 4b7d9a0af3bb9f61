/** Which fields the records of a kind have, and how that changed. */
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';

/**
 * How many current records have which field with a value of which JSON type: from this a run detects that the
 * service gained, lost or retyped a field. Derived from the bodies; `verify` counts again. A row with 0 records remembers
 * a field or type that was seen, so that its return is not a change.
 */
export const fieldShapes = sqliteTable(
  'field_shapes',
  {
    /** `sources.id`. */
    source: integer('source').notNull(),
    kind: text('kind').notNull(),
    /**
     * RFC 6901 pointer to a member of the record, or of a documented object in it; empty for the record itself. `*` if
     * the kind has more fields than are counted.
     */
    field: text('field').notNull(),
    /** `string`, `number`, `boolean`, `object`, `array` or `null`. */
    type: text('type').notNull(),
    /** Current records, over all collections of the kind. */
    records: integer('records').notNull(),
  },
  (table) => [primaryKey({ columns: [table.source, table.kind, table.field, table.type] })],
);

/** The documented objects with which the counts of a kind were made. */
export const fieldShapeBases = sqliteTable(
  'field_shape_bases',
  {
    /** `sources.id`. */
    source: integer('source').notNull(),
    kind: text('kind').notNull(),
    /**
     * JSON array of the fields whose members were counted: the objects that the catalog documented then. If it documents
     * others now, the kind is counted again.
     */
    objects: text('objects').notNull(),
  },
  (table) => [primaryKey({ columns: [table.source, table.kind] })],
);

/** Fields that a kind's records gained, lost or retyped, by the run that found it. */
export const schemaChanges = sqliteTable(
  'schema_changes',
  {
    /** `runs.run`; its row may be gone. */
    run: integer('run').notNull(),
    /** `sources.id`. */
    source: integer('source').notNull(),
    kind: text('kind').notNull(),
    /** As in `field_shapes`. */
    field: text('field').notNull(),
    /** `gained`, `lost` or `retyped`; `unwatched` (field `*`) if the kind has more fields than are counted. */
    change: text('change').notNull(),
    /** JSON array of the JSON types before, without `null`; empty for a gained field. */
    before: text('before').notNull(),
    /** The same after; empty for a lost field. */
    after: text('after').notNull(),
  },
  (table) => [primaryKey({ columns: [table.run, table.kind, table.field, table.change] })],
);
