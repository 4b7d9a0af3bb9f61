/** Which fields of a kind a restore can write, and which values the service would silently drop. */
import { CATALOG, definitionOf } from '../../catalog/catalog.ts';
import type { FieldDefinition } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { isSecretName } from '../../catalog/named-secrets.ts';
import { type ResourceDefinition, changedDefinition } from '../../catalog/resource-definition.ts';
import { volatileFields } from '../../catalog/volatile-names.ts';
import type { SourceConfig } from '../../config/config.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import { type FieldChange, compareBodies } from '../../diff/compare.ts';
import { idText } from '../../diff/match-records.ts';
import { topMember } from '../places.ts';
import type { Plan, PlanInput } from './plan.ts';

export const CLOSED = 'the API does not document which fields are writable';

/** Names of members that the service assigns: ids, keys, timestamps, counts and parents. */
const ASSIGNED =
  /^(?:id|uuid|pk|short_id|organization|project|team|role|user|url|status|errors?|message|.*_(?:id|uuid|at|by|count|token|token_backup|cname)|(?:organization|project|team|role|user)_name)$/;

/** A test for members that are probably settings and that no request sets. */
function isUnsendable(definition: ResourceDefinition): (name: string) => boolean {
  const { family, idPath, restore } = definition;
  // The documented kind of the same component says which members are settings.
  const sibling = CATALOG.find((each) => each.family === family && each.hasDocumentedFields);
  const shown = family === null || sibling === undefined ? null : sibling.fieldsByName;
  const settable = new Set(
    [...writableFields(definition), ...creatableFields(definition)].map(({ name }) => name),
  );
  const volatile = volatileFields(definition);
  const follows = new Set(restore.follows.map(({ field }) => field));
  return (name) => {
    if (settable.has(name) || volatile.has(name) || follows.has(name) || name === idPath[0]) return false;
    return shown === null ? !ASSIGNED.test(name) : shown.get(name)?.isWritable === true;
  };
}

/** The part of `Planning` (`steps.ts`) that is needed here. */
interface Planning {
  readonly input: PlanInput;
  readonly unsendableByKind: Map<Kind, readonly string[]>;
}

/**
 * Members of the desired records of a kind that are probably settings and that no request sets: one list for all records, so that the
 * report needs only one line. Computed once.
 */
function unsendableNames(
  { input, unsendableByKind }: Planning,
  definition: ResourceDefinition,
): readonly string[] {
  const { kind, hasDocumentedFields, restore } = definition;
  if (hasDocumentedFields || restore.derived.length > 0) return [];
  const known = unsendableByKind.get(kind);
  if (known !== undefined) return known;
  const is = isUnsendable(definition);
  const names = new Set<string>();
  for (const { kind: own, body } of input.desired.records) {
    if (own !== kind || !isJsonObject(body)) continue;
    for (const name of Object.keys(body)) if (is(name) && !isEmpty(getOwn(body, name))) names.add(name);
  }
  const found = [...names];
  unsendableByKind.set(kind, found);
  return found;
}

/**
 * The settings of the desired record that live has with another value or not at all, and that no request sets; for a record to be
 * created (`live` undefined) those that are not empty. Only for kinds whose writable fields come from the configuration.
 */
export function unmanagedChanges(
  definition: ResourceDefinition,
  live: JsonValue | undefined,
  desired: JsonValue,
): FieldChange[] {
  // The service may accept more fields than the configuration names.
  const isOpened = definition.isOpenedByHand === true && writableFields(definition).length > 0;
  if (!isOpened || definition.restore.derived.length > 0) return [];
  const is = isUnsendable(definition);
  return compareBodies(definition, live ?? {}, desired, 'default').filter(
    ({ path, to }) => is(topMember(path)) && to !== undefined && (live !== undefined || !isEmpty(to)),
  );
}

/** Why these settings are not restored, and how to allow it. */
export function unmanagedReason(planning: Planning, definition: ResourceDefinition): string {
  const line = allowingLine(definition, unsendableNames(planning, definition));
  return `it is not documented that these can be written, so the service sets them; to allow it, add ${line}`;
}

