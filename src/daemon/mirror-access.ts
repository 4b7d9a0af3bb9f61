/**
 * The daemon's connections to the mirror: a writer for one job at a time, which waits for other processes, and a reader
 * that stays open and reopens the file when it is replaced.
 */
import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { DaemonEffects } from './effects.ts';
import type { ProblemSink } from './problems.ts';

/** Interval of trying a lock that another process holds. */
const LOCK_RETRY_MS = 5_000;

export interface WriterLease {
  /** @throws Error while it is suspended */
  readonly mirror: Mirror;
  /** Closes the mirror for a child process that works on it; other jobs of this process still wait. */
  suspend(): void;
  /** Opens it again as soon as no other process holds it. @throws TidemarkError as `lease` */
  resume(command: string, signal: AbortSignal): Promise<void>;
  /** Closes the mirror and passes it to the next waiter. Only the first call counts. */
  release(): void;
}

export class MirrorConnections {
  readonly #effects: DaemonEffects;
  readonly #problems: ProblemSink;
  readonly #config: () => Config;
  #turn: Promise<void> = Promise.resolve();
  #isHeld = false;
  /** The mirror's file existed once: a new one is then not created silently. */
  #wasThere = false;
  #isGone = false;
  #reader: { readonly mirror: Mirror; readonly path: string; readonly file: string } | null = null;

  constructor(effects: DaemonEffects, problems: ProblemSink, config: () => Config) {
    this.#effects = effects;
    this.#problems = problems;
    this.#config = config;
  }

  /**
   * The mirror for writing, once no job of this process and no other process holds it.
   * @param mayCreate false where an empty new mirror would be a mistake; it always is once there was one
   * @throws TidemarkError as `openMirror`, but for `mirror_locked`; the signal's reason
   */
  async lease(command: string, mayCreate: boolean, signal: AbortSignal): Promise<WriterLease> {
    const before = this.#turn;
    let pass = (): void => undefined;
    this.#turn = new Promise((resolve) => {
      pass = resolve;
    });
    // A cancelled waiter passes the lock on only after the current holder has released it.
    const passOn = (): void => void before.then(pass);
    try {
      await untilSettled(before, signal);
      return this.#leaseOf(await this.#openWhenFree(command, mayCreate, signal), pass);
    } catch (error) {
      passOn();
      throw error;
    }
  }

  /** The mirror for writing, or null if somebody holds it. @throws TidemarkError as `openMirror` */
  leaseNow(command: string): WriterLease | null {
    if (this.#isHeld || !this.isThere()) return null;
    try {
      return this.#leaseOf(this.#effects.openMirror(this.#config(), 'write', command), () => undefined);
    } catch (error) {
      if (error instanceof TidemarkError && error.code === 'mirror_locked') return null;
      throw error;
    }
  }

  #leaseOf(mirror: Mirror, pass: () => void): WriterLease {
    this.#isHeld = true;
    let held: Mirror | null = mirror;
    let isOver = false;
    const suspend = (): void => {
      const closing = held;
      held = null;
      closing?.close();
    };
    return {
      get mirror() {
        if (held === null) throw new Error('the mirror is suspended');
        return held;
      },
      suspend,
      resume: async (command, signal) => {
        held ??= await this.#openWhenFree(command, false, signal);
      },
      release: () => {
        if (isOver) return;
        isOver = true;
        try {
          suspend();
        } finally {
          this.#isHeld = false;
          pass();
        }
      },
    };
  }

  /** Does a short piece of work under the lock. Waits for it; `work` awaits nothing. */
  async write<T>(command: string, signal: AbortSignal, work: (mirror: Mirror) => T): Promise<T> {
    const lease = await this.lease(command, false, signal);
    try {
      return work(lease.mirror);
    } finally {
      lease.release();
    }
  }

  /** A reader for one piece of work; the caller closes it. */
  openReader(command: string): Mirror {
    return this.#effects.openMirror(this.#config(), 'read', command);
  }

  /**
   * The reader that stays open; another one where the file is not the same any more.
   * @throws TidemarkError `mirror_missing` and whatever else keeps it from being read
   */
  reader(): Mirror {
    const path = this.#config().mirror;
    this.#requireNotGone();
    const file = fileIdentity(path);
    const known = this.#reader;
    if (known !== null && known.path === path && known.file === file) return known.mirror;
    this.closeReader();
    const mirror = this.#effects.openMirror(this.#config(), 'read', 'daemon');
    this.#reader = { mirror, path, file: fileIdentity(path) };
    return mirror;
  }

  closeReader(): void {
    const known = this.#reader;
    this.#reader = null;
    known?.mirror.close();
  }

  /**
   * False while there is no file in the mirror's place. Says once that one is gone which was there, and that one is there
   * again.
   */
  isThere(): boolean {
    const { mirror } = this.#config();
    const isThere = fileIdentity(mirror) !== '';
    if (!isThere && this.#wasThere && !this.#isGone) {
      this.#isGone = true;
      this.#problems.begin('mirror', mirrorGone(mirror));
    }
    if (isThere && this.#isGone) {
      this.#isGone = false;
      this.#problems.end('mirror', 'the mirror is there again');
    }
    this.#wasThere ||= isThere;
    return isThere;
  }

  /** True while the mirror is away that was there before, as of the last look. */
  isGone(): boolean {
    return this.#isGone;
  }

  /** @throws TidemarkError `mirror_missing` */
  #requireNotGone(): void {
    if (!this.isThere() && this.#isGone) throw mirrorGone(this.#config().mirror);
  }

  async #openWhenFree(command: string, mayCreate: boolean, signal: AbortSignal): Promise<Mirror> {
    const { openMirror, clock, log } = this.#effects;
    for (;;) {
      signal.throwIfAborted();
      try {
        this.#requireNotGone();
        if (!mayCreate) openMirror(this.#config(), 'read', command).close();
        else if (!this.isThere()) {
          log.info(
            { mirror: this.#config().mirror },
            'there is no mirror: a new one is created, without history',
          );
        }
        const mirror = openMirror(this.#config(), 'write', command);
        this.#wasThere = true;
        this.#problems.end('lock', 'the mirror is free again');
        return mirror;
      } catch (error) {
        if (!(error instanceof TidemarkError) || error.code !== 'mirror_locked') {
          this.#problems.end('lock', 'the mirror is not held any more');
          throw asTidemarkError(error);
        }
        this.#problems.begin('lock', waiting(error), 'warn');
      }
      await clock.sleep(LOCK_RETRY_MS, signal);
    }
  }
}

function mirrorGone(path: string): TidemarkError {
  return new TidemarkError('mirror_missing', `the mirror is gone: ${path} is not there any more`, {
    hint: 'nothing is written until it is back: put a copy in its place (`tidemark backup restore`), or restart the daemon to begin a new one, without history',
  });
}

function waiting(error: TidemarkError): TidemarkError {
  return new TidemarkError('mirror_locked', `${error.message}: waiting for it`, {
    hint: 'nothing to do: the daemon continues once it is free',
    isRetryable: true,
    cause: error,
  });
}

/** The identity of a file, which changes when it is replaced; empty if there is none. */
function fileIdentity(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}`;
}

/** Waits for another one's end, or for the signal. */
async function untilSettled(other: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let stop = (): void => undefined;
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
    signal.addEventListener('abort', stop, { once: true });
  });
  await Promise.race([other, aborted]);
  signal.removeEventListener('abort', stop);
  signal.throwIfAborted();
}
