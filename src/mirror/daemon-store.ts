/**
 * What the daemon stores in the mirror: due times, jobs, and pending notices. Each method is one short transaction; writing needs a
 * mirror that is open for writing.
 */
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import {
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  gt,
  gte,
  inArray,
  isNull,
  lte,
  max,
  notExists,
  sql,
} from 'drizzle-orm';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import type { MirrorAccess } from './access.ts';
import { type Connection, transact } from './database.ts';
import {
  type QueryBuilder,
  columnsWithout,
  excluded,
  param,
  paramsOf,
  prepared,
  unlessGiven,
} from './query.ts';
import {
  intervals,
  jobs,
  noticeChannels,
  noticeDeliveries,
  noticeStates,
  notices,
  schedules,
} from './schema/daemon-tables.ts';

export type ScheduleRow = typeof schedules.$inferSelect;
export type IntervalRow = Readonly<typeof intervals.$inferSelect>;
export type ChannelRow = Readonly<typeof noticeChannels.$inferSelect>;

export type DaemonStore = ReturnType<typeof daemonStore>;

export function daemonStore(access: MirrorAccess) {
  return {
    ...access.reads({
      schedules: (connection) => SCHEDULES(connection).all(),
      intervals: (connection): IntervalRow[] => INTERVALS(connection).all(),
      /** By name. */
      channels: (connection): ChannelRow[] => CHANNELS(connection).all(),
      /** Newest first. */
      jobs: (connection, { name, source, limit = -1 }: JobFilter = {}): JobRow[] => {
        const isOfAny = source === undefined ? 1 : 0;
        return JOBS(connection).all({ name: name ?? null, isOfAny, source: source ?? null, limit });
      },
      /** True if a job stored a backup in the target with this address, or found that the target had been emptied. */
      hasStoredIn: (connection, address: string): boolean =>
        STORED_IN(connection).get({ address }) !== undefined,
      /** Name of the backup that was stored last in a target; undefined if there is none. */
      lastStoredIn: (connection, address: string): string | undefined =>
        LAST_STORED_IN(connection).get({ address })?.file,
      /** The newest job of each name and source, in order of both; those of the mirror as a whole first. */
      newestJobs: (connection): JobRow[] => NEWEST_JOBS(connection).all(),
      /** For each source, by name: the newest job of that name that ended as `done` or `partial`. */
      newestFinishedJobs: (connection, name: JobName): JobRow[] =>
        NEWEST_FINISHED_JOBS(connection).all({ name }),
      /** The newest job of each name and source that damage stopped since the last check of all contents that found nothing. */
      damagedJobs: (connection): JobRow[] => DAMAGED_JOBS(connection).all(),
      /** The newest verification that ran to its end, whatever it found. */
      lastVerification: (connection): JobRow | undefined => LAST_VERIFICATION(connection).get(),
      job: (connection, job: number): JobRow | undefined => ONE_JOB(connection).get({ job }),
      noticeStates: (connection, source?: string): NoticeState[] =>
        NOTICE_STATES(connection).all({ source: source ?? null }),
      /** The channels by which a subject was or will be reported; with `since` (ISO 8601), from then on. */
      channelsReportedTo: (connection, source: string, subject: string, since?: string): string[] =>
        CHANNELS_REPORTED_TO(connection)
          .all({ source, subject, since: since ?? null })
          .map(({ channel }) => channel),
      /** Deliveries that are neither done nor given up, oldest notice first; with `now`, only those that are due. */
      pendingDeliveries: (connection, now?: string): Delivery[] =>
        PENDING_DELIVERIES(connection).all({ now: now ?? null }),
      /** The newest deliveries whatever their result, newest first. */
      deliveries: (connection, limit: number): Delivery[] => DELIVERIES(connection).all({ limit }),
    }),
    ...access.changes({
      /** Replaces the row of the same schedule. */
      saveSchedule: (writer, row: ScheduleRow) => void SAVE_SCHEDULE(writer).run({ ...row }),
      dropSchedule: (writer, schedule: string) => void DROP_SCHEDULE(writer).run({ schedule }),
      /** Replaces the rows of all intervals. */
      saveIntervals,
      /** Replaces the rows of all channels. */
      saveChannels,
      beginJob,
      finishJob,
      /** Ends jobs whose process died as interrupted. Call it when no other daemon can be running. */
      endDeadJobs: (writer, at: string): number => END_DEAD_JOBS(writer).run({ at }).changes,
      recordNotices,
      recordDelivery: (writer, result: DeliveryResult) => void RECORD_DELIVERY(writer).run({ ...result }),
    }),
  };
}

const SCHEDULES = prepared((db) => db.select().from(schedules).orderBy(asc(schedules.schedule)));

