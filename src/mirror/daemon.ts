/**
 * What the daemon remembers in the mirror: due times, jobs, and notices that are pending. Every method is one short
 * transaction; the writing ones need a mirror that is open for writing.
 */
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { MirrorAccess } from './access.ts';
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

export class DaemonStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  schedules(): ScheduleRow[] {
    return this.#access.read(readSchedules);
  }

  /** Replaces the row of the same schedule. */
  saveSchedule(row: ScheduleRow): void {
    this.#access.change((writer) => saveSchedule(writer, row));
  }

  dropSchedule(schedule: string): void {
    this.#access.change((writer) => writer.prepare('DELETE FROM schedules WHERE schedule = ?').run(schedule));
  }

  /** Newest first. */
  jobs(filter: JobFilter = {}): JobRow[] {
    return this.#access.read((connection) => readJobs(connection, filter));
  }

  job(job: number): JobRow | undefined {
    return this.#access.read((connection) => readJob(connection, job));
  }

  beginJob(start: JobStart): number {
    return this.#access.change((writer) => beginJob(writer, start));
  }

  /** @throws TidemarkError `internal` for a job that does not exist */
  finishJob(job: number, end: JobEnd): void {
    this.#access.change((writer) => finishJob(writer, job, end));
  }

  /** Marks jobs that were running when their process died. Call it when no other daemon can be running. */
  endDeadJobs(at: string): number {
    return this.#access.change((writer) => endDeadJobs(writer, at));
  }

  noticeStates(source?: string): NoticeState[] {
    return this.#access.read((connection) => readNoticeStates(connection, source));
  }

  /** All of it or nothing. */
  recordNotices(change: NoticeChange): void {
    this.#access.change((writer) => recordNotices(writer, change));
  }

  /** Deliveries that are neither done nor given up, oldest notice first; with `now`, only those due by then. */
  pendingDeliveries(now?: string): Delivery[] {
    return this.#access.read((connection) => readPendingDeliveries(connection, now));
  }

  /** The newest deliveries whatever their result, newest first. */
  deliveries(limit: number): Delivery[] {
    return this.#access.read((connection) => readDeliveries(connection, limit));
  }

  recordDelivery(result: DeliveryResult): void {
    this.#access.change((writer) => recordDelivery(writer, result));
  }
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

// Notices in the mirror: the last notified state of each subject, and pending deliveries by channel.

/** The last notified state of one subject. */
export interface NoticeState {
  /** Empty for the mirror as a whole. */
  readonly source: string;
  readonly subject: string;
  readonly state: string;
  readonly since: string;
  readonly detail: Readonly<Record<string, JsonValue>>;
}

export interface Notice {
  readonly at: string;
  readonly source: string;
  readonly subject: string;
  readonly event: string;
  readonly content: Readonly<Record<string, JsonValue>>;
}

/** What one look at the world changes: new states, forgotten subjects, and the notices of it with their channels. */
interface NoticeChange {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly { readonly notice: Notice; readonly channels: readonly string[] }[];
}

export interface Delivery {
  readonly notice: number;
  readonly channel: string;
  readonly attempts: number;
  readonly nextAttemptAt: string;
  readonly deliveredAt: string | null;
  readonly givenUpAt: string | null;
  readonly error: string | null;
  readonly about: Notice;
}

export type DeliveryResult = Pick<
  Delivery,
  'notice' | 'channel' | 'attempts' | 'nextAttemptAt' | 'deliveredAt' | 'givenUpAt' | 'error'
>;

/** Finished notices that are kept. */
const KEPT_NOTICES = 1000;

const DELIVERY = `d.notice, d.channel, d.attempts, d.next_attempt_at AS nextAttemptAt, d.delivered_at AS deliveredAt,
  d.given_up_at AS givenUpAt, d.error, n.at, n.source, n.subject, n.event, n.content
  FROM notice_deliveries d JOIN notices n USING (notice)`;

