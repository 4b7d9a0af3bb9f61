/**
 * Pages and searches of the record browser. A page continues from the key of a record, by an index: it takes no longer with more
 * records in the mirror. A search for names has to read records: it yields to other work after each slice, stops after a while, and
 * reports how far it got.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { MASK, withoutUrlSecrets } from '../../catalog/masks.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Clock } from '../../core/clock.ts';
import { parseLossless } from '../../core/json.ts';
import { recordName } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordFilter } from '../../mirror/record-filter.ts';
import type { ListedCollection, ListRow, ListSelection, RecordLocation } from '../../mirror/record-lists.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import { isSecretId, withMaskedId } from '../../report/mask.ts';

/** A record as a list shows it: masked. */
export interface ListedRecord {
  readonly record: number;
  readonly isRemoved: boolean;
  readonly kind: Kind;
  readonly source: string;
  readonly scope: Scope;
  readonly id: string;
  readonly name: string;
  /** The run of its newest revision: for a removed record, the run that removed it. */
  readonly run: number;
  /** Of a record that was found by a former name: that name, and the run that replaced it. */
  readonly was?: { readonly name: string; readonly until: number };
}

export interface RecordPlace {
  readonly mirror: Mirror;
  readonly kind: Kind;
  /** Null for all. */
  readonly source: string | null;
  /** Only collections whose scope has these values. */
  readonly within: Scope;
  readonly definitionOf: (source: string) => ResourceDefinition;
}

export interface ListPage {
  readonly records: readonly ListedRecord[];
  /** The record to continue after; null at the end. */
  readonly next: number | null;
}

/** A record with a longer body goes by its id in lists: to read fifty of them would take too long. */
const MOST_BODY = 200_000;
const SLICE = 500;
/** No record has this number: a page after it is the first. */
const FROM_THE_FIRST = 0;

/** Records in the order of their collections and ids, those after a record. */
export function readListPage(place: RecordPlace, after: number | null, limit: number): ListPage {
  const from = locationOf(place, after);
  const records: ListedRecord[] = [];
  for (const collection of collectionsFrom(place, from)) {
    const rows = rowsOf(place, collection, {
      after: collection.id === from?.collection ? from.id : null,
      limit: limit + 1 - records.length,
    });
    records.push(...rows.map((row) => listed(place, collection, row)));
    if (records.length > limit) break;
  }
  const shown = records.slice(0, limit);
  return { records: shown, next: records.length > limit ? (shown.at(-1)?.record ?? null) : null };
}

export interface SearchResult extends ListPage {
  /** Records whose names were read. */
  readonly read: number;
}

/**
 * Removed records, by the beginning of an id or a part of the last name; none with a secret id. Their history is read one by one, so the
 * search ends after a while.
 */
export async function searchRemoved(
  { mirror, kind, source, within, definitionOf }: RecordPlace,
  search: Omit<Search, 'after'>,
): Promise<ListedRecord[]> {
  const { text, limit } = search;
  const hasText = nameTest(search);
  const isOver = timeLimit(search, 20);
  const found: ListedRecord[] = [];
  let read = 0;
  for (const removed of mirror.records.removedBodies(filterOf(kind, source))) {
    const { id, body, scope, source: own, run } = removed;
    const definition = definitionOf(own);
    const name = recordName(definition, parseLossless(body), id);
    if ((id.startsWith(text) || hasText(name)) && !isSecretId(definition) && isWithin(scope, within)) {
      // The source is given, since another one may have a record with this id.
      const [row] = mirror.records.find(kind, id, { sources: [own], scope });
      if (row !== undefined)
        found.push({ record: row.record, isRemoved: true, kind, source: own, scope, run, id, name });
    }
    read += 1;
    if (found.length >= limit || isOver(read)) break;
    if (read % SLICE === 0) await nextTurn();
  }
  return found;
}

/**
 * Records, also removed ones, of which a former name contains the text and the last one does not, each with the newest such name. Their
 * history is read, so the search ends after a while.
 */
export async function searchFormer(
  { mirror, kind, source, within, definitionOf }: RecordPlace,
  search: Omit<Search, 'after'>,
): Promise<ListedRecord[]> {
  const hasText = nameTest(search);
  const isOver = timeLimit(search, 20);
  const found: ListedRecord[] = [];
  let read = 0;
  // The versions of a record follow each other, the newest one first.
  let record = '';
  let newest = '';
  let isDone = false;
  for (const version of mirror.records.replaced(filterOf(kind, source))) {
    const { id, scope, source: own, until } = version;
    const key = JSON.stringify([own, scope, id]);
    if (key !== record) [newest, isDone] = [version.body, false];
    record = key;
    const definition = definitionOf(own);
    const nameOf = (body: string): string => recordName(definition, parseLossless(body), id);
    const was = isDone || !isWithin(scope, within) ? id : nameOf(version.body);
    if (was !== id && hasText(was)) {
      isDone = true;
      const [row] = mirror.records.find(kind, id, { sources: [own], scope });
      const name = nameOf(row?.body ?? newest);
      // The other searches find a record by its last name.
      if (row !== undefined && !hasText(name)) {
        const shown = withMaskedId({ id, name }, definition);
        const { record: number, run, isRemoved } = row;
        found.push({
          ...{ record: number, isRemoved, kind, source: own, scope, run, ...shown },
          was: { name: was, until },
        });
      }
    }
    read += 1;
    if (found.length >= search.limit || isOver(read)) break;
    if (read % SLICE === 0) await nextTurn();
  }
  return found;
}

