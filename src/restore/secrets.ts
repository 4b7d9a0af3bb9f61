/** Secrets in field values, in the configuration, and in responses (design.md, Restore: Secrets). */
import type { FieldDefinition } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { hasUrlPassword, isMask, MASK, MemberNames, withoutUrlSecrets } from '../catalog/masks.ts';
import { isSecretName } from '../catalog/named-secrets.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SecretRule } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import { pointerTo, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { defined } from '../core/defined.ts';
import {
  type JsonObject,
  type JsonValue,
  isJsonObject,
  isRawNumber,
  setOwn,
  parseLossless,
} from '../core/json.ts';
import { type ParsedRecord, isPointerWithin } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { idText } from '../diff/match-records.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { type Redaction, isRedacted } from '../sync/redaction.ts';
import { placesOf, withMember, memberPointer, placesWhere } from './places.ts';
import type { PlanInput, PlanStep, SecretLookup } from './plan/plan.ts';

/** What a plan shows instead of a secret. */
export const HIDDEN = MASK;

/** Pointers to the secrets in a field's value that are in clear text, and to masks and members with redacted names. */
export function secretsIn(
  field: FieldDefinition,
  value: JsonValue,
): { readonly clear: readonly string[]; readonly masked: readonly string[] } {
  const masked = placesWhere(
    value,
    (here, name) => (typeof here === 'string' && isMask(here)) || (name !== undefined && isRedacted(name)),
  );
  const named = [
    ...(field.isSecret ? [''] : []),
    ...field.secretPointers.flatMap((pointer) => placesOf(value, pointer)),
    ...secretsByName(value),
  ];
  const clear = named.flatMap((pointer) => {
    const secret = resolvePointer(value, pointer);
    if (secret === undefined || secret === null || secret === '' || masked.includes(pointer)) return [];
    if (!masked.some((each) => isPointerWithin(each, pointer))) return [pointer];
    // Not the value as a whole, because that would include the masks.
    return placesWhere(secret, (here) => isRawNumber(here) || typeof here !== 'object')
      .map((below) => pointer + below)
      .filter((each) => !masked.some((mask) => isPointerWithin(each, mask)));
  });
  const isInner = (pointer: string): boolean =>
    clear.some((outer) => outer !== pointer && isPointerWithin(pointer, outer));
  return { clear: [...new Set(clear)].filter((pointer) => !isInner(pointer)), masked };
}

/**
 * Pointers to values that are secrets by name, or by a password in a URL; of nested ones only the outer.
 * @param member the name of an undocumented field
 */
function secretsByName(value: JsonValue, member?: string): string[] {
  return placesWhere(value, (here, name) => isSecretByName(here, name ?? member));
}

/** @param name undefined for a documented top-level field, for which the documentation says whether it is secret */
function isSecretByName(value: JsonValue, name: string | undefined): boolean {
  if (value === null || value === '' || typeof value === 'boolean') return false;
  if (name !== undefined && isSecretName(name)) return true;
  // Fewer than what reports mask: an undo cannot restore what the journal masks.
  return typeof value === 'string'
    ? hasUrlPassword(value)
    : isJsonObject(value) && Object.keys(value).some(hasUrlPassword);
}

/**
 * The secrets that a value needs and lacks, each as alternative pointers, one of which is enough.
 * @param has whether the configuration supplies the secret at a pointer
 */
export function missingSecrets(
  field: FieldDefinition,
  value: JsonValue,
  has: (pointer: string) => boolean,
): (readonly string[])[] {
  if (field.secretPointers.length === 0) return [];
  const isThere = (pointer: string): boolean => {
    if (has(pointer)) return true;
    const held = resolvePointer(value, pointer);
    return held !== undefined && held !== null && held !== '' && !(typeof held === 'string' && isMask(held));
  };
  const groups = neededGroups(field, value);
  // If it is unknown which secrets it needs, one is taken to be enough.
  const needed = groups ?? [field.secretPointers.filter((pointer) => !pointer.includes('*'))];
  return needed.filter((anyOf) => anyOf.length > 0 && !anyOf.some(isThere));
}

