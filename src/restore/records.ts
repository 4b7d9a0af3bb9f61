/** How records are identified: by key, by digest, by the ids that they got when they were created again. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import { familyKinds } from '../catalog/families.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { valueDigest } from '../diff/canonical.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { comparedMembers } from '../diff/compare.ts';
import type { RecordKey } from '../diff/order.ts';
import type { IdMapping } from '../mirror/restores.ts';

/** A record's key as one text: equal for equal records only, since no id holds the character between the parts. */
export function recordKey({ kind, scope, id }: RecordKey): string {
  return `${kind}\0${scope.organization_id ?? ''}\0${scope.project_id ?? ''}\0${scope.role_id ?? ''}\0${id}`;
}

/** Equal for the records of one family, whichever kind shows them. */
export function familyRecordKey({ kind, family }: ResourceDefinition, record: RecordKey): string {
  return family === null ? recordKey(record) : `${family}${recordKey(record).slice(kind.length)}`;
}

/** The record that a step's key is about. */
export function recordOfKey(place: string): { readonly kind: string; readonly id: string } {
  const [kind = '', , , , id = ''] = place.split('\0');
  return { kind, id };
}

/** `scopeKey` for many records of few collections: those that a state gives share one scope object. */
export function scopeKeys(): (scope: Scope) => string {
  const known = new Map<Scope, string>();
  return (scope) => {
    const held = known.get(scope);
    if (held !== undefined) return held;
    const key = scopeKey(scope);
    known.set(scope, key);
    return key;
  };
}

/** Records of one kind by place, for a hundred thousand of them: a text for each would cost more than the look-up. */
export class PlacesOfKind<T> {
  readonly #byScope = new Map<string, Map<string, T>>();
  readonly #keyOf = scopeKeys();

  set(scope: Scope, id: string, value: T): void {
    const key = this.#keyOf(scope);
    let inScope = this.#byScope.get(key);
    if (inScope === undefined) this.#byScope.set(key, (inScope = new Map<string, T>()));
    inScope.set(id, value);
  }

  get(scope: Scope, id: string): T | undefined {
    return this.#byScope.get(this.#keyOf(scope))?.get(id);
  }
}

/** The key of a step: the record that it is about and what it does to it. */
export function stepKey(record: RecordKey, what: string): string {
  return `${recordKey(record)}\0${what}`;
}

// Digests by which a plan identifies the records that it was made from.

/**
 * Digest of a live body's managed fields and of its natural key: other members change without a configuration change, or
 * by other steps of the plan (a role lists its members).
 */
export function managedDigest(definition: ResourceDefinition, body: JsonValue): string {
  if (!isJsonObject(body)) return valueDigest(body);
  const members = comparedMembers(definition, body, 'managed');
  return valueDigest([members, naturalKeyValues(definition, body)]);
}

/** Digest of a body's natural key, case-insensitive; null if a part of it is missing or the kind has none. */
export function naturalKeyDigest(definition: ResourceDefinition, body: JsonValue): string | null {
  const values = naturalKeyValues(definition, body);
  const isWhole = values.length > 0 && values.every((value) => value !== null && value !== '');
  return isWhole ? valueDigest(values) : null;
}

function naturalKeyValues(definition: ResourceDefinition, body: JsonValue): JsonValue[] {
  return definition.naturalKey.map((pointer) => {
    const value = resolvePointer(body, pointer) ?? null;
    return typeof value === 'string' ? value.toLowerCase() : value;
  });
}

/** For `PlanInput.idMap`. A record that was created again twice has its latest id. */
export function idLookup(mappings: readonly IdMapping[]): (kind: Kind, id: string) => string | undefined {
  const next = new Map<string, string>();
  for (const { kind, oldId, newId } of mappings)
    for (const each of familyKinds(kind)) next.set(`${each} ${oldId}`, newId);
  return (kind, id) => {
    const passed = new Set<string>([id]);
    let at: string | undefined;
    for (let to = next.get(`${kind} ${id}`); to !== undefined && !passed.has(to);) {
      passed.add(to);
      at = to;
      to = next.get(`${kind} ${to}`);
    }
    return at;
  };
}

/** The ids with those that the same records had or got by being created again; the given ones first. */
export function withMappedIds(kind: Kind, ids: readonly string[], mappings: readonly IdMapping[]): string[] {
  return [...connected(kind, ids, links(mappings))];
}

/**
 * For a record, those of the ids that name it: its own, and those that it had or got by being created again. None where it
 * is not meant.
 */
export function idChoice(
  ids: readonly string[],
  mappings: readonly IdMapping[],
): (record: { readonly kind: Kind; readonly id: string }) => readonly string[] {
  const near = links(mappings);
  const asked = new Set(ids);
  return ({ kind, id }) => [...connected(kind, [id], near)].filter((each) => asked.has(each));
}

type Links = ReadonlyMap<string, ReadonlySet<string>>;

function links(mappings: readonly IdMapping[]): Links {
  const near = new Map<string, Set<string>>();
  const link = (one: string, other: string): void =>
    void near.set(one, (near.get(one) ?? new Set()).add(other));
  for (const { kind, oldId, newId } of mappings) {
    for (const each of familyKinds(kind)) {
      link(`${each} ${oldId}`, newId);
      link(`${each} ${newId}`, oldId);
    }
  }
  return near;
}

function connected(kind: Kind, ids: readonly string[], near: Links): ReadonlySet<string> {
  const known = new Set(ids);
  for (const each of known) for (const other of near.get(`${kind} ${each}`) ?? []) known.add(other);
  return known;
}

// Records that are parsed on first use: most records have the same text in both states.

/** A body as received, and its value once it was parsed. A record of each state may share it. */
export interface BodyText {
  readonly text: string;
  value?: JsonValue;
}

type Place = Pick<ParsedRecord, 'kind' | 'scope' | 'id'>;

/** One getter for all records; an own property of each, so that a copy made by spreading has a body too. */
const BODY = {
  enumerable: true,
  get(this: TextRecord): JsonValue {
    return this.parsed();
  },
};

class TextRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  declare readonly body: JsonValue;
  readonly #bodyText: BodyText;

  constructor({ kind, scope, id }: Place, bodyText: BodyText) {
    this.kind = kind;
    this.scope = scope;
    this.id = id;
    this.#bodyText = bodyText;
    Object.defineProperty(this, 'body', BODY);
  }

  parsed(): JsonValue {
    return (this.#bodyText.value ??= parseLossless(this.#bodyText.text));
  }

  static bodyTextOf(record: ParsedRecord): BodyText | undefined {
    return #bodyText in record ? record.#bodyText : undefined;
  }
}

/** `body` throws `malformed`, as `parseLossless` does, on first use. */
export function textRecord(place: Place, bodyText: BodyText): ParsedRecord {
  return new TextRecord(place, bodyText);
}

/** True for records of both states that share one text. False does not mean that the texts differ. */
export function shareText(one: ParsedRecord, other: ParsedRecord): boolean {
  const bodyText = TextRecord.bodyTextOf(one);
  return bodyText !== undefined && bodyText === TextRecord.bodyTextOf(other);
}
