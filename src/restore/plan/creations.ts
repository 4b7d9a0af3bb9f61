/** Steps for desired records that live lacks. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { FieldDefinition, Creation } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { planCommand, shellWord } from '../../core/hints.ts';
import { type JsonObject, getOwn, isJsonObject, setOwn, type JsonValue } from '../../core/json.ts';
import { type ParsedRecord, compareRecords, recordName } from '../../diff/change.ts';
import { equalValues } from '../../diff/canonical.ts';
import { idText } from '../../diff/match-records.ts';
import { memberPointer } from '../places.ts';
import { naturalKeyDigest, stepKey } from '../records.ts';
import { otherSecretsText, hiddenFields } from '../secrets.ts';
import { buildBody } from './body.ts';
import { ownerObstacle } from './guards.ts';
import type { Draft, Fill, Parameter } from './plan.ts';
import { asId, newId, remapped } from './references.ts';
import { removalKey, planRemoval } from './removals.ts';
import {
  assignedKeys,
  closedReason,
  unmanagedChanges,
  unmanagedReason,
  creatableFields,
  isSet,
  placeChoice,
  serviceChoice,
  serviceFields,
  unsendableReferences,
  writableFields,
} from './settings.ts';
import {
  isDue,
  personReason,
  alternativePath,
  draftOf,
  needsText,
  suppliable,
  requestFor,
  requiredSteps,
  type Planning,
  manual,
  joinedReasons,
  blocked,
} from './steps.ts';

/** Plans one missing record. */
export function planCreation(
  planning: Planning,
  definition: ResourceDefinition,
  asDesired: ParsedRecord,
  /** Steps that must come first, e.g. the removal of what it replaces. */
  after: readonly string[] = [],
): void {
  const { restore, kind } = definition;
  const { record: desired, obstacle, unset } = planning.accepted.created(definition, asDesired);
  const { parameters, unknown, shown } = planning.references.scope(desired.scope);
  const key = stepKey(desired, 'create');
  const draft: Draft = {
    // The step refers to the record as the state has it: its secrets are looked up by that one.
    ...draftOf(planning, definition, asDesired, null, key),
    name: recordName(definition, desired.body, desired.id),
    scope: shown,
    fields: hiddenFields(definition, wanted(definition, desired)),
    reason: unset,
    after,
  };
  const replaced = replacedReason(planning, definition, desired);
  if (replaced !== null) {
    planning.addUntouched(kind, replaced, draft.name);
    return;
  }
  if (obstacle !== null) {
    planning.put(blocked(draft, 'no_value', obstacle));
    return;
  }
  const stopped =
    unknown === null
      ? stoppedCreation(planning, definition, desired, draft)
      : blocked(draft, 'reference_unknown', unknown);
  if (stopped !== null) planning.put(stopped);
  else if (restore.creation.by === 'invitation')
    planning.put(invitationStep(planning, definition, desired, draft, restore.creation, parameters));
  else planRequest(planning, definition, { asDesired, desired }, draft, parameters);
}

/** The blocked or manual step if no request of this plan can create the record; null if one can. */
function stoppedCreation(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  draft: Draft,
): Draft | null {
  const { input, matching, references } = planning;
  const { restore, kind, title } = definition;
  const ended = restore.endedWhen.find(
    ({ pointer, value }) => resolvePointer(desired.body, pointer) === value,
  );
  if (ended !== undefined) return manual(draft, 'ended', ended.reason);
  const liveScope = matching.liveScope(desired.scope);
  const doubt = liveScope === null ? null : references.absenceDoubt(kind, liveScope);
  if (doubt !== null)
    return blocked(draft, 'collection_not_read', `${doubt}, so it is not known to be missing`);
  const other = ownerObstacle(definition, desired);
  if (other !== null) return blocked(draft, other.obstacle, other.reason);
  if (restore.creation.by === 'invitation') return null;
  if (restore.creation.by === 'consent' && !input.options.createOrganizations) {
    const reason = `the service has no such ${title.one}; --create-organizations creates it again`;
    return blocked(draft, 'consent', reason);
  }
  return writableFields(definition).length === 0
    ? blocked(draft, 'not_writable', closedReason(planning, definition))
    : null;
}

