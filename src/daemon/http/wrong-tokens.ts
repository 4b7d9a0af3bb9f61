/**
 * Wrong tokens, by the address from which they come. The right one always enters; wrong ones wait for their answer, and more
 * than a few of them are asked to try later, so that guessing shows and a caller with an old token does not keep the daemon
 * busy. No address ever counts for another one.
 */
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import { addressGroup } from '../../server/client-address.ts';

/** From one address within a minute: typing mistakes, or a scraper that was forgotten. */
const MOST = 5;
const WINDOW_MS = 60_000;
/** Before a wrong token is answered. */
const DELAY_MS = 400;
/** Answers that wait at the same time, of one address and of all: what waits holds its connection. */
const MOST_DELAYED_PER_ADDRESS = 5;
const MOST_DELAYED = 50;
/** Addresses that are remembered; the one that was quiet for longest is forgotten. */
const MOST_ADDRESSES = 10_000;

interface Tries {
  /** The latest ones, at most `MOST`; milliseconds of a clock that only goes forward. */
  at: number[];
  delayed: number;
  loggedAt: number | null;
}

export class WrongTokens {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #tries = new Map<string, Tries>();
  #delayed = 0;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Takes a wrong token down, and waits as long as its answer has to.
   * @returns seconds until another wrong one is looked at; 0 where it was one of the first
   */
  async add(address: string): Promise<number> {
    const now = this.#clock.monotonicMs();
    const group = addressGroup(address);
    const tries = this.#tries.get(group) ?? { at: [], delayed: 0, loggedAt: null };
    // The end of the map is what was heard of last.
    this.#tries.delete(group);
    this.#tries.set(group, tries);
    const [quietest] = this.#tries.keys();
    if (this.#tries.size > MOST_ADDRESSES && quietest !== undefined) this.#tries.delete(quietest);
    tries.at = tries.at.filter((at) => now - at < WINDOW_MS);
    const [first = now] = tries.at;
    const waitSeconds = tries.at.length < MOST ? 0 : Math.ceil((first + WINDOW_MS - now) / 1000);
    if (waitSeconds === 0) tries.at.push(now);
    if (tries.loggedAt === null || now - tries.loggedAt >= WINDOW_MS) {
      tries.loggedAt = now;
      this.#log.warn({ address }, 'a wrong token was sent (logged once a minute for each address)');
    }
    if (tries.delayed < MOST_DELAYED_PER_ADDRESS && this.#delayed < MOST_DELAYED) await this.#delay(tries);
    return waitSeconds;
  }

  async #delay(tries: Tries): Promise<void> {
    tries.delayed += 1;
    this.#delayed += 1;
    try {
      await this.#clock.sleep(DELAY_MS);
    } finally {
      tries.delayed -= 1;
      this.#delayed -= 1;
    }
  }
}
