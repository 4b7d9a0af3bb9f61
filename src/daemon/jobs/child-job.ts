/** The other end of `child-executor.ts`: one job, done in this process for the daemon that started it. */
import type { Config, SourceConfig } from '../../config/config.ts';
import { type TidemarkError, asTidemarkError } from '../../core/errors.ts';
import type { JobName } from '../../mirror/daemon.ts';
import type { DaemonEffects } from '../effects.ts';
import { MirrorConnections } from '../mirror-access.ts';
import type { ProblemSink } from '../problems.ts';
import { type ToChild, type ToDaemon, wireError, wireResult } from './job-messages.ts';
import type { JobContext, JobWork } from './work.ts';
import { InProcessExecutor } from './executor.ts';

interface ChildJobOptions {
  /** The log is made for the level that the configuration names. */
  readonly effects: (config: Config) => DaemonEffects;
  /** @throws TidemarkError */
  readonly loadConfig: () => Config;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly recentRequests: (source: SourceConfig, mirrorPath: string) => readonly number[];
  /** To the daemon. Nothing happens where it is gone. */
  readonly tell: (message: ToDaemon) => void;
  /** Aborted when the daemon wants it, or is gone. */
  readonly signal: AbortSignal;
}

/** Between two looks at how far a client is. */
const LOOK_MS = 500;

/** Does the job that was ordered and tells how it ended. */
export async function performOrder(
  { job, number, configDigest }: Extract<ToChild, { type: 'order' }>,
  options: ChildJobOptions,
): Promise<void> {
  const { tell, signal, works } = options;
  const config = readSame(options.loadConfig, configDigest);
  const source = config?.sources.find(({ name }) => name === job.source) ?? null;
  const work = works.get(job.name);
  if (config === null || work === undefined) {
    tell({ type: 'refused' });
    return;
  }
  const effects = options.effects(config);
  const mirrorAccess = new MirrorConnections(effects, new ReportedProblems(tell), () => config);
  const watch = new ClientWatch(effects, tell);
  const task = { job, number, work, config, source, signal, onClient: watch.onClient };
  const { result, lease } = await new InProcessExecutor(effects, mirrorAccess).perform(task, null);
  watch.stop();
  const starts = lease === null ? [] : startsOf(lease.mirror.path, source, options);
  try {
    lease?.release();
  } catch (error) {
    // Closing moves the log into the file: the next writer tries it again.
    tell({ type: 'problem', about: 'mirror', error: wireError(asTidemarkError(error)), level: 'error' });
  }
  tell({ type: 'done', result: wireResult(result), starts });
}

/** Null for another configuration than the daemon's: what it has in force is no longer there to be read. */
function readSame(loadConfig: () => Config, digest: string): Config | null {
  try {
    const config = loadConfig();
    return config.digest === digest ? config : null;
  } catch {
    // The daemon says what is wrong with it: it reads it before every job.
    return null;
  }
}

function startsOf(
  mirrorPath: string,
  source: SourceConfig | null,
  { recentRequests }: ChildJobOptions,
): readonly number[] {
  if (source === null || source.rate.perHour === 0) return [];
  try {
    return recentRequests(source, mirrorPath);
  } catch {
    // Only for a figure: whatever is wrong with the log is reported by the job.
    return [];
  }
}

/** Tells every now and then how far the client at work is. */
class ClientWatch {
  readonly #effects: DaemonEffects;
  readonly #tell: (message: ToDaemon) => void;
  readonly #end = new AbortController();
  #look: () => void = () => undefined;

  constructor(effects: DaemonEffects, tell: (message: ToDaemon) => void) {
    this.#effects = effects;
    this.#tell = tell;
  }

  readonly onClient: JobContext['onClient'] = (client, records, isLocal) => {
    this.#look = () =>
      this.#tell({
        type: 'progress',
        stats: client.stats(),
        records: records(),
        isLocal: isLocal(),
      });
    void this.#goOn();
  };

  /** Tells the last of it. */
  stop(): void {
    this.#look();
    this.#end.abort();
  }

  async #goOn(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      this.#look();
      await this.#effects.clock.sleep(LOOK_MS, signal).catch(() => undefined);
    }
  }
}

/** Has the daemon note what is wrong. */
class ReportedProblems implements ProblemSink {
  readonly #tell: (message: ToDaemon) => void;
  readonly #begun = new Set<string>();

  constructor(tell: (message: ToDaemon) => void) {
    this.#tell = tell;
  }

  begin(about: string, error: TidemarkError, level: 'warn' | 'error' = 'error'): void {
    this.#begun.add(about);
    this.#tell({ type: 'problem', about, error: wireError(error), level });
  }

  end(about: string, message: string): void {
    if (this.#begun.delete(about)) this.#tell({ type: 'resolved', about, message });
  }
}
