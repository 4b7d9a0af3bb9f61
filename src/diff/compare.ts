/** The one comparison: `diff`, `drift`, plan, apply, and the sync's check for changes all use it (design.md, Comparison). */
import { type FieldDefinition } from '../catalog/definition.ts';
import type { ResourceDefinition, Embedding } from '../catalog/resource-definition.ts';
import { withShownFields } from '../catalog/shown-fields.ts';
import { isVolatileMember, changesInside } from '../catalog/volatile-names.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  parseLossless,
  setOwn,
  sortedKeys,
} from '../core/json.ts';
import { type MovedElement, elementSegment, equalUnordered, pairElements } from './elements.ts';
import { canonicalText, equalValues } from './canonical.ts';
import { escapeSegment } from '../core/json-pointer.ts';

/**
 * all: every field; default: every field that is not volatile; managed: writable fields that are not volatile;
 * all_but_volatile: like all, if one of the states has no values of volatile fields.
 */
export type ComparisonMode = 'default' | 'managed' | 'all' | 'all_but_volatile';

/** True for the modes that compare bodies as received. */
export function isWholeMode(mode: ComparisonMode): boolean {
  return mode === 'all' || mode === 'all_but_volatile';
}

/** What differs at one place. A missing `from` or `to` means that the value is absent there, which is neither null nor empty. */
export interface FieldChange {
  /** RFC 6901 pointer into TO, or into FROM if TO has nothing there. Empty for a body that is not an object. */
  readonly path: string;
  /**
   * The pointer into FROM, given only if it is not `path` because an array element has another index there. For an addition: the
   * pointer of the parent in FROM with the index in TO.
   */
  readonly from_path?: string;
  /** The path with `[id=…]` in place of the index of each element that is matched by id, if there is one: it does not depend on the order. */
  readonly place?: string;
  /**
   * Given for an ordered array whose elements are matched by id, if the common ones are in another order: the fewest moves that
   * explain it. Changed, added and removed elements are separate changes.
   */
  readonly moved?: readonly MovedElement[];
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** The path by which rules and acceptances identify a change: with element ids instead of array indexes. */
export function placeOf(field: Pick<FieldChange, 'path' | 'place'>): string {
  return field.place ?? field.path;
}

/** A position in both documents: the segments differ if a matched element has another index. */
interface Place {
  readonly parent: Place | null;
  readonly fromSegment: string;
  readonly toSegment: string;
  /** Given for an element that is matched by id: the element of either side. */
  readonly element?: JsonValue | undefined;
}

interface Pending {
  readonly place: Place;
  readonly from: JsonValue | undefined;
  readonly to: JsonValue | undefined;
  readonly isUnordered: boolean;
  /** Which members count inside an embedded record; undefined: all. */
  readonly embedding: Embedding | undefined;
  /** Given for an array if only its order remains to be reported. */
  readonly moved?: readonly MovedElement[];
}

/**
 * What differs between two bodies of one record; empty if they are equal. Only the top-level members of the mode are compared;
 * members that the catalog does not know are server-owned.
 *
 * Changes are sorted by member name. Within an array, changed elements come first, then removals from the last to the first, then
 * additions from the first to the last, then the order as a change of the entire array: applied to FROM in this order, the changes
 * give TO.
 *
 * In the modes `default` and `managed`, a value that the response shows elsewhere is compared in its own field (`shown-fields.ts`);
 * if it changed, the change of the member that repeats it is left out. Inside response-only fields, volatile members of embedded
 * records are ignored, and embedded users are compared by identity only (`comparedInside`).
 *
 * A secret in clear text and its fingerprint are equal if the key is known (`compareFingerprints`).
 */
export function compareBodies(
  definition: ResourceDefinition,
  fromBody: JsonValue,
  toBody: JsonValue,
  mode: ComparisonMode,
): FieldChange[] {
  const changes = bodyChanges(definition, fromBody, toBody, mode);
  if (redactions.size === 0 || !changes.some(({ from, to }) => hasFingerprint(from) || hasFingerprint(to)))
    return changes;
  // One side may have been read before `redact` was switched on or off.
  for (const redact of redactions.values()) {
    const redacted = (body: JsonValue): JsonValue => parseLossless(redact(definition, canonicalText(body)));
    const left = bodyChanges(definition, redacted(fromBody), redacted(toBody), mode);
    const paths = new Set(left.map(({ path }) => path));
    const different = changes.filter(({ path }) => paths.has(path));
    if (different.length < changes.length && different.length === left.length) return different;
  }
  return changes;
}

/** Without recursion: bodies may be nested to any depth. */
function hasFingerprint(value: JsonValue | undefined): boolean {
  const open = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === 'string' && next.startsWith('[redacted:')) return true;
    const parts = Array.isArray(next) ? next : isJsonObject(next) ? Object.values(next) : [];
    for (const part of parts) open.push(part);
  }
  return false;
}

/** Replaces the secrets in the text of a record with their fingerprints. */
export type Redact = (definition: ResourceDefinition, text: string) => string;
const redactions = new Map<string, Redact>();

/** Makes comparisons treat a secret and its fingerprint as equal. `name` stands for the fingerprint key: each is registered once. */
export function compareFingerprints(name: string, redact: Redact): void {
  redactions.set(name, redact);
}

