/** The daemon's jobs as the mirror keeps them: one row each, the latest of each name and source. */
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Connection } from './database.ts';

export type JobName = 'sync' | 'drift' | 'verify' | 'forget' | 'drill' | 'copy';
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

export function readJobs(connection: Connection, filter: JobFilter): JobRow[] {
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

export function readJob(connection: Connection, job: number): JobRow | undefined {
  const found = connection.prepare<[number], StoredJob>(`SELECT ${JOB} FROM jobs WHERE job = ?`).get(job);
  return found === undefined ? undefined : jobOf(found);
}

export function finishJob(writer: Connection, job: number, end: JobEnd): void {
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

export function beginJob(writer: Connection, start: JobStart): number {
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
export function endDeadJobs(writer: Connection, at: string): number {
  return writer
    .prepare(`UPDATE jobs SET outcome = 'interrupted', finished_at = ? WHERE outcome = 'running'`)
    .run(at).changes;
}

function jobOf({ summary, ...row }: StoredJob): JobRow {
  return { ...row, summary: JSON.parse(summary) as JobRow['summary'] };
}
