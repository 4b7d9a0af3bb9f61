/**
 * The daemon's connections to the mirror: a writer for one job at a time, which waits for other processes, and a reader that stays open
 * and reopens the file if it is replaced.
 */
import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { configuredBackups, ownerOf, placeOf } from '../config/mirrors.ts';
import type { Actor } from '../core/actor.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { goneHint, LATEST_BACKUP, namingBackup, withSource } from '../core/hints.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { movedAway } from '../mirror/open.ts';
import type { DaemonEffects } from './effects.ts';
import type { ProblemSink } from './problems.ts';

/** Interval of trying a lock that another process holds. */
const LOCK_RETRY_MS = 5_000;

/**
 * The turn to write, held by one job or observer of this process at a time. The writer lock itself is held only while the
 * mirror is open: by `write` for a moment, by whoever does the job while it works.
 */
export interface WriterTurn {
  /** As `MirrorConnections.openWriter`, for a short piece of work that awaits nothing. */
  write<T>(
    command: string,
    signal: AbortSignal,
    work: (mirror: Mirror) => T,
    mayCreate?: boolean,
  ): Promise<T>;
  /** Passes the turn to the next waiter. Only the first call counts. */
  release(): void;
}

/** The most readers that stay open, over all mirrors of the daemon: each holds up to six files and some memory. */
const MOST_READERS = 32;

/** The readers that stay open. The least recently used ones are closed, unless somebody may be reading. */
export class ReaderPool {
  /** Least recently used first, with the time of the last use. */
  readonly #open = new Map<MirrorConnections, number>();
  readonly #holds = new Set<{ readonly since: number }>();
  #uses = 0;

