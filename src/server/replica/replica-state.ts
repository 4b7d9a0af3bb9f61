/** The collections of one source in one state of the mirror, read once for each state, and a cache of their pages. */
import { collectionKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { CollectionKey } from '../../catalog/order.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { fileStamp } from '../../mirror/write-ahead-log.ts';
import { type RecordList, PageAnchors, type RecordPage } from '../../mirror/record-page.ts';
import type { RecordStore } from '../../mirror/record-store.ts';
import type { SeenCollection } from '../../mirror/sweeps-as-of.ts';
import { lastComplete } from '../../state/export-extent.ts';
import type { ResolvedState } from '../../state/resolved-state.ts';
import type { PageWindow } from '../store.ts';
import { statSync } from 'node:fs';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError, type ErrorCode } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { unavailable } from '../wire-error.ts';

export interface HeldCollection extends SeenCollection {
  readonly list: RecordList;
  /** The number of its records in that state. */
  readonly records: number;
}

export interface ReplicaState {
  readonly pages: PageCache;
  collection(kind: Kind, scope: Scope): HeldCollection | undefined;
  /** All collections of a kind. */
  ofKind(kind: Kind): readonly HeldCollection[];
  /** The end of the last run that read the complete list; null if none is known. */
  readAt(collection: CollectionKey): string | null;
}

/** Reads every collection; for an earlier run, also the changes since then. */
export function readState(
  mirror: Mirror,
  source: string,
  resolvedState: ResolvedState,
  definitionOf: (kind: Kind) => ResourceDefinition,
): ReplicaState {
  const run = resolvedState.isLatest ? null : resolvedState.run;
  const seen = keyed(mirror.runs.sweepsAsOf(source, resolvedState.run));
  const counts = run === null ? null : keyed(mirror.records.countsAt(run, { sources: [source] }));
  const collections: HeldCollection[] = [];
  for (const { id, kind, scope, records } of mirror.runs.collections(source)) {
    const key = collectionKey({ kind, scope });
    const facts = seen.get(key);
    if (facts === undefined) continue;
    const isDescending = definitionOf(kind).reading === 'feed';
    collections.push({
      ...facts,
      list: { kind, collection: id, run, isDescending, anchors: new PageAnchors() },
      records: counts === null ? records : (counts.get(key)?.records ?? 0),
    });
  }
  const byKey = keyed(collections);
  const byKind = Map.groupBy(collections, ({ kind }) => kind);
  let complete: ReturnType<typeof lastComplete> | null = null;
  return {
    pages: new PageCache(),
    collection: (kind, scope) => byKey.get(collectionKey({ kind, scope })),
    ofKind: (kind) => byKind.get(kind) ?? [],
    readAt: (collection) => {
      const { list } = byKey.get(collectionKey(collection)) ?? {};
      // Most runs read only the newest records of these.
      if (list !== undefined && definitionOf(collection.kind).reading === 'feed')
        return mirror.runs.lastFullSweep(list.collection, resolvedState.run + 1)?.at ?? null;
      return (complete ??= lastComplete(mirror, source, resolvedState.run))(collection)?.at ?? null;
    },
  };
}

function keyed<T extends CollectionKey>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [collectionKey(row), row]));
}

// The pages of one state, which never changes. A page is cached when it is requested for the second time, but not
// during a walk, which is recognized by two pages in sequence: it requests each page once, and would only evict the
// pages that others request again. After the first page of a list, and during a walk, the next page is read ahead while
// the client receives the current one.

/** Size of the cached bodies: about ten pages of a thousand usual records. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Larger pages are not cached. */
const MOST_PAGE_BYTES = MOST_BYTES / 2;
/** How many names of requested pages are remembered. */
const MOST_NAMES = 64;

interface PageReader {
  readonly records: Pick<RecordStore, 'page'>;
}

interface TakenPage {
  readonly page: RecordPage;
  /** True if nothing else uses it: it is not cached, and not being sent to another client. */
  readonly isOwn: boolean;
}

/** @internal */
export class PageCache {
  /** Least recently used first. */
  readonly #pages = new Map<string, RecordPage>();
  /** The pages that were read ahead and not requested yet. */
  readonly #ahead = new Set<string>();
  /** Names of the pages that were requested lately. */
  readonly #requested = new Set<string>();
  #bytes = 0;

  take(mirror: PageReader, list: RecordList, window: PageWindow): TakenPage {
    const name = nameOf(list, window);
    const kept = this.#pages.get(name);
    if (kept !== undefined) this.#drop(name, kept);
    const wasAhead = this.#ahead.delete(name);
    const page = kept ?? mirror.records.page(list, window.offset, window.limit);
    const isAgain = (kept !== undefined && !wasAhead) || this.#requested.has(name);
    const isKept = isAgain && !this.#isWalk(list, window) && this.#keep(name, page);
    this.#note(name);
    return { page, isOwn: !isKept && (kept === undefined || wasAhead) };
  }

