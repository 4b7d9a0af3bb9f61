/** The body of a request: the fields to send, the values that are filled in when applying, and what prevents sending. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import { isMask } from '../../catalog/masks.ts';
import { type ResourceDefinition, changedDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../../core/json.ts';
import { type ParsedRecord, isPointerWithin } from '../../diff/change.ts';
import { equalValues } from '../../diff/canonical.ts';
import { type FieldChange, compareBodies, placeOf } from '../../diff/compare.ts';
import { isRedacted } from '../../sync/redaction.ts';
import { withMember, memberPointer, topMember } from '../places.ts';
import {
  isNameRedacted,
  isOtherThanRecorded,
  HIDDEN,
  missingSecrets,
  neededGroups,
  secretsIn,
} from '../secrets.ts';
import type { Fill, SecretNeed, PlanInput } from './plan.ts';
import type { Remapped } from './references.ts';

export interface BuiltBody {
  readonly body: JsonObject;
  readonly fills: readonly Fill<string>[];
  /** Missing secrets. */
  readonly needs: readonly SecretNeed[];
  /** Pointers at which the configured secret differs from the recorded one. */
  readonly others: readonly string[];
  /** References to unknown records. */
  readonly unknown: readonly { readonly pointer: string; readonly reason: string }[];
}

/**
 * The body that sets these fields to their desired values; fields that the desired record lacks are left out.
 * @param live the record that a PATCH changes; null for a creation
 * @param isFoundAgain the live record is not the one whose secrets were recorded, so the configured ones are sent
 */
export function buildBody(
  input: PlanInput,
  record: ParsedRecord,
  remap: Remapped,
  fields: readonly FieldDefinition[],
  live: JsonValue | null,
  isFoundAgain = false,
): BuiltBody {
  const body: JsonObject = {};
  const names = new Set(fields.map(({ name }) => name));
  const isSent = ({ pointer }: { readonly pointer: string }): boolean => names.has(topMember(pointer));
  const fills: Fill<string>[] = remap.fills.filter(isSent);
  const needs: SecretNeed[] = [];
  const others: string[] = [];
  for (const field of fields) {
    const value = isJsonObject(remap.body) ? valueOf(field, remap.body, live) : undefined;
    if (value === undefined) continue;
    const built = withSecrets(input, field, record, value, live, isFoundAgain);
    setOwn(body, field.name, built.value);
    fills.push(...built.fills);
    needs.push(...built.needs);
    for (const { pointer, from } of built.fills)
      if (from === 'configuration' && isOtherThanRecorded(input, record, pointer)) others.push(pointer);
  }
  return { body, fills, needs, others, unknown: remap.unknown.filter(isSent) };
}

/** The field's value; for a creation also from the place where responses show it. */
function valueOf(field: FieldDefinition, body: JsonObject, live: JsonValue | null): JsonValue | undefined {
  const own = getOwn(body, field.name);
  if (own !== undefined || live !== null || field.shownAt === undefined) return own;
  return resolvePointer(body, field.shownAt) ?? undefined;
}

function withSecrets(
  input: PlanInput,
  field: FieldDefinition,
  record: ParsedRecord,
  value: JsonValue,
  live: JsonValue | null,
  isFoundAgain: boolean,
): { value: JsonValue; fills: Fill<string>[]; needs: SecretNeed[] } {
  const top = memberPointer(field.name);
  const given = (pointer: string, isNamed: boolean): boolean =>
    !isNameRedacted(pointer) && input.secrets.find(record, top + pointer, isNamed) !== undefined;
  const has = (pointer: string): boolean => given(pointer, false);
  const keepsStored = live !== null && staysStored(field, value, live);
  const unseen = isFoundAgain && live !== null ? unseenSecrets(input, field, record, value, live) : [];
  const places = secretsIn(field, value);
  const fills: Fill<string>[] = [];
  const needs: SecretNeed[] = [];
  let shown: JsonValue = value;
  const set = (pointer: string, from: 'desired' | 'configuration'): void => {
    shown = withMember(shown, splitPointer(pointer), HIDDEN) ?? HIDDEN;
    fills.push({ pointer: top + pointer, from });
  };
  const drop = (pointer: string): void => {
    shown = withMember(shown, splitPointer(pointer), undefined) ?? null;
  };
  const need = (pointers: readonly string[]): SecretNeed => {
    const unset = pointers
      .map((pointer) => input.secrets.unset?.(record, top + pointer))
      .find((what) => what !== undefined);
    return { ...needOf(value, pointers, top, places.masked), ...(unset === undefined ? {} : { unset }) };
  };
  /** True for a secret that a merging PATCH can omit, because the service keeps it. */
  const isStored = (pointer: string): boolean =>
    keepsStored &&
    !unseen.includes(top + pointer) &&
    (places.masked.includes(pointer)
      ? holdsMaskOf(pointer, value, resolvePointer(live, top + pointer))
      : isJsonObject(resolvePointer(live, top + parentOf(pointer)) ?? null) ||
        !isJsonObject(resolvePointer(value, parentOf(pointer)) ?? null));
  const isMeant = (pointer: string): boolean => {
    const taking = takes(field, value, pointer);
    return taking !== 'no' && given(pointer, taking === 'unknown');
  };
  for (const pointer of places.clear) set(pointer, 'desired');
  const missing = missingSecrets(
    field,
    value,
    (pointer) => isStored(pointer) || (places.masked.includes(pointer) ? has(pointer) : isMeant(pointer)),
  );
  needs.push(...missing.map(need));
  for (const pointer of places.masked) {
    if (isStored(pointer) && isOmittable(value, pointer)) drop(pointer);
    else if (has(pointer)) set(pointer, 'configuration');
    else if (keepsStored || !isNeedKnown(field, value, pointer)) {
      if (!missing.some((anyOf) => anyOf.includes(pointer))) needs.push(need([pointer]));
    }
    // An alternative secret is sent instead. A mask is never sent.
    else drop(pointer);
  }
  for (const pointer of field.secretPointers) {
    if (pointer.includes('*') || resolvePointer(value, pointer) !== undefined || isStored(pointer)) continue;
    if (isMeant(pointer)) set(pointer, 'configuration');
  }
  return { value: shown, fills, needs };
}

