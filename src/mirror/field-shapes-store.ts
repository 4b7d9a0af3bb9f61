/** The counts of fields in the mirror: reads them, updates them by a run, counts again. */
import { and, asc, eq, gt, isNotNull, sql } from 'drizzle-orm';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import {
  type FieldMoves,
  type JsonType,
  documentedObjects,
  JSON_TYPES,
  KindShapes,
  UNWATCHED,
  parentField,
} from './field-shapes.ts';
import { excluded, param, paramsOf, prepared } from './query.ts';
import type { SchemaChange } from './schema-changes.ts';
import { records } from './schema/record-tables.ts';
import { fieldShapeBases, fieldShapes, schemaChanges } from './schema/field-tables.ts';
import { collections } from './schema/source-tables.ts';

/** Bodies parsed per slice: some 10 ms of work. */
const SLICE = 1000;

const IS_OF_KIND = and(eq(fieldShapes.source, param('source')), eq(fieldShapes.kind, param('kind')));

const SHAPES = prepared((db) => {
  const { field, type, records } = fieldShapes;
  return db.select({ field, type, records }).from(fieldShapes).where(IS_OF_KIND);
});

const PUT_SHAPE = prepared((db) => {
  const { source, kind, field, type, records } = fieldShapes;
  return db
    .insert(fieldShapes)
    .values(paramsOf(fieldShapes))
    .onConflictDoUpdate({ target: [source, kind, field, type], set: excluded({ records }) });
});

const DROP_SHAPES = prepared((db) => db.delete(fieldShapes).where(IS_OF_KIND));

const DROP_SHAPE = prepared((db) =>
  db
    .delete(fieldShapes)
    .where(and(IS_OF_KIND, eq(fieldShapes.field, param('field')), eq(fieldShapes.type, param('type')))),
);

const BASE = prepared((db) => {
  const { source, kind, objects } = fieldShapeBases;
  return db
    .select({ objects })
    .from(fieldShapeBases)
    .where(and(eq(source, param('source')), eq(kind, param('kind'))));
});

const PUT_BASE = prepared((db) => {
  const { source, kind, objects } = fieldShapeBases;
  return db
    .insert(fieldShapeBases)
    .values(paramsOf(fieldShapeBases))
    .onConflictDoUpdate({ target: [source, kind], set: excluded({ objects }) });
});

const ADD_CHANGE = prepared((db) => db.insert(schemaChanges).values(paramsOf(schemaChanges)));

/** The number of current records of a kind. */
const RECORDS = prepared((db) =>
  db
    .select({ records: sql<number>`ifnull(sum(${collections.records}), 0)` })
    .from(collections)
    .where(and(eq(collections.source, param('source')), eq(collections.kind, param('kind')))),
);

const BODIES = prepared((db) =>
  db
    .select({ record: records.record, body: sql<string>`${records.body}` })
    .from(records)
    // A cross join keeps the order of the records.
    .crossJoin(collections)
    .where(
      and(
        gt(records.record, param('after')),
        isNotNull(records.hash),
        eq(collections.id, records.collection),
        eq(collections.source, param('source')),
        eq(collections.kind, param('kind')),
      ),
    )
    .orderBy(asc(records.record))
    .limit(SLICE),
);

/** How the counts of all kinds changed in one run of one source. */
export class RunShapes {
  readonly #writer: Connection;
  readonly #source: number;
  readonly #kinds = new Map<Kind, KindShapes>();
  /** Kinds of which a stored body was unreadable, so that its share of the counts is not known. */
  readonly #unsound = new Set<Kind>();
  /** Kinds whose stored counts were made with other documented objects, and lack members. */
  readonly #outdated = new Set<Kind>();

  constructor(writer: Connection, source: number) {
    this.#writer = writer;
    this.#source = source;
  }

