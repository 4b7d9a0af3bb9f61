/** The configuration of a command that serves until it is stopped: read again as the daemon does, within a minute of a change and on SIGHUP. */
import { systemClock } from '../core/clock.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import type { Logger } from '../core/logger.ts';
import { ActiveProblems } from '../daemon/problems.ts';
import { Settings } from '../daemon/settings.ts';
import type { CommandContext } from './context.ts';

/** As often as the daemon looks at its files. */
const LOOK_MS = 60_000;

interface ServedOptions {
  readonly log: Logger;
  readonly load: () => LoadedConfig;
  /** Takes a new configuration; where it throws, the old one stays active, and one line of the log says why. */
  readonly take: (config: LoadedConfig) => void;
}

export class ServedSettings {
  readonly problems: ActiveProblems;
  readonly #settings: Settings;
  readonly #context: Pick<CommandContext, 'signal' | 'clock'>;
  readonly #closed = new AbortController();
  #hangup = new AbortController();

  /**
   * Reads the configuration, and listens for SIGHUP from now on: that reads it again. Where a terminal is attached, SIGHUP says
   * that it was closed, and stops the command as SIGTERM does.
   * @throws TidemarkError for a configuration that is wrong from the start
   */
  constructor(
    context: Pick<CommandContext, 'signal' | 'clock' | 'onHangup' | 'stdin'>,
    { log, load, take }: ServedOptions,
  ) {
    const clock = context.clock ?? systemClock;
    this.#context = context;
    this.problems = new ActiveProblems(clock, log);
    this.#settings = new Settings({ clock, log, loadConfig: load }, this.problems, {
      onChange: take,
      saysWarnings: false,
    });
    context.onHangup?.(() => (context.stdin.isTTY ? this.#closed : this.#hangup).abort());
  }

  current(): LoadedConfig {
    return this.#settings.current();
  }

  /** Resolves once the command is to stop. @param look called after each look at the files */
  async untilStopped(look?: () => Promise<void>): Promise<void> {
    const { signal, clock = systemClock } = this.#context;
    const stop = AbortSignal.any([signal, this.#closed.signal]);
    for (;;) {
      const waiting = AbortSignal.any([stop, this.#hangup.signal]);
      await clock.sleep(LOOK_MS, waiting).catch((error: unknown) => {
        if (!waiting.aborted) throw error;
      });
      if (stop.aborted) return;
      if (this.#hangup.signal.aborted) {
        this.#hangup = new AbortController();
        this.#settings.reload();
      } else this.#settings.refresh();
      await look?.();
    }
  }
}
