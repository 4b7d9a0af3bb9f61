/** Places among the requests that may be under way at once, kept for requests that follow one another closely. */

/** One such place. */
export interface ConcurrencySlot {
  readonly isSlot: true;
}

const SLOT: ConcurrencySlot = { isSlot: true };

/** How many tasks may reuse one slot before it is released to other waiters. */
const MOST_WORKS = 16;

/**
 * Gives a place to one work after the other. To have each of thousands of short works queue for a place of its own costs
 * as much as the half of a request.
 */
export class Slots {
  readonly #places: number;
  readonly #inPlace: (withSlot: () => Promise<void>) => Promise<void>;
  #waiting: (() => Promise<void>)[] = [];
  #next = 0;
  /** Places that are held or waited for. */
  #open = 0;

  /**
   * @param places how many there are; 0 = no limit
   * @param inPlace waits for a place and keeps it until what it calls is over, which never fails
   */
  constructor(places: number, inPlace: (hold: () => Promise<void>) => Promise<void>) {
    this.#places = places === 0 ? Number.POSITIVE_INFINITY : places;
    this.#inPlace = inPlace;
  }

  /** Does the work in a place; works begin in the order in which they came. */
  hold<T>(work: (slot: ConcurrencySlot) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const begin = async (): Promise<void> => {
        try {
          resolve(await work(SLOT));
        } catch (error) {
          reject(error instanceof Error ? error : new Error('the work failed', { cause: error }));
        }
      };
      this.#waiting.push(begin);
      if (this.#open < this.#places) this.#take();
    });
  }

  #take(): void {
    this.#open += 1;
    void this.#inPlace(async () => {
      for (let works = 0; works < MOST_WORKS; works += 1) {
        const begin = this.#shift();
        if (begin === undefined) break;
        await begin();
      }
      this.#open -= 1;
      if (this.#next < this.#waiting.length) this.#take();
    });
  }

  #shift(): (() => Promise<void>) | undefined {
    const first = this.#waiting[this.#next];
    if (first === undefined) return undefined;
    this.#next += 1;
    if (this.#next === this.#waiting.length) {
      this.#waiting = [];
      this.#next = 0;
    }
    return first;
  }
}
