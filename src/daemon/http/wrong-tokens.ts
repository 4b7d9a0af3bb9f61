/** Wrong tokens at the login form: a few may be typing mistakes, more of them are guesses, and wait. */

/** In any minute. */
const MOST = 5;
const WINDOW_MS = 60_000;

export class WrongTokens {
  #triedAt: number[] = [];

  /** Seconds until another try is looked at; 0 for now. `now`: milliseconds, of a clock that only goes forward. */
  waitSeconds(now: number): number {
    this.#triedAt = this.#triedAt.filter((at) => now - at < WINDOW_MS);
    const [first] = this.#triedAt.slice(-MOST);
    return first === undefined || this.#triedAt.length < MOST
      ? 0
      : Math.ceil((first + WINDOW_MS - now) / 1000);
  }

  add(now: number): void {
    this.#triedAt.push(now);
  }
}