/** Pointers to secrets of a field that the configuration has and live does not show. */
export function unseenSecrets(
  input: PlanInput,
  field: FieldDefinition,
  record: ParsedRecord,
  value: JsonValue,
  live: JsonValue,
): string[] {
  const top = memberPointer(field.name);
  return field.secretPointers.flatMap((pointer) => {
    const held = resolvePointer(live, top + pointer) ?? '';
    const isUnseen = held === '' || (typeof held === 'string' && isMask(held));
    // Fingerprints can be compared, so a difference shows.
    if (pointer.includes('*') || !isUnseen || (typeof held === 'string' && isRedacted(held))) return [];
    const taking = takes(field, value, pointer);
    const isGiven =
      taking !== 'no' && input.secrets.find(record, top + pointer, taking === 'unknown') !== undefined;
    return isGiven ? [top + pointer] : [];
  });
}

/** True if live may have the same secret that the desired value masks. */
function holdsMaskOf(pointer: string, value: JsonValue, held: JsonValue | undefined): boolean {
  const wanted = resolvePointer(value, pointer);
  if (isNameRedacted(pointer)) return wanted !== undefined && held !== undefined && equalValues(wanted, held);
  if (typeof wanted !== 'string' || typeof held !== 'string') return false;
  // Fingerprints distinguish secrets, masks do not.
  return isRedacted(wanted) ? held === wanted : isMask(held);
}

function parentOf(pointer: string): string {
  return pointer.slice(0, pointer.lastIndexOf('/'));
}

/** A missing secret, with what is recorded instead. */
function needOf(
  value: JsonValue,
  pointers: readonly string[],
  top: string,
  masked: readonly string[],
): SecretNeed {
  const isHeldBack = pointers.some((pointer) => {
    const held = resolvePointer(value, pointer);
    return isNameRedacted(pointer) || (typeof held === 'string' && isRedacted(held));
  });
  const isMasked = pointers.some((pointer) => masked.includes(pointer));
  const isHidden = pointers.some((pointer) => resolvePointer(value, pointer) === HIDDEN);
  const because = isHeldBack ? 'redacted' : isHidden ? 'hidden' : isMasked ? 'masked' : undefined;
  return {
    any_of: pointers.map((pointer) => top + pointer),
    ...(because === undefined ? {} : { because }),
  };
}

/**
 * Whether the value takes a secret that it does not show. A rule for an entire kind has the secrets of all its types, and the secret of
 * one type must not be sent to the target of another. `unknown`: only a rule for this record may supply it.
 */
function takes(field: FieldDefinition, value: JsonValue, pointer: string): 'yes' | 'no' | 'unknown' {
  const { secretsNeeded } = field;
  if (secretsNeeded === null) return 'yes';
  const groups = neededGroups(field, value);
  if (groups === undefined) return 'unknown';
  const isIn = (each: readonly (readonly string[])[]): boolean =>
    each.some((anyOf) => anyOf.includes(pointer));
  if (isIn(groups)) return 'yes';
  // A secret that no type requires may be optional for any, such as the passphrase of a key.
  return groups.length === 0 || Object.values(secretsNeeded.byText).some(isIn) ? 'no' : 'unknown';
}

/** True if a PATCH of the field keeps omitted members: it merges, and the type that determines the secrets is unchanged. */
export function staysStored(field: FieldDefinition, value: JsonValue, live: JsonValue): boolean {
  if (!field.isMerged || !isJsonObject(live)) return false;
  const stored = getOwn(live, field.name);
  if (stored === undefined || !isJsonObject(stored) || !isJsonObject(value)) return false;
  if (field.secretsNeeded === null) return true;
  const { by } = field.secretsNeeded;
  return equalValues(resolvePointer(value, by) ?? null, resolvePointer(stored, by) ?? null);
}