  /** The next window, if it may be requested next and is not cached. */
  following(list: RecordList, window: PageWindow, page: RecordPage, count: number): PageWindow | null {
    const next = { offset: window.offset + window.limit, limit: window.limit };
    const mayFollow = window.offset === 0 || this.#isWalk(list, window);
    if (!mayFollow || next.offset >= count || page.bodies.byteLength > MOST_PAGE_BYTES) return null;
    return this.#pages.has(nameOf(list, next)) ? null : next;
  }

  readAhead(mirror: PageReader, list: RecordList, window: PageWindow): void {
    const name = nameOf(list, window);
    if (this.#pages.has(name)) return;
    if (this.#keep(name, mirror.records.page(list, window.offset, window.limit))) this.#ahead.add(name);
  }

  /** True if the page before this one was requested lately. */
  #isWalk(list: RecordList, { offset, limit }: PageWindow): boolean {
    return offset >= limit && this.#requested.has(nameOf(list, { offset: offset - limit, limit }));
  }

  #note(name: string): void {
    this.#requested.delete(name);
    this.#requested.add(name);
    const [oldest] = this.#requested;
    if (this.#requested.size > MOST_NAMES && oldest !== undefined) this.#requested.delete(oldest);
  }

  /** Caches a page; false if it is too large. */
  #keep(name: string, page: RecordPage): boolean {
    if (page.bodies.byteLength > MOST_PAGE_BYTES) return false;
    this.#pages.set(name, page);
    this.#bytes += page.bodies.byteLength;
    for (const [oldest, each] of this.#pages) {
      if (this.#bytes <= MOST_BYTES) break;
      this.#drop(oldest, each);
      this.#ahead.delete(oldest);
    }
    return true;
  }

  #drop(name: string, { bodies }: RecordPage): void {
    this.#pages.delete(name);
    this.#bytes -= bodies.byteLength;
  }
}

function nameOf({ collection }: RecordList, { offset, limit }: PageWindow): string {
  return `${collection} ${offset} ${limit}`;
}

// The mirror of a replica: opened when it is first needed, and reopened if the file was replaced.

interface MirrorPlace {
  /** The configured path: may be a symbolic link. */
  readonly mirrorPath: string;
  /** Opens it for reading. */
  readonly openMirror: () => Mirror;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How long a client should wait before it tries again. */
const RETRY_AFTER_SECONDS = 5;
/**
 * If the directory of the mirror cannot be written, a copy is read (mirror/open.ts). It is replaced when the
 * mirror has changed, but not more often than this, since it is as large as the mirror.
 */
const COPY_AGE_MS = 30_000;

interface Held<Memory> {
  readonly mirror: Mirror;
  readonly identity: string;
  readonly isCopy: boolean;
  /** `fileStamp` of the file when it was opened. */
  readonly stamp: string;
  readonly openedAtMs: number;
  readonly memory: Memory;
}

export class HeldMirror<Memory> {
  readonly #place: MirrorPlace;
  readonly #remember: () => Memory;
  #held: Held<Memory> | null = null;
  #isLost = false;

  /** @param remember makes the memory that is kept while the same mirror is open */
  constructor(place: MirrorPlace, remember: () => Memory) {
    this.#place = place;
    this.#remember = remember;
  }

  /**
   * Does work in one consistent state of the mirror.
   * @throws WireError 503 if the mirror cannot be read; other errors of `work` are not changed
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

  /** Reads ahead in the same mirror; does nothing if it is no longer open, or if that fails. */
  again(mirror: Mirror, work: () => void): void {
    if (this.#held?.mirror !== mirror) return;
    try {
      mirror.atOnce(work);
    } catch (error) {
      // The next request will fail with the same error, and report it.
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
    const stamp = fileStamp(mirrorPath);
    const mirror = opened(openMirror);
    const openedAtMs = clock.monotonicMs();
    this.#held = { mirror, identity, isCopy: mirror.isCopy, stamp, openedAtMs, memory: this.#remember() };
    return this.#held;
  }

  #isOutdated({ isCopy, stamp, openedAtMs }: Held<Memory>): boolean {
    if (!isCopy || this.#place.clock.monotonicMs() - openedAtMs < COPY_AGE_MS) return false;
    return fileStamp(this.#place.mirrorPath) !== stamp;
  }

  /** Logs the loss once, not with every request; the recovery is logged too. */
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
      // A mirror that cannot be read may fail to close too; the next request opens it again.
      this.#held = null;
      this.#place.log.debug({ err: error }, 'the mirror could not be closed');
    }
  }
}

/** The reasons for callers; the log has the details, including paths of this machine. */
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

/** Identifies the file; empty if it does not exist. */
function identityOf(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? '' : `${stats.dev} ${stats.ino}`;
}