function wanted(definition: ResourceDefinition, desired: ParsedRecord): Draft['fields'] {
  const mode = writableFields(definition).length === 0 ? 'default' : 'managed';
  return compareRecords(definition, undefined, desired, mode)?.fields ?? [];
}

/** Why the record need not be restored, because another one replaces it; null if none does. */
function replacedReason(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
): string | null {
  const { replacedBy } = definition.restore;
  const liveScope = planning.matching.liveScope(desired.scope);
  if (replacedBy === null || liveScope === null) return null;
  const value = textAt(desired.body, replacedBy.pointer);
  const others = planning.matching.kinds.get(replacedBy.kind)?.live ?? [];
  const isThere = others.some(
    (other) =>
      other.scope.organization_id === liveScope.organization_id &&
      textAt(other.body, replacedBy.target) === value,
  );
  return value !== '' && isThere ? replacedBy.reason : null;
}

/**
 * Plans the request that creates a record, and the steps that follow it.
 * @param asDesired the record as the state has it, by which its secrets are looked up; `desired`: as it is to be created
 */
function planRequest(
  planning: Planning,
  definition: ResourceDefinition,
  { asDesired, desired }: { readonly asDesired: ParsedRecord; readonly desired: ParsedRecord },
  draft: Draft,
  parameters: readonly Parameter<string>[],
): void {
  const { input, references } = planning;
  const remap = remapped(definition, desired, references);
  const later = creatableFields(definition).filter((field) => field.requires !== null);
  const sent = creatableFields(definition).filter((field) => field.requires === null);
  const built = buildBody(input, asDesired, remap, sent, null);
  const [body, fills] = [built.body, [...built.fills]];
  const unknown = [...built.unknown, ...addDerived(planning, definition, desired, body, fills)];
  for (const { field, option } of definition.restore.requestValues)
    setOwn(body, field, input.options[option]);
  const state = addState(definition, body);
  if (built.needs.length > 0) {
    const step = blocked(draft, 'secret_missing', needsText(built.needs));
    planning.put({ ...step, needs: suppliable(built.needs) });
    return;
  }
  if (unknown.length > 0) {
    const reason = unknown.map(({ pointer, reason: why }) => `${pointer}: ${why}`).join('; ');
    planning.put(blocked(draft, 'reference_unknown', reason));
    return;
  }
  const needs = requiredSteps(parameters, fills);
  const acceptance = awaitedAcceptance(planning, needs);
  if (acceptance !== null) {
    const { isOpen, reason } = acceptance;
    planning.put(
      isOpen ? manual(draft, 'needs_person', reason) : blocked(draft, 'depends_on_blocked', reason),
    );
    return;
  }
  // No client uses the keys of a sandbox.
  const assigned = input.isPractice === true ? [] : assignedKeys(definition, desired.body);
  const switches = switchedOn(definition, desired);
  planning.put({
    ...draft,
    action: 'create',
    request: {
      ...requestFor(definition, 'create', parameters, body, fills),
      alternative: alternativePath(definition, 'create', parameters, body, fills),
    },
    reason: joinedReasons([
      draft.reason,
      otherSecretsText(built.others),
      leftToService(definition, desired, [...assigned, ...switches]),
    ]),
    ...(assigned.length === 0 ? {} : { assigned }),
    precondition: { state: 'absent', digest: naturalKeyDigest(definition, remap.body) },
    inverse: { action: 'remove' },
    after: [...draft.after, ...needs],
  });
  planUnsendable(planning, definition, desired, draft);
  planSwitches(planning, switches, desired, draft);
  if (state !== null) planFollowingAct(planning, definition, desired, draft, parameters, state);
  planPersonAfter(planning, definition, desired, draft, later);
}

/**
 * Says that the service chooses the parent and other fields that matter, because no request sets them; null if there are none.
 * @param named keys and switches, which are reported separately
 */
function leftToService(
  definition: ResourceDefinition,
  desired: ParsedRecord,
  named: readonly string[],
): string | null {
  const hasValue = (pointer: string): boolean => (resolvePointer(desired.body, pointer) ?? null) !== null;
  const names = serviceFields(definition).flatMap(({ name }) =>
    hasValue(memberPointer(name)) && !named.includes(name) ? [name] : [],
  );
  return joinedReasons([
    unsendableReferences(definition).some(hasValue) ? placeChoice(definition) : null,
    serviceChoice(names),
  ]);
}

