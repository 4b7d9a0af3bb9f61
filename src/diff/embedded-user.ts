/** Users as answers embed them (interface.md, User summary): who it is counts, what else they are is their own affair. */
import type { Embedding } from '../catalog/embedded.ts';
import { changesInside } from '../catalog/volatile-names.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { equalValues } from './equal.ts';

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
export function identifiesUser(name: string): boolean {
  return PERSON.has(name);
}

/** True for a member that is the user's own doing even where the record is about the user. */
export function isPersonalPreference(name: string): boolean {
  return name === 'hedgehog_config';
}

/** True where two summaries are of one person: whoever changes their name is still the one who made it. */
export function isSamePerson(from: JsonObject, to: JsonObject): boolean {
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
export function steadyValue(value: JsonValue, embedding: Embedding | undefined): JsonValue {
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
