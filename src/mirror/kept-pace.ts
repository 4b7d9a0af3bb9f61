/**
 * What a 429 left behind with a key that has no limit of requests: in the log beside the mirror, of which nothing else is used then.
 * Implements the client's `KeptPace`.
 */
import { existsSync } from 'node:fs';
import type { Clock } from '../core/clock.ts';
import { connect, sqliteCode } from './database.ts';
import { limitId, rateLogPath, SharedRateLog } from './rate-log.ts';

interface KeptPaceOptions {
  /** As of the log (`SharedRateLog`). */
  readonly beside: string;
  readonly before: string | null;
  readonly fingerprint: string;
  readonly clock: Clock;
}

export class SharedPace {
  readonly #options: KeptPaceOptions;

  constructor(options: KeptPaceOptions) {
    this.#options = options;
  }

  /** What any process wrote last; null if nothing can be read. */
  read(): string | null {
    const { beside, before, fingerprint } = this.#options;
    const path = [before, beside]
      .flatMap((each) => (each === null ? [] : rateLogPath(each)))
      .find(existsSync);
    if (path === undefined) return null;
    try {
      const connection = connect(path, { isReadonly: true });
      try {
        const text = connection.prepare<[number], string>('SELECT text FROM pace WHERE limit_id = ?').pluck();
        return text.get(limitId(fingerprint, null)) ?? null;
      } finally {
        connection.close();
      }
    } catch (error) {
      // What writes to it says what is wrong with it.
      if (sqliteCode(error) === undefined) throw error;
      return null;
    }
  }

  /** @throws TidemarkError where the file cannot be written */
  write(text: string): void {
    const log = new SharedRateLog({ ...this.#options, keeps: 0 });
    try {
      log.atomically(() => log.writePace(text));
    } finally {
      log.close();
    }
  }
}