const SAVE_SCHEDULE = prepared((db) => {
  const set = excluded(columnsWithout(schedules, 'schedule'));
  return db
    .insert(schedules)
    .values(paramsOf(schedules))
    .onConflictDoUpdate({ target: schedules.schedule, set });
});

const DROP_SCHEDULE = prepared((db) => db.delete(schedules).where(eq(schedules.schedule, param('schedule'))));

const INTERVALS = prepared((db) => db.select().from(intervals).orderBy(asc(intervals.interval)));

const DROP_INTERVALS = prepared((db) => db.delete(intervals));

const ADD_INTERVAL = prepared((db) => db.insert(intervals).values(paramsOf(intervals)));

function saveIntervals(writer: Connection, rows: readonly IntervalRow[]): void {
  replaceRows(writer, DROP_INTERVALS(writer), ADD_INTERVAL(writer), rows);
}

function replaceRows(
  writer: Connection,
  drop: { run(): unknown },
  add: { run(row: Record<string, unknown>): unknown },
  rows: readonly object[],
): void {
  transact(writer, () => {
    drop.run();
    for (const row of rows) add.run({ ...row });
  });
}

const CHANNELS = prepared((db) => db.select().from(noticeChannels).orderBy(asc(noticeChannels.channel)));

const DROP_CHANNELS = prepared((db) => db.delete(noticeChannels));

const ADD_CHANNEL = prepared((db) => db.insert(noticeChannels).values(paramsOf(noticeChannels)));

function saveChannels(writer: Connection, rows: readonly ChannelRow[]): void {
  replaceRows(writer, DROP_CHANNELS(writer), ADD_CHANNEL(writer), rows);
}

// Notices in the mirror: the last notified state of each subject, and pending deliveries by channel.

/** The last notified state of one subject. */
export type NoticeState = Readonly<typeof noticeStates.$inferSelect>;

export type Notice = Readonly<Omit<typeof notices.$inferSelect, 'notice'>>;

/** The result of one observation: new states, cleared subjects, and the notices with their channels. */
interface NoticeChange {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly { readonly notice: Notice; readonly channels: readonly string[] }[];
}

export interface Delivery extends DeliveryResult {
  readonly about: Notice;
}

export type DeliveryResult = Readonly<typeof noticeDeliveries.$inferSelect>;

/** How many finished notices are kept. */
const KEPT_NOTICES = 1000;

const NOTICE_STATES = prepared((db) =>
  db
    .select()
    .from(noticeStates)
    .where(unlessGiven('source', eq(noticeStates.source, param('source'))))
    .orderBy(asc(noticeStates.source), asc(noticeStates.subject)),
);

function deliveriesWithNotices(db: QueryBuilder) {
  return db
    .select({ ...getTableColumns(noticeDeliveries), about: columnsWithout(notices, 'notice') })
    .from(noticeDeliveries)
    .innerJoin(notices, eq(notices.notice, noticeDeliveries.notice))
    .$dynamic();
}

const IS_PENDING = and(isNull(noticeDeliveries.deliveredAt), isNull(noticeDeliveries.givenUpAt));

const PENDING_DELIVERIES = prepared((db) =>
  deliveriesWithNotices(db)
    .where(and(IS_PENDING, unlessGiven('now', lte(noticeDeliveries.nextAttemptAt, param('now')))))
    .orderBy(asc(noticeDeliveries.notice), asc(noticeDeliveries.channel)),
);

const CHANNELS_REPORTED_TO = prepared((db) =>
  db
    .selectDistinct({ channel: noticeDeliveries.channel })
    .from(noticeDeliveries)
    .innerJoin(notices, eq(notices.notice, noticeDeliveries.notice))
    .where(
      and(
        eq(notices.source, param('source')),
        eq(notices.subject, param('subject')),
        isNull(noticeDeliveries.givenUpAt),
        unlessGiven('since', gte(notices.at, param('since'))),
      ),
    ),
);

const DELIVERIES = prepared((db) =>
  deliveriesWithNotices(db)
    .orderBy(desc(noticeDeliveries.notice), asc(noticeDeliveries.channel))
    .limit(param('limit')),
);

const RECORD_DELIVERY = prepared((db) => {
  const { notice, channel, ...rest } = paramsOf(noticeDeliveries);
  return db
    .update(noticeDeliveries)
    .set(rest)
    .where(and(eq(noticeDeliveries.notice, notice), eq(noticeDeliveries.channel, channel)));
});

const SAVE_STATE = prepared((db) => {
  const { source, subject, ...rest } = getTableColumns(noticeStates);
  return db
    .insert(noticeStates)
    .values(paramsOf(noticeStates))
    .onConflictDoUpdate({ target: [source, subject], set: excluded(rest) });
});

