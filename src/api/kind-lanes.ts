/**
 * The limits that some kinds have of their own, on top of the key's (wire-notes.md, Rates). A place in them is taken
 * before the queue is entered: a kind that must wait for its own limit holds up no other.
 */
import type { Kind } from '../catalog/definition.ts';
import type { Clock } from '../core/clock.ts';
import type { KindUse } from './figures.ts';
import { StartWindows } from './start-windows.ts';
import type { RateLog, WindowLimits } from './start-windows.ts';

/** One limit, for the requests of these kinds together. */
export interface KindLimits extends WindowLimits {
  /** The first one gives the limit its name. */
  readonly kinds: readonly [Kind, ...Kind[]];
}

/** A place in a kind's windows that is not used yet. */
export interface Place {
  /** The request starts: the place becomes a start. */
  start(now: number): void;
  /** Gives it back; of no effect once it was used. */
  release(): void;
  /** False once it was used or given back. */
  isOpen(): boolean;
}

export class KindLane {
  readonly #kinds: KindLimits['kinds'];
  readonly #windows: StartWindows;
  /** Most places there are. */
  readonly least: number;
  #held = 0;
  #waiting: (() => void)[] = [];

  constructor(limits: KindLimits, clock: Clock, rateLog: RateLog | undefined) {
    this.#kinds = limits.kinds;
    this.least = Math.min(...[limits.perMinute, limits.perHour].filter((limit) => limit !== 0));
    this.#windows = new StartWindows({ limits, clock, rateLog });
  }

  get name(): Kind {
    return this.#kinds[0];
  }

  /** True while requests that have not started leave no place, `beside` others included: only one of them makes room. */
  isTaken(beside: number): boolean {
    return this.#held + beside >= this.least;
  }

  waitMs(now: number): number {
    return this.#windows.waitMs(now, this.#held);
  }

  /** Called when a place was used or given back. */
  onRoom(tell: () => void): void {
    this.#waiting.push(tell);
  }

  take(): Place {
    this.#held += 1;
    let isOpen = true;
    const release = (): void => {
      if (!isOpen) return;
      isOpen = false;
      this.#held -= 1;
      const told = this.#waiting;
      this.#waiting = [];
      for (const tell of told) tell();
    };
    return {
      start: (now) => {
        this.#windows.add(now);
        release();
      },
      release,
      isOpen: () => isOpen,
    };
  }

  use(now: number): KindUse {
    return {
      kinds: this.#kinds,
      perMinute: this.#windows.minuteUse(now),
      perHour: this.#windows.hourUse(now),
    };
  }

  flush(): void {
    this.#windows.flush();
  }
}

/** By kind; empty where no kind has a limit of its own. */
export function openLanes(
  limits: readonly KindLimits[],
  clock: Clock,
  rateLogOf: ((name: Kind) => RateLog) | undefined,
): ReadonlyMap<Kind, KindLane> {
  return new Map(
    limits
      .filter(({ perMinute, perHour }) => perMinute !== 0 || perHour !== 0)
      .flatMap((each) => {
        const lane = new KindLane(each, clock, rateLogOf?.(each.kinds[0]));
        return each.kinds.map((kind) => [kind, lane] as const);
      }),
  );
}
