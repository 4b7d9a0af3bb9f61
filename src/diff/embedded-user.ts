/** Users as answers embed them (interface.md, User summary): who it is counts, what else they are is their own affair. */
import { movesInside } from '../catalog/own-motion.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { equalValues } from './equal.ts';

/** The surest first. */
const SAYS_WHO = ['uuid', 'id', 'email'] as const;
const PERSON: ReadonlySet<string> = new Set([...SAYS_WHO, 'first_name', 'last_name']);
const ONLY_USERS_HAVE = ['distinct_id', 'first_name', 'is_email_verified', 'hedgehog_config'];

/** True for an object that is a user's summary by its members. */
export function isUserSummary(value: JsonValue | undefined): boolean {
  if (value === undefined || !isJsonObject(value) || !Object.hasOwn(value, 'email')) return false;
  return ONLY_USERS_HAVE.some((name) => Object.hasOwn(value, name));
}

/** True for a member of a summary that says who it is. */
export function saysWho(name: string): boolean {
  return PERSON.has(name);
}

/** True for a member that is the user's own doing even where the record is about the user. */
export function isOwnTaste(name: string): boolean {
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

/** Deeper than any record is: what nests deeper stays as it is. */
const MOST_RECURSION = 64;

/** A response-only value without what moves inside it, and of a user only who it is: for telling equality, never shown. */
export function steadyValue(value: JsonValue, depth = 0): JsonValue {
  if (depth > MOST_RECURSION) return value;
  if (Array.isArray(value)) return value.map((element) => steadyValue(element, depth + 1));
  if (!isJsonObject(value)) return value;
  if (isUserSummary(value)) {
    const name = SAYS_WHO.find((each) => (getOwn(value, each) ?? null) !== null);
    if (name !== undefined) return { [name]: getOwn(value, name) ?? null };
  }
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    if (!movesInside(name)) setOwn(kept, name, steadyValue(member, depth + 1));
  }
  return kept;
}
