/** Runs, and what each run found in each collection. */
import { blob, customType, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import type { Kind } from '../../catalog/kinds.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { RunOutcome, SweepMode, SweepOutcome } from '../sweep-result.ts';
import { sources } from './source-tables.ts';

/** A JSON array; if another program wrote something else, a kind that does not exist: `verify` names the row. */
const kindList = customType<{ data: readonly Kind[]; driverData: string }>({
  dataType: () => 'text',
  toDriver: (kinds) => JSON.stringify(kinds),
  fromDriver: (text) => {
    try {
      const kinds = JSON.parse(text) as unknown;
      if (Array.isArray(kinds)) return kinds as Kind[];
    } catch {
      // The same as for JSON that is no array.
    }
    return ['unknown' as Kind];
  },
});

/** One sync of one source. */
export const runs = sqliteTable('runs', {
  /** Number of the run over all sources. */
  run: integer('run').primaryKey(),
  /** `sources.id`. */
  source: integer('source')
    .notNull()
    .references(() => sources.id),
  /**
   * What started it: `command of NAME (VIA)`, `request of NAME (VIA)` (to the daemon), `after_restore`, or the schedule's name. VIA (how
   * NAME was known) is left out if it is the same.
   */
  trigger: text('trigger').notNull(),
  /** The only kinds that it read, as a JSON array; NULL for all kinds that the configuration includes. */
  kinds: kindList('kinds'),
  startedAt: text('started_at').notNull(),
  /** NULL while it runs, and for a run that died. */
  finishedAt: text('finished_at'),
  /** `running`, `complete`, `partial` or `failed`; only complete and partial ones changed records. */
  outcome: text('outcome').notNull().$type<RunOutcome>(),
  /** HTTP requests sent, retries among them. */
  requests: integer('requests').notNull(),
  /** How many of them were retries. */
  retries: integer('retries').notNull(),
  /** Records that were added, returning ones included. */
  added: integer('added').notNull(),
  /** Records whose content changed. */
  changed: integer('changed').notNull(),
  /** Records that were removed. */
  removed: integer('removed').notNull(),
  /** Records that were read and had not changed. */
  unchanged: integer('unchanged').notNull(),
  /** Why the run failed: a code. */
  errorCode: text('error_code').$type<ErrorCode>(),
  /** The same for people. */
  error: text('error'),
  /** SHA-256 over the run's revisions in key order; NULL unless published. */
  changeDigest: blob('change_digest', { mode: 'buffer' }),
  /** SHA-256 over the run's rows of `sweeps` and `carried_sweeps`; NULL unless published. */
  sweepDigest: blob('sweep_digest', { mode: 'buffer' }),
  /** `root` of the previous published run; for the first run, `link` of the latest forget, or NULL without one. */
  previousRoot: blob('previous_root', { mode: 'buffer' }),
  /** `audit_log.entry` of the latest entry when it was published, and its hash; NULL if there was none. */
  lastEntry: integer('last_entry'),
  lastEntryHash: blob('last_entry_hash', { mode: 'buffer' }),
  /** SHA-256 over the previous root, this row's values, its digests and the latest entry: seals the entire history up to here. */
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
    outcome: text('outcome').notNull().$type<SweepOutcome>(),
    /** `full` or `head`; NULL if no list was walked. */
    mode: text('mode').$type<SweepMode>(),
    /** Pages read. */
    pages: integer('pages').notNull(),
    /** `count` as the service gave it; NULL if it did not. */
    count: integer('count'),
    /** Distinct records received. */
    records: integer('records').notNull(),
    added: integer('added').notNull(),
    changed: integer('changed').notNull(),
    removed: integer('removed').notNull(),
    unchanged: integer('unchanged').notNull(),
    /** Removals that were held. */
    held: integer('held').notNull(),
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
  },
  (table) => [primaryKey({ columns: [table.run, table.collection] })],
);

/**
 * Sweeps of dropped runs that are the last ones of their collection as of the kept run into which the dropped runs were merged, so
 * that it reports each collection as before.
 */
export const carriedSweeps = sqliteTable(
  'carried_sweeps',
  {
    /** `runs.run` of the kept run. */
    run: integer('run').notNull(),
    /** `collections.id`. */
    collection: integer('collection').notNull(),
    /** Number of the dropped run whose sweep it was. */
    seenRun: integer('seen_run').notNull(),
    /** When that run ended; NULL for one that died. */
    seenAt: text('seen_at'),
    /** 1 if that run was published: what other runs read does not count. */
    isPublished: integer('is_published', { mode: 'boolean' }).notNull(),
    /** As in `sweeps`. */
    outcome: text('outcome').notNull().$type<SweepOutcome>(),
    mode: text('mode').$type<SweepMode>(),
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
  },
  (table) => [primaryKey({ columns: [table.run, table.collection, table.seenRun] })],
);
