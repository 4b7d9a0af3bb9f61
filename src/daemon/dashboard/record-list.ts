/**
 * Pages and searches of the record browser. A page costs what it shows, however many records there are: it goes on from a
 * record's key, which an index has. A search for names has to read records; it does so in slices, lets others have their
 * turn in between, stops after a while, and says how far it came.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Kind, Scope } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Clock } from '../../core/clock.ts';
import { parseLossless } from '../../core/json.ts';
import { recordName } from '../../diff/name.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { isSecretId, maskedId, withMaskedId } from '../../report/mask.ts';
import { selectRows, sqlNumber, sqlText } from '../mirror-queries.ts';

/** A record as a list shows it: masked. */
export interface ListedRecord {
  readonly record: number;
  readonly kind: Kind;
  readonly source: string;
  readonly scope: Scope;
  readonly id: string;
  readonly name: string;
  /** The run of its current revision. */
  readonly run: number;
}

export interface RecordPlace {
  readonly mirror: Mirror;
  readonly kind: Kind;
  /** Null for all. */
  readonly source: string | null;
  readonly definitionOf: (source: string) => ResourceDefinition;
}

export interface ListPage {
  readonly records: readonly ListedRecord[];
  /** The record to continue after; null at the end. */
  readonly next: number | null;
}

interface CollectionRow {
  readonly id: number;
  readonly source: string;
  readonly scope: string;
  readonly records: number;
}

interface RecordRow {
  readonly record: number;
  readonly id: string;
  readonly run: number;
  readonly body: string | null;
}

/** Longer bodies go by their ids in lists: reading fifty of them would take longer than the page may. */
const MOST_BODY = 200_000;
const SLICE = 500;
/** No record has this number: continuing after it starts at the beginning. */
const FROM_THE_FIRST = 0;

/** Records in the order of their collections and ids, from after a record on. */
export function readListPage(place: RecordPlace, after: number | null, limit: number): ListPage {
  const from = after === null ? null : keyOf(place, after);
  const records: ListedRecord[] = [];
  for (const collection of collectionsFrom(place, from?.collection ?? null)) {
    const start = collection.id === from?.collection ? from.id : null;
    records.push(
      ...rowsOf(place, collection, start, limit + 1 - records.length).map((row) =>
        listed(place, collection, row),
      ),
    );
    if (records.length > limit) break;
  }
  const shown = records.slice(0, limit);
  return { records: shown, next: records.length > limit ? (shown.at(-1)?.record ?? null) : null };
}

export interface SearchResult extends ListPage {
  /** Records whose names were looked at. */
  readonly read: number;
}

interface Search {
  /** Part of a name in any case, or the beginning of an id. */
  readonly text: string;
  /** Where a search before this one stopped; null for the beginning. */
  readonly after: number | null;
  readonly limit: number;
  readonly clock: Clock;
  /** How long names are looked at. */
  readonly mostMs: number;
}

/** Ids that begin so, by their index; where none does, names that hold it. `next` is null once all were looked at. */
export async function searchRecords(place: RecordPlace, search: Search): Promise<SearchResult> {
  const { text, after, limit, clock, mostMs } = search;
  const found = new Map<number, ListedRecord>();
  if (after === null) {
    for (const record of byId(place, text, limit)) found.set(record.record, record);
    // Who has an id at hand means it. Names are looked at when asked for.
    if (found.size > 0)
      return { records: [...found.values()].slice(0, limit), next: FROM_THE_FIRST, read: 0 };
  }
  const wanted = text.toLowerCase();
  const from = after === null ? null : keyOf(place, after);
  const startedMs = clock.monotonicMs();
  let read = 0;
  for (const collection of collectionsFrom(place, from?.collection ?? null)) {
    let start = collection.id === from?.collection ? from.id : null;
    for (;;) {
      const rows = rowsOf(place, collection, start, SLICE);
      for (const row of rows) {
        read += 1;
        const record = listed(place, collection, row);
        if (record.name.toLowerCase().includes(wanted)) found.set(record.record, record);
        const isLate = read % 50 === 0 && clock.monotonicMs() - startedMs > mostMs;
        if (found.size >= limit || isLate)
          return { records: [...found.values()].slice(0, limit), next: row.record, read };
        start = row.id;
      }
      if (rows.length < SLICE) break;
      await nextTurn();
    }
  }
  return { records: [...found.values()], next: null, read };
}

/** How many records there are, as the collections know it. */
export function countRecords(mirror: Mirror, source: string | null): ReadonlyMap<string, number> {
  const rows = selectRows<{ kind: string; records: number }>(
    mirror,
    `SELECT c.kind AS kind, sum(c.records) AS records FROM collections c JOIN sources s ON s.id = c.source
     WHERE c.retired_run IS NULL${source === null ? '' : ` AND s.name = ${sqlText(source)}`} GROUP BY c.kind`,
  );
  return new Map(rows.map(({ kind, records }) => [kind, records]));
}

