/**
 * Every table of the mirror. Change it here, then `npm run migrations:generate`; a landed migration is never edited.
 * Times are ISO 8601 UTC with milliseconds.
 *
 * drizzle-kit cannot express WITHOUT ROWID: it is added by hand to a new table's CREATE TABLE in its migration wherever
 * the key is composite or text, as `record_keys`, `revisions`, `sweeps`, `sealing_rules`, `checks`, `snapshots`,
 * `rate_log`, `counters`, `acceptances`, `replaced_roots`, `field_shapes` and `schema_changes` have it.
 */
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
import { kindTable } from './kind-table.ts';

/** One configured remote. */
export const sources = sqliteTable('sources', {
  id: integer('id').primaryKey(),
  /** Its name in the configuration: what identifies it. */
  name: text('name').notNull().unique(),
  /** Where it was reached in the latest run. */
  baseUrl: text('base_url').notNull(),
});

/** One list endpoint in one scope of one source. */
export const collections = sqliteTable(
  'collections',
  {
    id: integer('id').primaryKey(),
    /** `sources.id`. */
    source: integer('source')
      .notNull()
      .references(() => sources.id),
    /** The kind of its records: also the name of the table that holds them. */
    kind: text('kind').notNull(),
    /** The parent path values as a JSON object with its keys in fixed order; `{}` for organizations. */
    scope: text('scope').notNull(),
    /** From `scope`; NULL where the path has no organization. */
    organizationId: text('organization_id').generatedAlwaysAs(
      sql.raw(`json_extract("scope", '$.organization_id')`),
      { mode: 'virtual' },
    ),
    /** From `scope`; NULL where the path has no project. */
    projectId: text('project_id').generatedAlwaysAs(sql.raw(`json_extract("scope", '$.project_id')`), {
      mode: 'virtual',
    }),
    /** From `scope`; NULL where the path has no role. */
    roleId: text('role_id').generatedAlwaysAs(sql.raw(`json_extract("scope", '$.role_id')`), {
      mode: 'virtual',
    }),
    /** Current records, so that nobody has to count them. */
    records: integer('records').notNull(),
    /** `runs.run` of the latest sweep that was tried; NULL before the first. Retention may have dropped that row. */
    lastRun: integer('last_run'),
    /** When that run ended: known even when its row is gone. */
    lastAt: text('last_at'),
    /** `runs.run` of the latest complete sweep, a walk from the head included; its row may be gone likewise. */
    lastCompleteRun: integer('last_complete_run'),
    lastCompleteAt: text('last_complete_at'),
    /** `runs.run` of the latest complete sweep of the whole list: the last time that absence could be told. */
    lastFullRun: integer('last_full_run'),
    lastFullAt: text('last_full_at'),
    /** Outcome of the latest sweep, as in `sweeps`. */
    lastOutcome: text('last_outcome'),
    /** Why the latest sweep was not complete: a code. */
    lastErrorCode: text('last_error_code'),
    /** The same for people. */
    lastError: text('last_error'),
    /** Largest page that the service gave; NULL while unknown. */
    pageCap: integer('page_cap'),
    /** `runs.run` in which it went away with its parent record; NULL while it is there. */
    retiredRun: integer('retired_run'),
  },
  (table) => [uniqueIndex('collections_key').on(table.source, table.kind, table.scope)],
);

/** One sync pass of one source. */
export const runs = sqliteTable('runs', {
  /** Number of the run over all sources. */
  run: integer('run').primaryKey(),
  /** `sources.id`. */
  source: integer('source')
    .notNull()
    .references(() => sources.id),
  /** What started it: the command, or the schedule's name. */
  trigger: text('trigger').notNull(),
  startedAt: text('started_at').notNull(),
  /** NULL while it runs, and for a run that died. */
  finishedAt: text('finished_at'),
  /** `running`, `complete`, `partial` or `failed`; only complete and partial ones changed records. */
  outcome: text('outcome').notNull(),
  /** HTTP requests sent, retries among them. */
  requests: integer('requests').notNull(),
  /** How many of them were retries. */
  retries: integer('retries').notNull(),
  /** Records that appeared, returning ones included. */
  added: integer('added').notNull(),
  /** Records whose content changed. */
  changed: integer('changed').notNull(),
  /** Records that left. */
  removed: integer('removed').notNull(),
  /** Records read and found as they were. */
  unchanged: integer('unchanged').notNull(),
  /** Why the whole run failed: a code. */
  errorCode: text('error_code'),
  /** The same for people. */
  error: text('error'),
  /** SHA-256 over the run's revisions in key order; NULL unless published. */
  changeDigest: blob('change_digest', { mode: 'buffer' }),
  /** `root` of the run published before it; for the first, `link` of the latest forget, NULL where nothing was. */
  previousRoot: blob('previous_root', { mode: 'buffer' }),
  /** SHA-256 over the previous root, this row's facts and `change_digest`: seals the whole history up to here. */
  root: blob('root', { mode: 'buffer' }),
});