  of(kind: Kind): KindShapes {
    let shapes = this.#kinds.get(kind);
    if (shapes === undefined) {
      const stored = readShapes(this.#writer, this.#source, kind);
      if (stored.size > 0 && this.#isOutdated(kind)) this.#outdated.add(kind);
      shapes = openKindShapes(kind, this.#outdated.has(kind) ? new Map() : stored);
      this.#kinds.set(kind, shapes);
    }
    return shapes;
  }

  /** A record's stored body was replaced; null: there is none before, or after. */
  move(kind: Kind, before: string | null, after: string | null): void {
    const shapes = this.of(kind);
    const was = before === null ? undefined : parsed(before);
    const is = after === null ? undefined : parsed(after);
    if (before !== null && was === undefined) this.#unsound.add(kind);
    if (was !== undefined && is !== undefined) shapes.replace(was, is);
    else if (was !== undefined) shapes.remove(was);
    else if (is !== undefined) shapes.add(is);
  }

  /**
   * Before anything is published: counts kinds of this run whose records were never counted, or were counted by another catalog.
   * Then the changes of this run are not reported as new fields.
   */
  *countUncounted(kinds: Iterable<Kind>): Generator<undefined> {
    const source = this.#source;
    for (const kind of new Set(kinds)) {
      const shapes = this.of(kind);
      if (this.#outdated.has(kind)) DROP_SHAPES(this.#writer).run({ source, kind });
      if (readShapes(this.#writer, this.#source, kind).size > 0) continue;
      if ((RECORDS(this.#writer).get({ source, kind })?.records ?? 0) > 0)
        yield* this.#countAll(kind, shapes);
    }
  }

  #isOutdated(kind: Kind): boolean {
    const stored = BASE(this.#writer).get({ source: this.#source, kind });
    return stored?.objects !== JSON.stringify(documentedObjects(kind));
  }

  /** After everything is published: writes the counts that changed, and which fields the service gained, lost or retyped. */
  *settle(run: number): Generator<undefined> {
    for (const [kind, shapes] of this.#kinds) {
      if (!shapes.isTouched && !this.#unsound.has(kind)) continue;
      const before = readShapes(this.#writer, this.#source, kind);
      const after = moved(before, shapes.fields());
      const isSound = [...after.values()].every((types) => [...types.values()].every((count) => count >= 0));
      if (isSound && !this.#unsound.has(kind)) this.#write(run, kind, shapes, before, after);
      else yield* this.#startOver(run, kind);
      yield undefined;
    }
  }

  #write(run: number, kind: Kind, shapes: KindShapes, before: ShapeCounts, after: ShapeCounts): void {
    const isFirst = !before.has('');
    const news = shapeNews(before, after, shapes.fields());
    const source = this.#source;
    const put = (field: string, type: string, records: number): void =>
      void PUT_SHAPE(this.#writer).run({ source, kind, field, type, records });
    for (const [field, types] of after) {
      for (const [type, records] of types) {
        if (before.get(field)?.get(type) !== records) put(field, type, records);
      }
    }
    if (isFirst)
      PUT_BASE(this.#writer).run({ source, kind, objects: JSON.stringify(documentedObjects(kind)) });
    const changes = isFirst ? [] : [...news.changes];
    for (const { field, type } of news.forgotten) DROP_SHAPE(this.#writer).run({ source, kind, field, type });
    if (shapes.isFull && !before.has(UNWATCHED)) {
      put(UNWATCHED, '', 0);
      changes.push({ field: UNWATCHED, change: 'unwatched', before: [], after: [] });
    }
    this.#note(run, kind, changes);
  }

  #note(run: number, kind: Kind, changes: readonly FieldNews[]): void {
    for (const { before, after, ...news } of changes)
      ADD_CHANGE(this.#writer).run({
        ...news,
        run,
        source: this.#source,
        kind,
        before: JSON.stringify(before),
        after: JSON.stringify(after),
      });
  }

  /** The stored counts were wrong, so they are of no use: derived data, counted again from the current records. */
  *#startOver(run: number, kind: Kind): Generator<undefined> {
    DROP_SHAPES(this.#writer).run({ source: this.#source, kind });
    const shapes = new KindShapes(kind, [], false);
    yield* this.#countAll(kind, shapes);
    const none: ShapeCounts = new Map();
    this.#write(run, kind, shapes, none, moved(none, shapes.fields()));
  }

  *#countAll(kind: Kind, shapes: KindShapes): Generator<undefined> {
    let after = 0;
    for (;;) {
      const rows = BODIES(this.#writer).all({ after, source: this.#source, kind });
      for (const { record, body } of rows) {
        const value = parsed(body);
        if (value !== undefined) shapes.add(value);
        after = record;
      }
      if (rows.length < SLICE) return;
      yield undefined;
    }
  }
}

/** Undefined for text that is not JSON: `verify` names the record, and it is not counted. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** A counter for a kind, with the fields that are counted already. */
export function openKindShapes(kind: Kind, stored: ShapeCounts): KindShapes {
  const fields = [...stored.keys()].filter((field) => field !== UNWATCHED);
  return new KindShapes(kind, fields, stored.has(UNWATCHED));
}

/** The counts of one kind of one source; empty if its records were never counted. */
export function readShapes(connection: Connection, source: number, kind: Kind): ShapeCounts {
  const shapes = new Map<string, Map<JsonType, number>>();
  for (const { field, type, records } of SHAPES(connection).all({ source, kind })) {
    const types = shapes.get(field) ?? new Map<JsonType, number>();
    shapes.set(field, types.set(type as JsonType, records));
  }
  return shapes;
}

function moved(before: ShapeCounts, moves: readonly FieldMoves[]): ShapeCounts {
  const after = new Map([...before].map(([field, types]) => [field, new Map(types)]));
  after.delete(UNWATCHED);
  for (const { field, counts } of moves) {
    for (const [index, delta] of counts.entries()) {
      const type = JSON_TYPES[index];
      if (delta === 0 || type === undefined) continue;
      const types = after.get(field) ?? new Map<JsonType, number>();
      after.set(field, types.set(type, (types.get(type) ?? 0) + delta));
    }
  }
  return after;
}

// What a run's counts of fields say about the service's contract. Records come and go, and a field that only some have goes with
// them: that is not news. A field is lost if a record that stayed no longer has it, or if every record had it and none has it now.
// A field that only left with its records is remembered (with 0 records), and is not news when it comes back.

/** By field and JSON type, the number of records that have it; 0 for one that is remembered. */
export type ShapeCounts = ReadonlyMap<string, ReadonlyMap<JsonType, number>>;

type FieldNews = Pick<SchemaChange, 'field' | 'change' | 'before' | 'after'>;

interface ShapeNews {
  readonly changes: readonly FieldNews[];
  /** No longer remembered: if it comes back, it is news. */
  readonly forgotten: readonly { readonly field: string; readonly type: JsonType }[];
}

/** `after` has all fields of `before`. */
function shapeNews(before: ShapeCounts, after: ShapeCounts, moves: readonly FieldMoves[]): ShapeNews {
  const changes: FieldNews[] = [];
  const forgotten: { field: string; type: JsonType }[] = [];
  const movesOf = new Map(moves.map((move) => [move.field, move]));
  const lost = new Set<string>();
  for (const [field, is] of [...after].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (field === '') continue;
    const was = before.get(field);
    const parent = parentField(field);
    if (was === undefined) {
      // In an object that is new itself, the object is the news.
      const isParentKnown = before.get(parent)?.has('object') === true;
      if (isParentKnown && carriers(is) > 0)
        changes.push({ field, change: 'gained', before: [], after: carriedTypes(is) });
    } else if (lost.has(parent)) {
      for (const type of was.keys()) forgotten.push({ field, type });
    } else if (carriers(is) === 0) {
      const parents = after.get(parent)?.get('object') ?? 0;
      const parentsBefore = before.get(parent)?.get('object') ?? 0;
      const wasEverywhere = parentsBefore > 0 && carriers(was) === parentsBefore;
      if (parents === 0 || !(wasEverywhere || movesOf.get(field)?.isDropped === true)) continue;
      changes.push({ field, change: 'lost', before: knownTypes(was), after: [] });
      lost.add(field);
      for (const type of was.keys()) forgotten.push({ field, type });
    } else {
      const isNew = carriedTypes(is).some((type) => !was.has(type));
      if (isNew && typesOf(was).length > 0)
        changes.push({ field, change: 'retyped', before: knownTypes(was), after: carriedTypes(is) });
      const isLeft = movesOf.get(field)?.isLeft;
      for (const type of replacedTypes(was, is, isLeft)) forgotten.push({ field, type });
    }
  }
  return { changes, forgotten };
}

/** Types that no record has now, because others replaced them. */
function replacedTypes(
  was: ReadonlyMap<JsonType, number>,
  is: ReadonlyMap<JsonType, number>,
  isLeft: readonly boolean[] | undefined,
): JsonType[] {
  if (carriedTypes(is).length === 0) return [];
  const typedBefore = typesOf(was).reduce((sum, type) => sum + (was.get(type) ?? 0), 0);
  return typesOf(was).filter((type) => {
    if ((is.get(type) ?? 0) > 0) return false;
    const records = was.get(type) ?? 0;
    return isLeft?.[JSON_TYPES.indexOf(type)] === true || (records > 0 && records === typedBefore);
  });
}

function carriers(types: ReadonlyMap<JsonType, number>): number {
  return [...types.values()].reduce((sum, records) => sum + records, 0);
}

/** Types that some record has now. */
function carriedTypes(types: ReadonlyMap<JsonType, number>): JsonType[] {
  return typesOf(types).filter((type) => (types.get(type) ?? 0) > 0);
}

/** The same; if there are none, the types that are remembered. */
function knownTypes(types: ReadonlyMap<JsonType, number>): JsonType[] {
  const carried = carriedTypes(types);
  return carried.length > 0 ? carried : typesOf(types);
}

/** Without null, which does not count as a type. */
function typesOf(types: ReadonlyMap<JsonType, number>): JsonType[] {
  return [...types.keys()].filter((type) => type !== 'null').sort();
}
