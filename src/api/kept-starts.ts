/** Starts that the limiter keeps free in its windows for requests to come. */
import type { Place } from './kind-lanes.ts';

/** A start that is kept free in the windows for one request that must follow closely on others. */
export interface HeldStart {
  /** True where the limit has room for one start only: nothing can follow closely on anything, and nothing is kept. */
  readonly isLone?: true;
  /** In the windows that the kind has of its own. */
  readonly place?: Place;
  /** Gives it back where it was not used. Using it does so too. */
  release(): void;
  /** False once it was used or given back: a request that is sent again needs a start of its own. */
  isOpen(): boolean;
}

/** What is given where nothing can be kept. */
export const LONE: HeldStart = { isLone: true, release: () => undefined, isOpen: () => false };

export class KeptStarts {
  #count = 0;
  #waiting: (() => void)[] = [];

  /** Starts that are kept now: others need room beside so many. */
  get count(): number {
    return this.#count;
  }

  /** Keeps one more, and the place in the kind's own windows with it. */
  keep(place: Place | undefined): HeldStart {
    this.#count += 1;
    let isHeld = true;
    return {
      ...(place === undefined ? {} : { place }),
      release: () => {
        if (!isHeld) return;
        place?.release();
        isHeld = false;
        this.#count -= 1;
        const told = this.#waiting;
        this.#waiting = [];
        for (const tell of told) tell();
      },
      isOpen: () => isHeld,
    };
  }

  /** Calls `tell` once, when the next of them is free again. */
  onFree(tell: () => void): void {
    this.#waiting.push(tell);
  }
}
