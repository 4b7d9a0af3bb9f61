/** Runs a job in this process, or in a child process (`child-job.ts`), so that its memory is freed and a crash fails only this job. */
import type { ChildProcess } from 'node:child_process';
import type { RequestStats } from '../../api/request-stats.ts';
import type { Config, SourceConfig } from '../../config/config.ts';
import { maskedMessage } from '../../config/known-secrets.ts';
import { type Actor, SCHEDULE } from '../../core/actor.ts';
import {
  type ErrorMessage,
  endCause,
  fromErrorMessage,
  toErrorMessage,
  workInChild,
} from '../../core/child-process.ts';
import { TidemarkError } from '../../core/errors.ts';
import { HELD_HINT } from '../../core/hints.ts';
import type { DaemonEffects, JobProcess } from '../effects.ts';
import type { MirrorConnections } from '../mirror-access.ts';
import type { ActiveProblems } from '../problems.ts';
import type { JobProgress } from '../view.ts';
import { failedResult } from './job-log.ts';
import { RemoteStats } from './request-stats.ts';
import type { JobContext, JobResult, JobWork, QueuedJob } from './work.ts';

/** A job whose start was recorded. */
export interface Task {
  readonly job: QueuedJob;
  /** Of the job's row. */
  readonly number: number;
  readonly work: JobWork;
  readonly config: Config;
  readonly source: SourceConfig | null;
  readonly signal: AbortSignal;
  readonly onClient: JobContext['onClient'];
  readonly onWait: JobContext['onWait'];
}

export interface JobExecutor {
  /** Opens the mirror and does the work. Errors of the work are part of the result. */
  perform(task: Task): Promise<JobResult>;
  /** Kills the process of the running job; false if it has none. */
  kill(): boolean;
}

/** Runs jobs in child processes, if `effects` can start them. */
export function executorFor(options: {
  readonly effects: DaemonEffects;
  readonly mirrorAccess: MirrorConnections;
  readonly problems: ActiveProblems;
}): JobExecutor {
  const { effects, mirrorAccess } = options;
  const inProcess = new InProcessExecutor(effects, mirrorAccess);
  const { jobProcess } = effects;
  const executor =
    jobProcess === undefined
      ? inProcess
      : new ChildProcessExecutor({ ...options, jobProcess, fallback: inProcess });
  return {
    perform: async (task) => {
      const result = await executor.perform(task);
      const { error } = result;
      if (error === null) return result;
      // The hint of the error is for a person who runs a command.
      if (error.code === 'mirror_locked' && task.job.trigger !== 'request')
        return { ...result, error: held(error) };
      // The process of the job does not know the backups, which the hint may have to name.
      return { ...result, error: mirrorAccess.naming(error) };
    },
    kill: () => executor.kill(),
  };
}

function held(error: TidemarkError): TidemarkError {
  return new TidemarkError(error.code, error.message, { hint: HELD_HINT, isRetryable: true, cause: error });
}

export class InProcessExecutor implements JobExecutor {
  readonly #effects: DaemonEffects;
  readonly #mirrorAccess: MirrorConnections;

  constructor(effects: DaemonEffects, mirrorAccess: MirrorConnections) {
    this.#effects = effects;
    this.#mirrorAccess = mirrorAccess;
  }

