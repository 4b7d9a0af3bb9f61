/**
 * Jobs in a process of their own, which ends with the job: what it took of memory returns to the system, and neither a crash
 * nor a lack of memory in it ends the daemon, which goes on answering meanwhile.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { RequestStats, WindowUse } from '../../api/request-stats.ts';
import { afterRealTime, type Clock } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import type { DaemonEffects, StartJob } from '../effects.ts';
import type { MirrorConnections, WriterLease } from '../mirror-access.ts';
import type { ActiveProblems } from '../problems.ts';
import { type Performed, type Task, type JobExecutor, commandOf, InProcessExecutor } from './executor.ts';
import { type ToChild, type ToDaemon, errorOf, resultOf, wireError } from './job-messages.ts';
import { failedResult } from './job-log.ts';
import type { JobResult } from './work.ts';

/** A process that told how its job ended has nothing left to do. */
const LEAVE_MS = 3_000;

interface ChildWorkOptions {
  readonly effects: DaemonEffects;
  readonly startJob: StartJob;
  readonly mirrorAccess: MirrorConnections;
  readonly problems: ActiveProblems;
  /** For what the process does not do: a configuration in force that can be read no more. */
  readonly instead: JobExecutor;
}

/** A process for each job, where the effects have one to start. */
export function executorFor(
  options: Pick<ChildWorkOptions, 'effects' | 'mirrorAccess' | 'problems'>,
): JobExecutor {
  const { effects, mirrorAccess } = options;
  const instead = new InProcessExecutor(effects, mirrorAccess);
  const { startJob } = effects;
  return startJob === undefined ? instead : new ChildProcessExecutor({ ...options, startJob, instead });
}

class ChildProcessExecutor implements JobExecutor {
  readonly #options: ChildWorkOptions;
  #child: ChildProcess | null = null;

  constructor(options: ChildWorkOptions) {
    this.#options = options;
  }

  async perform(task: Task, lease: WriterLease | null): Promise<Performed> {
    const isWriting = task.work.holds === 'writer';
    try {
      // The turn stays here: nobody else of this process is to meet the other one at the lock.
      if (isWriting) lease?.suspend();
      else lease?.release();
    } catch (error) {
      // Closing moves the log into the file, which a full disk keeps it from.
      lease?.release();
      return { result: failedResult(error, task.signal.aborted), lease: null };
    }
    const kept = isWriting ? lease : null;
    const result = await this.#inChild(task).catch((error: unknown) =>
      failedResult(error, task.signal.aborted),
    );
    if (result === null) {
      // Its own turn: the one that is given back here.
      kept?.release();
      return this.#options.instead.perform(task, null);
    }
    return { result, lease: await this.#regained(kept, task) };
  }

  kill(): boolean {
    return this.#child?.kill('SIGKILL') ?? false;
  }

  /** The lease for writing down how the job ended; null where it could not be had again. */
  async #regained(lease: WriterLease | null, { job, signal }: Task): Promise<WriterLease | null> {
    if (lease === null) return null;
    try {
      // Who stops waits for nobody: the runner looks whether it can be had at once.
      signal.throwIfAborted();
      await lease.resume(commandOf(job), signal);
      return lease;
    } catch {
      // The runner tries the same again, and tells what keeps it from it.
      lease.release();
      return null;
    }
  }

  /** Null where the process refused. */
  async #inChild(task: Task): Promise<JobResult | null> {
    const child = this.#start();
    const talk = new JobChannel(child, task, this.#options);
    const abort = (): void => talk.send({ type: 'abort', reason: reasonOf(task.signal) });
    task.signal.addEventListener('abort', abort, { once: true });
    try {
      return await talk.result();
    } finally {
      task.signal.removeEventListener('abort', abort);
      this.#child = null;
    }
  }

  #start(): ChildProcess {
    try {
      return (this.#child = this.#options.startJob());
    } catch (error) {
      throw unstarted(error);
    }
  }
}

/** One job's conversation. */
class JobChannel {
  readonly #child: ChildProcess;
  readonly #task: Task;
  readonly #options: ChildWorkOptions;
  #ended: Extract<ToDaemon, { type: 'done' | 'refused' }> | null = null;
  #stats: RemoteStats | null = null;

