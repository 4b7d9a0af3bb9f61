/** What the mirror holds of one source at one point: read once per state, not once per request. */
import { collectionKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { CollectionKey } from '../../catalog/order.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type RecordList, PageAnchors, type RecordPage } from '../../mirror/record-page.ts';
import type { RecordStore } from '../../mirror/record-store.ts';
import type { SeenCollection } from '../../mirror/sweeps-as-of.ts';
import type { Point } from '../../state/point.ts';
import type { PageWindow } from '../store.ts';

export interface HeldCollection extends SeenCollection {
  readonly list: RecordList;
  /** Records that it held then. */
  readonly records: number;
  /** Gone with its parent record by then. */
  readonly isRetired: boolean;
}

export interface ReplicaState {
  readonly shelf: PageCache;
  collection(kind: Kind, scope: Scope): HeldCollection | undefined;
  /** All of a kind, whatever their scope. */
  ofKind(kind: Kind): readonly HeldCollection[];
}

/** Costs a look at every collection; as of an earlier run, also at what changed since. */
export function readState(
  mirror: Mirror,
  source: string,
  point: Point,
  definitionOf: (kind: Kind) => ResourceDefinition,
): ReplicaState {
  const run = point.isLatest ? null : point.run;
  const seen = keyed(mirror.runs.sweepsAsOf(source, point.run));
  const counts = run === null ? null : keyed(mirror.records.countsAt(run, { sources: [source] }));
  const collections: HeldCollection[] = [];
  for (const { id, kind, scope, records, retiredRun } of mirror.runs.collections(source)) {
    const key = collectionKey({ kind, scope });
    const facts = seen.get(key);
    if (facts === undefined) continue;
    const isDescending = definitionOf(kind).reading === 'feed';
    collections.push({
      ...facts,
      list: { kind, collection: id, run, isDescending, anchors: new PageAnchors() },
      records: counts === null ? records : (counts.get(key)?.records ?? 0),
      isRetired: retiredRun !== null && retiredRun <= point.run,
    });
  }
  const byKey = keyed(collections);
  const byKind = Map.groupBy(collections, ({ kind }) => kind);
  return {
    shelf: new PageCache(),
    collection: (kind, scope) => byKey.get(collectionKey({ kind, scope })),
    ofKind: (kind) => byKind.get(kind) ?? [],
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