/** True for a member of an object. An element of an array, or the field itself, cannot be left out. */
function isOmittable(value: JsonValue, pointer: string): boolean {
  const parent = resolvePointer(value, parentOf(pointer));
  return pointer !== '' && isJsonObject(parent ?? null);
}

/** True for a secret for which `missingSecrets` decides whether it is needed. */
function isNeedKnown(field: FieldDefinition, value: JsonValue, pointer: string): boolean {
  const { secretsNeeded } = field;
  if (secretsNeeded === null) return field.secretPointers.includes(pointer);
  const groups = neededGroups(field, value);
  return groups === undefined
    ? field.secretPointers.includes(pointer)
    : groups.some((anyOf) => anyOf.includes(pointer));
}

/** The fields that steps may change, if these are not all. */
export interface AskedFields {
  readonly has: (change: FieldChange) => boolean;
  /** The same for a place in a body that is sent; false also if it may be an element with another index in live. */
  readonly hasPointer: (pointer: string) => boolean;
  /** How to include another one, as an instruction. */
  readonly more: (pointer: string) => string;
}

/**
 * The desired body with one member narrowed to the requested fields: its live value, with the requested places set as desired. The same
 * object if all differences in the member were requested.
 */
export function narrowedTo(
  { has, hasPointer, more }: AskedFields,
  definition: ResourceDefinition,
  field: FieldDefinition,
  remap: Remapped,
  live: JsonValue,
): Remapped | { readonly reason: string } {
  const changesTo = (body: JsonValue): FieldChange[] =>
    compareBodies(changedDefinition(definition, { fields: [field] }), live, body, 'managed');
  const changes = changesTo(remap.body);
  if (changes.every(has)) return remap;
  if (!isJsonObject(remap.body)) return remap;
  const requested = changes.filter(has);
  let value = isJsonObject(live) ? getOwn(live, field.name) : undefined;
  for (const change of requested) {
    const list = listMovedIn(change);
    const at = list ?? change.path;
    const to = list === null ? change.to : resolvePointer(remap.body, list);
    value = withMember(value, splitPointer(at).slice(1), to);
  }
  const body = withMember(remap.body, [field.name], value) ?? {};
  const set = new Map(changesTo(body).map((change) => [placeOf(change), change.to ?? null]));
  const isSet = (change: FieldChange): boolean =>
    equalValues(set.get(placeOf(change)) ?? null, change.to ?? null);
  if (set.size !== requested.length || !requested.every(isSet)) {
    const first = requested.find((change) => listMovedIn(change) !== null);
    const [list, place] = first === undefined ? [null, field.name] : [listMovedIn(first), placeOf(first)];
    return {
      reason: `${place} is in a list with other differences: ${more(list ?? memberPointer(field.name))}`,
    };
  }
  const isKept = ({ pointer }: { readonly pointer: string }): boolean =>
    hasPointer(pointer) || requested.some(({ path }) => isPointerWithin(pointer, path));
  return {
    body,
    fills: remap.fills.filter(isKept),
    unknown: remap.unknown.filter(isKept),
  };
}

/**
 * The outermost list with an element that was added, removed or moved, or whose order differs: applying only this change would shift
 * the neighbours. Null for any other change.
 */
export function listMovedIn({ path, from_path: fromPath, moved, from, to }: FieldChange): string | null {
  const isOneSided = from === undefined || to === undefined;
  if (moved === undefined && fromPath === undefined && !(isOneSided && /\/\d+$/.test(path))) return null;
  return path.replace(/\/\d+(?:\/.*|$)/s, '');
}

/**
 * Why the member cannot be sent without changing fields that were not requested; null if it can. A configured secret may differ from
 * the one that live does not show.
 */
export function unaskedChange(
  { hasPointer: isAsked, more }: AskedFields,
  field: FieldDefinition,
  { fills, needs }: BuiltBody,
  desired: JsonValue,
  live: JsonValue,
): string | null {
  const places = [
    ...needs.flatMap(({ any_of: anyOf }) => (anyOf.some(isAsked) ? [] : anyOf)),
    ...fills.flatMap(({ pointer, from }) => {
      if (from === 'step' || isAsked(pointer)) return [];
      return from === 'desired' && isSame(pointer, desired, live) ? [] : [pointer];
    }),
  ];
  if (places.length === 0) return null;
  const whole = memberPointer(field.name);
  return `PATCH replaces all of ${whole} and would also change ${places.join(', ')}; to allow this, ${more(whole)}`;
}

function isSame(pointer: string, desired: JsonValue, live: JsonValue): boolean {
  const [one, other] = [resolvePointer(desired, pointer), resolvePointer(live, pointer)];
  return one !== undefined && other !== undefined && equalValues(one, other);
}
