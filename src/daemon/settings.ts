/** The configuration in force: reloaded when it may have changed; the old one is kept when the new one is wrong. */
import { statSync, type BigIntStats } from 'node:fs';
import { NOT_SENT } from '../config/checking.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { systemCodeOf } from '../core/errors.ts';
import type { DaemonEffects } from './effects.ts';
import type { ActiveProblems } from './problems.ts';

/** File systems keep times in steps of up to 2 s. Longer than reading takes, too: what was written meanwhile is young. */
const SETTLED_MS = 10_000;

type SettingsEffects = Pick<DaemonEffects, 'loadConfig' | 'log' | 'clock'>;

interface SettingsOptions {
  /** Takes a new configuration; what it throws makes that one a wrong one. */
  readonly onChange: (config: LoadedConfig) => void;
  readonly saysWarnings?: boolean;
}

export class Settings {
  readonly #effects: SettingsEffects;
  readonly #problems: ActiveProblems;
  #config: LoadedConfig;
  /** Of its files, before they were read; null where they have to be read again in any case. */
  #seen: string | null = null;
  readonly #onChange: SettingsOptions['onChange'];
  readonly #saysWarnings: boolean;

  /** @throws TidemarkError for a configuration that is wrong from the start */
  constructor(
    effects: SettingsEffects,
    problems: ActiveProblems,
    { onChange, saysWarnings = true }: SettingsOptions,
  ) {
    this.#effects = effects;
    this.#problems = problems;
    this.#onChange = onChange;
    this.#saysWarnings = saysWarnings;
    this.#config = effects.loadConfig();
    this.#seen = this.#settled(this.#config);
    if (saysWarnings) this.#sayWarnings(this.#config, []);
  }

  /** Of a quiet call, which cron mails: what none before it has said. @param said the unset values that the last call said */
  sayNew(said: readonly string[]): void {
    if (!this.#saysWarnings)
      this.#sayWarnings(
        this.#config,
        said.map((line) => `${line}: ${NOT_SENT}`),
      );
  }

  current(): LoadedConfig {
    return this.#config;
  }

  /** Why the newest configuration is not in force; null where it is. */
  problem(): TidemarkError | null {
    return this.#problems.all().find(({ about }) => about === 'config')?.error ?? null;
  }

  /**
   * Reloads the configuration with its keys if one of its files may have changed; otherwise it only checks the files.
   * An invalid configuration changes nothing, and is reported once.
   */
  refresh(): void {
    if (this.#seen === null || this.#seen !== statesOf(this.#config.files)) this.#read(false);
  }

  /** The same for somebody who asks for it: a wrong one is reported each time. */
  reload(): void {
    this.#read(true);
  }

  #read(isAskedFor: boolean): void {
    // A wrong one is read each time, since its files are not all known.
    this.#seen = null;
    try {
      const next = this.#effects.loadConfig();
      if (next.digest !== this.#config.digest) {
        this.#onChange(next);
        const before = this.#config;
        this.#config = next;
        this.#effects.log.info({ file: next.file }, 'configuration reloaded');
        this.#sayWarnings(next, before.warnings);
      } else if (isAskedFor) {
        this.#effects.log.info({ file: next.file }, 'configuration read again: nothing changed');
      }
      this.#seen = this.#settled(next);
      this.#problems.end('config', 'the configuration is right again');
    } catch (error) {
      const { code, message, hint } = asTidemarkError(error);
      const kept = new TidemarkError(
        code,
        `the old configuration stays active: ${message.replaceAll(/:\n\s*/g, ': ').replaceAll(/\n\s*/g, '; ')}`,
        {
          ...(hint === undefined ? {} : { hint }),
          cause: error,
        },
      );
      if (isAskedFor || this.problem()?.message !== kept.message) this.#problems.report('config', kept);
    }
  }

  /**
   * The states of the configuration files, if they certainly match what was read: null if one was written so recently
   * that a second write might not show in its times.
   */
  #settled({ files }: LoadedConfig): string | null {
    const states = statesOf(files);
    const now = this.#effects.clock.now();
    const isYoung = files.some((path) => {
      const stats = statOrCode(path);
      return typeof stats !== 'string' && Math.abs(now - Number(stats.ctimeMs)) < SETTLED_MS;
    });
    return isYoung ? null : states;
  }

  #sayWarnings({ warnings }: LoadedConfig, before: readonly string[]): void {
    // Where a channel sends nothing, only what this prints reaches anybody.
    const said = this.#saysWarnings ? warnings : warnings.filter((each) => each.endsWith(NOT_SENT));
    for (const warning of said.filter((each) => !before.includes(each))) {
      this.#effects.log.warn({ about: 'config' }, warning);
    }
  }
}

/** What changes when one of these files is written, replaced, removed or made. */
function statesOf(paths: readonly string[]): string {
  return paths.map((path) => stateOf(path)).join(' ');
}

function stateOf(path: string): string {
  const stats = statOrCode(path);
  return typeof stats === 'string'
    ? stats
    : `${stats.dev}:${stats.ino}:${stats.mtimeNs}:${stats.ctimeNs}:${stats.size}`;
}

/** A file that cannot be looked at (no right to its directory, a mount that is away) is reported where it is read, not here: its code. */
function statOrCode(path: string): BigIntStats | string {
  try {
    return statSync(path, { throwIfNoEntry: false, bigint: true }) ?? 'none';
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === undefined) throw error;
    return code;
  }
}
