/** Current problems. Each is reported when it begins and when it ends, not in between. */
import { type Clock, isoTime } from '../core/clock.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { DaemonProblem } from './view.ts';

/** Where what goes wrong is noted. */
export interface ProblemSink {
  begin(about: string, error: TidemarkError, level?: 'warn' | 'error'): void;
  end(about: string, message: string): void;
}

export class ActiveProblems implements ProblemSink {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #open = new Map<string, DaemonProblem>();

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Notes a problem; logs it unless the same one is known already. A known one with another code is reported again. */
  begin(about: string, error: TidemarkError, level: 'warn' | 'error' = 'error'): void {
    if (this.note(about, error)) this.#say(about, error, level);
  }

  /** Notes a problem and logs it, whatever is known already. */
  report(about: string, error: TidemarkError): void {
    this.note(about, error);
    this.#say(about, error, 'error');
  }

  #say(about: string, error: TidemarkError, level: 'warn' | 'error'): void {
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    this.#log[level]({ about, code: error.code, ...hint }, error.message);
  }

  /** Notes a problem without a word. True where it is news. */
  note(about: string, error: TidemarkError): boolean {
    const known = this.#open.get(about);
    const isNews = known === undefined || known.error.code !== error.code;
    this.#open.set(about, { about, since: known?.since ?? isoTime(this.#clock.now()), error });
    return isNews;
  }

  /** Notes that it is over, and says so where it was there. */
  end(about: string, message: string): void {
    const known = this.#open.get(about);
    if (known === undefined) return;
    this.#open.delete(about);
    this.#log.info({ about, code: known.error.code, since: known.since }, message);
  }

  /** Notes that it is over without a word. True where it was there. */
  clear(about: string): boolean {
    return this.#open.delete(about);
  }

  /** Oldest first. */
  all(): DaemonProblem[] {
    return [...this.#open.values()];
  }
}