/** Adds values to the body that the desired record has elsewhere; returns those that are unknown. */
function addDerived(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  body: JsonObject,
  fills: Fill<string>[],
): { pointer: string; reason: string }[] {
  const unknown: { pointer: string; reason: string }[] = [];
  const creatable = new Set(creatableFields(definition).map(({ name }) => name));
  for (const { field, from, kind } of definition.restore.derived) {
    if (!creatable.has(field)) continue;
    const pointer = memberPointer(field);
    const value = from
      .map((each) => resolvePointer(desired.body, each))
      .find((each) => typeof each === 'string');
    if (value === undefined) {
      unknown.push({ pointer, reason: `the desired record does not hold it at ${from.join(' or ')}` });
      continue;
    }
    // The body may have it already, as a reference: that gives the same id.
    const id = idText(value);
    const found = planning.references.resolve(kind, id, desired.scope);
    if ('unknown' in found) unknown.push({ pointer, reason: found.unknown });
    else if ('value' in found) setOwn(body, field, asId(found.value, value));
    else if (!fills.some((fill) => fill.pointer === pointer)) {
      setOwn(body, field, newId(kind, id));
      fills.push({ pointer, from: 'step', step: found.step, as: 'text' });
    }
  }
  return unknown;
}

/** Sets the state in which a new record starts; returns the action that leads to the desired state, if that is another one. */
function addState(definition: ResourceDefinition, body: JsonObject): string | null {
  const { state } = definition.restore;
  if (state === null) return null;
  const desired = getOwn(body, state.field);
  const action = state.actions.find(({ value }) => value === desired);
  if (action === undefined) return null;
  setOwn(body, state.field, state.onCreation);
  return action.value === state.onCreation ? null : action.action;
}

function planFollowingAct(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  created: Draft,
  parameters: readonly Parameter<string>[],
  act: string,
): void {
  const key = stepKey(desired, act);
  const field = definition.restore.state?.field ?? '';
  const before = definition.restore.state?.onCreation ?? null;
  const withId = [...parameters, { name: definition.idParameter, step: created.key }];
  planning.put({
    ...created,
    key,
    action: 'act',
    fields: [
      { path: memberPointer(field), from: before, to: getOwn(desired.body as JsonObject, field) ?? null },
    ],
    request: requestFor(definition, 'act', withId, {}, [], act),
    precondition: { state: 'after', step: created.key },
    inverse: null,
    after: [created.key],
  });
}

/** A separate step for members that no request sets, so that the creation is verified without them. */
function planUnsendable(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  created: Draft,
): void {
  const silent = unmanagedChanges(definition, undefined, desired.body);
  if (silent.length === 0) return;
  const key = stepKey(desired, 'silent');
  planning.put({
    ...blocked({ ...created, key }, 'not_writable', unmanagedReason(planning, definition)),
    fields: hiddenFields(definition, silent),
    after: [created.key],
  });
}

/**
 * A separate manual step for switches of high severity that were on and that no request sets, such as that a project is private: until
 * somebody turns it on, the new record may be open.
 */
function planSwitches(
  planning: Planning,
  names: readonly string[],
  desired: ParsedRecord,
  created: Draft,
): void {
  if (names.length === 0) return;
  const reason = `turn on ${names.join(', ')} in the service, where it is off: it was on, and no request takes it`;
  planning.put({
    ...manual({ ...created, key: stepKey(desired, 'switches') }, 'needs_person', reason),
    fields: names.map((name) => ({ path: memberPointer(name), to: true })),
    after: [created.key],
  });
}

/** Switches of high severity that were on and that no request sets. */
function switchedOn(definition: ResourceDefinition, { body }: ParsedRecord): string[] {
  return serviceFields(definition).flatMap(({ name, type, severity }) =>
    type === 'boolean' &&
    ['high', 'critical'].includes(severity) &&
    isJsonObject(body) &&
    getOwn(body, name) === true
      ? [name]
      : [],
  );
}

/** A separate step for what only a person can do once the record exists, and for the fields that wait for it. */
function planPersonAfter(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  created: Draft,
  later: readonly FieldDefinition[],
): void {
  const waiting = later.filter(({ name }) => isJsonObject(desired.body) && isSet(getOwn(desired.body, name)));
  const due = definition.restore.byPerson.filter((condition) => isDue(condition, desired.body, null));
  if (waiting.length === 0 && due.length === 0) return;
  const names = waiting.map(({ name }) => name);
  const reason = personReason(planning, definition, due, null, created.name, names);
  const key = stepKey(desired, 'person');
  planning.put({
    ...manual({ ...created, key }, 'needs_person', reason),
    fields: created.fields.filter(({ path }) => names.some((name) => path === memberPointer(name))),
    after: [created.key],
  });
}

