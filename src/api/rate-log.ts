/**
 * Where the limiter keeps the starts of requests. The processes of one machine share a file beside the mirror
 * (`mirror/rate-log.ts`); what stands here is the form of it, and a log in memory for clients without limits or file.
 */
import type { Kind } from '../catalog/definition.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';

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

/** A shared log that cannot be used, a file that another program holds, say, is tried again so much later. */
const TRY_AGAIN_MS = 30_000;

interface FallbackOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** How many starts the limits look back at most. */
  readonly keeps: number;
  /** The limits: null for the key's, and the kinds that give a limit its name. */
  readonly names: readonly (Kind | null)[];
}

/** What stands in for the shared log. */
interface Memory {
  readonly log: RateLog;
  /** How many starts of each limit it took over from the shared one. */
  readonly known: ReadonlyMap<Kind | null, number>;
  /** By the monotonic clock. */
  tryAgainAt: number;
}

/** A start: in which log it was written, and its number there. */
interface WrittenStart {
  readonly log: RateLog;
  readonly number: number;
}

/**
 * The shared log for as long as it can be used, else one in memory with what the shared one knew: then this process keeps
 * the limits alone, and fails nothing. It goes back to the shared log as soon as that can be used again, and writes there
 * what it sent meanwhile. Each change is logged once.
 */
export class FallbackRateLog implements RateLog {
  readonly #shared: RateLog;
  readonly #options: FallbackOptions;
  readonly #written = new Map<number, WrittenStart>();
  #nextStart = 0;
  #memory: Memory | null = null;
  #isClosed = false;

  constructor(shared: RateLog, options: FallbackOptions) {
    this.#shared = shared;
    this.#options = options;
  }

  now(): number {
    return this.#options.clock.now();
  }

  atomically<T>(work: () => T): T {
    const memory = this.#memory;
    if (memory !== null && !this.#isDue(memory)) return memory.log.atomically(work);
    try {
      const result = this.#shared.atomically(() => {
        this.#memory = null;
        if (memory !== null) this.#handBack(memory);
        return work();
      });
      if (memory !== null)
        this.#options.log.info({}, 'the log of requests can be used again: all processes are counted');
      return result;
    } catch (error) {
      this.#memory = memory;
      if (!(error instanceof TidemarkError)) throw error;
      this.#fallBack(error);
      return this.#current().atomically(work);
    }
  }

  starts(kind: Kind | null): Starts {
    const log = this.#current();
    const starts = log.starts(kind);
    return {
      add: (at) => {
        this.#nextStart += 1;
        this.#written.set(this.#nextStart, { log, number: starts.add(at) });
        return this.#nextStart;
      },
      arrived: (start, at) => {
        const written = this.#written.get(start);
        this.#written.delete(start);
        if (written?.log === log) starts.arrived(written.number, at);
        // The log was changed while the request was on its way: rather counted twice than too early.
        else starts.add(Math.max(at, starts.nthLatest(1) ?? at));
      },
      nthLatest: (n) => starts.nthLatest(n),
      countAfter: (at) => starts.countAfter(at),
      writeHeld: (count) => starts.writeHeld(count),
      heldByOthers: () => starts.heldByOthers(),
    };
  }

  readPace(): string | null {
    return this.#current().readPace();
  }

  writePace(text: string): void {
    this.#current().writePace(text);
  }

  /** What is asked afterwards is answered from memory. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#memory ??= this.#remembered([]);
    this.#shared.close();
  }

  #current(): RateLog {
    return this.#memory?.log ?? this.#shared;
  }

  #isDue({ tryAgainAt }: Memory): boolean {
    return !this.#isClosed && this.#options.clock.monotonicMs() >= tryAgainAt;
  }

  #fallBack(error: TidemarkError): void {
    const { clock, log, names } = this.#options;
    if (this.#memory !== null) {
      this.#memory.tryAgainAt = clock.monotonicMs() + TRY_AGAIN_MS;
      return;
    }
    log.warn(
      { code: error.code, reason: error.message },
      'the log of requests cannot be used: requests of other processes are not counted against the rate limit',
    );
    this.#memory = this.#remembered(names);
  }

  /** @param names the limits of which it is to know what the shared log knows */
  #remembered(names: readonly (Kind | null)[]): Memory {
    const { clock, keeps } = this.#options;
    const log = memoryRateLog(() => clock.now(), keeps);
    try {
      for (const name of names) {
        for (const at of latestOf(this.#shared.starts(name), keeps)) log.starts(name).add(at);
      }
      const pace = names.length === 0 ? null : this.#shared.readPace();
      if (pace !== null) log.writePace(pace);
    } catch {
      // Nothing more of it can be read, a file that is damaged or was never opened, say: why was logged when it failed.
    }
    const known = new Map(names.map((name) => [name, allOf(log.starts(name))]));
    return { log, known, tryAgainAt: clock.monotonicMs() + TRY_AGAIN_MS };
  }

  /** Writes to the shared log what was sent meanwhile; within its `atomically`. */
  #handBack({ log, known }: Memory): void {
    for (const name of this.#options.names) {
      const own = log.starts(name);
      const shared = this.#shared.starts(name);
      const latest = shared.nthLatest(1) ?? 0;
      // In the order of the log, at the latest when they can have been: what others sent meanwhile is in it already.
      for (const at of latestOf(own, allOf(own) - (known.get(name) ?? 0))) shared.add(Math.max(at, latest));
    }
    const pace = log.readPace();
    if (pace !== null) this.#shared.writePace(pace);
  }
}

function allOf(starts: Starts): number {
  return starts.countAfter(Number.NEGATIVE_INFINITY);
}

/** Oldest first. */
function latestOf(starts: Starts, most: number): number[] {
  const times: number[] = [];
  for (let n = most; n > 0; n -= 1) {
    const at = starts.nthLatest(n);
    if (at !== undefined) times.push(at);
  }
  return times;
}
