/**
 * The tables of the registry, in the schema `tidemark` of a PostgreSQL database, and the views that `fleet sql` reads,
 * in `tidemark_query`. Times are PostgreSQL's own (`now()`), so the clocks of workers do not matter. Only the start and
 * end of a run are copied from the mirror.
 *
 * Workers of the previous version must be able to continue after a change: columns with a default, tables and views may
 * be added. Any other change raises `COMPATIBLE_FROM` (migrations.ts).
 */
import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  unique,
} from 'drizzle-orm/pg-core';
import type { Severity } from '../../catalog/definition.ts';
import type { CellDeclaration } from '../../config/cells.ts';
import { isoTime } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { BaselineOrder, CellChange, CellRun } from '../cell.ts';

export const registrySchema = pgSchema('tidemark');
export const querySchema = pgSchema('tidemark_query');

/** Read as ISO 8601 in UTC. */
const time = customType<{ data: string; driverData: string }>({
  dataType: () => 'timestamp(3) with time zone',
  fromDriver: (text) => isoTime(Date.parse(text)),
});
const number = (name: string) => bigint(name, { mode: 'number' });

/** Milliseconds since the time in a column; null if it has none. */
export const ageMs = (column: unknown) =>
  sql<number | null>`extract(epoch from now() - ${column}) * 1000`.mapWith((ms): number | null => Number(ms));

/** The migrations of `drizzle-fleet/` that were applied. */
export const schemaVersions = registrySchema.table('schema_versions', {
  /** Counted from 1. */
  version: integer('version').primaryKey(),
  /** SHA-256 of the migration's text. */
  hash: text('hash').notNull(),
  /** The oldest version of the schema whose programs can work with this one. */
  compatibleFrom: integer('compatible_from').notNull(),
  appliedAt: time('applied_at')
    .notNull()
    .default(sql`now()`),
});

/** Versions of the queue's own schema (pg-boss) that programs brought. */
export const queueVersions = registrySchema.table('queue_versions', {
  version: integer('version').primaryKey(),
  /** The oldest version of that schema whose programs can work with this one. */
  compatibleFrom: integer('compatible_from').notNull(),
});

/** A rate group: the cells of one key at one origin. One worker works on it at a time. */
export const groups = registrySchema.table(
  'groups',
  {
    id: number('id').primaryKey().generatedAlwaysAsIdentity(),
    /** Scheme, host and port of the service. */
    origin: text('origin').notNull(),
    /** The reference that names the key (`env:NAME`, `file:/path`); never the key. */
    secret: text('secret').notNull(),
    /** Counts how often the group was taken. A holder with a lower number may not publish. */
    fence: number('fence').notNull().default(0),
    /** Worker or person who took it last; NULL after it was given back. */
    holder: text('holder'),
    heldAt: time('held_at'),
    /** The period in which holders that vanished may have sent requests that the rate log lacks; NULL if it has all of them. */
    uncountedSince: time('uncounted_since'),
    uncountedUntil: time('uncounted_until'),
    /** `cells.id` of the cell that a person checked out. Until it is checked in, no worker gets the group, since it is one key. */
    checkedOutCell: number('checked_out_cell'),
    /** The requests of the last hour, which the limiter of the next holder has to count; with ages in place of times. */
    rateLog: jsonb('rate_log'),
    /** When the rate log was written: the ages count from here. */
    rateLogAt: time('rate_log_at'),
  },
  (table) => [unique('groups_origin_secret').on(table.origin, table.secret)],
);

export type CellState = 'active' | 'quarantined' | 'checked_out' | 'retired';

