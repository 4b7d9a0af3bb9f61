/** Steps for records that both states have and that differ. */
import type { FieldDefinition, Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isMask } from '../catalog/masks.ts';
import { withShownFields } from '../catalog/shown-fields.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  setOwn,
  parseLossless,
} from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { type FieldChange, compareBodies } from '../diff/compare.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { isRedacted } from '../sync/redaction.ts';
import { narrowedTo, unaskedChange } from './asked-fields.ts';
import { type Draft, draftKey, type DraftFill } from './draft.ts';
import { managedDigest } from './live-records.ts';
import { personReason } from './person-reason.ts';
import type { PlanInput, Inverse, Obstacle, SecretNeed } from './plan.ts';
import { ownerObstacle, ownUserObstacle } from './protected-records.ts';
import { remapped, type Remapped } from './references.ts';
import { planReplacement } from './removal-steps.ts';
import { type BuiltBody, buildBody } from './request-body.ts';
import {
  asConfiguredText,
  isAsConfigured,
  otherSecretsText,
  hiddenFields,
  withoutSecrets,
} from './secret-values.ts';
import { RENAME_BY_HAND, SAME_BUT_FOR_CASE, type SortedFields, sortFields } from './sorted-fields.ts';
import {
  alternativePath,
  draftOf,
  liveSlots,
  requestFor,
  stopped,
  requiredSteps,
  type Planning,
  needsText,
} from './step-parts.ts';
import {
  closedChangeReason,
  unmanagedChanges,
  unmanagedReason,
  memberPointer,
  topMember,
  writableFields,
} from './unmanaged-settings.ts';

/** Plans one record that both states have; false where there is nothing to do. */
export function planChange(
  planning: Planning,
  definition: ResourceDefinition,
  asDesired: ParsedRecord,
  asLive: ParsedRecord,
): boolean {
  if (definition.references.length === 0 && shareText(asDesired, asLive)) return false;
  const desired = withShown(definition, asDesired);
  const live = withShown(definition, asLive);
  const remap = remapped(definition, desired, planning.references);
  if (remap.body === live.body) return false;
  const isOpen = writableFields(definition).length > 0;
  const { isFieldInScope = () => true, isOwnField = () => true } = planning.input;
  const all = compareBodies(definition, live.body, remap.body, isOpen ? 'managed' : 'default').filter(
    (change) =>
      !isHiddenLive(change, planning) &&
      isFieldInScope(change.path) &&
      isOwnField(asLive, change.path) &&
      (isOpen || !definition.restore.follows.some(({ field }) => field === topMember(change.path))),
  );
  const asConfigured = all.filter((change) => isAsConfigured(planning.input, desired, change));
  const differing = all.filter((change) => !asConfigured.includes(change));
  const untouchedReason = onlySetByActions(planning, definition, differing);
  const changes = untouchedReason === null ? differing : [];
  const persons = definition.restore.byPerson.filter(
    ({ pointer, value }) =>
      isFieldInScope(pointer) &&
      isOwnField(asLive, pointer) &&
      resolvePointer(desired.body, pointer) === value &&
      resolvePointer(live.body, pointer) !== value,
  );
  const unmanaged = unmanagedChanges(definition, live.body, remap.body).filter(
    (change) => !isHiddenLive(change, planning) && isFieldInScope(change.path),
  );
  if (all.length === 0 && persons.length === 0 && unmanaged.length === 0) return false;
  const draft: Draft = {
    ...draftOf(planning, definition, desired, live, draftKey(desired, 'update')),
    fields: hiddenFields(definition, changes),
  };
  const put = (step: Draft): void => void planning.drafts.set(step.key, step);
  if (asConfigured.length > 0) {
    const reason = asConfiguredText(asConfigured.map(({ path }) => path));
    planning.addUntouched(definition.kind, reason, draft.name);
  }
  if (untouchedReason !== null) planning.addUntouched(definition.kind, untouchedReason, draft.name);
  if (unmanaged.length > 0 && ownerObstacle(definition, live) === null) {
    const step = { ...draft, key: draftKey(desired, 'silent'), fields: hiddenFields(definition, unmanaged) };
    put(stopped(step, 'blocked', 'not_writable', unmanagedReason(planning.input, definition)));
  }
  if (changes.length === 0 && persons.length === 0) return true;
  if (changes.length > 0) {
    const other = ownerObstacle(definition, live) ?? ownUserObstacle(planning, definition, live);
    if (other !== null) {
      put(stopped(draft, 'blocked', other.obstacle, other.reason));
      return true;
    }
    if (!isOpen) {
      const names = [...new Set(changes.map(({ path }) => topMember(path)))];
      put(stopped(draft, 'blocked', 'not_writable', closedChangeReason(definition, names)));
      return true;
    }
    if (definition.operation('update') === undefined) {
      planReplacement(planning, definition, desired, live, draft);
      return true;
    }
  }
  const sorted = sortFields(definition, changes, desired, live);
  planSorted(planning, definition, desired, live, { draft, changes, remap, sorted });
  if (sorted.waiting.length > 0 || persons.length > 0) {
    const what = (persons.length > 0 ? persons : definition.restore.byPerson).map((each) =>
      personReason(planning, definition, each, live.body, draft.name),
    );
    const then = sorted.waiting.length === 0 ? '' : `; then restore again: sets ${sorted.waiting.join(', ')}`;
    const step = { ...draft, key: draftKey(desired, 'person'), fields: only(draft.fields, sorted.waiting) };
    put(stopped(step, 'manual', 'needs_person', `${what.join('; ')}${then}`));
  }
  const { byHand, lasting } = sorted.letters;
  if (byHand.length > 0) {
    const step = { ...draft, key: draftKey(desired, 'letters'), fields: only(draft.fields, byHand) };
    put(stopped(step, 'manual', 'needs_person', RENAME_BY_HAND));
  }
  if (lasting.length > 0) planning.addUntouched(definition.kind, SAME_BUT_FOR_CASE, draft.name);
  return true;
}

