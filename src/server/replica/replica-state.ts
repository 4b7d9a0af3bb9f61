/** What the mirror holds of one source at one point: read once per state, not once per request. */
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
  /** Records that it held then. */
  readonly records: number;
}

export interface ReplicaState {
  readonly shelf: PageCache;
  collection(kind: Kind, scope: Scope): HeldCollection | undefined;
  /** All of a kind, whatever their scope. */
  ofKind(kind: Kind): readonly HeldCollection[];
  /** When the run ended that last read the complete list; null if none is known. */
  readAt(collection: CollectionKey): string | null;
}

/** Costs a look at every collection; as of an earlier run, also at what changed since. */
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
    shelf: new PageCache(),
    collection: (kind, scope) => byKey.get(collectionKey({ kind, scope })),
    ofKind: (kind) => byKind.get(kind) ?? [],
    readAt: (collection) => {
      const { list } = byKey.get(collectionKey(collection)) ?? {};
      // Most runs read only the newest of these.
      if (list !== undefined && definitionOf(collection.kind).reading === 'feed')
        return mirror.runs.lastFullSweep(list.collection, resolvedState.run + 1)?.at ?? null;
      return (complete ??= lastComplete(mirror, source, resolvedState.run))(collection)?.at ?? null;
    },
  };
}

function keyed<T extends CollectionKey>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [collectionKey(row), row]));
}

// Pages of one state that need not be read again, or not while somebody waits: a state never changes. A page is kept from
// its second reading on, but for those of a walk, which shows by two pages in sequence: a walk asks for each
// once, and would only push out what others come back for. To a walk, and once to whoever reads a list's first page, the
// next page is read ahead while the client still takes the one before.

/** Bytes of bodies that are kept: some ten pages of a thousand usual records. */
const MOST_BYTES = 8 * 1024 * 1024;
/** One page of more is not kept. */
const MOST_PAGE_BYTES = MOST_BYTES / 2;
/** Names of pages that were read once. */
const MOST_NAMES = 64;

/** What pages are read from. */
interface PageReader {
  readonly records: Pick<RecordStore, 'page'>;
}

interface TakenPage {
  readonly page: RecordPage;
  /** True if nothing else uses it: not cached, and not being sent to another client. */
  readonly isOwn: boolean;
}

/** @internal */
export class PageCache {
  /** Least recently used first. */
  readonly #pages = new Map<string, RecordPage>();
  /** Of them, those that were not requested yet. */
  readonly #ahead = new Set<string>();
  readonly #asked = new Set<string>();
  #bytes = 0;

  take(mirror: PageReader, list: RecordList, window: PageWindow): TakenPage {
    const name = nameOf(list, window);
    const kept = this.#pages.get(name);
    if (kept !== undefined) this.#drop(name, kept);
    const wasAhead = this.#ahead.delete(name);
    const page = kept ?? mirror.records.page(list, window.offset, window.limit);
    const isAgain = (kept !== undefined && !wasAhead) || this.#asked.has(name);
    const isKept = isAgain && !this.#isWalk(list, window) && this.#keep(name, page);
    this.#note(name);
    return { page, isOwn: !isKept && (kept === undefined || wasAhead) };
  }

  /** The window behind this one, where it may be asked for next and is not held yet. */
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

  /** True for a page behind one that was asked for lately. */
  #isWalk(list: RecordList, { offset, limit }: PageWindow): boolean {
    return offset >= limit && this.#asked.has(nameOf(list, { offset: offset - limit, limit }));
  }

  #note(name: string): void {
    this.#asked.delete(name);
    this.#asked.add(name);
    const [oldest] = this.#asked;
    if (this.#asked.size > MOST_NAMES && oldest !== undefined) this.#asked.delete(oldest);
  }

  /** False for a page that is too large. */
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

// The mirror that a replica reads: opened when it is first needed, and opened again when the file was replaced.

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
   * @throws WireError 503 if there is none that can be read; other errors of `work` pass
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
    const stamp = fileStamp(mirrorPath);
    const mirror = opened(openMirror);
    const openedAtMs = clock.monotonicMs();
    this.#held = { mirror, identity, isCopy: mirror.isCopy, stamp, openedAtMs, memory: this.#remember() };
    return this.#held;
  }

  #isOutdated({ isCopy: isCopied, stamp, openedAtMs }: Held<Memory>): boolean {
    if (!isCopied || this.#place.clock.monotonicMs() - openedAtMs < COPY_AGE_MS) return false;
    return fileStamp(this.#place.mirrorPath) !== stamp;
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

/** What callers are reported; the log has the rest, including paths of this machine. */
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