/** Why a missing record cannot be created, and how to allow it: the fields to configure, its name first. */
export function closedReason(planning: Planning, definition: ResourceDefinition): string {
  const names = new Set([...definition.naturalKey.map(topMember), ...unsendableNames(planning, definition)]);
  return `${CLOSED}; to allow it: ${allowingLine(definition, [...names])}`;
}

/** The same for a live record: of the differing members, those that are probably settings. Members that the service assigns cannot be set. */
export function closedChangeReason(definition: ResourceDefinition, differing: readonly string[]): string {
  const settings = differing.filter(isUnsendable(definition));
  const names = settings.length > 0 ? settings : differing.filter((name) => !ASSIGNED.test(name));
  return names.length === 0 ? CLOSED : `${CLOSED}; to allow it: ${allowingLine(definition, names)}`;
}

/** True for absent, null, or an empty text, list or object. */
export function isEmpty(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return isJsonObject(value) && Object.keys(value).length === 0;
}

/** True for a value that turns a setting on or gives it: not absent, null, false or an empty text. */
export function isSet(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null && value !== false && value !== '';
}

/** Fields that a request may set. Volatile ones are left to the service. */
export function writableFields(definition: ResourceDefinition): readonly FieldDefinition[] {
  return definition.fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile);
}

/** Fields that a creation may set. */
export function creatableFields(definition: ResourceDefinition): readonly FieldDefinition[] {
  return definition.fields.filter(
    ({ isWritable, isCreateOnly, isVolatile }) => (isWritable || isCreateOnly) && !isVolatile,
  );
}

/** The line in the configuration that would make these fields writable. */
function allowingLine(definition: ResourceDefinition, names: readonly string[]): string {
  const derived = definition.restore.derived.map(({ field }) => field);
  const wanted = derived.length > 0 ? derived : names;
  const known = new Set(definition.fields.map(({ name }) => name));
  const fields = wanted.map((name) => {
    const key = /^[A-Za-z_][\w-]*$/.test(name) ? name : JSON.stringify(name);
    return `${key}: { ${known.has(name) ? '' : 'type: any, '}writable: true }`;
  });
  return `definitions: { ${definition.kind}: { fields: { ${fields.join(', ')} } } }`;
}

/** Pointers of references that neither the body nor the path of a creation contains: the service chooses the parent. */
export function unsendableReferences(definition: ResourceDefinition): string[] {
  const creatable = new Set(creatableFields(definition).map(({ name }) => name));
  const { references, restore, scope } = definition;
  return references
    .filter(({ pointer, kind }) => {
      const name = topMember(pointer);
      return (
        !creatable.has(name) &&
        !scope.some((key) => key === name) &&
        !restore.derived.some((each) => each.kind === kind)
      );
    })
    .map(({ pointer }) => pointer);
}

/** Pointers of references that only a creation sets. */
export function createOnlyReferences(definition: ResourceDefinition): string[] {
  const fields = creatableFields(definition).filter(({ isWritable }) => !isWritable);
  const names = new Set(fields.map(({ name }) => name));
  return definition.references.map(({ pointer }) => pointer).filter((each) => names.has(topMember(each)));
}

/**
 * Says that the live record is in another parent than the desired one, as far as no request can set that; null if it is not.
 * @param idNow the live id of a record to which the desired state refers
 */
export function otherPlace(
  definition: ResourceDefinition,
  desired: JsonValue,
  live: JsonValue,
  idNow: (kind: Kind, id: string) => string,
): string | null {
  const unsendable = unsendableReferences(definition);
  const texts = definition.references.flatMap(({ pointer, kind }) => {
    const was = resolvePointer(desired, pointer) ?? null;
    const is = resolvePointer(live, pointer) ?? null;
    if (!unsendable.includes(pointer) || was === null || is === null) return [];
    const { one } = definitionOf(kind).title;
    return idNow(kind, idText(was)) === idText(is)
      ? []
      : [`is in ${one} ${idText(is)}, was in ${one} ${idText(was)}`];
  });
  return texts.join('; ') || null;
}

