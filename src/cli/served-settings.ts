/** The configuration of a server: like the daemon, it reads it again within a minute of a change, and on SIGHUP. */
import { systemClock } from '../core/clock.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import type { Logger } from '../core/logger.ts';
import { ActiveProblems } from '../daemon/problems.ts';
import { Settings } from '../daemon/settings.ts';
import type { CommandContext } from './context.ts';

/** Between two checks of the files, as in the daemon. */
const LOOK_MS = 60_000;

/** Keeps the configuration of a server current until the command is stopped. */
export class ServedSettings {
  readonly problems: ActiveProblems;
  readonly #settings: Settings;
  readonly #context: Pick<CommandContext, 'signal' | 'clock'>;
  readonly #closed = new AbortController();
  #hangup = new AbortController();

  /**
   * Reads the configuration, and from now on again on SIGHUP. On a terminal, SIGHUP means that it was closed: it stops the
   * command, as SIGTERM does.
   * @param take takes a new configuration; if it throws, the old one stays active, and the log says why
   * @throws TidemarkError if the configuration is wrong
   */
  constructor(
    context: Pick<CommandContext, 'signal' | 'clock' | 'onHangup' | 'stdin'>,
    { log, load, take }: { log: Logger; load: () => LoadedConfig; take: (config: LoadedConfig) => void },
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

  /** Resolves when the command is stopped. @param look called after each check of the files */
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