/**
 * Why no step is planned if only fields differ that actions set (pausing and unpausing set the time of the last pause);
 * null where more differs, or where the user named the field.
 */
function onlySetByActions(
  { input }: Planning,
  { restore: { state } }: ResourceDefinition,
  changes: readonly FieldChange[],
): string | null {
  if (state === null || changes.length === 0 || input.isFieldInScope !== undefined) return null;
  const setByActions = new Set(state.actions.flatMap(({ alsoSets }) => alsoSets));
  const names = [...new Set(changes.map(({ path }) => topMember(path)))];
  if (!names.every((name) => setByActions.has(name))) return null;
  const actions = state.actions.map(({ action }) => action).join(' and ');
  return `${names.join(', ')} is set by ${actions}, and nothing else differs: give --field to write it`;
}

/** The record with values that the response shows elsewhere (`shownAt`) in their own fields, to be compared and sent. */
function withShown(definition: ResourceDefinition, record: ParsedRecord): ParsedRecord {
  if (definition.fields.every(({ shownAt }) => shownAt === undefined)) return record;
  const body = withShownFields(definition, record.body);
  return body === record.body ? record : { ...record, body };
}

/** True where live masks the value, so a difference cannot be known. Two fingerprints can be compared. */
function isHiddenLive({ from, to }: FieldChange, planning: Planning): boolean {
  if (typeof from === 'string' && typeof to === 'string' && isRedacted(from) && isRedacted(to)) return false;
  return typeof from === 'string' && to !== undefined && to !== null && isMask(from, planning.input.masks);
}

interface Changing {
  readonly draft: Draft;
  readonly changes: readonly FieldChange[];
  readonly remap: ReturnType<typeof remapped>;
  readonly sorted: SortedFields;
}

function planSorted(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  { draft, changes, remap, sorted }: Changing,
): void {
  const { input, drafts } = planning;
  const { act } = sorted;
  const resent =
    act?.order === 'before' ? fieldsSetByAction(definition, act.alsoSets, desired, sorted.send) : [];
  const built = separateFields(input, definition, desired, remap, [...sorted.send, ...resent], live.body);
  const slots = liveSlots(definition, live);
  const present = {
    state: 'present',
    id: live.id,
    digest: managedDigest(definition, live.body),
  } as const;
  const actKey = draftKey(desired, act?.action ?? '');
  let isStopped = sorted.blocked.length > 0;
  const blockedPaths = new Set(sorted.blocked.flatMap(({ paths = [] }) => paths));
  for (const { name, obstacle, reason, paths } of sorted.blocked) {
    const fields = only(draft.fields, [name]).filter(({ path }) => paths?.includes(path) !== false);
    const step = { ...draft, key: draftKey(desired, `stuck ${name}`), fields };
    drafts.set(step.key, stopped(step, 'blocked', obstacle, `${name}: ${reason}`));
  }
  for (const { name, needs, obstacle, reason } of built.stopped) {
    isStopped = true;
    const step = {
      ...draft,
      key: draftKey(desired, `stuck ${name}`),
      fields: only(draft.fields, [name]).filter(({ path }) => !blockedPaths.has(path)),
      needs,
    };
    drafts.set(step.key, stopped(step, 'blocked', obstacle, reason));
  }
  const names = Object.keys(built.body);
  if (names.length > 0) {
    const fills = built.fills;
    const first = act?.order === 'before';
    drafts.set(draft.key, {
      ...draft,
      action: 'update',
      fields: only(draft.fields, names).filter(({ path }) => !blockedPaths.has(path)),
      reason: stepReason([
        resent.length === 0 || act === null ? null : resentText(act.action, resent),
        otherSecretsText(built.others),
      ]),
      request: {
        ...requestFor(definition, 'update', slots, built.body, fills),
        alternative: alternativePath(definition, 'update', slots, live.body, []),
      },
      precondition: first ? { state: 'after', step: actKey } : present,
      inverse: inverseOf(definition, changes, live.body, names),
      after: [...requiredSteps(slots, fills), ...(first ? [actKey] : [])],
    });
  }
  if (act === null) return;
  const field = definition.restore.state?.field ?? '';
  const back = definition.restore.state?.actions.find(({ value }) => value !== act.value);
  const isSecond = act.order === 'after' && names.length > 0;
  const step: Draft = {
    ...draft,
    key: actKey,
    action: 'act',
    fields: only(draft.fields, [field]),
    request: requestFor(definition, 'act', slots, {}, [], act.action),
    precondition: isSecond ? { state: 'after', step: draft.key } : present,
    inverse: back === undefined ? null : { action: 'act', act: back.action },
    after: isSecond ? [draft.key] : [],
  };
  // The record may run again only as desired: not while a part of it cannot be restored.
  const reason = `${act.action} waits: a part of the record cannot be put back`;
  drafts.set(
    actKey,
    act.order === 'after' && isStopped ? stopped(step, 'blocked', 'depends_on_blocked', reason) : step,
  );
}

