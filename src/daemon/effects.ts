/** All side effects of the daemon, as one object: tests replace it. */
import type { ChildProcess } from 'node:child_process';
import type { ReadClient } from '../api/read-client.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import type { Actor } from '../core/actor.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';

export interface DaemonEffects {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  /** Reloads configuration, key files and environment. @throws TidemarkError */
  readonly loadConfig: () => LoadedConfig;
  /** As `openMirror`; `command` is shown to processes that find it locked, `actor` is who writes. @throws TidemarkError */
  readonly openMirror: (config: Config, mode: 'read' | 'write', command: string, actor?: Actor) => Mirror;
  readonly openReadClient: (
    source: SourceConfig,
    log: Logger,
    /** As in the `Config`. */
    rateLogBeside: string,
  ) => ReadClient | Promise<ReadClient>;
  /** Starts processes for jobs. Left out, jobs are done in this one. */
  readonly jobProcess?: JobProcess;
  /** Of the daemon's process: what git is given is taken from it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly host: string;
  readonly pid: number;
}

export interface JobProcess {
  /** The file that it runs. */
  readonly entry: string;
  /** Starts the program's own `daemon-job`, with a channel to it, which reads the same configuration of the same mirror. */
  readonly start: (config: Config) => ChildProcess;
}