function bodyChanges(
  definition: ResourceDefinition,
  fromBody: JsonValue,
  toBody: JsonValue,
  mode: ComparisonMode,
): FieldChange[] {
  const changes: FieldChange[] = [];
  const [from, to] = [asCompared(definition, fromBody, mode), asCompared(definition, toBody, mode)];
  if (!isJsonObject(from) || !isJsonObject(to)) {
    // A body that is not an object has no fields, and so no managed ones.
    if (mode !== 'managed' && !equalValues(from, to)) changes.push({ path: '', from, to });
    return changes;
  }
  const fields = definition.fieldsByName;
  for (const name of memberNames(from, to)) {
    const field = fields.get(name);
    if (!isCompared(definition, field, name, mode)) continue;
    const isWhole = isWholeMode(mode) || field?.isWritable === true;
    compareFrom(changes, {
      place: { parent: null, fromSegment: name, toSegment: name },
      from: getOwn(from, name),
      to: getOwn(to, name),
      isUnordered: field?.isUnordered ?? definition.sets?.includes(name) ?? false,
      embedding: isWhole ? undefined : definition.embedding.inside.get(name),
    });
  }
  return isWholeMode(mode) ? changes : withoutRepeated(definition, changes);
}

/** Drops the change of a member that repeats a changed field (`shownAt`). */
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
  return isWholeMode(mode) ? body : withShownFields(definition, body);
}

/** The top-level members of a body that the mode compares, with their compared values, sorted by name. */
export function comparedMembers(
  definition: ResourceDefinition,
  received: JsonObject,
  mode: ComparisonMode,
): [string, JsonValue][] {
  const body = asCompared(definition, received, mode);
  if (!isJsonObject(body)) return [];
  const fields = definition.fieldsByName;
  const names = mode === 'managed' ? definition.managedNames : sortedKeys(body);
  const members: [string, JsonValue][] = [];
  for (const name of names) {
    const value = getOwn(body, name);
    if (value === undefined) continue;
    if (mode === 'managed' || isCompared(definition, fields.get(name), name, mode))
      members.push([name, value]);
  }
  return members;
}

/** True for a top-level member that the mode compares, whether or not the catalog knows it. */
export function isComparedMember(
  definition: ResourceDefinition,
  name: string,
  mode: ComparisonMode,
): boolean {
  return isCompared(definition, definition.fieldsByName.get(name), name, mode);
}

function isCompared(
  definition: ResourceDefinition,
  field: FieldDefinition | undefined,
  name: string,
  mode: ComparisonMode,
): boolean {
  if (mode === 'all') return true;
  if (isVolatileMember(definition, field, name)) return false;
  return mode !== 'managed' || field?.isWritable === true;
}

/** Compares one member. With an explicit stack, pushed in reverse order, so that deep nesting cannot exhaust the call stack. */
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
    // The one member of a record about the user that the user sets personally.
    return names.filter((name) => !changesInside(name) && name !== 'hedgehog_config');
  return isSamePerson(from, to) ? [] : names.filter((name) => PERSON.has(name));
}

/** The elements of two arrays that remain to be compared, or `differ` if the arrays can only be compared as a whole and differ. */
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

/** The own member names of both, sorted by code units: the order of changes does not depend on the order of keys. */
function memberNames(from: JsonObject, to: JsonObject): string[] {
  const names = Object.keys(from);
  for (const name of Object.keys(to)) if (!Object.hasOwn(from, name)) names.push(name);
  return names.sort();
}

// Users embedded in responses (interface.md, User summary) are compared by identity; their other members are ignored.

/** Members that identify a user, the most reliable first. */
const IDENTIFIERS = ['uuid', 'id', 'email', 'distinct_id'] as const;
const PERSON: ReadonlySet<string> = new Set([...IDENTIFIERS, 'first_name', 'last_name']);

/** True for a user summary at a position that is known to hold one: a configured value with a name is not a user. */
export function isUserAt(
  embedding: Embedding | undefined,
  value: JsonValue | undefined,
): value is JsonObject {
  if (embedding?.holds !== 'user' && embedding?.holds !== 'subject') return false;
  if (value === undefined || !isJsonObject(value)) return false;
  const has = (name: string): boolean => (getOwn(value, name) ?? null) !== null;
  return has('uuid') || has('distinct_id') || (has('id') && has('email'));
}

/** True if two summaries are of one person, also after a change of name. */
function isSamePerson(from: JsonObject, to: JsonObject): boolean {
  for (const name of IDENTIFIERS) {
    const [one, other] = [getOwn(from, name) ?? null, getOwn(to, name) ?? null];
    if (one !== null && other !== null) return equalValues(one, other);
  }
  return false;
}

/**
 * A response-only value without volatile members and with users reduced to their identity. Only for testing equality. Values at
 * unknown positions stay as they are.
 */
function steadyValue(value: JsonValue, embedding: Embedding | undefined): JsonValue {
  if (embedding === undefined) return value;
  if (Array.isArray(value)) return value.map((element) => steadyValue(element, embedding.inside.get('*')));
  if (!isJsonObject(value)) return value;
  if (isUserAt(embedding, value)) {
    const name = IDENTIFIERS.find((each) => (getOwn(value, each) ?? null) !== null);
    if (name !== undefined) return { [name]: getOwn(value, name) ?? null };
  }
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    if (embedding.holds === 'record' && changesInside(name)) continue;
    setOwn(kept, name, steadyValue(member, embedding.inside.get(name)));
  }
  return kept;
}