  /** No reader that is used from now on is closed before the returned function is called. */
  hold(): () => void {
    const hold = { since: this.#uses };
    this.#holds.add(hold);
    return () => void this.#holds.delete(hold);
  }

  used(owner: MirrorConnections): void {
    this.#open.delete(owner);
    this.#open.set(owner, (this.#uses += 1));
    const heldSince = Math.min(this.#uses - 1, ...[...this.#holds].map(({ since }) => since));
    for (const [other, use] of this.#open) {
      if (this.#open.size <= MOST_READERS || use > heldSince) return;
      other.closeReader();
    }
  }

  closed(owner: MirrorConnections): void {
    this.#open.delete(owner);
  }

  get size(): number {
    return this.#open.size;
  }
}

interface ConnectionOptions {
  readonly pool?: ReaderPool;
  /** The backup to restore if the mirror is gone, as for `goneHint`; the latest if left out. */
  readonly backupToName?: () => string | null;
}

export class MirrorConnections {
  readonly #effects: DaemonEffects;
  readonly #problems: ProblemSink;
  readonly #config: () => Config;
  readonly #pool: ReaderPool;
  readonly #backupToName: () => string | null;
  #turn: Promise<void> = Promise.resolve();
  #isTaken = false;
  /** True once the mirror's file existed: then a new one is not created silently. */
  #wasThere = false;
  #isGone = false;
  /** True once it had content. */
  #hadContent = false;
  #reader: {
    readonly mirror: Mirror;
    readonly path: string;
    readonly file: string;
    readonly schema: number;
  } | null = null;

  constructor(
    effects: DaemonEffects,
    problems: ProblemSink,
    config: () => Config,
    { pool = new ReaderPool(), backupToName = () => LATEST_BACKUP }: ConnectionOptions = {},
  ) {
    this.#effects = {
      ...effects,
      openMirror: (...mirror) => {
        try {
          return effects.openMirror(...mirror);
        } catch (error) {
          throw error instanceof TidemarkError ? this.naming(error) : error;
        }
      },
    };
    this.#problems = problems;
    this.#config = config;
    this.#pool = pool;
    this.#backupToName = backupToName;
  }

  /** The error with complete commands in its hint: with the backup to restore, its key, and the source. */
  naming(error: TidemarkError): TidemarkError {
    const { code, message, hint, isRetryable, isOfAuditLog } = error;
    if (hint === undefined) return error;
    const config = this.#config();
    const owner = ownerOf(config);
    const whose = owner === null ? hint : withSource(hint, owner);
    const named = namingBackup(whose, this.#backupToName(), configuredBackups(config));
    if (named === hint) return error;
    return new TidemarkError(code, message, { hint: named, isRetryable, isOfAuditLog, cause: error });
  }

  /** The reader stays open until the returned function is called. */
  hold(): () => void {
    return this.#pool.hold();
  }

  /** Waits for the turn to write. @throws the signal's reason */
  async turn(signal: AbortSignal): Promise<WriterTurn> {
    const before = this.#turn;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const pass = (): void => resolve(undefined);
    this.#turn = promise;
    try {
      await untilSettled(before, signal);
    } catch (error) {
      // A cancelled waiter passes the turn on only after its holder has released it.
      void before.then(pass);
      throw error;
    }
    this.#isTaken = true;
    let isOver = false;
    return {
      write: async (command, opening, work, mayCreate = false) =>
        this.#closing(await this.openWriter(command, opening, { mayCreate }), work),
      release: () => {
        if (isOver) return;
        isOver = true;
        this.#isTaken = false;
        pass();
      },
    };
  }

  /** Takes the turn for a short piece of work, which awaits nothing. @throws TidemarkError as `openWriter` */
  async write<T>(
    command: string,
    signal: AbortSignal,
    work: (mirror: Mirror) => T,
    actor?: Actor,
  ): Promise<T> {
    const turn = await this.turn(signal);
    try {
      return this.#closing(await this.openWriter(command, signal, { actor }), work);
    } finally {
      turn.release();
    }
  }

  /**
   * The same without waiting, for a daemon that stops. False if the mirror is missing or held.
   * @param turn of the caller; null if it has none
   */
  writeNow(command: string, turn: WriterTurn | null, work: (mirror: Mirror) => void): boolean {
    if ((turn === null && this.#isTaken) || !this.isThere()) return false;
    let mirror: Mirror;
    try {
      mirror = this.#effects.openMirror(this.#config(), 'write', command);
    } catch (error) {
      if (error instanceof TidemarkError && error.code === 'mirror_locked') return false;
      throw error;
    }
    this.#closing(mirror, work);
    return true;
  }

  #closing<T>(mirror: Mirror, work: (mirror: Mirror) => T): T {
    try {
      return work(mirror);
    } finally {
      this.close(mirror);
    }
  }

  /** Closes the mirror. That checkpoints the write-ahead log of a writer: on a full disk it fails, and the next writer tries again. */
  close(mirror: Mirror): void {
    try {
      mirror.close();
      if (mirror.leftInLog !== null) this.#problems.begin('mirror', mirror.leftInLog);
    } catch (error) {
      this.#problems.begin('mirror', asTidemarkError(error));
    }
  }

  /** A reader for one piece of work; the caller closes it. @throws TidemarkError as `reader` */
  openReader(command: string): Mirror {
    this.#requireNotGone();
    return this.#effects.openMirror(this.#config(), 'read', command);
  }

  /**
   * The reader that stays open; a new one if the `ReaderPool` has closed it or the file was replaced. To be called again after each wait.
   * @throws TidemarkError `mirror_missing`, and as `openMirror`
   */
  reader(): Mirror {
    const path = this.#config().mirror;
    this.#requireNotGone();
    const file = fileIdentity(path);
    const known = this.#reader;
    if (
      known !== null &&
      known.path === path &&
      known.file === file &&
      known.schema === known.mirror.schemaCookie
    ) {
      this.#pool.used(this);
      return known.mirror;
    }
    this.closeReader();
    const mirror = this.#effects.openMirror(this.#config(), 'read', 'daemon');
    this.#reader = { mirror, path, file: fileIdentity(path), schema: mirror.schemaCookie };
    this.#pool.used(this);
    return mirror;
  }

  closeReader(): void {
    const known = this.#reader;
    this.#reader = null;
    this.#pool.closed(this);
    known?.mirror.close();
  }

  /** False while the mirror's file does not exist. Reports once that it is gone, and once that it is there again. */
  isThere(): boolean {
    const config = this.#config();
    const { mirror } = config;
    const isThere = fileIdentity(mirror) !== '';
    if (!isThere && this.#wasThere && !this.#isGone) {
      this.#isGone = true;
      this.#problems.begin('mirror', mirrorGone(config, this.#backupToName()));
    }
    if (isThere && this.#isGone) {
      this.#isGone = false;
      this.#problems.end('mirror', 'the mirror is there again');
    }
    this.#wasThere ||= isThere;
    this.#hadContent ||= !isEmpty(mirror);
    return isThere;
  }

  /** True while a mirror that existed is gone, as of the last check. */
  isGone(): boolean {
    return this.#isGone;
  }

  /** @throws TidemarkError `mirror_missing` */
  #requireNotGone(): void {
    if (!this.isThere() && this.#isGone) throw mirrorGone(this.#config(), this.#backupToName());
  }

  /**
   * A file that was emptied must not become a new mirror; that would also wait forever for the open reader, which holds the file.
   * @throws TidemarkError `mirror_missing`
   */
  #requireNotEmptied(): void {
    const config = this.#config();
    const { mirror } = config;
    if (!this.#hadContent || !isEmpty(mirror)) return;
    const moved = movedAway(mirror);
    if (moved !== null) throw moved;
    throw new TidemarkError('mirror_missing', `the mirror was emptied: ${mirror} has no content any more`, {
      hint: `nothing is written until it has: ${goneHint(placeOf(config), this.#backupToName())}`,
    });
  }

  /**
   * The mirror for writing, once no other process holds it; `close` closes it.
   * @param options.mayCreate true if a new mirror may be created; never once there was one
   * @throws TidemarkError as `openMirror`, except `mirror_locked`; the signal's reason
   */
  async openWriter(
    command: string,
    signal: AbortSignal,
    { mayCreate = false, actor }: { readonly mayCreate?: boolean; readonly actor?: Actor | undefined } = {},
  ): Promise<Mirror> {
    const { openMirror, clock, log } = this.#effects;
    for (;;) {
      signal.throwIfAborted();
      try {
        this.#requireNotGone();
        this.#requireNotEmptied();
        // Opening it for reading throws the error for an empty or missing file.
        if (!mayCreate && isEmpty(this.#config().mirror)) openMirror(this.#config(), 'read', command).close();
        else if (mayCreate && !this.isThere()) {
          log.info(
            { mirror: this.#config().mirror },
            'there is no mirror: a new one is created, without history',
          );
        }
        const mirror = openMirror(this.#config(), 'write', command, actor);
        this.#wasThere = true;
        this.#hadContent = true;
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

function mirrorGone(config: Config, backup: string | null): TidemarkError {
  const moved = movedAway(config.mirror);
  if (moved !== null) return moved;
  return new TidemarkError('mirror_missing', `the mirror is gone: ${config.mirror} is not there any more`, {
    hint: `nothing is written until it is back: ${goneHint(placeOf(config), backup)}`,
  });
}

function waiting(error: TidemarkError): TidemarkError {
  return new TidemarkError('mirror_locked', `${error.message}: waiting for it`, {
    hint: 'no action needed: the daemon continues once it is free',
    isRetryable: true,
    cause: error,
  });
}

/** The identity of a file, which changes when it is replaced; empty if there is none. */
function fileIdentity(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}`;
}

/** Whether opening it for writing would begin a new mirror. */
function isEmpty(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

/** Waits for the promise, or for the signal. @throws the signal's reason */
async function untilSettled(other: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const stop = (): void => resolve(undefined);
  signal.addEventListener('abort', stop, { once: true });
  await Promise.race([other, aborted]);
  signal.removeEventListener('abort', stop);
  signal.throwIfAborted();
}
