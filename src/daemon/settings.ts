/** The configuration in force: reloaded when it may have changed; the old one is kept if the new one is invalid. */
import { statSync, type BigIntStats } from 'node:fs';
import { NOT_SENT } from '../config/checking.ts';
import type { LoadedConfig } from '../config/mirrors.ts';
import { asTidemarkError, systemCodeOf, TidemarkError } from '../core/errors.ts';
import type { DaemonEffects } from './effects.ts';
import type { ActiveProblems } from './problems.ts';

/** Longer than the steps in which file systems keep times (up to 2 s), and than reading takes: a file written meanwhile is younger. */
const SETTLED_MS = 10_000;

type SettingsEffects = Pick<DaemonEffects, 'loadConfig' | 'log' | 'clock'>;

interface SettingsOptions {
  /** Takes a new configuration; if it throws, the configuration is invalid. */
  readonly onChange: (config: LoadedConfig) => void;
  readonly saysWarnings?: boolean;
}

export class Settings {
  readonly #effects: SettingsEffects;
  readonly #problems: ActiveProblems;
  #config: LoadedConfig;
  /** The states of its files before they were read; null if they must be read again in any case. */
  #seen: string | null = null;
  readonly #onChange: SettingsOptions['onChange'];
  readonly #saysWarnings: boolean;

  /** @throws TidemarkError if the configuration is invalid at the start */
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

  /** Of a quiet call, whose output cron mails: logs what is new. @param said the unset values that the last call logged */
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

  /** Why the newest configuration is not in force; null if it is. */
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

  /** Reloads the configuration because a person wants it: an invalid one is reported each time. */
  reload(): void {
    this.#read(true);
  }

  #read(isAskedFor: boolean): void {
    // An invalid configuration is read each time: not all of its files are known.
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
      const line = message.replaceAll(/:\n\s*/g, ': ').replaceAll(/\n\s*/g, '; ');
      const kept = new TidemarkError(code, `the old configuration stays active: ${line}`, {
        hint,
        cause: error,
      });
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
    // Of a quiet call too: if a channel sends nothing, people only see what is logged here.
    const said = this.#saysWarnings ? warnings : warnings.filter((each) => each.endsWith(NOT_SENT));
    for (const warning of said.filter((each) => !before.includes(each))) {
      this.#effects.log.warn({ about: 'config' }, warning);
    }
  }
}

/** Changes if one of these files is written, replaced, removed or created. */
function statesOf(paths: readonly string[]): string {
  const states = paths.map((path) => {
    const stats = statOrCode(path);
    if (typeof stats === 'string') return stats;
    return `${stats.dev}:${stats.ino}:${stats.mtimeNs}:${stats.ctimeNs}:${stats.size}`;
  });
  return states.join(' ');
}

/** The stats of a file; an error code if they cannot be read, which is reported when the file itself is read. */
function statOrCode(path: string): BigIntStats | string {
  try {
    return statSync(path, { throwIfNoEntry: false, bigint: true }) ?? 'none';
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === undefined) throw error;
    return code;
  }
}
