/**
 * Runs each job in a child process that ends with the job: its memory is freed, and neither a crash nor a lack of memory
 * in it ends the daemon, which keeps answering meanwhile.
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

/** How long a child process may take to exit after it sent its result. */
const EXIT_MS = 3_000;

interface ChildWorkOptions {
  readonly effects: DaemonEffects;
  readonly startJob: StartJob;
  readonly mirrorAccess: MirrorConnections;
  readonly problems: ActiveProblems;
  /** For jobs that the child refuses: the configuration in force can no longer be read. */
  readonly fallback: JobExecutor;
}

/** Runs jobs in child processes, if `effects` can start them. */
export function executorFor(
  options: Pick<ChildWorkOptions, 'effects' | 'mirrorAccess' | 'problems'>,
): JobExecutor {
  const { effects, mirrorAccess } = options;
  const fallback = new InProcessExecutor(effects, mirrorAccess);
  const { startJob } = effects;
  return startJob === undefined ? fallback : new ChildProcessExecutor({ ...options, startJob, fallback });
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
      // The lease stays with this process, so that no other job of it competes with the child for the lock.
      if (isWriting) lease?.suspend();
      else lease?.release();
    } catch (error) {
      // Closing checkpoints the write-ahead log, which fails on a full disk.
      lease?.release();
      return { result: failedResult(error, task.signal.aborted), lease: null };
    }
    const kept = isWriting ? lease : null;
    const result = await this.#inChild(task).catch((error: unknown) =>
      failedResult(error, task.signal.aborted),
    );
    if (result === null) {
      // Running it here takes another lease, so this one is released.
      kept?.release();
      return this.#options.fallback.perform(task, null);
    }
    return { result, lease: await this.#regained(kept, task) };
  }

  kill(): boolean {
    return this.#child?.kill('SIGKILL') ?? false;
  }

  /** The lease, resumed to record the job's result; null where that failed. */
  async #regained(lease: WriterLease | null, { job, signal }: Task): Promise<WriterLease | null> {
    if (lease === null) return null;
    try {
      // When stopping, do not wait: the runner tries to get it at once.
      signal.throwIfAborted();
      await lease.resume(commandOf(job), signal);
      return lease;
    } catch {
      // The runner tries again, and reports the error.
      lease.release();
      return null;
    }
  }

  /** Null where the process refused. */
  async #inChild(task: Task): Promise<JobResult | null> {
    const child = this.#start();
    const channel = new JobChannel(child, task, this.#options);
    const abort = (): void => channel.send({ type: 'abort', reason: reasonOf(task.signal) });
    task.signal.addEventListener('abort', abort, { once: true });
    try {
      return await channel.result();
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

/** The message channel of one job. */
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
    // Errors of sending are ignored: how the process ends is more specific.
    child.on('error', () => undefined);
    child.on('message', (message) => this.#hear(message as ToDaemon));
    const { job, number, config } = task;
    this.send({ type: 'order', job, number, configDigest: config.digest });
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  /** @throws TidemarkError where the process could not be started, or ended before it sent a result */
  async result(): Promise<JobResult | null> {
    const child = this.#child;
    const disconnected = child.connected ? once(child, 'disconnect') : Promise.resolve([]);
    let exit: unknown[];
    try {
      // Rejects with the error if it could not be started.
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
        this.#letExit();
    }
  }

  /** Lets the child exit: it waits until this side disconnects, so that no message is lost. */
  #letExit(): void {
    const child = this.#child;
    const cancel = afterRealTime(EXIT_MS, () => child.kill('SIGKILL'));
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

// The stats of a client in another process, as last received. Its windows keep rolling after it has ended.

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

export class RemoteStats {
  readonly #clock: Clock;
  #received: RequestStats;
  /** Monotonic. */
  #notifiedAt: number;
  /** Epoch milliseconds; null while it is running, and where the hour is not limited. */
  #starts: readonly number[] | null = null;
  records = 0;
  isLocal = false;

  constructor(clock: Clock, received: RequestStats) {
    this.#clock = clock;
    this.#received = received;
    this.#notifiedAt = clock.monotonicMs();
  }

  take(received: RequestStats, records: number, isLocal: boolean): void {
    this.#received = received;
    this.#notifiedAt = this.#clock.monotonicMs();
    this.records = records;
    this.isLocal = isLocal;
  }

  /** The client has ended; these are the starts that count for its windows. */
  end(starts: readonly number[]): void {
    if (starts.length > 0) this.#starts = starts;
  }

  stats(): RequestStats {
    const { perMinute, perHour } = this.#received;
    return {
      ...this.#received,
      perMinute: this.#use(perMinute, MINUTE_MS),
      perHour: this.#use(perHour, HOUR_MS),
    };
  }

  /** Without the times of its starts, a window keeps its reported count until the whole window has passed. */
  #use({ used, limit }: WindowUse, windowMs: number): WindowUse {
    if (this.#starts !== null) {
      const since = this.#clock.now() - windowMs;
      return { used: this.#starts.filter((at) => at > since).length, limit };
    }
    return { used: this.#clock.monotonicMs() - this.#notifiedAt >= windowMs ? 0 : used, limit };
  }
}
