/**
 * What the daemon stores in the mirror: due times, jobs, and pending notices. Each method is one short transaction; writing needs a
 * mirror that is open for writing.
 */
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import { and, asc, desc, eq, gt, inArray, lte, max, sql } from 'drizzle-orm';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import type { MirrorAccess } from './access.ts';
import { type Connection, transact } from './database.ts';
import { columnsWithout, excluded, param, paramsOf, prepared, unlessGiven } from './query.ts';
import {
  readChannelsReportedTo,
  readDeliveries,
  readNoticeStates,
  readPendingDeliveries,
  recordDelivery,
  recordNotices,
} from './notice-rows.ts';
import { intervals, jobs, noticeChannels, schedules } from './schema/daemon-tables.ts';

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
      noticeStates: readNoticeStates,
      channelsReportedTo: readChannelsReportedTo,
      pendingDeliveries: readPendingDeliveries,
      deliveries: readDeliveries,
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
      recordDelivery,
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