/** The place of the record with this number, current or removed. */
export function whereIs(
  mirror: Mirror,
  kind: Kind,
  record: number,
): { readonly source: string; readonly scope: Scope; readonly id: string } | null {
  const number = sqlNumber(record);
  const [row] = selectRows<{ source: string; scope: string; id: string }>(
    mirror,
    `SELECT s.name AS source, c.scope AS scope, k.id AS id FROM
       (SELECT _collection AS collection, _remote_id AS id FROM "${kind}" WHERE _record = ${number}
        UNION ALL SELECT collection, remote_id FROM removed WHERE record = ${number}) k
     JOIN collections c ON c.id = k.collection JOIN sources s ON s.id = c.source WHERE c.kind = '${kind}' LIMIT 1`,
  );
  return row === undefined ? null : { source: row.source, scope: JSON.parse(row.scope) as Scope, id: row.id };
}

/** The key to continue after, of a record that may have been removed meanwhile. */
function keyOf(
  { mirror, kind }: RecordPlace,
  record: number,
): { readonly collection: number; readonly id: string } | null {
  const number = sqlNumber(record);
  const [row] = selectRows<{ collection: number; id: string }>(
    mirror,
    `SELECT _collection AS collection, _remote_id AS id FROM "${kind}" WHERE _record = ${number}
     UNION ALL SELECT collection, remote_id FROM removed WHERE record = ${number} LIMIT 1`,
  );
  return row ?? null;
}

function collectionsFrom({ mirror, kind, source }: RecordPlace, first: number | null): CollectionRow[] {
  return selectRows<CollectionRow & Record<keyof CollectionRow, string | number>>(
    mirror,
    `SELECT c.id AS id, s.name AS source, c.scope AS scope, c.records AS records
     FROM collections c JOIN sources s ON s.id = c.source
     WHERE c.kind = '${kind}' AND c.records > 0${first === null ? '' : ` AND c.id >= ${sqlNumber(first)}`}${source === null ? '' : ` AND s.name = ${sqlText(source)}`}
     ORDER BY c.id`,
  );
}

function rowsOf(
  { mirror, kind }: RecordPlace,
  { id: collection }: CollectionRow,
  after: string | null,
  limit: number,
): RecordRow[] {
  return selectRows<RecordRow & Record<keyof RecordRow, string | number | null>>(
    mirror,
    `${select(kind)} WHERE k.collection = ${sqlNumber(collection)}
    ${after === null ? '' : `AND k.remote_id > ${sqlText(after)}`} ORDER BY k.remote_id LIMIT ${sqlNumber(limit)}`,
  );
}

function byId(place: RecordPlace, text: string, limit: number): ListedRecord[] {
  // Behind every text that begins so: no UTF-8 text holds this byte.
  const end = `CAST(x'${Buffer.from(text.toWellFormed()).toString('hex')}ff' AS TEXT)`;
  return collectionsFrom(place, null).flatMap((collection) => {
    const definition = place.definitionOf(collection.source);
    // A secret id must not be found by its beginning; its mark is looked for among the names.
    if (isSecretId(definition)) return [];
    const rows = selectRows<RecordRow & Record<keyof RecordRow, string | number | null>>(
      place.mirror,
      `${select(place.kind)} WHERE k.collection = ${sqlNumber(collection.id)} AND k.remote_id >= ${sqlText(text)} AND k.remote_id < ${end}
       ORDER BY k.remote_id LIMIT ${sqlNumber(limit)}`,
    );
    return rows.map((row) => listed(place, collection, row));
  });
}

/** CROSS JOIN keeps the order of the keys. */
function select(kind: Kind): string {
  return `SELECT k.record AS record, k.remote_id AS id, t._run AS run,
    CASE WHEN length(t.body) <= ${MOST_BODY} THEN t.body END AS body
    FROM record_keys k CROSS JOIN "${kind}" t ON t._record = k.record`;
}

function listed(
  { kind, definitionOf }: RecordPlace,
  { source, scope }: CollectionRow,
  { record, id, run, body }: RecordRow,
): ListedRecord {
  const definition = definitionOf(source);
  const name = body === null ? id : recordName(definition, parseLossless(body), id);
  const shown = withMaskedId({ id, name }, definition);
  return {
    record,
    kind,
    source,
    scope: JSON.parse(scope) as Scope,
    run,
    id: maskedId(id, definition),
    name: shown.name,
  };
}