/** The secrets that a value of its type needs, each as alternative pointers; undefined if unknown. */
export function neededGroups(
  { secretsNeeded }: FieldDefinition,
  value: JsonValue,
): readonly (readonly string[])[] | undefined {
  if (secretsNeeded === null) return undefined;
  const by = resolvePointer(value, secretsNeeded.by);
  const { byText } = secretsNeeded;
  return typeof by === 'string' && Object.hasOwn(byText, by) ? byText[by] : undefined;
}

/** A body with every clear-text secret masked, and their pointers. */
export function withoutSecrets(
  definition: ResourceDefinition,
  body: JsonObject,
): { readonly body: JsonObject; readonly withheld: readonly string[] } {
  const withheld: string[] = [];
  const shown: JsonObject = {};
  const fields = definition.fieldsByName;
  for (const [name, value] of Object.entries(body)) {
    const field = fields.get(name);
    let hidden: JsonValue = value;
    const clear = field === undefined ? secretsByName(value, name) : secretsIn(field, value).clear;
    for (const pointer of clear) {
      hidden = withMember(hidden, splitPointer(pointer), HIDDEN) ?? HIDDEN;
      withheld.push(memberPointer(name) + pointer);
    }
    setOwn(shown, name, hidden);
  }
  return { body: shown, withheld };
}

/** Changes with every clear-text secret masked; null and empty values stay. */
export function hiddenFields(
  definition: ResourceDefinition,
  fields: readonly FieldChange[],
): readonly FieldChange[] {
  if (fields.length === 0) return fields;
  const places = definition.fields.flatMap((field) => [
    ...(field.isSecret ? [[field.name]] : []),
    ...field.secretPointers.map((pointer) => [field.name, ...splitPointer(pointer)]),
  ]);
  const documented = new Set(definition.fields.map(({ name }) => name));
  return fields.map((change) => {
    const at = splitPointer(change.path);
    const isNamedSo = at.some((name, index) => (index > 0 || !documented.has(name)) && isSecretName(name));
    const shown = (value: JsonValue): JsonValue =>
      isNamedSo && value !== null && value !== '' && typeof value !== 'boolean'
        ? HIDDEN
        : hiddenAt(value, at, places);
    return {
      ...change,
      ...(change.from === undefined ? {} : { from: shown(change.from) }),
      ...(change.to === undefined ? {} : { to: shown(change.to) }),
    };
  });
}

/**
 * The step with passwords masked in texts and in names of members in its paths. A value at such a path is masked too, since no body has
 * that path.
 */
export function withHiddenNames<
  T extends Pick<PlanStep, 'fields' | 'reason' | 'accepted' | 'ignored' | 'kept'>,
>(step: T): T {
  const names = new MemberNames({});
  const shown = (place: string): string => {
    if (!hasUrlPassword(place.replaceAll('~1', '/'))) return place;
    const segments = splitPointer(place);
    return pointerTo(segments.map((name, index) => names.shown(name, pointerTo(segments.slice(0, index)))));
  };
  const places = <P extends { readonly path: string }>(list: readonly P[]): P[] =>
    list.map((each) => ({ ...each, path: shown(each.path) }));
  const fields = step.fields.map((change) => {
    const path = shown(change.path);
    if (path === change.path) return change;
    const { from_path: earlier, place, from, to } = change;
    return {
      ...change,
      path,
      ...(earlier === undefined ? {} : { from_path: shown(earlier) }),
      ...(place === undefined ? {} : { place: shown(place) }),
      ...(from === undefined ? {} : { from: HIDDEN }),
      ...(to === undefined ? {} : { to: HIDDEN }),
    };
  });
  const { accepted, ignored, kept } = step;
  return {
    ...step,
    fields,
    reason: step.reason === null ? null : withoutUrlSecrets(step.reason, HIDDEN),
    ...defined({
      accepted: accepted && places(accepted),
      ignored: ignored && places(ignored),
      kept: kept && places(kept),
    }),
  };
}

