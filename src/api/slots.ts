/** Concurrency slots, each kept for a task whose requests follow one another closely. */

/** Permission for one request at a time to be under way. */
export interface ConcurrencySlot {
  readonly isSlot: true;
}

const SLOT: ConcurrencySlot = { isSlot: true };

/** How many tasks may reuse one slot before it is released to other waiters. */
const MOST_TASKS = 16;

/**
 * Gives a slot to one task after the other: queuing thousands of short tasks for a slot each costs half as much as their
 * requests.
 */
export class Slots {
  readonly #limit: number;
  readonly #inSlot: (useSlot: () => Promise<void>) => Promise<void>;
  #waiting: (() => Promise<void>)[] = [];
  #next = 0;
  /** Slots that are in use or waited for. */
  #open = 0;

  /**
   * @param limit number of slots; 0 = no limit
   * @param inSlot waits for a slot and keeps it until the function that it is given ends, which never fails
   */
  constructor(limit: number, inSlot: (useSlot: () => Promise<void>) => Promise<void>) {
    this.#limit = limit === 0 ? Number.POSITIVE_INFINITY : limit;
    this.#inSlot = inSlot;
  }

  /** Runs the task in a slot; tasks start in the order of the calls. */
  run<T>(task: (slot: ConcurrencySlot) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const begin = async (): Promise<void> => {
        try {
          resolve(await task(SLOT));
        } catch (error) {
          reject(error instanceof Error ? error : new Error('the task failed', { cause: error }));
        }
      };
      this.#waiting.push(begin);
      if (this.#open < this.#limit) this.#take();
    });
  }

  #take(): void {
    this.#open += 1;
    void this.#inSlot(async () => {
      for (let tasks = 0; tasks < MOST_TASKS; tasks += 1) {
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
