/** Runs, and what each found of each collection. */
import { blob, customType, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import type { Kind } from '../../catalog/kinds.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { RunOutcome, SweepMode, SweepOutcome } from '../sweep-result.ts';
import { sources } from './source-tables.ts';

/** A JSON array; where another program wrote something else, none of the catalog's kinds: `verify` names the row. */
const kindList = customType<{ data: readonly Kind[]; driverData: string }>({
  dataType: () => 'text',
  toDriver: (kinds) => JSON.stringify(kinds),
  fromDriver: (text) => {
    try {
      const kinds = JSON.parse(text) as unknown;
      if (Array.isArray(kinds)) return kinds as Kind[];
    } catch {
      // As for any other text that is no list.
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
  /** What started it: `command of NAME (VIA)`, `request of NAME (VIA)` (to the daemon), `after_restore`, or the schedule's name. VIA, how NAME was known, is left out where it is the same. */
  trigger: text('trigger').notNull(),
  /** The kinds that it was narrowed to, as a JSON array; NULL for a run of every kind that the configuration includes. */
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
  /** Records that appeared, returning ones included. */
  added: integer('added').notNull(),
  /** Records whose content changed. */
  changed: integer('changed').notNull(),
  /** Records that left. */
  removed: integer('removed').notNull(),
  /** Records read and found as they were. */
  unchanged: integer('unchanged').notNull(),
  /** Why the run failed: a code. */
  errorCode: text('error_code').$type<ErrorCode>(),
  /** The same for people. */
  error: text('error'),
  /** SHA-256 over the run's revisions in key order; NULL unless published. */
  changeDigest: blob('change_digest', { mode: 'buffer' }),
  /** SHA-256 over the run's rows of `sweeps` and `carried_sweeps`; NULL unless published. */
  sweepDigest: blob('sweep_digest', { mode: 'buffer' }),
  /** `root` of the run published before it; for the first, `link` of the latest forget, NULL where nothing was. */
  previousRoot: blob('previous_root', { mode: 'buffer' }),
  /** `audit_log.entry` of the latest entry when it was published, and its hash; NULL where there was none. */
  lastEntry: integer('last_entry'),
  lastEntryHash: blob('last_entry_hash', { mode: 'buffer' }),
  /** SHA-256 over the previous root, this row's facts, its digests and the latest entry: seals the entire history up to here. */
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
    /** `full` or `head`; NULL where nothing was walked. */
    mode: text('mode').$type<SweepMode>(),
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
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
  },
  (table) => [primaryKey({ columns: [table.run, table.collection] })],
);

/**
 * Sweeps of runs that retention dropped, where they are the last sweep of their collection as of the kept run that
 * took their changes over: it reports each collection as before.
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
    /** 1 where that run was published: what another one read does not count. */
    isPublished: integer('is_published', { mode: 'boolean' }).notNull(),
    /** As in `sweeps`. */
    outcome: text('outcome').notNull().$type<SweepOutcome>(),
    mode: text('mode').$type<SweepMode>(),
    errorCode: text('error_code').$type<ErrorCode>(),
    error: text('error'),
  },
  (table) => [primaryKey({ columns: [table.run, table.collection, table.seenRun] })],
);
