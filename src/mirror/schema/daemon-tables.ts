/** What the daemon must remember across restarts: due times, what its jobs did, and pending notices. */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import type { JsonValue } from '../../core/json.ts';

type JsonObject = Readonly<Record<string, JsonValue>>;

/** The state of one schedule of the configuration. */
export const schedules = sqliteTable('schedules', {
  /** `sync`, `drift`, `verify`, `forget` or `drill`. */
  schedule: text('schedule').primaryKey(),
  /** The cron expression and zone from which `due_at` was computed: if they change, it is computed again. */
  cron: text('cron').notNull(),
  zone: text('zone').notNull(),
  /** When it starts next, jitter included. It is overdue if that is in the past. */
  dueAt: text('due_at').notNull(),
  /** Due times skipped because the same schedule was still running, since the mirror was created. */
  skippedTicks: integer('skipped_ticks').notNull(),
  /** Due times missed while no daemon ran, since the mirror was created; one start makes up for all of them. */
  missedTicks: integer('missed_ticks').notNull(),
});

/** How often syncs and backups are to be made, and since when: nothing becomes late just because the setting changed. */
export const intervals = sqliteTable('intervals', {
  /** `sync` or `backup`. */
  interval: text('interval').primaryKey(),
  /** The setting that it follows from, such as the cron expression and zone; `off since TIME` if it is turned off. */
  setting: text('setting').notNull(),
  intervalMs: integer('interval_ms').notNull(),
  /** When this setting replaced another one; NULL for the first one that the daemon knew. */
  changedAt: text('changed_at'),
  /** The allowed age before that; NULL for no limit. */
  beforeMs: integer('before_ms'),
});

/** The channels of notices and pings as the daemon, or the last `daemon --once`, had them: another process may have other variables. */
export const noticeChannels = sqliteTable('notice_channels', {
  /** `channel NAME` or `pings`. */
  channel: text('channel').primaryKey(),
  /** Why it cannot send, such as a variable that is not set; NULL if it can. */
  problem: text('problem'),
  /** `daemon`, or `once` for a call of `daemon --once`. */
  readBy: text('read_by').notNull().$type<'daemon' | 'once'>(),
  /** `Config.fileHash` of the configuration that was read. */
  fileHash: text('file_hash').notNull(),
});

/** One thing that the daemon did, for one source or for the mirror as a whole. The oldest rows are dropped. */
export const jobs = sqliteTable(
  'jobs',
  {
    job: integer('job').primaryKey({ autoIncrement: true }),
    /** `sync`, `drift`, `verify`, `forget`, `drill` or `backup`. */
    name: text('name').notNull().$type<'sync' | 'drift' | 'verify' | 'forget' | 'drill' | 'backup' | 'git'>(),
    /** Name of the source; NULL for what concerns the mirror as a whole. */
    source: text('source'),
    /** `schedule`, `overdue` (missed while down), `request` or `request of NAME (VIA)` (by HTTP or the command line, as in `runs`), `after_run` or `after_restore`. */
    trigger: text('trigger')
      .notNull()
      .$type<'schedule' | 'overdue' | 'request' | `request of ${string}` | 'after_run' | 'after_restore'>(),
    startedAt: text('started_at').notNull(),
    /** NULL while it runs, and for one whose process died. */
    finishedAt: text('finished_at'),
    /** `running`, `done`, `partial`, `failed`, `refused` (the key) or `interrupted`. */
    outcome: text('outcome')
      .notNull()
      .$type<'running' | 'done' | 'partial' | 'failed' | 'refused' | 'interrupted'>(),
    /** `runs.run` of a sync; NULL for the others. */
    run: integer('run'),
    /** The result, as a JSON object that depends on `name`; without secrets and without names of people. */
    summary: text('summary', { mode: 'json' }).notNull().$type<JsonObject>(),
    /** Why it failed: a code and a line for people; NULL if it did not. */
    errorCode: text('error_code'),
    error: text('error'),
  },
  (table) => [index('jobs_of').on(table.name, table.source, table.job)],
);

/** The last reported state of each subject of notices: only a transition is reported. */
export const noticeStates = sqliteTable(
  'notice_states',
  {
    /** Name of the source; empty for the mirror as a whole. */
    source: text('source').notNull(),
    /**
     * `run`, `removals`, `verify`, `audit_log`, `drill`, or `drift:` and the finding's fingerprint. Preceded by `perhaps:` if it is not
     * known whether it was reported: the mirror was restored from a backup, or the daemon was killed.
     */
    subject: text('subject').notNull(),
    /** E.g. `failed`, `partial`, `ok`, `open`. */
    state: text('state').notNull(),
    since: text('since').notNull(),
    /** The details whose change counts as another state, as a JSON object. */
    detail: text('detail', { mode: 'json' }).notNull().$type<JsonObject>(),
  },
  (table) => [primaryKey({ columns: [table.source, table.subject] })],
);

/** One transition to report. */
export const notices = sqliteTable('notices', {
  notice: integer('notice').primaryKey({ autoIncrement: true }),
  at: text('at').notNull(),
  source: text('source').notNull(),
  subject: text('subject').notNull(),
  /** E.g. `run_failed`, `run_recovered`, `drift_new`. */
  event: text('event').notNull(),
  /** The content from which each channel makes its message, as a JSON object; secrets masked. */
  content: text('content', { mode: 'json' }).notNull().$type<JsonObject>(),
});

/** A notice on its way through one channel; kept until delivered or given up. */
export const noticeDeliveries = sqliteTable(
  'notice_deliveries',
  {
    /** `notices.notice`. */
    notice: integer('notice').notNull(),
    /** Name of the channel in the configuration. */
    channel: text('channel').notNull(),
    attempts: integer('attempts').notNull(),
    /** The earliest time of the next attempt. */
    nextAttemptAt: text('next_attempt_at').notNull(),
    deliveredAt: text('delivered_at'),
    /** When it was given up: after too many attempts, or because the problem was over before it was sent. NULL until then. */
    givenUpAt: text('given_up_at'),
    /** Why the last attempt failed; NULL if the problem was over before it was sent. */
    error: text('error'),
  },
  (table) => [
    primaryKey({ columns: [table.notice, table.channel] }),
    index('notice_deliveries_due').on(table.deliveredAt, table.givenUpAt, table.nextAttemptAt),
  ],
);