const CLEAR_STATE = prepared((db) =>
  db
    .delete(noticeStates)
    .where(and(eq(noticeStates.source, param('source')), eq(noticeStates.subject, param('subject')))),
);

const ADD_NOTICE = prepared((db) => {
  const { at, source, subject, event, content } = paramsOf(notices);
  return db.insert(notices).values({ at, source, subject, event, content });
});

const ADD_DELIVERY = prepared((db) => {
  const { notice, channel, nextAttemptAt } = paramsOf(noticeDeliveries);
  return db.insert(noticeDeliveries).values({ notice, channel, nextAttemptAt, attempts: 0 });
});

export function saveNoticeStates(writer: Connection, states: readonly NoticeState[]): void {
  for (const state of states) SAVE_STATE(writer).run({ ...state });
}

function recordNotices(writer: Connection, change: NoticeChange): void {
  transact(writer, (): void => {
    saveNoticeStates(writer, change.states);
    for (const { source, subject } of change.cleared) CLEAR_STATE(writer).run({ source, subject });
    for (const { notice, channels } of change.notices) {
      const { lastInsertRowid } = ADD_NOTICE(writer).run({ ...notice });
      for (const channel of channels) {
        ADD_DELIVERY(writer).run({ notice: lastInsertRowid, channel, nextAttemptAt: notice.at });
      }
    }
    DROP_OLD_DELIVERIES(writer).run();
    DROP_OLD_NOTICES(writer).run();
  });
}

const DROP_OLD_DELIVERIES = prepared((db) =>
  db.delete(noticeDeliveries).where(inArray(noticeDeliveries.notice, oldNotices(db))),
);

const DROP_OLD_NOTICES = prepared((db) => db.delete(notices).where(inArray(notices.notice, oldNotices(db))));

/** Numbers of notices without a pending delivery, without the newest ones of them. */
function oldNotices(db: QueryBuilder) {
  const pending = db
    .select({ notice: noticeDeliveries.notice })
    .from(noticeDeliveries)
    .where(and(eq(noticeDeliveries.notice, notices.notice), IS_PENDING));
  return (
    db
      .select({ notice: notices.notice })
      .from(notices)
      .where(notExists(pending))
      .orderBy(desc(notices.notice))
      // SQLite has no offset without a limit.
      .limit(Number.MAX_SAFE_INTEGER)
      .offset(KEPT_NOTICES)
  );
}

// The daemon's jobs: the mirror keeps the latest of each name and source.

export type JobRow = Readonly<typeof jobs.$inferSelect>;
export type JobName = JobRow['name'];

/** In the order in which lists show them. */
export const JOB_NAMES = [
  'sync',
  'drift',
  'verify',
  'forget',
  'drill',
  'backup',
  'git',
] as const satisfies readonly JobName[];
/** A stored trigger may also name who requested the job. */
export const JOB_TRIGGERS = ['schedule', 'overdue', 'request', 'after_run', 'after_restore'] as const;
export type JobTrigger = (typeof JOB_TRIGGERS)[number];
export type JobOutcome = JobRow['outcome'];

export type JobStart = Pick<JobRow, 'name' | 'source' | 'trigger' | 'startedAt'>;

export interface JobEnd extends Pick<JobRow, 'run' | 'summary' | 'errorCode' | 'error'> {
  readonly finishedAt: string;
  readonly outcome: Exclude<JobOutcome, 'running'>;
}

interface JobFilter {
  readonly name?: JobName;
  readonly source?: string | null;
  readonly limit?: number;
}

/** How many jobs of each name and source are kept: a month of half-hourly syncs. */
const KEPT_JOBS = 1500;

const JOBS = prepared((db) =>
  db
    .select()
    .from(jobs)
    .where(
      and(
        unlessGiven('name', eq(jobs.name, param('name'))),
        sql`(${param('isOfAny')} OR ${jobs.source} IS ${param('source')})`,
      ),
    )
    .orderBy(desc(jobs.job))
    .limit(param('limit')),
);

/** Reads summaries of backup jobs (`daemon/jobs/summaries.ts`). A job that found the target emptied counts, as the last success may be dropped. */
const STORED_IN = prepared((db) =>
  db
    .select({ job: jobs.job })
    .from(jobs)
    .where(
      and(
        eq(jobs.name, 'backup'),
        sql`EXISTS (SELECT 1 FROM json_each(${jobs.summary}, '$.targets')
          WHERE value ->> 'address' = ${param('address')} AND (value ->> 'error' IS NULL OR value ->> 'isEmptied'))`,
      ),
    )
    .limit(1),
);