function filterOf(kind: Kind, source: string | null): RecordFilter {
  return { kinds: [kind], ...(source === null ? {} : { sources: [source] }) };
}

/** Returns a test for names that contain the text of a search. */
function nameTest({ text }: Pick<Search, 'text'>): (name: string) => boolean {
  const wanted = withoutUrlSecrets(text, MASK).toLowerCase();
  return (name) => name.toLowerCase().includes(wanted);
}

/** Returns a test for the end of a search that begins now. It reads the clock only after every `every` records. */
function timeLimit(
  { clock, mostMs }: Pick<Search, 'clock' | 'mostMs'>,
  every: number,
): (read: number) => boolean {
  const startedMs = clock.monotonicMs();
  return (read) => read % every === 0 && clock.monotonicMs() - startedMs > mostMs;
}

/**
 * What searches of one kind found, with one row for each record. A record that restores gave several ids has the row that is not removed,
 * else the one that was removed last.
 */
export function onePerRecord(mirror: Mirror, found: readonly ListedRecord[]): readonly ListedRecord[] {
  const idsOf = new Map<string, RecreatedIds>();
  const recordOf = ({ source, kind, id, record }: ListedRecord): string => {
    const ids = idsOf.get(source) ?? new RecreatedIds(mirror.restores.idMap(source));
    idsOf.set(source, ids);
    const all = ids.all(kind, id);
    return all.length === 1 ? String(record) : JSON.stringify([source, all]);
  };
  const kept = [...Map.groupBy(found, recordOf).values()].flatMap((rows) => {
    const [first, ...others] = rows.filter(({ isRemoved }) => !isRemoved);
    if (first !== undefined) return [first, ...others.filter(({ record }) => record !== first.record)];
    return rows.toSorted((a, b) => b.run - a.run).slice(0, 1);
  });
  const isKept = new Set(kept);
  return found.filter((each) => isKept.has(each));
}

interface Search {
  /** Part of a name in any case, or the beginning of an id. */
  readonly text: string;
  /** Where a search before this one stopped; null for the beginning. */
  readonly after: number | null;
  readonly limit: number;
  readonly clock: Clock;
  /** How long names are searched. */
  readonly mostMs: number;
}

/** Ids with this prefix, by their index; if there are none, names that contain it. `next` is null once all names were searched. */
export async function searchRecords(place: RecordPlace, search: Search): Promise<SearchResult> {
  const { text, after, limit } = search;
  const found = new Map<number, ListedRecord>();
  if (after === null) {
    for (const record of byId(place, text, limit)) found.set(record.record, record);
    // Whoever searches an id means that record: names are searched only on request.
    if (found.size > 0)
      return { records: [...found.values()].slice(0, limit), next: FROM_THE_FIRST, read: 0 };
  }
  const hasText = nameTest(search);
  const isOver = timeLimit(search, 50);
  const from = locationOf(place, after);
  let read = 0;
  for (const collection of collectionsFrom(place, from)) {
    let start = collection.id === from?.collection ? from.id : null;
    for (;;) {
      const rows = rowsOf(place, collection, { after: start, limit: SLICE });
      for (const row of rows) {
        read += 1;
        const record = listed(place, collection, row);
        if (hasText(record.name)) found.set(record.record, record);
        if (found.size >= limit || isOver(read))
          return { records: [...found.values()].slice(0, limit), next: row.record, read };
        start = row.id;
      }
      if (rows.length < SLICE) break;
      await nextTurn();
    }
  }
  return { records: [...found.values()], next: null, read };
}

/** Where the record of that number is, or was; undefined for null, and for a record that is not known. */
function locationOf({ mirror, kind }: RecordPlace, record: number | null): RecordLocation | undefined {
  return record === null ? undefined : mirror.records.locate(kind, record);
}

function collectionsFrom(
  { mirror, kind, source, within }: RecordPlace,
  from: RecordLocation | undefined,
): readonly ListedCollection[] {
  return mirror.records
    .listedCollections({ kind, source, from: from?.collection ?? 0 })
    .filter(({ scope }) => isWithin(scope, within));
}

function isWithin(scope: Scope, within: Scope): boolean {
  return SCOPE_KEYS.every((key) => within[key] === undefined || scope[key] === within[key]);
}

function rowsOf(
  { mirror, kind }: RecordPlace,
  { id }: ListedCollection,
  rows: Pick<ListSelection, 'after' | 'prefix' | 'limit'>,
): readonly ListRow[] {
  return mirror.records.list({ kind, collection: id, maxBody: MOST_BODY, ...rows });
}

function byId(place: RecordPlace, text: string, limit: number): ListedRecord[] {
  return collectionsFrom(place, undefined).flatMap((collection) => {
    const definition = place.definitionOf(collection.source);
    // A secret id must not be found by its beginning; the mask that stands for it is searched as a name.
    if (isSecretId(definition)) return [];
    const rows = rowsOf(place, collection, { prefix: text, limit });
    return rows.map((row) => listed(place, collection, row));
  });
}

function listed(
  { kind, definitionOf }: RecordPlace,
  { source, scope }: ListedCollection,
  { record, id, run, body }: ListRow,
): ListedRecord {
  const definition = definitionOf(source);
  const name = body === null ? id : recordName(definition, parseLossless(body), id);
  return { record, isRemoved: false, kind, source, scope, run, ...withMaskedId({ id, name }, definition) };
}