function hiddenAt(
  value: JsonValue,
  at: readonly string[],
  places: readonly (readonly string[])[],
): JsonValue {
  if (value === null || value === '') return value;
  const near = places.filter((place) =>
    place.slice(0, at.length).every((part, index) => part === '*' || part === at[index]),
  );
  if (near.some((place) => place.length <= at.length)) return HIDDEN;
  if (typeof value !== 'boolean' && at.slice(1).some(isSecretName)) return HIDDEN;
  if (isSecretByName(value, undefined)) return HIDDEN;
  if (Array.isArray(value)) {
    return value.map((element, index) => hiddenAt(element, [...at, String(index)], near));
  }
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, hiddenAt(member, [...at, name], near)]),
  );
}

/** True for a place in a member whose name the mirror stores as a fingerprint: nothing can supply that name. */
export function isNameRedacted(pointer: string): boolean {
  return splitPointer(pointer).some(isRedacted);
}

// `redact: true`: a configured secret is compared with the recorded one by the fingerprint that the mirror stores instead.

/** For `PlanInput.fingerprint`: the value as the mirror would store it at that pointer. */
export function fingerprintsOf(
  redaction: Redaction,
  definitions: (kind: Kind) => ResourceDefinition,
): NonNullable<PlanInput['fingerprint']> {
  return (kind, pointer, secret) => {
    const body = withMember({}, splitPointer(pointer), secret) ?? {};
    const held = resolvePointer(
      parseLossless(redaction.text(definitions(kind), JSON.stringify(body))),
      pointer,
    );
    return typeof held === 'string' && isRedacted(held) ? held : undefined;
  };
}

/** True if the configured secret does not match the recorded fingerprint. */
export function isOtherThanRecorded(
  { fingerprint, secrets }: PlanInput,
  record: ParsedRecord,
  pointer: string,
): boolean {
  const recorded = resolvePointer(record.body, pointer);
  if (fingerprint === undefined || typeof recorded !== 'string' || !isRedacted(recorded)) return false;
  const given = secrets.find(record, pointer);
  return given !== undefined && fingerprint(record.kind, pointer, given.reveal()) !== recorded;
}

/** True if live has the configured secret, which differs from the recorded one. */
export function isAsConfigured(
  { fingerprint, secrets }: PlanInput,
  record: ParsedRecord,
  { path, from, to }: FieldChange,
): boolean {
  if (fingerprint === undefined || typeof from !== 'string' || typeof to !== 'string') return false;
  if (!isRedacted(from) || !isRedacted(to)) return false;
  const given = secrets.find(record, path);
  return given !== undefined && fingerprint(record.kind, path, given.reveal()) === from;
}

/** The note of a step that sends other secrets than the recorded ones; null if it sends none. */
export function otherSecretsText(pointers: readonly string[]): string | null {
  if (pointers.length === 0) return null;
  return `the secret in the configuration for ${pointers.join(', ')} differs from the recorded one; the configured one is sent`;
}

export function asConfiguredText(paths: readonly string[]): string {
  return `live has the secret of the configuration at ${paths.join(', ')}, which is not the one that was recorded`;
}

export const NO_SECRETS: SecretLookup = { find: () => undefined };

/**
 * The secrets in the configuration. The first rule that matches the record and has the pointer wins, so narrow rules go first. It wins
 * also if its variable or file is missing, because later rules are for other records.
 * @param mappings a rule for one id of a record also holds for the ids before and after it was created again
 */
export function configuredSecrets(
  rules: readonly SecretRule[],
  mappings: readonly IdMapping[] = [],
): SecretLookup {
  const recreated = new RecreatedIds(mappings);
  const byKind = Map.groupBy(rules, (rule) => rule.kind);
  const ruleOf = (record: ParsedRecord, pointer: string, isNamed: boolean): SecretRule | undefined =>
    byKind
      .get(record.kind)
      ?.find(
        ({ match, values, unset = {} }) =>
          (Object.hasOwn(values, pointer) || Object.hasOwn(unset, pointer)) &&
          (!isNamed || Object.keys(match).length > 0) &&
          matches(match, record, recreated),
      );
  return {
    unset: (record, pointer) => ruleOf(record, pointer, false)?.unset?.[pointer],
    find: (record, pointer, isNamed = false) => ruleOf(record, pointer, isNamed)?.values[pointer],
  };
}

