/** The records of a mirror: current ones, removed ones, and all as of an earlier run. */
import { TidemarkError } from '../core/errors.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { MirrorAccess } from './access.ts';
import {
  type ChangedRecord,
  type CollectionCount,
  readChangesBetween,
  readCountsAt,
} from './changes-between.ts';
import { dueForCheck, uncheckedParents } from './due-checks.ts';
import { type NameQuestion, findRecords, readNamed } from './found-records.ts';
import {
  type ListedCollection,
  type ListRow,
  type ListSelection,
  type RecordLocation,
  locateRecord,
  readListedCollections,
  readListRows,
  readMeanBytes,
} from './record-lists.ts';
import type { RecordFilter } from './record-filter.ts';
import {
  type PageReader,
  type RecordAsOf,
  type RecordList,
  type RecordPage,
  preparePages,
  readRecordAsOf,
  readRecordAt,
} from './record-page.ts';
import {
  type HistoryRevision,
  type MirrorKey,
  type MirrorRecord,
  type RecordRow,
  type RemovedRecord,
  type Revision,
  readAsOf,
  readCurrent,
  readCurrentKeys,
  readHistory,
  readKeysAsOf,
  readRemoved,
  readRemovedBodies,
  readRevisions,
} from './records.ts';

export class RecordStore {
  readonly #access: MirrorAccess;
  #pageReader: PageReader | null = null;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Current records in catalog order, then by source, scope and remote id (bytes); one snapshot, streamed. */
  read(filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#access.stream((connection) => readCurrent(connection, filter));
  }

  /** The same as of a run: what a reader would have got right after it was published. */
  readAt(run: number, filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#access.stream((connection) => readAsOf(connection, run, filter));
  }

  /** Which records there are, in the same order: without their bodies, and so in a fraction of the time. */
  keys(filter: RecordFilter = {}): IterableIterator<MirrorKey> {
    return this.#access.stream((connection) => readCurrentKeys(connection, filter));
  }

  keysAt(run: number, filter: RecordFilter = {}): IterableIterator<MirrorKey> {
    return this.#access.stream((connection) => readKeysAsOf(connection, run, filter));
  }

  /** A page of one collection by position: costs what the page holds, not what the list does. */
  page(list: RecordList, offset: number, limit: number): RecordPage {
    return this.#readPages((pages) => pages.page(list, offset, limit));
  }

  /** The body of one record of a collection as of its run; undefined if it is not there. A look-up by key. */
  bodyIn(list: Pick<RecordList, 'kind' | 'collection' | 'run'>, id: string): string | undefined {
    return this.#readPages((pages) => pages.record(list, id));
  }

  #readPages<T>(work: (pages: PageReader) => T): T {
    return this.#access.read((connection) => work((this.#pageReader ??= preparePages(connection))));
  }

  /** The collections of a kind that hold records, of one source or of all, in order of their numbers, from one on. */
  listedCollections(question: Parameters<typeof readListedCollections>[1]): ListedCollection[] {
    return this.#access.read((connection) => readListedCollections(connection, question));
  }

  /** Some records of a collection in the order of their ids' bytes: costs what it returns. */
  list(selection: ListSelection): ListRow[] {
    return this.#access.read((connection) => readListRows(connection, selection));
  }

  /** Where the record of that number is, or was; undefined where the kind has none. */
  locate(kind: Kind, record: number): RecordLocation | undefined {
    return this.#access.read((connection) => locateRecord(connection, kind, record));
  }

  /** Mean length of a kind's first `bodies` records in bytes; null where there are none. */
  meanBytes(kind: Kind, bodies: number): number | null {
    return this.#access.read((connection) => readMeanBytes(connection, kind, bodies));
  }

  /** Every record of that kind and id, current or removed: one per scope. */
  find(kind: Kind, id: string, filter: RecordFilter = {}): RecordRow[] {
    return this.#access.read((connection) => findRecords(connection, kind, id, filter));
  }

  /**
   * The record of that id, current or removed.
   * @throws TidemarkError `usage` if it exists in several scopes and none is given
   */
  get(source: string, kind: Kind, id: string, scope?: Scope): RecordRow | undefined {
    const found = this.find(kind, id, { sources: [source], ...(scope === undefined ? {} : { scope }) });
    if (found.length <= 1) return found[0];
    throw new TidemarkError('usage', `${kind} ${id} is in ${found.length} scopes`, {
      hint: 'name one with --organization or --project',
    });
  }

  /**
   * Current records of a kind of which one of these members (RFC 6901 pointers), or the id, reads as `name`, case
   * ignored. Reads every record of the kind.
   */
  named(question: NameQuestion, filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#access.stream((connection) => readNamed(connection, question, filter));
  }

  /** Records that are no longer there. */
  removed(filter: RecordFilter = {}): IterableIterator<RemovedRecord> {
    return this.#access.stream((connection) => readRemoved(connection, filter));
  }

  /** Removed records with the last body of each, in the order of `read`. */
  removedBodies(filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#access.stream((connection) => readRemovedBodies(connection, filter));
  }

  /** Every revision of every record with its body, oldest first within a record. */
  history(filter: RecordFilter = {}): IterableIterator<HistoryRevision> {
    return this.#access.stream((connection) => readHistory(connection, filter));
  }

  /** Newest first. */
  revisions(record: RecordRow): Revision[] {
    return this.#access.read((connection) => readRevisions(connection, record));
  }

  /** The record's body as of a run; undefined if it was not there. Fast however long its history is. */
  bodyAt(record: Pick<RecordRow, 'kind' | 'record'>, run: number): string | undefined {
    return this.#access.read((connection) => readRecordAt(connection, record, run));
  }

  /** The same with its dates, of removed records too; undefined if it had not been seen yet. As fast. */
  asOf(record: Pick<RecordRow, 'kind' | 'record'>, run: number): RecordAsOf | undefined {
    return this.#access.read((connection) => readRecordAsOf(connection, record, run));
  }

  /**
   * Records with a revision in (from, to], or (to, from] when `to` is the earlier run, with their bodies as of both, in
   * the order of `read`. Costs what changed, however many records there are.
   */
  changesBetween(from: number, to: number, filter: RecordFilter = {}): IterableIterator<ChangedRecord> {
    return this.#access.stream((connection) => readChangesBetween(connection, from, to, filter));
  }

  /** How many records each selected collection held as of a run, empty ones included. Reads no record. */
  countsAt(run: number, filter: RecordFilter = {}): CollectionCount[] {
    return this.#access.read((connection) => readCountsAt(connection, run, filter));
  }

  /**
   * Ids of parent records that a kind read one by one should be read for: never checked ones first (newest first),
   * then the longest unchecked. `scope` is that of the parent's collection.
   */
  dueForCheck(source: string, kind: Kind, scope: Scope, limit: number): string[] {
    return this.#access.read((connection) => dueForCheck(connection, { source, kind, scope, limit }));
  }

  /** Ids of parent records for which a kind read one by one was never read; none for kinds that are listed. */
  uncheckedParents(source: string, kind: Kind, scope: Scope): string[] {
    return this.#access.read((connection) => uncheckedParents(connection, { source, kind, scope }));
  }
}
