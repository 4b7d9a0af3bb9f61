/** The input and the result of every job. `executor.ts` decides in which process a job runs, `runner.ts` does the rest. */
import type { ReadClient } from '../../api/read-client.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { Config, SourceConfig, ScheduleName } from '../../config/config.ts';
import type { Actor } from '../../core/actor.ts';
import { EXIT, type ExitCode, type TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobName, JobOutcome, JobRow, JobTrigger } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunReport } from '../../sync/run.ts';
import type { DaemonEffects } from '../effects.ts';
import type { JobProgress } from '../view.ts';
import { storedSummary } from './summaries.ts';

/** A job that waits for its turn. */
export interface QueuedJob {
  readonly name: JobName;
  readonly source: string | null;
  readonly trigger: JobTrigger;
  /** The schedule that started it; null for a requested one. */
  readonly schedule: ScheduleName | null;
  /** Of a sync: recordings are read completely. */
  readonly full: boolean;
  /** Of a sync: null for all. */
  readonly kinds: readonly Kind[] | null;
  /** Of a sync: it becomes part of a waiting one of its source (`JobRequest`). */
  readonly joins?: boolean;
  /** Of a sync: it ends a pause that the service asked for when it starts. */
  readonly ignoresPause?: boolean;
  /** Who requested it, if that is known. */
  readonly actor?: Actor;
}

/** A job of the daemon itself, of all kinds. @param schedule that it belongs to; null for none */
export function ownJob(
  name: JobName,
  source: string | null,
  trigger: JobTrigger,
  schedule: ScheduleName | null = null,
): QueuedJob {
  return { name, source, trigger, schedule, full: false, kinds: null };
}

export interface JobContext {
  readonly job: QueuedJob;
  readonly config: Config;
  /** Null for a job of the mirror as a whole. */
  readonly source: SourceConfig | null;
  /** Open as `JobWork.holds` says; the runner closes it. */
  readonly mirror: Mirror;
  readonly effects: DaemonEffects;
  /** Its lines carry the job and its source. */
  readonly log: Logger;
  /** Aborted when the daemon has no more time for it. */
  readonly signal: AbortSignal;
  /** Registers the client of a job, whose stats can be asked for from then on, and the job's progress. */
  readonly onClient: (client: Pick<ReadClient, 'stats'>, progress: () => JobProgress) => void;
  /** Called with the address that the job waits for, neither the service nor the mirror, and with null when the wait is over. */
  readonly onWait: (address: string | null) => void;
}

export interface JobResult {
  readonly outcome: Exclude<JobOutcome, 'running'>;
  /** The exit code of the command that does the same (design.md, Commands). */
  readonly exitCode: ExitCode;
  /** The run of a sync. */
  readonly run: number | null;
  readonly summary: JobRow['summary'];
  readonly error: TidemarkError | null;
  /** Of a sync whose run was published. */
  readonly report: RunReport | null;
}

/** The result of a job, with the exit code of its outcome; without run, error and report if they are not given. */
export function jobResult(
  outcome: JobResult['outcome'],
  summary: Parameters<typeof storedSummary>[0],
  more: Partial<JobResult> = {},
): JobResult {
  const exitCode = EXIT[outcome];
  return {
    outcome,
    exitCode,
    run: null,
    summary: storedSummary(summary),
    error: null,
    report: null,
    ...more,
  };
}

export interface JobWork {
  /** `writer`: the job works under the writer's lock. `reader`: only its beginning and end are written under it. */
  readonly holds: 'writer' | 'reader';
  /** True for one job per source, false for one over the mirror as a whole. */
  readonly isPerSource: boolean;
  /** True for a job that sends requests to its source's service: one at a time for one origin and key. */
  readonly sendsRequests?: boolean;
  /** False if there is nothing to do now; then no row is written. Not called for a requested job. */
  isWanted?(context: Pick<JobContext, 'job' | 'config' | 'mirror' | 'effects'>): Promise<boolean>;
  /**
   * Why the job is left out; null if it is not. Called before it begins, and again under the writer's lock when its beginning and its
   * end are recorded: another program may have written to the mirror meanwhile. Not called for a requested job.
   */
  leftOut?(mirror: Mirror, job: QueuedJob): string | null;
  /** @throws TidemarkError; the runner records it */
  run(context: JobContext): Promise<JobResult>;
}

/** The source of a job that always has one. */
export function sourceOf({ source, job }: JobContext): SourceConfig {
  if (source === null) throw new Error(`${job.name} needs a source`);
  return source;
}