/** `otherPlace` with the note that the record is therefore not started. */
export function leftStoppedText({ restore: { state } }: ResourceDefinition, place: string): string {
  return state === null ? place : `${place}: left ${state.field}`;
}

/** The definition with only the part of its natural key that a creation sets: all of it, unless the service chooses the parent. */
export function bySendableKey(definition: ResourceDefinition): ResourceDefinition {
  const known = sendable.get(definition);
  if (known !== undefined) return known;
  const unsendable = unsendableReferences(definition);
  const naturalKey = definition.naturalKey.filter((pointer) => !unsendable.includes(pointer));
  const isWhole = naturalKey.length === definition.naturalKey.length;
  const found = isWhole ? definition : changedDefinition(definition, { naturalKey });
  sendable.set(definition, found);
  return found;
}

/** `bySendableKey` is called for every record. */
const sendable = new WeakMap<ResourceDefinition, ResourceDefinition>();

/**
 * Fields that no request accepts although a difference in them matters, according to their severity (such as the address of a
 * component). Not for kinds with manual work, and without what may be a setting (`unmanagedChanges`).
 */
export function serviceFields(definition: ResourceDefinition): readonly FieldDefinition[] {
  const { restore, idPath, scope } = definition;
  if (restore.byPerson.length > 0) return [];
  const silent = definition.isOpenedByHand === true ? isUnsendable(definition) : () => false;
  // A request sends these in another field, so the service does not choose them.
  const said = [...unsendableReferences(definition), ...restore.derived.flatMap(({ from }) => from)];
  const own = new Set<string>([...idPath, ...scope, ...said.map(topMember)]);
  return definition.fields.filter(
    ({ name, isWritable, isCreateOnly, isVolatile, severity }) =>
      !isWritable && !isCreateOnly && !isVolatile && severity !== 'low' && !own.has(name) && !silent(name),
  );
}

/** Keys and tokens in the recorded body that the service replaces when it creates the record again: clients then need the new ones. */
export function assignedKeys(definition: ResourceDefinition, recorded: JsonValue): string[] {
  if (!isJsonObject(recorded)) return [];
  const settable = new Set(creatableFields(definition).map(({ name }) => name));
  const volatile = volatileFields(definition);
  return Object.keys(recorded).filter(
    (name) =>
      ASSIGNED.test(name) &&
      (definition.fieldsByName.get(name)?.isSecret === true || isSecretName(name)) &&
      ![definition.idPath[0], ...settable, ...volatile].includes(name) &&
      !isEmpty(getOwn(recorded, name)),
  );
}

/** Says that no request takes these; null if there are none. */
export function serviceChoice(names: readonly string[]): string | null {
  return names.length === 0 ? null : `no request takes ${names.join(', ')}: the service chooses it`;
}

/** The same for the references to parents; null if there are none. */
export function placeChoice(definition: ResourceDefinition): string | null {
  return serviceChoice(unsendableReferences(definition).map(topMember));
}

/** False if no request changes the name, as for invites: then an equal record with another name is another record. */
export function isRenamable(definition: ResourceDefinition): boolean {
  const { naturalKey, fieldsByName } = definition;
  if (definition.operation('update') === undefined) return false;
  return naturalKey.some((pointer) => fieldsByName.get(topMember(pointer))?.isCreateOnly !== true);
}

/** A line that suggests the profile with more writable fields, if steps are blocked without it. */
export function otherProfile(
  { profile, definitions }: Pick<SourceConfig, 'profile' | 'definitions'>,
  { steps }: Pick<Plan, 'steps'>,
): string[] {
  const closed = new Set(
    definitions.filter((each) => writableFields(each).length === 0).map(({ kind }) => kind),
  );
  const isBlocked = steps.some(({ obstacle, kind }) => obstacle === 'not_writable' && closed.has(kind));
  return profile === 'svc' && isBlocked
    ? [
        '`profile: svc-writable` in this source of the configuration makes the usual fields of roles, projects and components writable; then plan again',
      ]
    : [];
}
