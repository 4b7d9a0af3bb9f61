/** How records are identified: by key and by digest. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { valueDigest } from '../diff/canonical.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { comparedMembers } from '../diff/compare.ts';
import type { RecordKey } from '../catalog/order.ts';

/** A record's key as one text, unique because no id contains the separator. */
export function recordKey({ kind, scope, id }: RecordKey): string {
  return `${kind}\0${scope.organization_id ?? ''}\0${scope.project_id ?? ''}\0${scope.role_id ?? ''}\0${id}`;
}

/** The key of a record that is equal for all kinds of its family. */
export function familyRecordKey({ kind, family }: ResourceDefinition, record: RecordKey): string {
  return family === null ? recordKey(record) : `${family}${recordKey(record).slice(kind.length)}`;
}

/** The record of a step's key. */
export function recordOfKey(key: string): { readonly kind: Kind; readonly id: string } {
  const [kind = '', , , , id = ''] = key.split('\0');
  return { kind: kind as Kind, id };
}

/** `scopeKey` for many records of few collections, cached by scope object, which the records of a state share. */
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

/** Values by scope and id. For a hundred thousand records of one kind: a key text for each would cost more than the look-up. */
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

/** The key of a step: its record and what it does to it. */
export function stepKey(record: RecordKey, what: string): string {
  return `${recordKey(record)}\0${what}`;
}

// Digests by which a plan identifies the records from which it was made.

/**
 * Digest of a live body's managed fields and natural key. Other members change without a change of configuration, or by other steps of
 * the plan (a role lists its members).
 */
export function managedDigest(definition: ResourceDefinition, body: JsonValue): string {
  if (!isJsonObject(body)) return valueDigest(body);
  const members = comparedMembers(definition, body, 'managed');
  return valueDigest([members, naturalKeyValues(definition, body)]);
}

/** Digest of the natural key and the scope as one text; null as in `naturalKeyDigest`. */
export function nameKey(definition: ResourceDefinition, scope: Scope, body: JsonValue): string | null {
  const digest = naturalKeyDigest(definition, body);
  return digest === null ? null : `${scopeKey(scope)} ${digest}`;
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

// Records that are parsed on first use, because most have the same text in both states.

/** A body as received, and its value once it was parsed. The records of both states may share it. */
export interface BodyText {
  readonly text: string;
  value?: JsonValue;
}

type Place = Pick<ParsedRecord, 'kind' | 'scope' | 'id'>;

/** One getter for all records. Defined as an own property of each, so that copies by spreading have it too. */
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

/** A record whose `body` is parsed on first use, which throws as `parseLossless` does. */
export function textRecord(place: Place, bodyText: BodyText): ParsedRecord {
  return new TextRecord(place, bodyText);
}

/** True if both records share one text. False does not mean that the texts differ. */
export function shareText(one: ParsedRecord, other: ParsedRecord): boolean {
  const bodyText = TextRecord.bodyTextOf(one);
  return bodyText !== undefined && bodyText === TextRecord.bodyTextOf(other);
}
