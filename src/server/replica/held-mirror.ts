/** The mirror that a replica reads: opened when it is first needed, and opened again when the file was replaced. */
import { statSync } from 'node:fs';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError, type ErrorCode } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { unavailable } from '../wire-error.ts';

interface MirrorPlace {
  /** Where it is configured to be: may be a symbolic link. */
  readonly mirrorPath: string;
  /** Opens it for reading. */
  readonly openMirror: () => Mirror;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How long a client should wait before it asks again. */
const RETRY_AFTER_SECONDS = 5;
/**
 * Where the mirror's directory cannot be written, what is read is a copy (mirror/open.ts): taken again when the
 * mirror moved on, but no more often than this, since it is as large as the mirror.
 */
const COPY_AGE_MS = 30_000;

interface Held<Memory> {
  readonly mirror: Mirror;
  readonly identity: string;
  readonly isCopy: boolean;
  /** What the file was like when it was copied. */
  readonly stamp: string;
  readonly openedAtMs: number;
  readonly memory: Memory;
}

export class HeldMirror<Memory> {
  readonly #place: MirrorPlace;
  readonly #remember: () => Memory;
  #held: Held<Memory> | null = null;
  #isLost = false;

  /** @param remember makes what is worth keeping as long as the same mirror is open */
  constructor(place: MirrorPlace, remember: () => Memory) {
    this.#place = place;
    this.#remember = remember;
  }

  /**
   * Reads in one moment of the mirror.
   * @throws WireError 503 where there is none that can be read; other errors of `work` pass
   */
  use<T>(work: (mirror: Mirror, memory: Memory) => T): T {
    try {
      const { mirror, memory } = this.#open();
      const result = mirror.atOnce(() => work(mirror, memory));
      if (this.#isLost) {
        this.#isLost = false;
        this.#place.log.info({ path: this.#place.mirrorPath }, 'the mirror can be read again');
      }
      return result;
    } catch (error) {
      if (!(error instanceof TidemarkError)) throw error;
      throw this.#lost(error);
    }
  }

  /** Reads ahead in the same mirror: does nothing if it is no longer open, or fails. */
  again(mirror: Mirror, work: () => void): void {
    if (this.#held?.mirror !== mirror) return;
    try {
      mirror.atOnce(work);
    } catch (error) {
      // The next request meets the same error, and reports it.
      this.#place.log.debug({ err: error }, 'nothing could be read ahead');
    }
  }

  close(): void {
    this.#held?.mirror.close();
    this.#held = null;
  }

  #open(): Held<Memory> {
    const { mirrorPath, openMirror, clock } = this.#place;
    const identity = identityOf(mirrorPath);
    const held = this.#held;
    if (held !== null && held.identity === identity && !this.#isOutdated(held)) return held;
    this.close();
    const stamp = stampOf(mirrorPath);
    const mirror = opened(openMirror);
    const openedAtMs = clock.monotonicMs();
    this.#held = { mirror, identity, isCopy: mirror.isCopy, stamp, openedAtMs, memory: this.#remember() };
    return this.#held;
  }

  #isOutdated({ isCopy: isCopied, stamp, openedAtMs }: Held<Memory>): boolean {
    if (!isCopied || this.#place.clock.monotonicMs() - openedAtMs < COPY_AGE_MS) return false;
    return stampOf(this.#place.mirrorPath) !== stamp;
  }

  /** Said once, and again when it is back: not with every request. */
  #lost(error: TidemarkError): Error {
    const { log, mirrorPath } = this.#place;
    if (!this.#isLost) {
      const facts = { path: mirrorPath, code: error.code, err: error };
      log.error(facts, `the mirror cannot be read: ${error.message}`);
    }
    this.#isLost = true;
    this.#discard();
    const why = REASONS[error.code] ?? 'it cannot be read at this moment';
    return unavailable(`The mirror has no answer: ${why}.`, RETRY_AFTER_SECONDS);
  }

  #discard(): void {
    try {
      this.close();
    } catch (error) {
      // A mirror that cannot be read may fail to close, too; the next request opens it again.
      this.#held = null;
      this.#place.log.debug({ err: error }, 'the mirror could not be closed');
    }
  }
}

/** What callers are reported; the log has the rest, paths of this machine among it. */
const REASONS: Partial<Record<ErrorCode, string>> = {
  mirror_missing: 'it is not there',
  mirror_locked: 'it is being written',
  mirror_newer: 'it was written by a newer version of Tidemark',
  mirror_version: 'it was made by another version of Tidemark',
  mirror_foreign: 'another file is in its place',
  mirror_corrupt: 'it is damaged',
  not_found: 'nothing was synced into it yet',
};

function opened(openMirror: () => Mirror): Mirror {
  try {
    return openMirror();
  } catch (error) {
    throw asTidemarkError(error);
  }
}

/** Which file it is; empty for none. */
function identityOf(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? '' : `${stats.dev} ${stats.ino}`;
}

/** Moves with whatever a writer does to it. */
function stampOf(path: string): string {
  return [path, `${path}-wal`]
    .map((file) => {
      const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
      return stats === undefined ? '' : `${stats.mtimeNs} ${stats.size}`;
    })
    .join(' ');
}