  constructor(child: ChildProcess, task: Task, options: ChildWorkOptions) {
    this.#child = child;
    this.#task = task;
    this.#options = options;
    // What cannot be sent is sent to nobody: the process's end tells more.
    child.on('error', () => undefined);
    child.on('message', (message) => this.#hear(message as ToDaemon));
    const { job, number, config } = task;
    this.send({ type: 'order', job, number, configDigest: config.digest });
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  /** @throws TidemarkError where the process could not be started, or ended before it told how the job did */
  async result(): Promise<JobResult | null> {
    const child = this.#child;
    const disconnected = child.connected ? once(child, 'disconnect') : Promise.resolve([]);
    let exit: unknown[];
    try {
      // Rejects with what keeps it from starting.
      exit = child.exitCode === null && child.signalCode === null ? await once(child, 'exit') : [];
    } catch (error) {
      throw unstarted(error);
    }
    await disconnected;
    const ended = this.#ended;
    if (ended === null) throw died(exit, this.#task);
    return ended.type === 'refused' ? null : resultOf(ended.result);
  }

  #hear(message: ToDaemon): void {
    const { problems, effects } = this.#options;
    switch (message.type) {
      case 'progress':
        if (this.#stats === null) {
          const stats = new RemoteStats(effects.clock, message.stats);
          this.#stats = stats;
          this.#task.onClient(
            stats,
            () => stats.records,
            () => stats.isLocal,
          );
        }
        this.#stats.take(message.stats, message.records, message.isLocal);
        return;
      case 'problem':
        problems.begin(message.about, errorOf(message.error), message.level);
        return;
      case 'resolved':
        problems.end(message.about, message.message);
        return;
      case 'done':
      case 'refused':
        this.#ended = message;
        if (message.type === 'done') this.#stats?.end(message.starts);
        this.#leave();
    }
  }

  /** It waits for this end of the channel, so that nothing that it told is lost. */
  #leave(): void {
    const child = this.#child;
    const cancel = afterRealTime(LEAVE_MS, () => child.kill('SIGKILL'));
    child.once('exit', cancel);
    if (child.connected) child.disconnect();
  }
}

function reasonOf({ reason }: AbortSignal): ReturnType<typeof wireError> | null {
  return reason instanceof TidemarkError ? wireError(reason) : null;
}

function unstarted(thrown: unknown): TidemarkError {
  const { code, message, hint } = asTidemarkError(thrown);
  return new TidemarkError(code, `its process could not be started: ${message}`, {
    ...(hint === undefined ? {} : { hint }),
    isRetryable: true,
    cause: thrown,
  });
}

function died([code, signal]: unknown[], { signal: { aborted } }: Task): TidemarkError {
  if (aborted) return new TidemarkError('interrupted', 'the daemon was stopped');
  const how = typeof signal === 'string' ? `was ended by ${signal}` : `ended with ${String(code)}`;
  return new TidemarkError('internal', `its process ${how} before the job was done`, {
    hint: 'nothing published before is lost, and the next start continues; a system that is short of memory ends processes like this',
    isRetryable: true,
  });
}

// The stats of a client in another process, as far as it told of them. Its windows go on rolling after it has ended.

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

export class RemoteStats {
  readonly #clock: Clock;
  #told: RequestStats;
  /** Monotonic. */
  #notifiedAt: number;
  /** Epoch milliseconds; null while it is at work, and where the hour is not limited. */
  #starts: readonly number[] | null = null;
  records = 0;
  isLocal = false;

  constructor(clock: Clock, told: RequestStats) {
    this.#clock = clock;
    this.#told = told;
    this.#notifiedAt = clock.monotonicMs();
  }

  take(told: RequestStats, records: number, isLocal: boolean): void {
    this.#told = told;
    this.#notifiedAt = this.#clock.monotonicMs();
    this.records = records;
    this.isLocal = isLocal;
  }

  /** The client is no more; these are the starts that count for its windows. */
  end(starts: readonly number[]): void {
    if (starts.length > 0) this.#starts = starts;
  }

  stats(): RequestStats {
    const { perMinute, perHour } = this.#told;
    return {
      ...this.#told,
      perMinute: this.#use(perMinute, MINUTE_MS),
      perHour: this.#use(perHour, HOUR_MS),
    };
  }

  /** Without the single starts a window counts as it was reported until it has wholly passed. */
  #use({ used, limit }: WindowUse, windowMs: number): WindowUse {
    if (this.#starts !== null) {
      const since = this.#clock.now() - windowMs;
      return { used: this.#starts.filter((at) => at > since).length, limit };
    }
    return { used: this.#clock.monotonicMs() - this.#notifiedAt >= windowMs ? 0 : used, limit };
  }
}
