/** The records of a mirror: current ones, removed ones, and all as of an earlier run. */
import type { MirrorAccess } from './access.ts';
import { readChangesBetween, readCountsAt } from './changes-between.ts';
import { dueForCheck, uncheckedParents } from './due-checks.ts';
import { findRecords, readNamed } from './found-records.ts';
import { locateRecord, readListedCollections, readListRows, readMeanBytes } from './record-lists.ts';
import {
  type PageReader,
  type RecordList,
  type RecordPage,
  preparePages,
  readRecordAsOf,
} from './record-page.ts';
import {
  readAsOf,
  readCurrent,
  readCurrentKeys,
  readHistory,
  readKeysAsOf,
  readRemoved,
  readRemovedBodies,
  readRevisions,
} from './records.ts';

export type RecordStore = ReturnType<typeof recordStore>;

/** What is read record by record is streamed, in one snapshot, in the order of `readCurrent`. */
export function recordStore(access: MirrorAccess) {
  const reads = access.reads({
    find: findRecords,
    listedCollections: readListedCollections,
    list: readListRows,
    locate: locateRecord,
    meanBytes: readMeanBytes,
    revisions: readRevisions,
    asOf: readRecordAsOf,
    countsAt: readCountsAt,
    dueForCheck,
    uncheckedParents,
  });
  let reader: PageReader | undefined;
  const readPages = <T>(work: (pages: PageReader) => T): T =>
    access.read((connection) => work((reader ??= preparePages(connection))));
  return {
    ...reads,
    ...access.streams({
      read: readCurrent,
      readAt: readAsOf,
      keys: readCurrentKeys,
      keysAt: readKeysAsOf,
      named: readNamed,
      removed: readRemoved,
      removedBodies: readRemovedBodies,
      history: readHistory,
      changesBetween: readChangesBetween,
    }),

    /** A page of one collection by position: costs what the page holds, not what the list does. */
    page: (list: RecordList, offset: number, limit: number): RecordPage =>
      readPages((pages) => pages.page(list, offset, limit)),

    /** The body of one record of a collection as of its run; undefined if it is not there. A look-up by key. */
    bodyIn: (list: Pick<RecordList, 'kind' | 'collection' | 'run'>, id: string): string | undefined =>
      readPages((pages) => pages.record(list, id)),
  };
}