  async perform(task: Task): Promise<JobResult> {
    const { job, number, work, config, signal } = task;
    try {
      const command = commandOf(job);
      const mirror =
        work.holds === 'writer'
          ? await this.#mirrorAccess.openWriter(command, signal, { actor: actorOf(job) })
          : this.#mirrorAccess.openReader(command);
      const names = job.source === null ? config.sources.map(({ name }) => name) : [job.source];
      const whose = names.length === 1 ? { source: names[0] } : { sources: names };
      const log = this.#effects.log.child({ job: number, task: job.name, ...whose });
      try {
        return withMaskedError(await work.run({ ...task, mirror, effects: this.#effects, log }), config);
      } finally {
        this.#mirrorAccess.close(mirror);
      }
    } catch (thrown) {
      return withMaskedError(failedResult(thrown, signal.aborted), config);
    }
  }

  kill(): boolean {
    return false;
  }
}

/** The error may name a damaged record with a secret in it, and is stored, shown and sent. */
function withMaskedError(result: JobResult, { knownSecrets }: Pick<Config, 'knownSecrets'>): JobResult {
  const { error } = result;
  const message = error === null ? '' : maskedMessage(error.message, knownSecrets);
  if (error === null || message === error.message) return result;
  return { ...result, error: new TidemarkError(error.code, message, { hint: error.hint, cause: error }) };
}

/** If a request does not say who made it, only its token is known. */
function actorOf({ trigger, actor }: QueuedJob): Actor {
  const nobody = trigger === 'request' ? { by: 'token@http', via: 'token@http' } : SCHEDULE;
  return actor ?? nobody;
}

// Messages between the daemon and the process of a job: plain JSON, without API keys. The process reads the configuration
// itself, and refuses if it differs from the daemon's.

/** To the process. */
export type ToChild =
  | {
      readonly type: 'order';
      readonly job: QueuedJob;
      /** Of the job's row. */
      readonly number: number;
      /** Of the daemon's configuration. */
      readonly configDigest: string;
    }
  /** @param reason null because the daemon stops */
  | { readonly type: 'abort'; readonly reason: ErrorMessage | null };

/** To the daemon. */
export type ToDaemon =
  /** Nothing was done: the process has read another configuration, or an invalid one. */
  | { readonly type: 'refused' }
  | { readonly type: 'progress'; readonly stats: RequestStats; readonly progress: JobProgress }
  | { readonly type: 'waiting'; readonly address: string | null }
  | {
      readonly type: 'problem';
      readonly about: string;
      readonly error: ErrorMessage;
      readonly level: 'warn' | 'error';
    }
  | { readonly type: 'resolved'; readonly about: string; readonly message: string }
  | {
      readonly type: 'done';
      readonly result: ResultMessage;
      /** When requests started within the last hour, epoch milliseconds, if the hour is limited. */
      readonly starts: readonly number[];
    };

type ResultMessage = Omit<JobResult, 'error'> & { readonly error: ErrorMessage | null };

export function toResultMessage(result: JobResult): ResultMessage {
  return { ...result, error: result.error === null ? null : toErrorMessage(result.error) };
}

interface ChildProcessOptions {
  readonly effects: DaemonEffects;
  readonly jobProcess: JobProcess;
  readonly mirrorAccess: MirrorConnections;
  readonly problems: ActiveProblems;
  /** For jobs that the child refuses, because the configuration in force can no longer be read. */
  readonly fallback: JobExecutor;
}

class ChildProcessExecutor implements JobExecutor {
  readonly #options: ChildProcessOptions;
  #child: ChildProcess | null = null;

  constructor(options: ChildProcessOptions) {
    this.#options = options;
  }

  async perform(task: Task): Promise<JobResult> {
    try {
      return (await this.#inChild(task)) ?? (await this.#options.fallback.perform(task));
    } catch (thrown) {
      return failedResult(thrown, task.signal.aborted);
    }
  }

  kill(): boolean {
    return this.#child?.kill('SIGKILL') ?? false;
  }

  /** Null if the process refused. @throws TidemarkError if it could not be started, or ended without a result */
  async #inChild(task: Task): Promise<JobResult | null> {
    const { job, number, config, signal } = task;
    const { jobProcess } = this.#options;
    const order: ToChild = { type: 'order', job, number, configDigest: config.digest };
    const abort = (): void => {
      const reason = signal.reason instanceof TidemarkError ? toErrorMessage(signal.reason) : null;
      if (this.#child?.connected === true) this.#child.send({ type: 'abort', reason }, () => undefined);
    };
    signal.addEventListener('abort', abort, { once: true });
    try {
      const end = await workInChild<ToDaemon, Extract<ToDaemon, { type: 'done' | 'refused' }>>({
        name: 'its process',
        start: () => (this.#child = jobProcess.start(config)),
        order,
        receive: this.#receiverFor(task),
      });
      const { result } = end;
      if (result === undefined) throw ended(end.how, endCause(end, jobProcess.entry), signal);
      if (result.type === 'refused') return null;
      const { error } = result.result;
      return { ...result.result, error: error === null ? null : fromErrorMessage(error) };
    } finally {
      signal.removeEventListener('abort', abort);
      this.#child = null;
    }
  }

  #receiverFor(
    task: Task,
  ): (message: ToDaemon) => Extract<ToDaemon, { type: 'done' | 'refused' }> | undefined {
    const { problems, effects, mirrorAccess } = this.#options;
    let stats: RemoteStats | null = null;
    const statsOf = (first: RequestStats): RemoteStats => {
      if (stats !== null) return stats;
      const created = new RemoteStats(effects.clock, first);
      task.onClient(created, () => created.progress);
      return (stats = created);
    };
    return (message) => {
      switch (message.type) {
        case 'progress':
          statsOf(message.stats).take(message.stats, message.progress);
          return undefined;
        case 'waiting':
          task.onWait(message.address);
          return undefined;
        case 'problem':
          problems.begin(message.about, mirrorAccess.naming(fromErrorMessage(message.error)), message.level);
          return undefined;
        case 'resolved':
          problems.end(message.about, message.message);
          return undefined;
        case 'done':
          stats?.end(message.starts);
          return message;
        case 'refused':
          return message;
      }
    };
  }
}

/** How the job is named to processes that find the mirror locked. */
export function commandOf({ name }: Pick<QueuedJob, 'name'>): string {
  return `daemon ${name}`;
}

function ended(how: string, cause: string | null, { aborted }: AbortSignal): TidemarkError {
  if (aborted) return new TidemarkError('interrupted', 'the daemon was stopped');
  return new TidemarkError('internal', `its process ${how} before the job was done`, {
    hint: [
      'nothing published before is lost, and the next start continues',
      ...(cause === null ? [] : [cause]),
    ].join('; '),
    isRetryable: true,
  });
}
