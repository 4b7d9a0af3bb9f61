/** What makes a record known again, and its history. The records themselves are in `kind-tables.ts`. */
import { sql } from 'drizzle-orm';
import {
  blob,
  index,
  integer,
  primaryKey,
  sqliteTable,
  sqliteView,
  text,
  uniqueIndex,
} from 'drizzle-orm/sqlite-core';

/**
 * The key of every current record of every kind: what makes it unique, and the marks by which an unchanged record is
 * recognized. Separate from the bodies, so that a no-change run reads nothing else.
 */
export const recordKeys = sqliteTable(
  'record_keys',
  {
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    remoteId: text('remote_id').notNull(),
    /** The record's number: `_record` in the kind's table. */
    record: integer('record').notNull(),
    /** The first 12 bytes of `revisions.hash` of the current revision. */
    hashStart: blob('hash_start', { mode: 'buffer' }).notNull(),
    /** A 53-bit mark of the volatile members' text, to notice that they moved; NULL where the record has none. */
    volatile: integer('volatile'),
  },
  (table) => [primaryKey({ columns: [table.collection, table.remoteId] })],
);

/**
 * Every revision of every record. The row of the current revision carries no body: it is in the kind's table, and
 * moves here when the revision is replaced. Otherwise append-only, until retention drops runs (`forgets`).
 */
export const revisions = sqliteTable(
  'revisions',
  {
    /** `runs.run` that made it. */
    run: integer('run').notNull(),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    /** The record's number. */
    record: integer('record').notNull(),
    /** 1 added, 2 changed, 3 removed (the tombstone), 4 rewritten: equal by comparison, other text. */
    change: integer('change').notNull(),
    /** `runs.run` of the record's revision before this one; NULL for the first. */
    previous: integer('previous'),
    /** 1 for the record's first revision, and so on. */
    ordinal: integer('ordinal').notNull(),
    /**
     * SHA-256 of the body without its volatile members (`sealing_rules` says which), as received; NULL in tombstones.
     */
    hash: blob('hash', { mode: 'buffer' }),
    /** How `body` is kept: 1 delta against the next newer body, 2 deflated whole, 3 plain; NULL where body is. */
    encoding: integer('encoding'),
    /** The replaced body; NULL in the current revision and in tombstones. */
    body: blob('body', { mode: 'buffer' }),
  },
  (table) => [
    primaryKey({ columns: [table.run, table.collection, table.record] }),
    // A record's later revisions in order of time: any of them is found without following links. Not its first one, so
    // that a first sync pays nothing for it.
    index('revisions_of').on(table.record, table.run).where(sql.raw('"previous" IS NOT NULL')),
  ],
);

/** Removed records, so that one that returns keeps its number. */
export const removed = sqliteTable(
  'removed',
  {
    /** The record's number. */
    record: integer('record').primaryKey(),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    remoteId: text('remote_id').notNull(),
    /** `runs.run` of the tombstone. */
    run: integer('run').notNull(),
  },
  (table) => [uniqueIndex('removed_key').on(table.collection, table.remoteId)],
);

/** Records that a sweep found absent and that were kept because too many were, until confirmed or seen again. */
export const heldRecords = sqliteTable('held_records', {
  /** The record's number. */
  record: integer('record').primaryKey(),
  /** `collections.id`. */
  collection: integer('collection').notNull(),
  /** `runs.run` that found it absent first, or the next one that retention kept. */
  sinceRun: integer('since_run').notNull(),
  /** When the run that found it absent first ended, whether or not its row is still there. */
  sinceAt: text('since_at').notNull().default(''),
});

/** Which members were left out of the stable hash, and from which run on: verification needs the rule of that run. */
export const sealingRules = sqliteTable(
  'sealing_rules',
  {
    /** `sources.id`. */
    source: integer('source').notNull(),
    kind: text('kind').notNull(),
    /** `runs.run` from which it holds. */
    run: integer('run').notNull(),
    /** JSON array of top-level member names, sorted. */
    volatileFields: text('volatile_fields').notNull(),
  },
  (table) => [primaryKey({ columns: [table.source, table.kind, table.run] })],
);

/** When each parent record of a kind that is read one by one was last asked for (sharing of recordings). */
export const checks = sqliteTable(
  'checks',
  {
    /** `collections.id` of the kind that is read one by one. */
    collection: integer('collection').notNull(),
    /** Number of the parent record. */
    record: integer('record').notNull(),
    /** `runs.run` of the latest answer: for the order. Retention may have dropped that row. */
    run: integer('run').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.collection, table.record] }),
    index('checks_age').on(table.collection, table.run, table.record),
  ],
);

/** Records that are no longer there, for people: `SELECT * FROM removed_records WHERE kind = 'batch_exports'`. */
export const removedRecords = sqliteView('removed_records', {
  kind: text('kind').notNull(),
  source: text('source').notNull(),
  organizationId: text('organization_id'),
  projectId: text('project_id'),
  roleId: text('role_id'),
  id: text('id').notNull(),
  removedRun: integer('removed_run').notNull(),
  removedAt: text('removed_at'),
  record: integer('record').notNull(),
}).as(sql`SELECT c."kind" AS "kind", s."name" AS "source", c."organization_id" AS "organization_id",
  c."project_id" AS "project_id", c."role_id" AS "role_id", r."remote_id" AS "id", r."run" AS "removed_run",
  n."finished_at" AS "removed_at", r."record" AS "record"
  FROM "removed" r JOIN "collections" c ON c."id" = r."collection" JOIN "sources" s ON s."id" = c."source"
  JOIN "runs" n ON n."run" = r."run"`);

/** Counters of the mirror itself. */
export const counters = sqliteTable('counters', {
  /** `record`: the highest record number ever given. */
  name: text('name').primaryKey(),
  value: integer('value').notNull(),
});
