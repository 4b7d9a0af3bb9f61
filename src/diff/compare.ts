/**
 * The one comparison: `diff`, `drift`, plan, apply and the sync's "did it change" all read it (design.md, Comparison).
 */
import { type FieldDefinition, type ResourceDefinition, fieldsByName } from '../catalog/definition.ts';
import { type Embedding, embeddingOf } from '../catalog/embedded.ts';
import { withShownFields } from '../catalog/shown-fields.ts';
import { isVolatileMember, changesInside } from '../catalog/volatile-names.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { sortedKeys, sortNames } from '../core/sorted-keys.ts';
import { type MovedElement, elementSegment, equalUnordered, pairElements } from './elements.ts';
import { equalValues } from './equal.ts';
import { escapeSegment } from './pointer.ts';

export { equalValues } from './equal.ts';

/** all: every field; default: every field but the volatile ones; managed: writable fields that are not volatile. */
export type ComparisonMode = 'default' | 'managed' | 'all';

/** What differs at one place. A missing side means that the value is absent there, which is neither null nor empty. */
export interface FieldChange {
  /** RFC 6901 pointer into TO; into FROM where TO has nothing there. Empty for a body that is not an object. */
  readonly path: string;
  /**
   * Where an operation on FROM has to go, given only when that is not `path`: an array element that both sides hold
   * stands at another index in FROM. For something added, the place's parent in FROM and its index in TO.
   */
  readonly from_path?: string;
  /**
   * The path with `[id=…]` for each index of an element that is matched by its id, given where there is one: names the
   * same element wherever it stands.
   */
  readonly place?: string;
  /**
   * Given for an array with order whose elements are matched by id, where some stand otherwise among those that both
   * sides hold: the fewest that explain it. What changed inside elements, came or went is reported by changes of its own.
   */
  readonly moved?: readonly MovedElement[];
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** What a change is remembered and ruled by: its path, free of indexes that move. */
export function placeOf(field: Pick<FieldChange, 'path' | 'place'>): string {
  return field.place ?? field.path;
}

/** A place in both documents: the segments differ where a matched element stands at another index. */
interface Place {
  readonly parent: Place | null;
  readonly fromSegment: string;
  readonly toSegment: string;
  /** Given for an element that is matched by its id: either side's. */
  readonly element?: JsonValue | undefined;
}

interface Pending {
  readonly place: Place;
  readonly from: JsonValue | undefined;
  readonly to: JsonValue | undefined;
  readonly isUnordered: boolean;
  /** What the record holds of others here, of which not everything counts; undefined where everything does. */
  readonly embedding: Embedding | undefined;
  /** Given for an array of which only the order is left to tell. */
  readonly moved?: readonly MovedElement[];
}

/**
 * What differs between two bodies of one record; empty when they are equal. Top-level members that the mode leaves out
 * take no part; members that the catalog does not know are server-owned.
 *
 * The order is that of sorted member names, and within an array changes of elements, then removals from the last to the
 * first, then additions from the first to the last, then the order as the whole array: replayed in this order on FROM, the
 * changes give TO.
 *
 * In every mode but `all`, a field that the answer shows elsewhere stands in its own place (`shown-fields.ts`), and where it
 * changed, what shows it takes no part; what moves by itself in records that a response-only field embeds takes no part, and a user who is embedded there counts by who
 * it is (`comparedInside`).
 */
export function compareBodies(
  definition: ResourceDefinition,
  fromBody: JsonValue,
  toBody: JsonValue,
  mode: ComparisonMode,
): FieldChange[] {
  const changes: FieldChange[] = [];
  const [from, to] = [asCompared(definition, fromBody, mode), asCompared(definition, toBody, mode)];
  if (!isJsonObject(from) || !isJsonObject(to)) {
    // A body that is not an object has no fields, so none that is managed.
    if (mode !== 'managed' && !equalValues(from, to)) changes.push({ path: '', from, to });
    return changes;
  }
  const fields = fieldsByName(definition);
  for (const name of memberNames(from, to)) {
    const field = fields.get(name);
    if (!isCompared(definition, field, name, mode)) continue;
    const isWhole = mode === 'all' || field?.isWritable === true;
    compareFrom(changes, {
      place: { parent: null, fromSegment: name, toSegment: name },
      from: getOwn(from, name),
      to: getOwn(to, name),
      isUnordered: field?.isUnordered ?? definition.sets?.includes(name) ?? false,
      embedding: isWhole ? undefined : embeddingOf(definition).inside.get(name),
    });
  }
  return mode === 'all' ? changes : withoutRepeated(definition, changes);
}

/** One change of a query is one change: the member that shows it again (`shownAt`) has moved with it. */
function withoutRepeated(definition: ResourceDefinition, changes: FieldChange[]): FieldChange[] {
  const copies = definition.fields.flatMap(({ name, shownAt }) => {
    const isOther =
      shownAt !== undefined && changes.some(({ path }) => topSegment(path) === escapeSegment(name));
    return isOther ? [topSegment(shownAt)] : [];
  });
  return copies.length === 0 ? changes : changes.filter(({ path }) => !copies.includes(topSegment(path)));
}

function topSegment(pointer: string): string {
  return pointer.split('/')[1] ?? '';
}

function asCompared(definition: ResourceDefinition, body: JsonValue, mode: ComparisonMode): JsonValue {
  return mode === 'all' ? body : withShownFields(definition, body);
}

/** The top-level members of a body that take part in a comparison, as it sees them, sorted by name. */
export function comparedMembers(
  definition: ResourceDefinition,
  received: JsonObject,
  mode: ComparisonMode,
): [string, JsonValue][] {
  const body = asCompared(definition, received, mode);
  if (!isJsonObject(body)) return [];
  const fields = fieldsByName(definition);
  const names = mode === 'managed' ? managedNames(definition) : sortedKeys(body);
  const members: [string, JsonValue][] = [];
  for (const name of names) {
    const value = getOwn(body, name);
    if (value === undefined) continue;
    if (mode === 'managed' || isCompared(definition, fields.get(name), name, mode))
      members.push([name, value]);
  }
  return members;
}

const MANAGED = new WeakMap<ResourceDefinition, readonly string[]>();

/** The members that `managed` compares, sorted; only documented ones can be among them. */
function managedNames(definition: ResourceDefinition): readonly string[] {
  const known = MANAGED.get(definition);
  if (known !== undefined) return known;
  const fields = [...fieldsByName(definition)];
  const managed = fields.filter(([name, field]) => isCompared(definition, field, name, 'managed'));
  const names = sortNames(managed.map(([name]) => name));
  MANAGED.set(definition, names);
  return names;
}

/** True for a top-level member that the mode compares, known to the catalog or not. */
export function isComparedMember(
  definition: ResourceDefinition,
  name: string,
  mode: ComparisonMode,
): boolean {
  const field = definition.fields.find((each) => each.name === name);
  return isCompared(definition, field, name, mode);
}

function isCompared(
  definition: ResourceDefinition,
  field: FieldDefinition | undefined,
  name: string,
  mode: ComparisonMode,
): boolean {
  if (mode === 'all') return true;
  if (isVolatileMember(definition, field, name)) return false;
  return mode === 'default' || field?.isWritable === true;
}

/** Walks one member with a stack of its own, last thing first, so that deep nesting costs no call stack. */
function compareFrom(changes: FieldChange[], start: Pending): void {
  const stack: Pending[] = [start];
  for (let pending = stack.pop(); pending !== undefined; pending = stack.pop()) {
    const { place, from, to, moved } = pending;
    if (from === to) continue;
    if (moved !== undefined) {
      changes.push({ ...changeAt(place, from, to), moved });
    } else if (from === undefined || to === undefined) {
      changes.push(changeAt(place, from, to));
    } else if (isJsonObject(from) && isJsonObject(to)) {
      for (const name of comparedInside(pending.embedding, from, to).reverse()) {
        const fromMember = getOwn(from, name);
        const toMember = getOwn(to, name);
        if (fromMember === toMember) continue;
        stack.push({
          place: { parent: place, fromSegment: name, toSegment: name },
          from: fromMember,
          to: toMember,
          isUnordered: false,
          embedding: pending.embedding?.inside.get(name),
        });
      }
    } else if (Array.isArray(from) && Array.isArray(to)) {
      const inner = compareArrays(pending, from, to);
      if (inner === 'differ') changes.push(changeAt(place, from, to));
      else stack.push(...inner.reverse());
    } else if (!equalValues(from, to)) {
      changes.push(changeAt(place, from, to));
    }
  }
}

/** The members of two objects that are compared, sorted. */
function comparedInside(embedding: Embedding | undefined, from: JsonObject, to: JsonObject): string[] {
  const names = memberNames(from, to);
  if (embedding?.holds === 'record') return names.filter((name) => !changesInside(name));
  if (!isUserAt(embedding, from) || !isUserAt(embedding, to)) return names;
  if (embedding?.holds === 'subject')
    return names.filter((name) => !changesInside(name) && !isPersonalPreference(name));
  return isSamePerson(from, to) ? [] : names.filter(identifiesUser);
}

/** What to look at inside two arrays, or that they differ as a whole; nothing to look at when they are equal. */
function compareArrays(
  { place, isUnordered, embedding }: Pending,
  from: JsonValue[],
  to: JsonValue[],
): Pending[] | 'differ' {
  const pairing = pairElements(from, to);
  if (pairing === null) {
    const inside = embedding?.inside.get('*');
    const [one, other] = [
      from.map((each) => steadyValue(each, inside)),
      to.map((each) => steadyValue(each, inside)),
    ];
    return (isUnordered ? equalUnordered(one, other) : equalValues(one, other)) ? [] : 'differ';
  }
  const element = (fromIndex: number | undefined, toIndex: number | undefined): Pending => ({
    place: {
      parent: place,
      fromSegment: String(fromIndex ?? toIndex),
      toSegment: String(toIndex ?? fromIndex),
      element: toIndex === undefined ? from[fromIndex ?? -1] : to[toIndex],
    },
    from: fromIndex === undefined ? undefined : from[fromIndex],
    to: toIndex === undefined ? undefined : to[toIndex],
    isUnordered: false,
    embedding: embedding?.inside.get('*'),
  });
  // Order is content unless the catalog says otherwise.
  const { moved } = pairing;
  const order = { place, from, to, isUnordered, embedding, moved };
  return [
    ...pairing.matched.map(({ fromIndex, toIndex }) => element(fromIndex, toIndex)),
    ...pairing.removed.toReversed().map((index) => element(index, undefined)),
    ...pairing.added.map((index) => element(undefined, index)),
    ...(isUnordered || moved.length === 0 ? [] : [order]),
  ];
}

function changeAt(place: Place, from: JsonValue | undefined, to: JsonValue | undefined): FieldChange {
  const fromPath = pointerOf(place, 'fromSegment');
  const path = to === undefined ? fromPath : pointerOf(place, 'toSegment');
  return {
    path,
    ...(fromPath === path ? {} : { from_path: fromPath }),
    ...(isInElement(place) ? { place: pointerOf(place, 'id') } : {}),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

function isInElement(place: Place): boolean {
  for (let at: Place | null = place; at !== null; at = at.parent) if (at.element !== undefined) return true;
  return false;
}

function pointerOf(place: Place, side: 'fromSegment' | 'toSegment' | 'id'): string {
  const segments: string[] = [];
  for (let at: Place | null = place; at !== null; at = at.parent) {
    const segment =
      side !== 'id' ? at[side] : at.element === undefined ? at.toSegment : elementSegment(at.element);
    segments.push(`/${escapeSegment(segment)}`);
  }
  return segments.reverse().join('');
}

/** The own member names of both, sorted by code units: the order of the answer does not hang on that of the keys. */
function memberNames(from: JsonObject, to: JsonObject): string[] {
  const names = Object.keys(from);
  for (const name of Object.keys(to)) if (!Object.hasOwn(from, name)) names.push(name);
  return names.sort();
}

// Users as answers embed them (interface.md, User summary): who it is counts, what else they are is their own affair.

/** The surest first. */
const SAYS_WHO = ['uuid', 'id', 'email', 'distinct_id'] as const;
const PERSON: ReadonlySet<string> = new Set([...SAYS_WHO, 'first_name', 'last_name']);

/** True for a user's summary at a place that is known to hold one: a name alone makes no user of a configured value. */
export function isUserAt(
  embedding: Embedding | undefined,
  value: JsonValue | undefined,
): value is JsonObject {
  if (embedding?.holds !== 'user' && embedding?.holds !== 'subject') return false;
  if (value === undefined || !isJsonObject(value)) return false;
  const has = (name: string): boolean => (getOwn(value, name) ?? null) !== null;
  return has('uuid') || has('distinct_id') || (has('id') && has('email'));
}

/** True for a member of a summary that says who it is. */
function identifiesUser(name: string): boolean {
  return PERSON.has(name);
}

/** True for a member that is the user's own doing even where the record is about the user. */
function isPersonalPreference(name: string): boolean {
  return name === 'hedgehog_config';
}

/** True where two summaries are of one person: whoever changes their name is still the one who made it. */
function isSamePerson(from: JsonObject, to: JsonObject): boolean {
  for (const name of SAYS_WHO) {
    const [one, other] = [getOwn(from, name) ?? null, getOwn(to, name) ?? null];
    if (one !== null && other !== null) return equalValues(one, other);
  }
  return false;
}

/**
 * A response-only value without what moves inside it, and of a user only who it is: for telling equality, never shown.
 * What no place is known of stays as it is; so deep as places are known is as deep as this goes.
 */
function steadyValue(value: JsonValue, embedding: Embedding | undefined): JsonValue {
  if (embedding === undefined) return value;
  if (Array.isArray(value)) return value.map((element) => steadyValue(element, embedding.inside.get('*')));
  if (!isJsonObject(value)) return value;
  if (isUserAt(embedding, value)) {
    const name = SAYS_WHO.find((each) => (getOwn(value, each) ?? null) !== null);
    if (name !== undefined) return { [name]: getOwn(value, name) ?? null };
  }
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    if (embedding.holds === 'record' && changesInside(name)) continue;
    setOwn(kept, name, steadyValue(member, embedding.inside.get(name)));
  }
  return kept;
}