/** One collection listed once in one run. */
export const sweeps = sqliteTable(
  'sweeps',
  {
    /** `runs.run`. */
    run: integer('run').notNull(),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    /** `complete`, `incomplete`, `held`, `denied`, `missing`, `failed` or `skipped`. */
    outcome: text('outcome').notNull(),
    /** `full` or `head`; NULL where nothing was walked. */
    mode: text('mode'),
    /** Pages read. */
    pages: integer('pages').notNull(),
    /** `count` as the service said it; NULL where it did not. */
    count: integer('count'),
    /** Distinct records received. */
    records: integer('records').notNull(),
    added: integer('added').notNull(),
    changed: integer('changed').notNull(),
    removed: integer('removed').notNull(),
    unchanged: integer('unchanged').notNull(),
    /** Removals found and held back. */
    held: integer('held').notNull(),
    errorCode: text('error_code'),
    error: text('error'),
  },
  (table) => [primaryKey({ columns: [table.run, table.collection] })],
);

/**
 * The key of every current record of every kind: what makes it unique, and what tells at a glance whether a received
 * record is as the mirror holds it. Apart from the bodies so that a no-change run reads nothing else.
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
 * Every revision of every record. The row of the current revision carries no body: it stands in the kind's table, and
 * moves here when the revision is replaced. Otherwise append-only.
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

/** Records that left, so that one that returns goes on under its old number. */
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

/** Which members were left out of the stable hash, from which run on: verification needs the rule of the time. */
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

/**
 * How many current records carry which field with a value of which JSON type: from this a run tells when the service
 * gains, loses or retypes a field. Derived from the bodies; `verify` counts again. A row with 0 records is remembered:
 * the field or type was seen, and may come back without being news.
 */
export const fieldShapes = sqliteTable(
  'field_shapes',
  {
    /** `sources.id`. */
    source: integer('source').notNull(),
    kind: text('kind').notNull(),
    /**
     * RFC 6901 pointer to a member of the record, or of a documented object in it; empty for the record itself. `*` where
     * the kind has more fields than are watched.
     */
    field: text('field').notNull(),
    /** `string`, `number`, `boolean`, `object`, `array` or `null`. */
    type: text('type').notNull(),
    /** Current records, over all collections of the kind. */
    records: integer('records').notNull(),
  },
  (table) => [primaryKey({ columns: [table.source, table.kind, table.field, table.type] })],
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
    /** `gained`, `lost` or `retyped`; `unwatched` (of field `*`) when a kind has more fields than are watched. */
    change: text('change').notNull(),
    /** JSON array of the JSON types before, without `null`; empty for a gained field. */
    before: text('before').notNull(),
    /** Likewise after; empty for a lost field. */
    after: text('after').notNull(),
  },
  (table) => [primaryKey({ columns: [table.run, table.kind, table.field, table.change] })],
);

/** When each parent record of a kind that is read one by one was last asked for (sharing of recordings). */
export const checks = sqliteTable(
  'checks',
  {
    /** `collections.id` of the kind that is read one by one. */
    collection: integer('collection').notNull(),
    /** Number of the parent record. */
    record: integer('record').notNull(),
    /** `runs.run` of the latest answer. */
    run: integer('run').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.collection, table.record] }),
    index('checks_age').on(table.collection, table.run, table.record),
  ],
);

/** Runs pinned under a name: retention keeps them. */
export const snapshots = sqliteTable('snapshots', {
  /** What follows `snapshot:` in a reference. */
  name: text('name').primaryKey(),
  /** `runs.run`, a published one: the state of every source as of it. */
  run: integer('run').notNull(),
  /** When it was pinned; the state's own time is its run's. */
  pinnedAt: text('pinned_at').notNull(),
  /** 1 for the one that drift is measured from. */
  isBaseline: integer('is_baseline', { mode: 'boolean' }).notNull(),
});

/**
 * Drift that somebody accepted: one row per place, and only for the value that its fingerprint stands for. The value
 * itself is not here, so that no secret gets in.
 */
