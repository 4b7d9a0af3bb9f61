/** Where a job runs: in this process, or in a child process (`child-executor.ts`). */
import type { Config, SourceConfig } from '../../config/config.ts';
import type { DaemonEffects } from '../effects.ts';
import type { MirrorConnections, WriterLease } from '../mirror-access.ts';
import { failedResult } from './job-log.ts';
import type { JobContext, JobResult, JobWork, QueuedJob } from './work.ts';

/** A job that has begun and is written down. */
export interface Task {
  readonly job: QueuedJob;
  /** Of the job's row. */
  readonly number: number;
  readonly work: JobWork;
  readonly config: Config;
  readonly source: SourceConfig | null;
  readonly signal: AbortSignal;
  readonly onClient: JobContext['onClient'];
}

export interface Performed {
  readonly result: JobResult;
  /** Where the work was done under the writer's lock, and that is still held. */
  readonly lease: WriterLease | null;
}

export interface JobExecutor {
  /**
   * Does the work. What it throws is part of the result.
   * @param lease of the job's beginning; it is the executor's from then on. Null: the work waits for its own
   */
  perform(task: Task, lease: WriterLease | null): Promise<Performed>;
  /** Ends what is at work at once, where that can be done. False where it cannot. */
  kill(): boolean;
}

/** In this process: its event loop and its memory are the work's too. */
export class InProcessExecutor implements JobExecutor {
  readonly #effects: DaemonEffects;
  readonly #mirrorAccess: MirrorConnections;

  constructor(effects: DaemonEffects, mirrorAccess: MirrorConnections) {
    this.#effects = effects;
    this.#mirrorAccess = mirrorAccess;
  }

  async perform(task: Task, begun: WriterLease | null): Promise<Performed> {
    const { job, number, work, signal } = task;
    let lease = begun;
    try {
      if (work.holds === 'reader') {
        lease?.release();
        lease = null;
      } else lease ??= await this.#mirrorAccess.lease(commandOf(job), false, signal);
      const reader = lease === null ? this.#mirrorAccess.openReader(commandOf(job)) : null;
      try {
        const log = this.#effects.log.child({ job: number, task: job.name });
        const mirror = lease?.mirror ?? reader ?? missing();
        return { result: await work.run({ ...task, mirror, effects: this.#effects, log }), lease };
      } finally {
        reader?.close();
      }
    } catch (thrown) {
      return { result: failedResult(thrown, signal.aborted), lease };
    }
  }

  kill(): boolean {
    return false;
  }
}

/** Shown to processes that find the mirror locked. */
export function commandOf({ name }: Pick<QueuedJob, 'name'>): string {
  return `daemon ${name}`;
}

function missing(): never {
  throw new Error('a job without a mirror');
}