const LAST_STORED_IN = prepared((db) =>
  db
    .select({ file: sql<string>`${jobs.summary} ->> '$.file'` })
    .from(jobs)
    .where(
      and(
        eq(jobs.name, 'backup'),
        sql`${jobs.summary} ->> '$.file' IS NOT NULL`,
        sql`EXISTS (SELECT 1 FROM json_each(${jobs.summary}, '$.targets')
          WHERE value ->> 'address' = ${param('address')} AND value ->> 'error' IS NULL)`,
      ),
    )
    .orderBy(desc(jobs.job))
    .limit(1),
);

const ONE_JOB = prepared((db) =>
  db
    .select()
    .from(jobs)
    .where(eq(jobs.job, param('job'))),
);

const NEWEST_JOBS = prepared((db) => {
  const newest = db
    .select({ job: max(jobs.job) })
    .from(jobs)
    .groupBy(jobs.name, jobs.source);
  return db.select().from(jobs).where(inArray(jobs.job, newest)).orderBy(asc(jobs.name), asc(jobs.source));
});

const NEWEST_FINISHED_JOBS = prepared((db) => {
  const newest = db
    .select({ job: max(jobs.job) })
    .from(jobs)
    .where(and(eq(jobs.name, param('name')), inArray(jobs.outcome, ['done', 'partial'])))
    .groupBy(jobs.source);
  return db.select().from(jobs).where(inArray(jobs.job, newest)).orderBy(asc(jobs.source));
});

/** Reads summaries of jobs (`daemon/jobs/summaries.ts`). A job that failed because of the audit log found no damage. */
const DAMAGED_JOBS = prepared((db) => {
  const verified = db
    .select({ job: sql`coalesce(${max(jobs.job)}, 0)` })
    .from(jobs)
    .where(and(eq(jobs.name, 'verify'), sql`${jobs.summary} ->> '$.problems' = 0`));
  // A backup job checks all contents before it stores them.
  const backedUp = db
    .select({ job: sql`coalesce(${max(jobs.job)}, 0)` })
    .from(jobs)
    .where(
      and(
        eq(jobs.name, 'backup'),
        inArray(jobs.outcome, ['done', 'partial']),
        sql`${jobs.summary} ->> '$.file' IS NOT NULL`,
      ),
    );
  const newest = db
    .select({ job: max(jobs.job) })
    .from(jobs)
    .where(
      and(
        gt(jobs.job, verified),
        gt(jobs.job, backedUp),
        eq(jobs.errorCode, 'mirror_corrupt' satisfies ErrorCode),
        sql`${jobs.summary} ->> '$.isOfAuditLog' IS NOT 1`,
      ),
    )
    .groupBy(jobs.name, jobs.source);
  return db.select().from(jobs).where(inArray(jobs.job, newest)).orderBy(asc(jobs.job));
});

const LAST_VERIFICATION = prepared((db) =>
  db
    .select()
    .from(jobs)
    .where(and(eq(jobs.name, 'verify'), sql`${jobs.summary} ->> '$.job' = 'verify'`))
    .orderBy(desc(jobs.job))
    .limit(1),
);

const FINISH_JOB = prepared((db) => {
  const { finishedAt, outcome, run, summary, errorCode, error } = paramsOf(jobs);
  return db
    .update(jobs)
    .set({ finishedAt, outcome, run, summary, errorCode, error })
    .where(eq(jobs.job, param('job')));
});

/** @throws TidemarkError `internal` for a job that does not exist */
function finishJob(writer: Connection, job: number, end: JobEnd): void {
  const { changes } = FINISH_JOB(writer).run({ ...end, job });
  if (changes !== 1) throw new TidemarkError('internal', `there is no job ${job}`);
}

const ADD_JOB = prepared((db) => {
  const { name, source, trigger, startedAt } = paramsOf(jobs);
  return db.insert(jobs).values({ name, source, trigger, startedAt, outcome: 'running', summary: {} });
});

const DROP_OLD_JOBS = prepared((db) => {
  const isOfThese = and(eq(jobs.name, param('name')), sql`${jobs.source} IS ${param('source')}`);
  const newestDropped = db
    .select({ job: jobs.job })
    .from(jobs)
    .where(isOfThese)
    .orderBy(desc(jobs.job))
    .limit(1)
    .offset(KEPT_JOBS);
  return db.delete(jobs).where(and(isOfThese, lte(jobs.job, newestDropped)));
});

function beginJob(writer: Connection, start: JobStart): number {
  return transact(writer, (): number => {
    const { lastInsertRowid } = ADD_JOB(writer).run({
      ...start,
      trigger: withoutUrlSecrets(start.trigger, MASK),
    });
    DROP_OLD_JOBS(writer).run({ name: start.name, source: start.source });
    return Number(lastInsertRowid);
  });
}

const END_DEAD_JOBS = prepared((db) =>
  db
    .update(jobs)
    .set({ outcome: 'interrupted', finishedAt: sql`${param('at')}` })
    .where(eq(jobs.outcome, 'running')),
);