export const acceptances = sqliteTable(
  'acceptances',
  {
    /** Name of the source, as in `sources.name`. */
    source: text('source').notNull(),
    kind: text('kind').notNull(),
    /** As in `collections.scope`. */
    scope: text('scope').notNull(),
    remoteId: text('remote_id').notNull(),
    /** RFC 6901 pointer to the field; empty for a record that came or went as a whole. */
    path: text('path').notNull(),
    /** Digest of the place and the accepted value: another value has another one, and is drift again. */
    fingerprint: text('fingerprint').notNull(),
    /** Why, in the words of whoever accepted it. */
    reason: text('reason').notNull(),
    acceptedAt: text('accepted_at').notNull(),
    /** From then on it no longer holds; NULL for no end. */
    until: text('until'),
  },
  (table) => [
    primaryKey({ columns: [table.source, table.kind, table.scope, table.remoteId, table.path] }),
    index('acceptances_fingerprint').on(table.source, table.fingerprint),
  ],
);

/**
 * What retention dropped, and what it did to the chain of seals: a row per forget, each chained to the one before, and
 * the first run that is left to the last of them. Whoever noted a root from before finds it in `replaced_roots`.
 */
export const forgets = sqliteTable('forgets', {
  /** 1 for the first, and so on. */
  forget: integer('forget').primaryKey(),
  at: text('at').notNull(),
  /** What was to be kept, as JSON: `{"last":7,"daily":30}`. */
  policy: text('policy').notNull(),
  /** JSON array of the names of the sources that it looked at. */
  sources: text('sources').notNull(),
  /** Numbers of the runs that went, published or not, as a JSON array of ranges: `[[1,40],[42,42]]`. */
  runs: text('runs').notNull(),
  /** How many they are. */
  runCount: integer('run_count').notNull(),
  /** `runs.run` of the latest sealed run at that time: it stayed. */
  tipRun: integer('tip_run').notNull(),
  /** Its root until then. */
  rootBefore: blob('root_before', { mode: 'buffer' }).notNull(),
  /** Its root from then on. */
  rootAfter: blob('root_after', { mode: 'buffer' }).notNull(),
  /** SHA-256 over the rows of `replaced_roots` of this forget in order of runs. */
  replacedDigest: blob('replaced_digest', { mode: 'buffer' }).notNull(),
  /**
   * SHA-256 over the previous forget's `link` and `root_after` and this row's other facts but `root_after`. The first
   * sealed run has the latest `link` as its `previous_root`.
   */
  link: blob('link', { mode: 'buffer' }).notNull(),
});

/** Every root that a forget replaced by another: of the runs that went, and of those that stayed. */
export const replacedRoots = sqliteTable(
  'replaced_roots',
  {
    /** `forgets.forget`. */
    forget: integer('forget').notNull(),
    /** Number of the run that had it. */
    run: integer('run').notNull(),
    /** The root until then. */
    root: blob('root', { mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.forget, table.run] })],
);

/** Times of the requests of the last hour, so that a restart does not forget the hour's limit. */
export const rateLog = sqliteTable(
  'rate_log',
  {
    /** Fingerprint of origin and key; the key itself is never here. */
    key: text('key').notNull(),
    /** Minutes since the epoch. */
    minute: integer('minute').notNull(),
    /** Milliseconds within the minute, two bytes each, little-endian. */
    offsets: blob('offsets', { mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.key, table.minute] })],
);

/** Counters of the mirror itself. */
export const counters = sqliteTable('counters', {
  /** `record`: the highest record number ever given. */
  name: text('name').primaryKey(),
  value: integer('value').notNull(),
});

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

export const organizations = kindTable('organizations');
export const projects = kindTable('projects');
export const roles = kindTable('roles');
export const roleMemberships = kindTable('role_memberships');
export const members = kindTable('members');
export const invites = kindTable('invites');
export const domains = kindTable('domains');
export const pipelineDestinations = kindTable('pipeline_destinations');
export const pipelineFrontendApps = kindTable('pipeline_frontend_apps');
export const pipelineImportApps = kindTable('pipeline_import_apps');
export const pipelineTransformations = kindTable('pipeline_transformations');
export const plugins = kindTable('plugins');
export const batchExports = kindTable('batch_exports');
export const proxyRecords = kindTable('proxy_records');
export const sessionRecordings = kindTable('session_recordings');
export const recordingSharing = kindTable('recording_sharing');