function stepReason(reasons: readonly (string | null)[]): string | null {
  const given = reasons.filter((reason) => reason !== null);
  return given.length === 0 ? null : given.join('; ');
}

/** Why a step sends fields that may be equal now. */
function resentText(action: string, resent: readonly FieldDefinition[]): string {
  return `${action} sets ${resent.map(({ name }) => name).join(', ')} again: put back as desired`;
}

/** Writable fields that the preceding action sets: sent again as desired, though they may be equal now. */
function fieldsSetByAction(
  definition: ResourceDefinition,
  names: readonly string[],
  desired: ParsedRecord,
  sent: readonly FieldDefinition[],
): FieldDefinition[] {
  return writableFields(definition).filter(
    (field) =>
      names.includes(field.name) &&
      !sent.includes(field) &&
      isJsonObject(desired.body) &&
      getOwn(desired.body, field.name) !== undefined,
  );
}

function only(fields: readonly FieldChange[], names: readonly string[]): FieldChange[] {
  return fields.filter(({ path }) => names.includes(topMember(path)));
}

/** The managed fields that a step overwrites, as they are. */
function inverseOf(
  definition: ResourceDefinition,
  changes: readonly FieldChange[],
  live: JsonValue,
  names: readonly string[],
): Inverse {
  const before: JsonObject = {};
  const absent: string[] = [];
  const changed = new Set(changes.map(({ path }) => topMember(path)));
  for (const name of names.filter((each) => changed.has(each))) {
    const value = isJsonObject(live) ? getOwn(live, name) : undefined;
    if (value === undefined) absent.push(memberPointer(name));
    else setOwn(before, name, value);
  }
  return { action: 'update', absent, ...withoutSecrets(definition, before) };
}

// The body of an update, field by field: one that cannot be sent does not block the others.

/** A field that cannot be sent, and why. */
interface StoppedField {
  readonly name: string;
  readonly needs: readonly SecretNeed[];
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/** The body of what can be sent, and what cannot, each with its reason. */
function separateFields(
  input: PlanInput,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  remap: Remapped,
  fields: readonly FieldDefinition[],
  live: JsonValue,
): Pick<BuiltBody, 'body' | 'fills' | 'others'> & { readonly stopped: StoppedField[] } {
  const { isFieldInScope } = input;
  const body: JsonObject = {};
  const fills: DraftFill[] = [];
  const others: string[] = [];
  const stoppedFields: StoppedField[] = [];
  for (const field of fields) {
    const { name } = field;
    const stop = (obstacle: Obstacle, reason: string, needs: readonly SecretNeed[] = []): void =>
      void stoppedFields.push({ name, needs, obstacle, reason });
    const narrowed =
      isFieldInScope === undefined ? remap : narrowedTo(isFieldInScope, definition, field, remap, live);
    if ('reason' in narrowed) {
      stop('no_value', narrowed.reason);
      continue;
    }
    const built = buildBody(input, desired, narrowed, [field], live);
    const unasked =
      isFieldInScope === undefined ? null : unaskedChange(isFieldInScope, field, built, desired.body, live);
    if (unasked !== null) stop('no_value', unasked);
    else if (built.needs.length > 0) stop('secret_missing', needsText(built.needs), built.needs);
    else if (built.unknown.length > 0) {
      const unknown = built.unknown.map(({ pointer, reason }) => `${pointer}: ${reason}`).join('; ');
      stop('reference_unknown', unknown);
    } else {
      for (const each of Object.keys(built.body)) setOwn(body, each, getOwn(built.body, each) ?? null);
      fills.push(...built.fills);
      others.push(...built.others);
    }
  }
  return { body, fills, others, stopped: stoppedFields };
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
