/**
 * What a run's counts of fields say about the service's contract. Records come and go, and a field that only some carry
 * goes with them: that is no news. It is lost when a record that stayed gave it up, or when every record had it and none
 * has it now; what merely left with its records is remembered, and is no news when it comes back.
 */
import { type FieldMoves, type JsonType, JSON_TYPES, parentField } from './field-shapes.ts';
import type { SchemaChange } from './schema-changes.ts';

/** Per field and JSON type the records that carry it; 0 for one that is remembered. */
export type ShapeCounts = ReadonlyMap<string, ReadonlyMap<JsonType, number>>;

export type FieldNews = Pick<SchemaChange, 'field' | 'change' | 'before' | 'after'>;

interface ShapeNews {
  readonly changes: readonly FieldNews[];
  /** What is not remembered any longer: were it to come back, it would be news. */
  readonly forgotten: readonly { readonly field: string; readonly type: JsonType }[];
}

/** `after` has every field of `before`. Without counts before, the kind is seen for the first time: nothing is news. */
export function shapeNews(before: ShapeCounts, after: ShapeCounts, moves: readonly FieldMoves[]): ShapeNews {
  const changes: FieldNews[] = [];
  const forgotten: { field: string; type: JsonType }[] = [];
  const movesOf = new Map(moves.map((move) => [move.field, move]));
  const lost = new Set<string>();
  for (const [field, is] of [...after].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (field === '') continue;
    const was = before.get(field);
    const parent = parentField(field);
    if (was === undefined) {
      // Within an object that is new itself, that is the news.
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

/** Types that no record has now, and that others took the place of. */
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

/** Types that some record has. */
function carriedTypes(types: ReadonlyMap<JsonType, number>): JsonType[] {
  return typesOf(types).filter((type) => (types.get(type) ?? 0) > 0);
}

/** Likewise; where there is none, the types that are remembered. */
function knownTypes(types: ReadonlyMap<JsonType, number>): JsonType[] {
  const carried = carriedTypes(types);
  return carried.length > 0 ? carried : typesOf(types);
}

/** Null is no type of its own. */
function typesOf(types: ReadonlyMap<JsonType, number>): JsonType[] {
  return [...types.keys()].filter((type) => type !== 'null').sort();
}