type StoredState = Omit<NoticeState, 'detail'> & { readonly detail: string };
type StoredDelivery = Omit<Delivery, 'about'> & Omit<Notice, 'content'> & { readonly content: string };

function readNoticeStates(connection: Connection, source: string | undefined): NoticeState[] {
  return connection
    .prepare<{ source: string | null }, StoredState>(
      `SELECT source, subject, state, since, detail FROM notice_states
       WHERE :source IS NULL OR source = :source ORDER BY source, subject`,
    )
    .all({ source: source ?? null })
    .map(({ detail, ...row }) => ({ ...row, detail: JSON.parse(detail) as NoticeState['detail'] }));
}

function readPendingDeliveries(connection: Connection, now: string | undefined): Delivery[] {
  return connection
    .prepare<{ now: string | null }, StoredDelivery>(
      `SELECT ${DELIVERY} WHERE d.delivered_at IS NULL AND d.given_up_at IS NULL
         AND (:now IS NULL OR d.next_attempt_at <= :now) ORDER BY d.notice, d.channel`,
    )
    .all({ now: now ?? null })
    .map(deliveryOf);
}

function recordDelivery(writer: Connection, result: DeliveryResult): void {
  writer
    .prepare(
      `UPDATE notice_deliveries SET attempts = :attempts, next_attempt_at = :nextAttemptAt,
         delivered_at = :deliveredAt, given_up_at = :givenUpAt, error = :error
       WHERE notice = :notice AND channel = :channel`,
    )
    .run(result);
}

/** Newest first. */
function readDeliveries(connection: Connection, limit: number): Delivery[] {
  return connection
    .prepare<[number], StoredDelivery>(`SELECT ${DELIVERY} ORDER BY d.notice DESC, d.channel LIMIT ?`)
    .all(limit)
    .map(deliveryOf);
}

function recordNotices(writer: Connection, { states, cleared, notices }: NoticeChange): void {
  const save = writer.prepare(
    `INSERT OR REPLACE INTO notice_states (source, subject, state, since, detail) VALUES (?, ?, ?, ?, ?)`,
  );
  const clear = writer.prepare('DELETE FROM notice_states WHERE source = ? AND subject = ?');
  const insert = writer.prepare(
    'INSERT INTO notices (at, source, subject, event, content) VALUES (?, ?, ?, ?, ?)',
  );
  const owe = writer.prepare(
    'INSERT INTO notice_deliveries (notice, channel, attempts, next_attempt_at) VALUES (?, ?, 0, ?)',
  );
  writer
    .transaction((): void => {
      for (const { source, subject, state, since, detail } of states) {
        save.run(source, subject, state, since, JSON.stringify(detail));
      }
      for (const { source, subject } of cleared) clear.run(source, subject);
      for (const { notice, channels } of notices) {
        const { at, source, subject, event, content } = notice;
        const { lastInsertRowid } = insert.run(at, source, subject, event, JSON.stringify(content));
        for (const channel of channels) owe.run(lastInsertRowid, channel, at);
      }
      dropOldNotices(writer);
    })
    .immediate();
}

function dropOldNotices(writer: Connection): void {
  const settled = `SELECT notice FROM notices n WHERE NOT EXISTS (
      SELECT 1 FROM notice_deliveries d WHERE d.notice = n.notice AND d.delivered_at IS NULL AND d.given_up_at IS NULL)
    ORDER BY notice DESC LIMIT -1 OFFSET ${KEPT_NOTICES}`;
  writer.prepare(`DELETE FROM notice_deliveries WHERE notice IN (${settled})`).run();
  writer.prepare(`DELETE FROM notices WHERE notice IN (${settled})`).run();
}

function deliveryOf({ at, source, subject, event, content, ...row }: StoredDelivery): Delivery {
  const about = { at, source, subject, event, content: JSON.parse(content) as Notice['content'] };
  return { ...row, about };
}

// The daemon's jobs as the mirror keeps them: one row each, the latest of each name and source.