/**
 * How an invited member comes back, and what the invite does not bring back: it has only the level, and records that refer to the member
 * can be restored only after the invite is accepted. If the removal of the member is held, those may have been removed before: they are
 * in the last run that saw the member.
 */
function comesBack({ input }: Planning, { kind, title }: ResourceDefinition, desired: ParsedRecord): string {
  const text = 'invited: comes back when the invite is accepted';
  // After an undo, or in a sandbox, there is no second restore.
  if (input.options.inviteMissing === null || input.isPractice === true) return text;
  const waiting = CATALOG.filter(({ references }) => references.some((each) => each.kind === kind));
  const closed = waiting.every((each) => writableFields(input.definitions(each.kind)).length === 0);
  const names = waiting.map((each) => each.title.many).join(' and ');
  const rest = `records of ${title.many} do not hold access to single projects: give that by hand`;
  if (closed)
    return `${text}, without ${names}: after that, give them by hand, or configure a profile that can write them; ${rest}`;
  const { reference } = input.desired;
  const run = input.lastSeen?.(desired);
  const from = run === undefined ? reference : { ref: reference.ref, run };
  const command = planCommand({ from, to: input.live.reference });
  const kinds = waiting.map((each) => ` --kind ${each.kind}`).join('');
  return `${text}, without ${names}: after that, \`${command}${kinds}\` brings them back; ${rest}`;
}

/** The text at a pointer in lower case; empty if there is none. */
function textAt(body: JsonValue, pointer: string): string {
  const value = resolvePointer(body, pointer);
  return typeof value === 'string' ? value.toLowerCase() : '';
}

/** A test for live invites of missing members: accepting one brings the member back, whoever sent it. */
export function awaitedInvitations({ matching }: Planning): (live: ParsedRecord) => boolean {
  const fields = new Map<Kind, string>();
  const awaited = new Set<string>();
  const keyOf = (kind: Kind, organization: string | undefined, address: string): string =>
    JSON.stringify([kind, organization, address]);
  for (const { definition, missing } of matching.kinds.values()) {
    const { creation } = definition.restore;
    if (creation.by !== 'invitation') continue;
    const [address] = Object.entries(creation.fields);
    if (address === undefined) continue;
    fields.set(creation.kind, memberPointer(address[0]));
    for (const { scope, body } of missing) {
      const invited = textAt(body, address[1]);
      const organization = matching.liveScope(scope)?.organization_id;
      if (invited !== '') awaited.add(keyOf(creation.kind, organization, invited));
    }
  }
  return ({ kind, scope, body }) => {
    const pointer = fields.get(kind);
    return pointer !== undefined && awaited.has(keyOf(kind, scope.organization_id, textAt(body, pointer)));
  };
}

/** The invitation for a missing record that only comes back by one. */
interface Invited {
  /** The body of the request. */
  readonly body: JsonObject;
  /** The address; empty if the desired record has none. */
  readonly to: string;
  /** The live invitation to that address. */
  readonly open: ParsedRecord | undefined;
  /** True if the open one is as desired: it only has to be accepted. */
  readonly isSame: boolean;
}

function invitedAs(
  { matching }: Planning,
  desired: ParsedRecord,
  { kind, fields }: Extract<Creation<Kind>, { by: 'invitation' }>,
): Invited {
  const body: JsonObject = {};
  for (const [field, pointer] of Object.entries(fields)) {
    const value = resolvePointer(desired.body, pointer);
    if (value !== undefined && value !== null) setOwn(body, field, value);
  }
  const address = Object.keys(fields)[0] ?? '';
  const to = textAt(body, memberPointer(address));
  const organization = matching.liveScope(desired.scope)?.organization_id;
  // The service removes an expired one, so it cannot be accepted any more.
  const open = (matching.kinds.get(kind)?.live ?? []).find(
    (other) =>
      to !== '' &&
      other.scope.organization_id === organization &&
      resolvePointer(other.body, '/is_expired') !== true &&
      textAt(other.body, memberPointer(address)) === to,
  );
  const isSame =
    open !== undefined &&
    Object.entries(body).every(
      ([field, value]) =>
        field === address || equalValues(resolvePointer(open.body, memberPointer(field)) ?? null, value),
    );
  return { body, to, open, isSame };
}

