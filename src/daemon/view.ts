/** What health, metrics, API and dashboard see of the running daemon, and what they may request. They read all else from the mirror. */
import type { Kind } from '../catalog/kinds.ts';
import type { Config, ScheduleName } from '../config/config.ts';
import type { Actor } from '../core/actor.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { JobName, JobRow, JobTrigger } from '../mirror/daemon-store.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { BackupCatalog } from '../backup/known-backups.ts';
import type { IntervalChange, IntervalName } from './schedule/intervals.ts';

/** The progress of a sync with a kind. */
export interface KindProgress {
  readonly kind: Kind;
  readonly records: number;
  /** The number of all records, as far as the mirror knows; null if one of the lists was never read. */
  readonly expected: number | null;
  /** The number of lists that ended, of those among them that were not read completely, and of those that have not ended. */
  readonly lists: number;
  readonly failed: number;
  readonly pending: number;
}

/** The progress of a job. */
export interface JobProgress {
  readonly records: number;
  /** The number of pages of lists, and of responses to requests for one record. */
  readonly pages: number;
  /** True while it sends no requests because it publishes what it has read. */
  readonly isLocal: boolean;
  readonly kinds: readonly KindProgress[];
}

/** A running job. */
export interface RunningJob {
  readonly job: number;
  readonly name: JobName;
  readonly source: string | null;
  readonly trigger: JobTrigger;
  /** ISO 8601. */
  readonly startedAt: string;
  /**
   * Of a sync; null for other jobs. `waitingUntil`: until when all its requests wait for the rate limit, epoch milliseconds; null while
   * some may start, or if the service asked to wait.
   */
  readonly progress:
    ({ readonly requests: number; readonly waitingUntil: number | null } & JobProgress) | null;
  /** Of a sync: milliseconds since its service last answered, or it last worked locally; null for other jobs. */
  readonly silentMs?: number | null;
  /** Of a sync: until when it waits because the service asked for it, epoch milliseconds; left out if it does not. */
  readonly pausedUntil?: number | undefined;
  /** Of a backup: address of the target that has not answered for some seconds; null for none. */
  readonly waitsFor?: string | null;
}

/** A job whose end could not be recorded in the mirror, as on a full disk. */
export interface UnwrittenJob {
  /** `job` is 0 if its begin could not be recorded either. */
  readonly row: JobRow;
  readonly isOfAllKinds: boolean;
  /** When the first of these jobs ended that had this outcome one after the other, ISO 8601. */
  readonly since: string;
}

/** A schedule that is on. */
export interface ScheduleView {
  readonly schedule: ScheduleName;
  readonly cron: string;
  readonly zone: string;
  readonly sources: readonly string[];
  /** ISO 8601; null if it will never start (`forget` without retention). */
  readonly dueAt: string | null;
  /** Longest usual time between two ticks, milliseconds: freshness is measured by it. */
  readonly intervalMs: number;
  readonly skippedTicks: number;
  readonly missedTicks: number;
  /** Of the sync: the sources that it skips for a while because their service did not answer; left out for none. */
  readonly paused?: readonly SchedulePause[];
}

interface SchedulePause {
  readonly source: string;
  /** ISO 8601. */
  readonly until: string;
}

/** Request counts of a source since the daemon started. */
export interface SourceRequestStats {
  readonly source: string;
  readonly requests: number;
  readonly retries: number;
  readonly throttled: number;
  /** Requests that the rate still allows within this minute and this hour; null if there is no limit or it is not known. */
  readonly leftThisMinute: number | null;
  readonly leftThisHour: number | null;
}

/** A current problem of the daemon. It is logged when it begins and when it ends. */
export interface DaemonProblem {
  /** `config`, `lock`, `mirror`, `http`, `registration`, `records`, `rate:` with a source, or `job:` with name and source. */
  readonly about: string;
  /** ISO 8601. */
  readonly since: string;
  readonly error: TidemarkError;
}

