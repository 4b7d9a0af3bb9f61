/** The configuration in force: read anew when it may have changed, the old one kept when the new one is wrong. */
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import type { DaemonEffects } from './effects.ts';
import type { Troubles } from './troubles.ts';

export class Settings {
  readonly #effects: DaemonEffects;
  readonly #troubles: Troubles;
  #config: Config;
  #digest: string;
  #seenFile: string;
  readonly #onChange: (config: Config) => void;

  /**
   * @param onChange takes the new configuration; what it throws makes that one a wrong one
   * @throws TidemarkError for a configuration that is wrong from the start
   */
  constructor(effects: DaemonEffects, troubles: Troubles, onChange: (config: Config) => void) {
    this.#effects = effects;
    this.#troubles = troubles;
    this.#onChange = onChange;
    this.#config = effects.loadConfig();
    this.#digest = digestOf(this.#config);
    this.#seenFile = fileState(this.#config.file);
    this.#sayWarnings(this.#config, []);
  }

  current(): Config {
    return this.#config;
  }

  /** Why the newest configuration is not in force; null where it is. */
  trouble(): TidemarkError | null {
    return this.#troubles.all().find(({ about }) => about === 'config')?.error ?? null;
  }

  /** Reads it anew where its file is another one than before. Costs a look at the file. */
  reloadIfTouched(): void {
    if (fileState(this.#config.file) !== this.#seenFile) this.refresh();
  }

  /** Reads it anew, keys and all. A wrong one changes nothing, and is told unless the same was told of it before. */
  refresh(): void {
    this.#read(false);
  }

  /** The same for somebody who asks for it, and is told of a wrong one each time. */
  reload(): void {
    this.#read(true);
  }

  #read(isAskedFor: boolean): void {
    const seen = fileState(this.#config.file);
    try {
      const next = this.#effects.loadConfig();
      this.#seenFile = seen;
      const digest = digestOf(next);
      if (digest !== this.#digest) {
        this.#onChange(next);
        const before = this.#config;
        this.#config = next;
        this.#digest = digest;
        this.#effects.log.info({ file: next.file }, 'configuration read anew');
        this.#sayWarnings(next, before.warnings);
      }
      this.#troubles.end('config', 'the configuration is right again');
    } catch (error) {
      this.#seenFile = seen;
      const { code, message, hint } = asTidemarkError(error);
      const kept = new TidemarkError(
        code,
        `the old configuration stays in force: ${message.replaceAll('\n', '; ')}`,
        {
          ...(hint === undefined ? {} : { hint }),
          cause: error,
        },
      );
      if (isAskedFor || this.trouble()?.message !== kept.message) this.#troubles.tell('config', kept);
    }
  }

  #sayWarnings({ warnings }: Config, before: readonly string[]): void {
    for (const warning of warnings.filter((each) => !before.includes(each))) {
      this.#effects.log.warn({ about: 'config' }, warning);
    }
  }
}

/** Tells two configurations apart, their secrets included, and holds none of them. */
export function digestOf(value: unknown): string {
  const text = JSON.stringify(value, function (this: unknown, key: string, shown: unknown) {
    const own = (this as Record<string, unknown>)[key];
    return own instanceof Secret ? createHash('sha256').update(own.reveal()).digest('hex') : shown;
  });
  return createHash('sha256').update(text).digest('hex');
}

/** What changes when a file is written or replaced; empty where there is none. */
function fileState(path: string | null): string {
  const stats = path === null ? undefined : statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}:${stats.mtimeNs}:${stats.size}`;
}