/**
 * Why a step has to wait if it needs a missing member, who only comes back by accepting an invite, with an id that is not known yet. Null
 * if it needs none. `isOpen`: the invite was sent and has to be accepted.
 * @param needs keys of the steps that would create the records to which it refers
 */
function awaitedAcceptance(
  planning: Planning,
  needs: readonly string[],
): { readonly reason: string; readonly isOpen: boolean } | null {
  if (needs.length === 0) return null;
  for (const { definition, missing } of planning.matching.kinds.values()) {
    const { creation } = definition.restore;
    if (creation.by !== 'invitation') continue;
    const needed = missing.find((record) => needs.includes(stepKey(record, 'create')));
    if (needed === undefined) continue;
    const { one } = definition.title;
    return invitedAs(planning, needed, creation).isSame
      ? { isOpen: true, reason: `its ${one} is invited: restore again when the invite is accepted` }
      : { isOpen: false, reason: `its ${one} is missing: restore again when it exists` };
  }
  return null;
}

/** The step that invites; manual or blocked if an invitation is open already, or none may be sent. Plans the removal of a replaced one. */
function invitationStep(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  created: Draft,
  creation: Extract<Creation<Kind>, { by: 'invitation' }>,
  parameters: readonly Parameter<string>[],
): Draft {
  const { input, matching } = planning;
  const invitation = input.definitions(creation.kind);
  const { body, to, open, isSame } = invitedAs(planning, desired, creation);
  // Not the key `create`: steps that need the member must not wait for this one, since an invitation gives no member id.
  const draft: Draft = { ...created, key: stepKey(desired, 'invite') };
  // If it is as desired, there is nothing to send, but the invited person has to accept.
  if (isSame)
    return manual({ ...draft, fields: [] }, 'needs_person', comesBack(planning, definition, desired));
  const { inviteMissing } = input.options;
  if (inviteMissing !== true || to === '') {
    const way = inviteMissing === null ? '' : '; --invite-missing sends the invite';
    return manual(draft, 'not_creatable', `${creation.reason}${way}`);
  }
  const liveScope = matching.liveScope(desired.scope);
  const doubt = liveScope === null ? null : planning.references.absenceDoubt(creation.kind, liveScope);
  if (doubt !== null) {
    const reason = `${doubt}, so whether an ${invitation.title.one} is open is not known`;
    return blocked(draft, 'collection_not_read', reason);
  }
  if (open !== undefined && input.options.prune === null) {
    // With --id, because --prune for the entire kind would remove everything else that came since.
    const command = `${planCommand({ from: input.desired.reference, to: input.live.reference })} --kind ${desired.kind} --id ${shellWord(desired.id)} --invite-missing --prune --max-removals 1`;
    const reason = `another ${invitation.title.one} to that address is open, and would be replaced: only with --prune and --max-removals, as in \`${command}\``;
    return blocked(draft, 'not_replaceable', reason);
  }
  if (open !== undefined && planning.accepted.keepsRecord(null, open)) {
    const reason = `another ${invitation.title.one} to that address is open, stays as it is, and would be replaced: to allow this, leave out --keep-accepted`;
    return blocked(draft, 'not_replaceable', reason);
  }
  // The service would remove the older one silently: a step makes that visible and counts it.
  const { replacesNamesake } = invitation.restore;
  if (open !== undefined) planRemoval(planning, invitation, open, replacesNamesake ? [draft.key] : []);
  for (const { field, option } of invitation.restore.requestValues)
    setOwn(body, field, input.options[option]);
  return {
    ...draft,
    action: 'create',
    request: requestFor(invitation, 'create', parameters, body, []),
    reason: joinedReasons([draft.reason, comesBack(planning, definition, desired)]),
    precondition: { state: 'absent', digest: naturalKeyDigest(definition, desired.body) },
    inverse: { action: 'remove' },
    after: [
      ...draft.after,
      ...requiredSteps(parameters, []),
      ...(open === undefined || replacesNamesake ? [] : [removalKey(open)]),
    ],
  };
}
