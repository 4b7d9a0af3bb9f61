/** Records, and their history. Every kind is a view over `records` (`kind-views.ts`). */
import { sql } from 'drizzle-orm';
import { blob, index, integer, primaryKey, sqliteTable, sqliteView, text } from 'drizzle-orm/sqlite-core';

/** Every record that the mirror has, or had, with its newest revision: the current one, or the tombstone. */
export const records = sqliteTable(
  'records',
  {
    /** Unique over all kinds, given once, never reused; a returning record keeps it. */
    record: integer('record').primaryKey({ autoIncrement: true }),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    /** The id that the API gave, as text. */
    remoteId: text('remote_id').notNull(),
    /** `runs.run` of the newest revision. */
    run: integer('run').notNull(),
    /** What that revision is: 1 added, 2 changed, 3 removed (the tombstone), 4 rewritten (equal by comparison, but another text). */
    change: integer('change').notNull(),
    /** 1 for a record's first revision, and so on. */
    ordinal: integer('ordinal').notNull(),
    /** `runs.run` of the revision before it; NULL for the first. */
    previous: integer('previous'),
    /** SHA-256 of the body without its volatile members (`sealing_rules` says which), as received; NULL if removed. */
    hash: blob('hash', { mode: 'buffer' }),
    /** A 53-bit mark of the volatile members' text, to notice that they changed; NULL if there are none. */
    volatile: integer('volatile'),
    /** The record, exactly as received; NULL if removed. */
    body: text('body'),
    /** The name of a removed record, which SQL cannot read from its older bodies; NULL for others, and without a name. */
    lastName: text('last_name'),
  },
  (table) => [
    // Recognizes an unchanged record, so that a run without changes reads nothing else. Keys are unique: the stage ensures it and
    // `verify` checks it, as a unique index would be a tenth more to write and to store.
    index('records_key').on(table.collection, table.remoteId, table.hash, table.volatile),
    // Finds the newest revisions of a run; replaced ones are in `revisions`.
    index('records_run').on(table.run, table.collection),
    index('records_removed').on(table.collection, table.remoteId).where(sql.raw('"hash" IS NULL')),
  ],
);

/**
 * The revisions that a newer one replaced; the newest one of each record is in `records`. Append-only, until retention drops
 * runs (`forgets`).
 */
export const revisions = sqliteTable(
  'revisions',
  {
    /** `runs.run` that made it. */
    run: integer('run').notNull(),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    /** `records.record`. */
    record: integer('record').notNull(),
    /** As in `records`, like the following. */
    change: integer('change').notNull(),
    ordinal: integer('ordinal').notNull(),
    previous: integer('previous'),
    hash: blob('hash', { mode: 'buffer' }),
    /** How `body` is stored: 1 delta against the next newer body, 2 deflated, 3 plain; NULL in tombstones. */
    encoding: integer('encoding'),
    body: blob('body', { mode: 'buffer' }),
  },
  (table) => [
    primaryKey({ columns: [table.run, table.collection, table.record] }),
    // Orders a record's history by time, so that any revision is found without following links.
    index('revisions_of').on(table.record, table.run),
  ],
);

/** Every revision of every record, the newest ones included, without bodies. */
export const allRevisions = sqliteView('all_revisions', {
  run: integer('run').notNull(),
  collection: integer('collection').notNull(),
  record: integer('record').notNull(),
  change: integer('change').notNull(),
  ordinal: integer('ordinal').notNull(),
  previous: integer('previous'),
  hash: blob('hash', { mode: 'buffer' }),
}).as(sql`SELECT "run", "collection", "record", "change", "ordinal", "previous", "hash" FROM "records"
  UNION ALL SELECT "run", "collection", "record", "change", "ordinal", "previous", "hash" FROM "revisions"`);

/** Records that a sweep found absent and that were kept because too many were, until confirmed or seen again. */
export const heldRecords = sqliteTable('held_records', {
  /** The record's number. */
  record: integer('record').primaryKey(),
  /** `collections.id`. */
  collection: integer('collection').notNull(),
  /** `runs.run` that found it absent first, or the next one that retention kept. */
  sinceRun: integer('since_run').notNull(),
  /** When that first run found it absent, whether or not its row is still there. */
  sinceAt: text('since_at').notNull(),
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

/** For kinds that are read one by one (sharing of recordings): when they were last read for each parent record. */
export const checks = sqliteTable(
  'checks',
  {
    /** `collections.id` of the kind that is read one by one. */
    collection: integer('collection').notNull(),
    /** Number of the parent record. */
    record: integer('record').notNull(),
    /** `runs.run` of the latest answer, for ordering: retention may have dropped the run's row. */
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
  name: text('name'),
  removedRun: integer('removed_run').notNull(),
  removedAt: text('removed_at'),
  record: integer('record').notNull(),
}).as(sql`SELECT c."kind" AS "kind", s."name" AS "source", c."organization_id" AS "organization_id",
  c."project_id" AS "project_id", c."role_id" AS "role_id", r."remote_id" AS "id", r."last_name" AS "name", r."run" AS "removed_run",
  n."finished_at" AS "removed_at", r."record" AS "record"
  FROM "records" r JOIN "collections" c ON c."id" = r."collection" JOIN "sources" s ON s."id" = c."source"
  JOIN "runs" n ON n."run" = r."run" WHERE r."hash" IS NULL`);
