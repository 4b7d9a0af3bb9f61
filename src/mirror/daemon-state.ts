/**
 * What the daemon remembers in the mirror: due times, jobs, and notices that are owed. Every method is one short
 * transaction; the writing ones need a mirror that is open for writing.
 */
import {
  type JobEnd,
  type JobFilter,
  type JobRow,
  type JobStart,
  beginJob,
  endDeadJobs,
  finishJob,
  readJob,
  readJobs,
} from './daemon-jobs.ts';
import {
  type Delivery,
  type DeliveryResult,
  type NoticeChange,
  type NoticeState,
  readDeliveries,
  readNoticeStates,
  readPendingDeliveries,
  recordDelivery,
  recordNotices,
} from './daemon-notices.ts';
import type { Connection } from './database.ts';

export interface ScheduleRow {
  readonly schedule: string;
  readonly cron: string;
  readonly zone: string;
  /** ISO 8601; when it is to start next. */
  readonly dueAt: string;
  readonly skippedTicks: number;
  readonly missedTicks: number;
}

export interface DaemonState {
  schedules(): ScheduleRow[];
  /** Replaces the row of the same schedule. */
  saveSchedule(row: ScheduleRow): void;
  dropSchedule(schedule: string): void;
  /** Newest first. */
  jobs(filter?: JobFilter): JobRow[];
  job(job: number): JobRow | undefined;
  beginJob(start: JobStart): number;
  /** @throws TidemarkError `internal` for a job that there is not */
  finishJob(job: number, end: JobEnd): void;
  /** Marks jobs that were running when their process died. Call it when no other daemon can be at work. */
  endDeadJobs(at: string): number;
  noticeStates(source?: string): NoticeState[];
  /** All of it or nothing. */
  recordNotices(change: NoticeChange): void;
  /** Deliveries that are neither done nor given up, oldest notice first; with `now`, only those due by then. */
  owedDeliveries(now?: string): Delivery[];
  /** The newest deliveries whatever came of them, newest first. */
  deliveries(limit: number): Delivery[];
  recordDelivery(result: DeliveryResult): void;
}

/** How the mirror lets its connections be used: reads see one published state, a write has the writer to itself. */
interface MirrorAccess {
  readonly read: <T>(work: (connection: Connection) => T) => T;
  /** @throws TidemarkError `internal` where the mirror is open for reading only, `mirror_locked` while a run is published */
  readonly change: <T>(work: (writer: Connection) => T) => T;
}

export function openDaemonState({ read, change }: MirrorAccess): DaemonState {
  return {
    schedules: () => read(readSchedules),
    saveSchedule: (row) => change((writer) => saveSchedule(writer, row)),
    dropSchedule: (schedule) =>
      change((writer) => void writer.prepare('DELETE FROM schedules WHERE schedule = ?').run(schedule)),
    jobs: (filter = {}) => read((connection) => readJobs(connection, filter)),
    job: (job) => read((connection) => readJob(connection, job)),
    beginJob: (start) => change((writer) => beginJob(writer, start)),
    finishJob: (job, end) => change((writer) => finishJob(writer, job, end)),
    endDeadJobs: (at) => change((writer) => endDeadJobs(writer, at)),
    noticeStates: (source) => read((connection) => readNoticeStates(connection, source)),
    recordNotices: (noticed) => change((writer) => recordNotices(writer, noticed)),
    owedDeliveries: (now) => read((connection) => readPendingDeliveries(connection, now)),
    deliveries: (limit) => read((connection) => readDeliveries(connection, limit)),
    recordDelivery: (result) => change((writer) => recordDelivery(writer, result)),
  };
}

function readSchedules(connection: Connection): ScheduleRow[] {
  return connection
    .prepare<[], ScheduleRow>(
      `SELECT schedule, cron, zone, due_at AS dueAt, skipped_ticks AS skippedTicks, missed_ticks AS missedTicks
       FROM schedules ORDER BY schedule`,
    )
    .all();
}

function saveSchedule(writer: Connection, row: ScheduleRow): void {
  writer
    .prepare(
      `INSERT OR REPLACE INTO schedules (schedule, cron, zone, due_at, skipped_ticks, missed_ticks)
       VALUES (:schedule, :cron, :zone, :dueAt, :skippedTicks, :missedTicks)`,
    )
    .run(row);
}
