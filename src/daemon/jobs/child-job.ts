/** The child's side of `executor.ts`: runs one job in this process for the daemon that started it. */
import type { Config, SourceConfig } from '../../config/config.ts';
import { toErrorMessage } from '../../core/child-process.ts';
import type { TidemarkError } from '../../core/errors.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import type { DaemonEffects } from '../effects.ts';
import { MirrorConnections } from '../mirror-access.ts';
import type { ProblemSink } from '../problems.ts';
import type { JobContext, JobWork } from './work.ts';
import { InProcessExecutor, type ToChild, type ToDaemon, toResultMessage } from './executor.ts';

interface ChildJobOptions {
  /** The log is made for the level that the configuration names. */
  readonly effects: (config: Config) => DaemonEffects;
  /** @throws TidemarkError */
  readonly loadConfig: () => Config;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly recentRequests: (source: SourceConfig, rateLogBeside: string) => readonly number[];
  /** Sends to the daemon; does nothing if the daemon has ended. */
  readonly send: (message: ToDaemon) => void;
  /** Aborted when the daemon requests it, or has ended. */
  readonly signal: AbortSignal;
}

/** Interval of progress messages. */
const PROGRESS_MS = 500;

/** Runs the job and sends its result. */
export async function performOrder(
  { job, number, configDigest }: Extract<ToChild, { type: 'order' }>,
  options: ChildJobOptions,
): Promise<void> {
  const { send, signal, works } = options;
  const config = readSame(options.loadConfig, configDigest);
  const source = config?.sources.find(({ name }) => name === job.source) ?? null;
  const work = works.get(job.name);
  if (config === null || work === undefined) {
    send({ type: 'refused' });
    return;
  }
  const effects = options.effects(config);
  const mirrorAccess = new MirrorConnections(effects, new ReportedProblems(send), () => config);
  const progress = new ProgressReporter(effects, send);
  const onWait = (address: string | null): void => send({ type: 'waiting', address });
  const task = { job, number, work, config, source, signal, onClient: progress.onClient, onWait };
  const result = await new InProcessExecutor(effects, mirrorAccess).perform(task);
  progress.stop();
  const starts = work.holds === 'writer' ? startsOf(config.rateLogBeside, source, options) : [];
  send({ type: 'done', result: toResultMessage(result), starts });
}

/** The configuration; null if it differs from the daemon's because its files were changed, or if it cannot be read. */
function readSame(loadConfig: () => Config, digest: string): Config | null {
  try {
    const config = loadConfig();
    return config.digest === digest ? config : null;
  } catch {
    // The daemon reports why: it reads the configuration before every job.
    return null;
  }
}

function startsOf(
  rateLogBeside: string,
  source: SourceConfig | null,
  { recentRequests }: ChildJobOptions,
): readonly number[] {
  if (source === null || source.rate.perHour === 0) return [];
  try {
    return recentRequests(source, rateLogBeside);
  } catch {
    // They are only needed for a number that is shown: the job itself reports errors of the log.
    return [];
  }
}

/** Sends the client's stats to the daemon at regular intervals. */
class ProgressReporter {
  readonly #effects: DaemonEffects;
  readonly #send: (message: ToDaemon) => void;
  readonly #end = new AbortController();
  #report: () => void = () => undefined;

  constructor(effects: DaemonEffects, send: (message: ToDaemon) => void) {
    this.#effects = effects;
    this.#send = send;
  }

  readonly onClient: JobContext['onClient'] = (client, progress) => {
    this.#report = () => this.#send({ type: 'progress', stats: client.stats(), progress: progress() });
    void this.#reportRegularly();
  };

  /** Sends the final stats. */
  stop(): void {
    this.#report();
    this.#end.abort();
  }

  async #reportRegularly(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      this.#report();
      // The end of the job ends the sleep.
      await this.#effects.clock.sleep(PROGRESS_MS, signal).catch(() => undefined);
    }
  }
}

/** Forwards problems to the daemon. */
class ReportedProblems implements ProblemSink {
  readonly #send: (message: ToDaemon) => void;
  readonly #begun = new Set<string>();

  constructor(send: (message: ToDaemon) => void) {
    this.#send = send;
  }

  begin(about: string, error: TidemarkError, level: 'warn' | 'error' = 'error'): void {
    this.#begun.add(about);
    this.#send({ type: 'problem', about, error: toErrorMessage(error), level });
  }

  end(about: string, message: string): void {
    if (this.#begun.delete(about)) this.#send({ type: 'resolved', about, message });
  }
}
