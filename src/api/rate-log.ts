/**
 * Where the limiter keeps the starts of requests. The processes of one machine share a file beside the mirror
 * (`mirror/rate-log.ts`); what stands here is the form of it, and a log in memory for clients without limits or file.
 */
import type { Kind } from '../catalog/definition.ts';

/** The log of one key at one origin. */
export interface RateLog {
  /** The log's clock, milliseconds: of the wall where processes share it, since they share no other one. */
  now(): number;
  /**
   * Runs synchronous work during which no other process reads or writes the log.
   * @throws what the file throws; nothing of the work is kept then
   */
  atomically<T>(work: () => T): T;
  /** The starts that count for the key's limit, or for that of the kind which gives a limit its name. */
  starts(kind: Kind | null): Starts;
  /** What `writePace` wrote last; null before. */
  readPace(): string | null;
  writePace(text: string): void;
  close(): void;
}

/** The starts of one limit, oldest first. All of it is called within `atomically`. */
export interface Starts {
  /** Returns the number of the start, for `arrived`. */
  add(at: number): number;
  /**
   * The request of that number was answered at `at`: it reached the service by then and not, as far as is known, before. It
   * counts as a start of that moment, and so do later ones, so that the order stays.
   */
  arrived(number: number, at: number): void;
  /** When the nth latest one was, the latest being the first; undefined where no more is known. Never in the future. */
  nthLatest(n: number): number | undefined;
  /** Starts later than that. */
  countAfter(at: number): number;
  /** How many starts this process keeps free for requests to come; it is forgotten with a process that dies. */
  writeHeld(count: number): void;
  /** How many the other processes keep free. */
  heldByOthers(): number;
}

/** What is kept at most where no limit needs more: then the count is for people only. */
const MOST_KEPT = 20_000;

/** @param keeps how many starts the limits look back at most */
export function memoryRateLog(now: () => number, keeps: number): RateLog {
  const byKind = new Map<Kind | null, MemoryStarts>();
  let pace: string | null = null;
  return {
    now,
    atomically: (work) => work(),
    starts: (kind) => {
      const starts = byKind.get(kind) ?? new MemoryStarts(Math.max(keeps, MOST_KEPT));
      byKind.set(kind, starts);
      return starts;
    },
    readPace: () => pace,
    writePace: (text) => (pace = text),
    close: () => undefined,
  };
}

class MemoryStarts implements Starts {
  readonly #keeps: number;
  #times: number[] = [];
  #dropped = 0;

  constructor(keeps: number) {
    this.#keeps = keeps;
  }

  add(at: number): number {
    this.#times.push(at);
    if (this.#times.length >= this.#keeps * 2) {
      this.#dropped += this.#times.length - this.#keeps;
      this.#times = this.#times.slice(-this.#keeps);
    }
    return this.#dropped + this.#times.length - 1;
  }

  arrived(number: number, at: number): void {
    for (let index = Math.max(0, number - this.#dropped); index < this.#times.length; index += 1) {
      if ((this.#times[index] ?? at) >= at) return;
      this.#times[index] = at;
    }
  }

  nthLatest(n: number): number | undefined {
    return this.#times[this.#times.length - n];
  }

  countAfter(at: number): number {
    return this.#times.length - 1 - this.#times.findLastIndex((time) => time <= at);
  }

  writeHeld(): void {
    // There are no other processes that could look at it.
  }

  heldByOthers(): number {
    return 0;
  }
}