/** One source with its own mirror file, its own schedule state and its own prefix of backups. */
export const cells = registrySchema.table(
  'cells',
  {
    id: number('id').primaryKey().generatedAlwaysAsIdentity(),
    /** Also the name of the source in its mirror and the prefix of its backups. Never given to another cell. */
    name: text('name').notNull().unique('cells_name'),
    group: number('group_id')
      .notNull()
      .references(() => groups.id),
    /** Base URL of the service. */
    address: text('address').notNull(),
    profile: text('profile').notNull(),
    /** Ids, as a JSON array; NULL for all organizations. */
    organizations: jsonb('organizations').$type<readonly string[]>(),
    /** The reference that names the key, as in `groups`. */
    secret: text('secret').notNull(),
    /** Whom to ask about it; NULL if nobody is named. */
    owner: text('owner'),
    /** Cron expression of its syncs, in UTC. */
    schedule: text('schedule').notNull(),
    /** Further configuration, as in a configuration file: `source`, `schedules`, `retention`, `drift`. */
    document: jsonb('document').$type<CellDeclaration['document']>().notNull().default({}),
    /** True if findings may contain the values that differ. */
    showsValues: boolean('shows_values').notNull().default(false),
    state: text('state').$type<CellState>().notNull().default('active'),
    /** Jobs that failed one after another. */
    failures: integer('failures').notNull().default(0),
    /** Why the last job failed; NULL after a success. */
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
    quarantinedAt: time('quarantined_at'),
    /** When a worker should take it next; NULL while it is retired. */
    dueAt: time('due_at').default(sql`now()`),
    /** Number of the newest run in the mirror, and its outcome; NULL before the first. */
    lastRun: integer('last_run'),
    lastOutcome: text('last_outcome').$type<CellRun['outcome']>(),
    /** When a run was last published, and when a complete one was. */
    publishedAt: time('published_at'),
    completeAt: time('complete_at'),
    /** Root hash of the mirror as of its newest published run, in hex. */
    root: text('root'),
    /** The run that `records` shows; NULL if it shows none. */
    projectedRun: integer('projected_run'),
    /** Key of the newest mirror in storage, and the run that it holds. */
    storedKey: text('stored_key'),
    storedRun: integer('stored_run'),
    storedAt: time('stored_at'),
    /** Version of the mirror's schema. */
    mirrorVersion: integer('mirror_version'),
    /** Current records of all kinds. */
    recordCount: number('record_count').notNull().default(0),
    /** Open findings of drift; `findings` may have fewer. NULL if drift was not determined. */
    findingCount: integer('finding_count'),
    /** Name of the snapshot that drift is measured from, and its run, as of the newest publication; NULL without one. */
    baseline: text('baseline'),
    baselineRun: integer('baseline_run'),
    /** The baseline that `fleet baseline` asked for, until a worker has set it; NULL if none is pending. */
    baselineOrder: jsonb('baseline_order').$type<BaselineOrder>(),
    /** Why the last baseline that was asked for could not be set. */
    baselineError: text('baseline_error'),
    /** Person who checked it out. */
    checkoutHolder: text('checkout_holder'),
    checkoutAt: time('checkout_at'),
    addedAt: time('added_at')
      .notNull()
      .default(sql`now()`),
    /** When `fleet apply` last changed it. */
    changedAt: time('changed_at')
      .notNull()
      .default(sql`now()`),
  },
  (table) => [
    check('cells_state', sql`${table.state} in ('active', 'quarantined', 'checked_out', 'retired')`),
    index('cells_due').on(table.dueAt),
    index('cells_group').on(table.group),
  ],
);

export const workers = registrySchema.table('workers', {
  name: text('name').primaryKey(),
  host: text('host').notNull(),
  /** Of the program. */
  version: text('version').notNull(),
  startedAt: time('started_at')
    .notNull()
    .default(sql`now()`),
  seenAt: time('seen_at')
    .notNull()
    .default(sql`now()`),
  /** True once `fleet drain` asked it to finish and leave. */
  isDraining: boolean('is_draining').notNull().default(false),
});

export const runs = registrySchema.table(
  'runs',
  {
    cell: number('cell_id')
      .notNull()
      .references(() => cells.id),
    /** Number of the run in the cell's mirror. */
    run: integer('run').notNull(),
    outcome: text('outcome').$type<CellRun['outcome']>().notNull(),
    startedAt: time('started_at').notNull(),
    finishedAt: time('finished_at').notNull(),
    requests: integer('requests').notNull(),
    retries: integer('retries').notNull(),
    added: integer('added').notNull(),
    changed: integer('changed').notNull(),
    removed: integer('removed').notNull(),
    unchanged: integer('unchanged').notNull(),
    /** In hex; NULL for a run that published nothing in the mirror. */
    root: text('root'),
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
    /** Who published it, under which fence. */
    worker: text('worker').notNull(),
    fence: number('fence').notNull(),
    publishedAt: time('published_at')
      .notNull()
      .default(sql`now()`),
  },
  (table) => [
    primaryKey({ columns: [table.cell, table.run] }),
    index('runs_published').on(table.publishedAt.desc()),
  ],
);

/** Drift that is open. */
export const findings = registrySchema.table(
  'findings',
  {
    cell: number('cell_id')
      .notNull()
      .references(() => cells.id),
    kind: text('kind').notNull(),
    /** As `organization_id=…&role_id=…`: the ids in the collection's path. */
    scope: text('scope').notNull(),
    id: text('remote_id').notNull(),
    /** RFC 6901 pointer; empty for a record that came or went. */
    path: text('path').notNull(),
    name: text('name').notNull(),
    change: text('change').$type<CellChange['change']>().notNull(),
    severity: text('severity').$type<Severity>().notNull(),
    /** When it was first published; kept while the finding is open. */
    since: time('since')
      .notNull()
      .default(sql`now()`),
    /** The values, only if the cell's configuration allows it. */
    before: jsonb('before'),
    after: jsonb('after'),
  },
  // No primary key: a pointer may be longer than an index allows. Each publication replaces all findings of its cell.
  (table) => [index('findings_cell').on(table.cell)],
);