export type JobName = 'sync' | 'drift' | 'verify' | 'forget' | 'drill' | 'backup';
export type JobTrigger = 'schedule' | 'overdue' | 'request' | 'after_run';
/** `refused`: the service refused the key. */
export type JobOutcome = 'running' | 'done' | 'partial' | 'failed' | 'refused' | 'interrupted';

export interface JobStart {
  readonly name: JobName;
  readonly source: string | null;
  readonly trigger: JobTrigger;
  readonly startedAt: string;
}

export interface JobEnd {
  readonly finishedAt: string;
  readonly outcome: Exclude<JobOutcome, 'running'>;
  /** The run of a sync. */
  readonly run: number | null;
  readonly summary: Readonly<Record<string, JsonValue>>;
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface JobRow extends JobStart, Omit<JobEnd, 'finishedAt' | 'outcome'> {
  readonly job: number;
  /** Null while it runs, and for one whose process died. */
  readonly finishedAt: string | null;
  readonly outcome: JobOutcome;
}

export interface JobFilter {
  readonly name?: JobName;
  readonly source?: string | null;
  readonly limit?: number;
}

/** Jobs that are kept of each name and source: a month of half-hourly syncs. */
const KEPT_JOBS = 1500;

const JOB = `job, name, source, "trigger", started_at AS startedAt, finished_at AS finishedAt, outcome, run, summary,
  error_code AS errorCode, error`;

type StoredJob = Omit<JobRow, 'summary'> & { readonly summary: string };

function readJobs(connection: Connection, filter: JobFilter): JobRow[] {
  return connection
    .prepare<{ name: string | null; any: number; source: string | null; limit: number }, StoredJob>(
      `SELECT ${JOB} FROM jobs WHERE (:name IS NULL OR name = :name) AND (:any OR source IS :source)
       ORDER BY job DESC LIMIT :limit`,
    )
    .all({
      name: filter.name ?? null,
      any: filter.source === undefined ? 1 : 0,
      source: filter.source ?? null,
      limit: filter.limit ?? -1,
    })
    .map(jobOf);
}

function readJob(connection: Connection, job: number): JobRow | undefined {
  const found = connection.prepare<[number], StoredJob>(`SELECT ${JOB} FROM jobs WHERE job = ?`).get(job);
  return found === undefined ? undefined : jobOf(found);
}

function finishJob(writer: Connection, job: number, end: JobEnd): void {
  const { changes } = writer
    .prepare(
      `UPDATE jobs SET finished_at = ?, outcome = ?, run = ?, summary = ?, error_code = ?, error = ? WHERE job = ?`,
    )
    .run(
      ...[end.finishedAt, end.outcome, end.run, JSON.stringify(end.summary)],
      ...[end.errorCode, end.error, job],
    );
  if (changes !== 1) throw new TidemarkError('internal', `there is no job ${job}`);
}

function beginJob(writer: Connection, start: JobStart): number {
  return writer
    .transaction((): number => {
      const { lastInsertRowid } = writer
        .prepare(
          `INSERT INTO jobs (name, source, "trigger", started_at, outcome, summary) VALUES (?, ?, ?, ?, 'running', '{}')`,
        )
        .run(start.name, start.source, start.trigger, start.startedAt);
      writer
        .prepare(
          `DELETE FROM jobs WHERE name = :name AND source IS :source AND job <= (
             SELECT job FROM jobs WHERE name = :name AND source IS :source ORDER BY job DESC LIMIT 1 OFFSET :kept)`,
        )
        .run({ name: start.name, source: start.source, kept: KEPT_JOBS });
      return Number(lastInsertRowid);
    })
    .immediate();
}

/** How many there were. */
function endDeadJobs(writer: Connection, at: string): number {
  return writer
    .prepare(`UPDATE jobs SET outcome = 'interrupted', finished_at = ? WHERE outcome = 'running'`)
    .run(at).changes;
}

function jobOf({ summary, ...row }: StoredJob): JobRow {
  return { ...row, summary: JSON.parse(summary) as JobRow['summary'] };
}