/** How a requested sync differs from a scheduled one. */
export interface JobRequest {
  /** Recordings are read completely. */
  readonly full?: boolean;
  /** Only these kinds; null and left out for all. */
  readonly kinds?: readonly Kind[] | null;
  /** It becomes part of a waiting sync of the source that reads as much, or that has `joins` too and is widened. */
  readonly joins?: boolean;
  /** Of a sync: it begins although the service asked to wait. */
  readonly ignoresPause?: boolean;
  /** Who requests it. */
  readonly actor?: Actor;
}

/** The name and source of a job. */
export type JobIdentity = Pick<RunningJob, 'name' | 'source'>;

/** A requested job. The number of the request is valid as long as this daemon runs. */
export interface RequestedJob extends JobIdentity {
  readonly request: number;
}

/** The state of a request. */
export type RequestStatus = JobIdentity &
  (
    | {
        readonly state: 'waiting';
        /** The jobs that run and wait before it, first to start first. */
        readonly before: readonly JobIdentity[];
      }
    /** `job` is null while its begin is not recorded. */
    | { readonly state: 'running'; readonly job: number | null }
    /** `job` is null if it did not begin; `error` then says why, if that is known. */
    | { readonly state: 'ended'; readonly job: number | null; readonly error: TidemarkError | null }
  );

/** One mirror of the daemon. A daemon of many mirrors has one for each (`DaemonCells`). */
export interface DaemonView {
  /** ISO 8601. */
  readonly startedAt: string;
  /** When the daemon got the source: its start, or the reload that added the source; ISO 8601. */
  addedAt(source: string): string;
  /** When a reload added the source to the schedule of syncs, ISO 8601; null if it was there at the start. */
  scheduledAt(source: string): string | null;
  /** The configuration in force, of this mirror. */
  config(): Config;
  /** Why the newest configuration is not in force; null if it is. */
  configProblem(): TidemarkError | null;
  /**
   * The mirror, open for reading as long as the daemon runs; reopened if the file was replaced.
   * @throws TidemarkError `mirror_missing`, and as `openMirror`
   */
  mirror(): Mirror;
  /** By source, the last complete run when the mirror was last read: still known if it cannot be read any more. */
  readonly completeRuns: Map<string, RunRow>;
  /** A reader for one piece of work; the caller closes it. @throws as `mirror` */
  openReader(): Mirror;
  /** The backups in the targets, if there are any. */
  readonly backups: Pick<BackupCatalog, 'look' | 'known' | 'remembered'>;
  /** The schedules that are on, in the order of the configuration. */
  schedules(): readonly ScheduleView[];
  /** The last change of the interval; null if it was never changed. */
  intervalChange(name: IntervalName): IntervalChange | null;
  running(): readonly RunningJob[];
  /** Jobs whose end could not be recorded, the latest of each name and source. Left out without a daemon. */
  unwritten?(): readonly UnwrittenJob[];
  /** The waiting jobs, first to start first. */
  queued(): readonly (Pick<RunningJob, 'name' | 'source' | 'trigger'> & {
    /** Of a backup: since when it waits, ISO 8601. */
    readonly since?: string;
    /** The source whose running sync it waits for, because both have one rate limit; left out if it waits for something else. */
    readonly waitsFor?: string;
  })[];
  stats(): readonly SourceRequestStats[];
  /** The current problems, oldest first. */
  problems(): readonly DaemonProblem[];
  /**
   * Queues a job, unless an equal one is queued already.
   * @returns the jobs that wait now, one for each source
   * @throws TidemarkError `usage` for a source that does not exist, `throttled` if too many wait, `interrupted` while the daemon stops
   */
  request(name: JobName, sources: readonly string[] | null, how?: JobRequest): readonly RequestedJob[];
  /**
   * Does short work on the mirror, which must not await anything, as soon as nobody else writes.
   * @throws TidemarkError `mirror_locked` if a job or another process continues to write
   */
  change<T>(what: string, actor: Actor, work: (mirror: Mirror) => T): Promise<T>;
  /** The state of a request; null if this daemon does not know it, or no longer. */
  requested(request: number): RequestStatus | null;
}
