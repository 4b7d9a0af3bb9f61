/**
 * What health, metrics, API and dashboard may know of the running daemon, and the requests that they may make. They
 * read everything else from the mirror.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { Config, ScheduleName } from '../config/config.ts';
import type { Actor } from '../core/actor.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { JobName, JobRow, JobTrigger } from '../mirror/daemon-store.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { BackupCatalog } from '../backup/known-backups.ts';
import type { IntervalChange, IntervalName } from './schedule/intervals.ts';

/** What a sync has done of a kind. */
export interface KindProgress {
  readonly kind: Kind;
  readonly records: number;
  /** Records to be read in all, as far as the mirror knows; null where one of the lists was never read. */
  readonly expected: number | null;
  /** Lists that ended, those of them that were not read completely, and those that are being read or still to come. */
  readonly lists: number;
  readonly failed: number;
  readonly pending: number;
}

/** What a job has done so far. */
export interface JobProgress {
  readonly records: number;
  /** Pages of lists, and answers to requests for one record. */
  readonly pages: number;
  /** True while it sends no requests: what was read is being published. */
  readonly isLocal: boolean;
  readonly kinds: readonly KindProgress[];
}

/** A job that is running now. */
export interface RunningJob {
  readonly job: number;
  readonly name: JobName;
  readonly source: string | null;
  readonly trigger: JobTrigger;
  /** ISO 8601. */
  readonly startedAt: string;
  /**
   * Of a sync: what it has done so far; null for the others. `waitingUntil`: epoch milliseconds until which all its requests wait
   * for the rate limit; null while some may start, or where the service asked to wait.
   */
  readonly progress:
    ({ readonly requests: number; readonly waitingUntil: number | null } & JobProgress) | null;
  /** Of a sync: milliseconds since its service last answered, or it last worked locally; null for the others. */
  readonly silentMs?: number | null;
  /** Of a sync: until when it waits because the service asked for it, epoch milliseconds; left out where it does not. */
  readonly pausedUntil?: number | undefined;
  /** Of a backup: address of the target that has not answered for some seconds; null for none. */
  readonly waitsFor?: string | null;
}

/** A job that ended and that the mirror does not have so, as on a full disk. */
export interface UnwrittenJob {
  /** `job` is 0 where its begin could not be written down either. */
  readonly row: JobRow;
  readonly isOfAllKinds: boolean;
  /** When the first of those ended that went so one after the other; ISO 8601. */
  readonly since: string;
}

export interface ScheduleView {
  readonly schedule: ScheduleName;
  readonly cron: string;
  readonly zone: string;
  readonly sources: readonly string[];
  /** ISO 8601; null where it will never start (`forget` without retention). */
  readonly dueAt: string | null;
  /** Usual time between two ticks, in milliseconds: what freshness is measured by. */
  readonly intervalMs: number;
  readonly skippedTicks: number;
  readonly missedTicks: number;
  /** Of the sync: its sources that it leaves out for a while, as their service did not answer; left out for none. */
  readonly paused?: readonly SchedulePause[];
}

interface SchedulePause {
  readonly source: string;
  /** ISO 8601. */
  readonly until: string;
}

/** What the sources' clients counted since the daemon started. */
export interface SourceRequestStats {
  readonly source: string;
  readonly requests: number;
  readonly retries: number;
  readonly throttled: number;
  /** Requests that the rate still allows within this minute and this hour; null for no limit or not known. */
  readonly leftThisMinute: number | null;
  readonly leftThisHour: number | null;
}

/** Something that is wrong at this moment, as long as it lasts. It is reported in the log when it begins and when it ends. */
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
  /** A waiting sync of the source that reads as much will do, and one that was asked for like this is widened. */
  readonly joins?: boolean;
  /** Of a sync: it is begun although the service asked to wait. */
  readonly ignoresPause?: boolean;
  /** Who asks for it. */
  readonly actor?: Actor;
}

/** Which job it is about: of which name, of which source. */
export type JobIdentity = Pick<RunningJob, 'name' | 'source'>;

/** A job that was asked for: the number of the request finds it again, as long as this daemon lives. */
export interface RequestedJob extends JobIdentity {
  readonly request: number;
}

/** The outcome of a request. */
export type RequestStatus = JobIdentity &
  (
    | {
        readonly state: 'waiting';
        /** At work and waiting before it, first to start first. */
        readonly before: readonly JobIdentity[];
      }
    /** `job` null as long as the mirror is not there to write it down. */
    | { readonly state: 'running'; readonly job: number | null }
    /** `job` null for one that did not come to begin; `error` then says why, where there was one. */
    | { readonly state: 'ended'; readonly job: number | null; readonly error: TidemarkError | null }
  );

/** One mirror of the daemon. A daemon of many mirrors has one for each (`DaemonCells`). */
export interface DaemonView {
  /** ISO 8601. */
  readonly startedAt: string;
  /** When the daemon began to have the source: its start, or the reload that added it; ISO 8601. */
  addedAt(source: string): string;
  /** When a reload added it to the sources that the schedule syncs; ISO 8601, null for one that was there at the start. */
  scheduledAt(source: string): string | null;
  /** The configuration in force, of this mirror. */
  config(): Config;
  /** Why the newest configuration is not in force; null where it is. */
  configProblem(): TidemarkError | null;
  /**
   * The mirror, open for reading as long as the daemon runs; reopened when the file was replaced.
   * @throws TidemarkError `mirror_missing` and whatever else keeps it from being read
   */
  mirror(): Mirror;
  /** By source, the last complete run as the mirror was read last: what is known of a mirror that cannot be read any more. */
  readonly completeRuns: Map<string, RunRow>;
  /** A reader for one piece of work; the caller closes it. @throws as `mirror` */
  openReader(): Mirror;
  /** The backups elsewhere, if there are any. */
  readonly backups: Pick<BackupCatalog, 'look' | 'known' | 'remembered'>;
  /** Those that are on, in the order of the configuration. */
  schedules(): readonly ScheduleView[];
  /** That it was changed, and when; null if it never was. */
  intervalChange(name: IntervalName): IntervalChange | null;
  running(): readonly RunningJob[];
  /** Jobs that ended and could not be written down, the latest of each name and source. Without a daemon, none is known. */
  unwritten?(): readonly UnwrittenJob[];
  /** Waiting for their turn, first to start first. */
  queued(): readonly (Pick<RunningJob, 'name' | 'source' | 'trigger'> & {
    /** Of a backup: since when it waits, ISO 8601. */
    readonly since?: string;
    /** The source whose running sync it waits for, as both have one rate limit; left out where it waits for something else. */
    readonly waitsFor?: string;
  })[];
  stats(): readonly SourceRequestStats[];
  /** What is wrong now, oldest first. */
  problems(): readonly DaemonProblem[];
  /**
   * Queues a job. An equal job that is queued already is not queued twice.
   * @returns what waits now, one for each source
   * @throws TidemarkError `usage` for a source that does not exist, `throttled` where too many wait, `interrupted` while the daemon stops
   */
  request(name: JobName, sources: readonly string[] | null, how?: JobRequest): readonly RequestedJob[];
  /**
   * Executes short work on the mirror, which must not await anything, as soon as nobody else writes.
   * @throws TidemarkError `mirror_locked` if a job or another process continues to write
   */
  change<T>(what: string, actor: Actor, work: (mirror: Mirror) => T): Promise<T>;
  /** The outcome of it; null for a request that this daemon does not know, or no longer. */
  requested(request: number): RequestStatus | null;
}