function matches(match: SecretRule['match'], record: ParsedRecord, recreated: RecreatedIds): boolean {
  return Object.entries(match).every(([pointer, text]) => {
    const value = resolvePointer(record.body, pointer);
    if (value === undefined) return false;
    const own = idText(value);
    return own === text || (own === record.id && recreated.all(record.kind, own).includes(text));
  });
}

/** Characters that a service or a shortened message may put between the parts of a text: escapes, quotes, line ends. */
const BETWEEN = '[^]{0,8}?';

const BREAKS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s"'\\/]+/u;

/** At the end of a shortened message, this many characters of a secret are taken for its start. */
const LEAST_START = 4;

/** A shorter value also occurs inside ordinary words, such as those of Tidemark's own messages. */
const LEAST_ANYWHERE = 4;

/** Finds a value; a short one only as a separate word. */
function patternOf(value: string): RegExp {
  const parts = value.split(BREAKS).filter((part) => part !== '');
  // A value of only separators is searched as it is.
  const pattern = (parts.length === 0 ? [value] : parts).map(escaped).join(BETWEEN);
  const text = parts.join('');
  if (text.length >= LEAST_ANYWHERE || parts.length === 0) return new RegExp(pattern, 'giu');
  // At the beginning of a text, in quotes or brackets, or after a separator.
  return new RegExp(String.raw`(?<=^|["'=:([{<\x60]|[:=] )${pattern}(?![\p{L}\p{N}])`, 'giu');
}

/** The text with these values masked, also one that is cut off at the end. */
function scrubbed(text: string, values: readonly string[]): string {
  const known = [...new Set(values)].filter((value) => value.trim() !== '');
  const longestFirst = known.sort((a, b) => b.length - a.length);
  let clean = text;
  for (const value of longestFirst) {
    const hidden = patternOf(value);
    // A secret may be a part of the mask itself.
    const pieces = clean.split(HIDDEN);
    clean = pieces.map((piece) => piece.replaceAll(hidden, HIDDEN)).join(HIDDEN);
  }
  return clean.endsWith('…') ? longestFirst.reduce(withoutStart, clean) : clean;
}

function escaped(part: string): string {
  return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

function withoutStart(text: string, value: string): string {
  const body = text.slice(0, -1).trimEnd();
  const line = value.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  for (let length = Math.min(line.length, body.length); length >= LEAST_START; length -= 1) {
    if (body.endsWith(line.slice(0, length).trimEnd())) {
      return `${body.slice(0, body.length - line.slice(0, length).trimEnd().length)}${HIDDEN}…`;
    }
  }
  return text;
}

/** The outcome of a request, with the sent secrets masked in the service's messages. */
export function scrubbedOutcome<T extends { readonly outcome: string; readonly error?: TidemarkError }>(
  outcome: T,
  values: readonly string[],
): T {
  const { error } = outcome;
  if (error === undefined || values.length === 0) return outcome;
  const { hint, isRetryable, status, permission, retryAfterMs, field } = error;
  // Without its cause, which has the message too.
  const clean = new TidemarkError(error.code, scrubbed(error.message, values), {
    isRetryable,
    ...defined({ status, retryAfterMs }),
    ...(hint === undefined ? {} : { hint: scrubbed(hint, values) }),
    ...(permission === undefined ? {} : { permission: scrubbed(permission, values) }),
    ...(field === undefined ? {} : { field: scrubbed(field, values) }),
  });
  return { ...outcome, error: clean };
}

const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi;

/** A message of the service, for logs and stderr, with secret ids masked (the id of an invite is its sign-up link). */
export function withoutSecretIds(text: string, definitions: readonly ResourceDefinition[]): string {
  const isSecret = definitions.some(({ fields, idPath }) =>
    fields.some((field) => field.isSecret && field.name === idPath.at(-1)),
  );
  return isSecret ? text.replaceAll(UUID, HIDDEN) : text;
}