/** The current records of all cells, masked as reports are. */
export const records = registrySchema.table(
  'records',
  {
    cell: number('cell_id')
      .notNull()
      .references(() => cells.id),
    kind: text('kind').notNull(),
    /** As in `findings`. */
    scope: text('scope').notNull(),
    /** An id of more than 500 characters is cut and ends with its SHA-256, here and in `changes`. */
    id: text('remote_id').notNull(),
    name: text('name').notNull(),
    /** Id of the organization that it belongs to; NULL if it belongs to none. */
    organization: text('organization_id'),
    /** Without secrets. */
    body: jsonb('body'),
  },
  (table) => [
    primaryKey({ columns: [table.cell, table.kind, table.scope, table.id] }),
    index('records_kind').on(table.kind),
  ],
);

/** What the runs changed, newest last. */
export const changes = registrySchema.table(
  'changes',
  {
    cell: number('cell_id')
      .notNull()
      .references(() => cells.id),
    run: integer('run').notNull(),
    kind: text('kind').notNull(),
    scope: text('scope').notNull(),
    id: text('remote_id').notNull(),
    name: text('name').notNull(),
    change: text('change').$type<CellChange['change']>().notNull(),
    /** RFC 6901 pointers of the fields that differ, as a JSON array; empty for a record that came or went. */
    paths: jsonb('paths').$type<readonly string[]>().notNull(),
    /** When it was published. */
    at: time('at')
      .notNull()
      .default(sql`now()`),
  },
  (table) => [
    primaryKey({ columns: [table.cell, table.run, table.kind, table.scope, table.id] }),
    index('changes_at').on(table.at.desc()),
  ],
);

// The views that `fleet sql` reads. They have no references to keys and no leases.

export const cellsView = querySchema
  .view('cells', {
    cell: text('cell'),
    address: text('address'),
    profile: text('profile'),
    organizations: jsonb('organizations'),
    owner: text('owner'),
    schedule: text('schedule'),
    state: text('state'),
    failures: integer('failures'),
    errorCode: text('error_code'),
    dueAt: time('due_at'),
    lastRun: integer('last_run'),
    lastOutcome: text('last_outcome'),
    publishedAt: time('published_at'),
    completeAt: time('complete_at'),
    root: text('root'),
    storedAt: time('stored_at'),
    records: number('records'),
    findings: integer('findings'),
    baseline: text('baseline'),
    baselineRun: integer('baseline_run'),
  })
  .as(
    sql`select name as cell, address, profile, organizations, owner, schedule, state, failures, error_code, due_at, last_run, last_outcome, published_at, complete_at, root, stored_at, record_count as records, finding_count as findings, baseline, baseline_run from tidemark.cells`,
  );

export const runsView = querySchema
  .view('runs', {
    cell: text('cell'),
    run: integer('run'),
    outcome: text('outcome'),
    startedAt: time('started_at'),
    finishedAt: time('finished_at'),
    requests: integer('requests'),
    retries: integer('retries'),
    added: integer('added'),
    changed: integer('changed'),
    removed: integer('removed'),
    unchanged: integer('unchanged'),
    root: text('root'),
    errorCode: text('error_code'),
    worker: text('worker'),
    publishedAt: time('published_at'),
  })
  .as(
    sql`select c.name as cell, r.run, r.outcome, r.started_at, r.finished_at, r.requests, r.retries, r.added, r.changed, r.removed, r.unchanged, r.root, r.error_code, r.worker, r.published_at from tidemark.runs r join tidemark.cells c on c.id = r.cell_id`,
  );

export const findingsView = querySchema
  .view('findings', {
    cell: text('cell'),
    kind: text('kind'),
    scope: text('scope'),
    id: text('id'),
    name: text('name'),
    path: text('path'),
    change: text('change'),
    severity: text('severity'),
    since: time('since'),
    before: jsonb('before'),
    after: jsonb('after'),
  })
  .as(
    sql`select c.name as cell, f.kind, f.scope, f.remote_id as id, f.name, f.path, f.change, f.severity, f.since, f.before, f.after from tidemark.findings f join tidemark.cells c on c.id = f.cell_id where c.state <> 'retired'`,
  );

export const recordsView = querySchema
  .view('records', {
    cell: text('cell'),
    kind: text('kind'),
    scope: text('scope'),
    id: text('id'),
    name: text('name'),
    organizationId: text('organization_id'),
    body: jsonb('body'),
  })
  .as(
    sql`select c.name as cell, r.kind, r.scope, r.remote_id as id, r.name, r.organization_id, r.body from tidemark.records r join tidemark.cells c on c.id = r.cell_id where c.state <> 'retired'`,
  );

export const changesView = querySchema
  .view('changes', {
    cell: text('cell'),
    run: integer('run'),
    at: time('at'),
    kind: text('kind'),
    scope: text('scope'),
    id: text('id'),
    name: text('name'),
    change: text('change'),
    paths: jsonb('paths'),
  })
  .as(
    sql`select c.name as cell, x.run, x.at, x.kind, x.scope, x.remote_id as id, x.name, x.change, x.paths from tidemark.changes x join tidemark.cells c on c.id = x.cell_id`,
  );
