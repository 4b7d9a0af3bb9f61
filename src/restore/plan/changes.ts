/** Steps for records that both states have and that differ. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { isMask } from '../../catalog/masks.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { withShownFields } from '../../catalog/shown-fields.ts';
import { planCommand } from '../../core/hints.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../../core/json.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { type FieldChange, compareBodies, placeOf } from '../../diff/compare.ts';
import { isRedacted } from '../../sync/redaction.ts';
import { memberPointer, topMember } from '../places.ts';
import { stepKey, managedDigest, shareText } from '../records.ts';
import {
  asConfiguredText,
  isAsConfigured,
  otherSecretsText,
  hiddenFields,
  neededGroups,
  secretsIn,
  withoutSecrets,
} from '../secrets.ts';
import { unseenSecrets } from './body.ts';
import { planCreation } from './creations.ts';
import { ownerObstacle, ownUserObstacle } from './guards.ts';
import type { Draft, Inverse } from './plan.ts';
import { outdatedNames, remapped } from './references.ts';
import { planRemoval, removalKey } from './removals.ts';
import {
  closedChangeReason,
  leftStoppedText,
  otherPlace,
  serviceChoice,
  serviceFields,
  unmanagedChanges,
  unmanagedReason,
  createOnlyReferences,
  unsendableReferences,
  writableFields,
} from './settings.ts';
import {
  isDue,
  personReason,
  alternativePath,
  draftOf,
  liveParameters,
  requestFor,
  requiredSteps,
  type Planning,
  manual,
  joinedReasons,
  blocked,
} from './steps.ts';
import {
  askedFields,
  isLetterCaseOfName,
  RENAME_BY_HAND,
  SAME_BUT_FOR_CASE,
  separateFields,
  type SortedFields,
  sortFields,
} from './update-fields.ts';

/** Plans one record that both states have; false if it is unchanged. */
export function planChange(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
): boolean {
  const isPlanned = planDifferences(planning, definition, desired, live);
  const isAgain = isFoundAgain(planning, definition, desired, live);
  const request = planning.drafts.get(stepKey(desired, 'update'))?.request ?? null;
  const leave = (places: readonly string[], reason: (places: string) => string): void => {
    if (places.length === 0) return;
    const name = recordName(definition, desired.body, desired.id);
    planning.addUntouched(definition.kind, reason(places.join(', ')), name);
  };
  if (!isAgain) {
    leave(
      unsentSecrets(planning, definition, desired, live, request),
      (places) =>
        `the secrets at ${places} are not sent, as the service keeps those that it has, and cannot be compared: check them at the service, and enter them by hand where somebody changed them`,
    );
    return isPlanned;
  }
  const filled = new Set(request?.fills.map(({ pointer }) => pointer));
  const unseen = unseenIn(planning, definition, desired, live).flatMap((each) => each.places);
  leave(
    unseen.filter((place) => !filled.has(place)),
    (places) =>
      `${FOUND_AGAIN}: the secrets at ${places} are not sent, as nothing else of the record is, and cannot be compared: check them at the service, and enter them by hand where they are missing`,
  );
  return isPlanned;
}

const FOUND_AGAIN = 'found again under another id';

/** True for a live record that was matched by name or content: which secrets it has is unknown. */
function isFoundAgain(
  { matching }: Planning,
  { kind }: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
): boolean {
  if (desired.id === live.id) return false;
  return matching.adopted.some(
    ({ adoption }) =>
      adoption.kind === kind &&
      adoption.live_id === live.id &&
      adoption.desired_id === desired.id &&
      adoption.by !== 'id_map',
  );
}

/** By field, places of secrets that the configuration has and live does not show. */
function unseenIn(
  { input }: Planning,
  definition: ResourceDefinition,
  record: ParsedRecord,
  { body: live }: ParsedRecord,
): { readonly field: FieldDefinition; readonly places: readonly string[] }[] {
  return writableFields(definition).flatMap((field) => {
    const value = isJsonObject(record.body) ? getOwn(record.body, field.name) : undefined;
    if (value === undefined || field.isCreateOnly || field.secretPointers.length === 0) return [];
    const places = unseenSecrets(input, field, record, value, live);
    return places.length === 0 ? [] : [{ field, places }];
  });
}

/**
 * Places of secrets that live does not show and that the update does not send: in fields that it sends otherwise (the service keeps the
 * secret that it has), and those that `--field` names.
 */
function unsentSecrets(
  { input, drafts }: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  request: Draft['request'],
): string[] {
  if (input.isPractice === true) return [];
  const { isFieldInScope, isOverwrittenSecret = () => false } = input;
  if (request === null && isFieldInScope === undefined) return [];
  const filled = new Set(request?.fills.map(({ pointer }) => pointer));
  return writableFields(definition).flatMap((field) => {
    const top = memberPointer(field.name);
    const sent = getOwn(request?.body ?? {}, field.name);
    if (sent === undefined && isFieldInScope === undefined) return [];
    const value = sent ?? (isJsonObject(desired.body) ? getOwn(desired.body, field.name) : undefined);
    if (value === undefined) return [];
    const isBlocked = (): boolean => drafts.has(stepKey(desired, `stuck ${field.name}`));
    const needed = (neededGroups(field, value) ?? []).flat();
    const masked = sent === undefined ? secretsIn(field, resolvePointer(live.body, top) ?? null).masked : [];
    return [...new Set([...needed, ...masked])].flatMap((pointer) => {
      const place = top + pointer;
      const held = resolvePointer(live.body, place) ?? '';
      const isShown = typeof held !== 'string' || isRedacted(held) || (held !== '' && !isMask(held));
      const isMeant = sent !== undefined || (isFieldInScope?.(place) === true && !isBlocked());
      return isShown || !isMeant || filled.has(place) || isOverwrittenSecret(live, place) ? [] : [place];
    });
  });
}

/** Plans the differences of a record that both states have; false if it is unchanged. */
function planDifferences(
  planning: Planning,
  definition: ResourceDefinition,
  asDesired: ParsedRecord,
  asLive: ParsedRecord,
): boolean {
  if (definition.references.length === 0 && shareText(asDesired, asLive)) return false;
  const live = withShown(definition, asLive);
  const desired = planning.accepted.asAccepted(definition, withShown(definition, asDesired), live);
  const remap = remapped(definition, desired, planning.references, live.body);
  if (remap.body === live.body) return false;
  const isOpen = writableFields(definition).length > 0;
  const { isFieldInScope = () => true, isOwnField = () => true } = planning.input;
  const isCompared = (change: FieldChange): boolean =>
    !isHiddenLive(change) && isFieldInScope(change.path) && isOwnField(asLive, change.path);
  const compared = compareBodies(definition, live.body, remap.body, isOpen ? 'managed' : 'default').filter(
    (change) =>
      isCompared(change) &&
      (isOpen || !definition.restore.follows.some(({ field }) => field === topMember(change.path))),
  );
  if (compared.length > 0 && planning.accepted.leavesRecord(definition, desired, live)) return true;
  const due = definition.restore.byPerson.filter(
    (condition) =>
      isFieldInScope(condition.pointer) &&
      isOwnField(asLive, condition.pointer) &&
      isDue(condition, desired.body, live.body),
  );
  const allUnmanaged = unmanagedChanges(definition, live.body, remap.body).filter(
    (change) => !isHiddenLive(change) && isFieldInScope(change.path),
  );
  const pointers = due.map(({ pointer: path }) => ({ path }));
  const parentPointers = unsendableReferences(definition);
  const fixedPointers = [...parentPointers, ...createOnlyReferences(definition)];
  const referenceChanges =
    fixedPointers.length === 0
      ? []
      : compareBodies(definition, live.body, remap.body, 'default').filter(({ path }) =>
          fixedPointers.includes(path),
        );
  const parentChanges = referenceChanges.filter(({ path }) => parentPointers.includes(path));
  const kept = planning.accepted.leftChanges(definition, { desired, live }, [
    ...compared,
    ...allUnmanaged,
    ...pointers,
    ...referenceChanges,
  ]);
  const all = compared.filter((change) => !kept.has(placeOf(change)));
  const persons = due.filter(({ pointer }) => !kept.has(pointer));
  const unmanaged = allUnmanaged.filter((change) => !kept.has(placeOf(change)));
  const asConfigured = all.filter((change) => isAsConfigured(planning.input, asDesired, change));
  const outdated = outdatedNames(planning.input, planning.references, definition, live.body, desired.scope);
  const place =
    isOpen && parentChanges.some((change) => !kept.has(placeOf(change))) && outdated.length === 0
      ? otherPlace(definition, desired.body, live.body, (kind, id) => {
          const found = planning.references.resolve(kind, id, desired.scope);
          return 'value' in found ? found.value : id;
        })
      : null;
  const { state } = definition.restore;
  // Changes that would start a record in another place: creations leave such a record stopped too.
  const held = all.filter(
    ({ path, to }) => place !== null && state?.field === topMember(path) && to !== state.onCreation,
  );
  const differing = all.filter((change) => !asConfigured.includes(change) && !held.includes(change));
  const untouchedReason = onlySetByActions(planning, definition, differing);
  const changes = untouchedReason === null ? differing : [];
  const chosen = isOpen
    ? unsettable(
        definition,
        live.body,
        remap.body,
        (change) =>
          isCompared(change) &&
          !kept.has(placeOf(change)) &&
          !(place !== null && parentPointers.includes(change.path)),
      )
    : null;
  const name = recordName(definition, desired.body, desired.id);
  const leave = (reason: string | null): void => {
    if (reason !== null) planning.addUntouched(definition.kind, reason, name);
  };
  const dangling =
    outdated.length === 0
      ? []
      : referenceChanges.filter((each) => isCompared(each) && !kept.has(placeOf(each)));
  if (dangling.length === 0) leave(chosen);
  const isMoved = place !== null && (held.length > 0 || parentChanges.some(isCompared));
  if (all.length + persons.length + unmanaged.length + dangling.length === 0 && !isMoved)
    return kept.size > 0;
  const draft: Draft = {
    // The step refers to the record as the state has it: a saved plan is checked against that one.
    ...draftOf(planning, definition, asDesired, live, stepKey(desired, 'update')),
    name,
    fields: hiddenFields(definition, changes),
  };
  /** A separate step for some of the fields. */
  const apart = (what: string, fields: Draft['fields']): Draft => ({
    ...draft,
    key: stepKey(desired, what),
    fields,
  });
  if (dangling.length > 0) {
    const step = apart('place', hiddenFields(definition, dangling));
    const reason = joinedReasons([chosen, ...outdated, copyAdvice(definition, dangling)]) ?? '';
    planning.put(manual(step, 'needs_person', reason));
  }
  if (isMoved) {
    const reason = `${held.length === 0 ? place : leftStoppedText(definition, place)}; no request moves it: create it there by hand, or accept the difference`;
    const step = apart('place', hiddenFields(definition, [...parentChanges, ...held]));
    planning.put(manual(step, 'needs_person', reason));
  }
  if (asConfigured.length > 0) leave(asConfiguredText(asConfigured.map(({ path }) => path)));
  leave(untouchedReason);
  if (unmanaged.length > 0 && ownerObstacle(definition, live) === null) {
    const step = apart('silent', hiddenFields(definition, unmanaged));
    planning.put(blocked(step, 'not_writable', unmanagedReason(planning, definition)));
  }
  if (changes.length === 0 && persons.length === 0) return true;
  if (changes.length > 0) {
    const other = ownerObstacle(definition, live) ?? ownUserObstacle(planning, definition, live);
    if (other !== null) {
      planning.put(blocked(draft, other.obstacle, other.reason));
      return true;
    }
    if (!isOpen) {
      const names = [...new Set(changes.map(({ path }) => topMember(path)))];
      planning.put(blocked(draft, 'not_writable', closedChangeReason(definition, names)));
      return true;
    }
    if (definition.operation('update') === undefined) {
      planReplacement(planning, definition, asDesired, live, { draft, kept });
      return true;
    }
  }
  const sorted = sortFields(definition, changes, desired, live);
  planSorted(planning, definition, desired, live, { draft, changes, remap, sorted, kept, asDesired });
  if (sorted.waiting.length > 0 || persons.length > 0) {
    const reason = personReason(planning, definition, persons, live.body, draft.name, sorted.waiting);
    planning.put(manual(apart('person', only(draft.fields, sorted.waiting)), 'needs_person', reason));
  }
  const { byHand, lasting } = sorted.letters;
  if (byHand.length > 0)
    planning.put(manual(apart('letters', only(draft.fields, byHand)), 'needs_person', RENAME_BY_HAND));
  if (lasting.length > 0) leave(SAME_BUT_FOR_CASE);
  return true;
}

/** Not "delete and create": a request may create it elsewhere, and its secrets are not in the mirror. */
function copyAdvice({ references }: ResourceDefinition, fields: readonly FieldChange[]): string {
  const parents = references.filter(({ pointer }) => fields.some(({ path }) => path === pointer));
  const names = parents.map(({ kind }) => definitionOf(kind).title.one).join(' and ');
  return `create a copy by hand in the ${names} that takes its place, and delete this one only when the copy works; or accept the difference`;
}

/** Says which differing fields that matter no request sets, or only a creation; null if there are none. */
function unsettable(
  definition: ResourceDefinition,
  live: JsonValue,
  desired: JsonValue,
  isCompared: (change: FieldChange) => boolean,
): string | null {
  const names = new Set(serviceFields(definition).map(({ name }) => name));
  // Only the pointer to the id counts: a response may show more of the record to which it refers.
  const unsendable = new Set(unsendableReferences(definition));
  const fixed = createOnlyReferences(definition);
  if (names.size + unsendable.size + fixed.length === 0) return null;
  const paths = compareBodies(definition, live, desired, 'default')
    .filter(isCompared)
    .map(({ path }) => path);
  const chosen = paths.filter((path) => names.has(topMember(path)) || unsendable.has(path));
  return joinedReasons([
    serviceChoice([...new Set(chosen.map(topMember))]),
    ...paths
      .filter((path) => fixed.includes(path))
      .map((path) => `only a creation takes ${topMember(path)}: no request changes it`),
  ]);
}

/**
 * Why no step is planned if only fields differ that actions set (pausing and unpausing set the time of the last pause); null if other
 * fields differ, or the user named the field.
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
  const fields = names.map((name) => `--field /${name}`).join(' ');
  // Also in an undo, which has no such option: the command is a restore.
  return `${names.join(', ')} is set by ${actions}, and nothing else differs: \`tidemark restore REF ${fields}\` writes it`;
}

/** The record with values that responses show elsewhere (`shownAt`) in their own fields, to be compared and sent. */
function withShown(definition: ResourceDefinition, record: ParsedRecord): ParsedRecord {
  if (definition.fields.every(({ shownAt }) => shownAt === undefined)) return record;
  const body = withShownFields(definition, record.body);
  return body === record.body ? record : { ...record, body };
}

/** True if live masks the value, so that a difference does not show. Two fingerprints can be compared. */
function isHiddenLive({ from, to }: FieldChange): boolean {
  if (typeof from === 'string' && typeof to === 'string' && isRedacted(from) && isRedacted(to)) return false;
  return typeof from === 'string' && to !== undefined && to !== null && isMask(from);
}

interface Changing {
  readonly draft: Draft;
  readonly changes: readonly FieldChange[];
  readonly remap: ReturnType<typeof remapped>;
  readonly sorted: SortedFields;
  /** By place, the changes that are left as they are because they were accepted as drift. */
  readonly kept: ReadonlyMap<string, FieldChange>;
  /** The record as the state has it, by which its secrets are looked up. */
  readonly asDesired: ParsedRecord;
}

/** Plans the update and the action of a record, and a blocked step for each field that cannot be restored. */
function planSorted(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  { draft, changes, remap, sorted, kept, asDesired }: Changing,
): void {
  const { input } = planning;
  const { act } = sorted;
  const asked = askedFields(input, kept);
  const isActFirst = act?.order === 'before';
  const resent = isActFirst ? fieldsSetByAction(definition, act.alsoSets, desired, sorted.send) : [];
  const isAgain = isFoundAgain(planning, definition, desired, live);
  const unseen = isAgain && sorted.send.length > 0 ? unseenIn(planning, definition, asDesired, live) : [];
  const withSecrets = unseen
    .map(({ field }) => field)
    .filter(
      (field) =>
        asked === null &&
        !sorted.send.includes(field) &&
        sorted.blocked.every((each) => each.name !== field.name),
    );
  const sent = [...sorted.send, ...resent, ...withSecrets];
  const built = separateFields(input, asked, asDesired, remap, sent, live, isAgain);
  // A field that would be sent only for its secrets is equal otherwise: if it cannot be sent, nothing is left to restore in it.
  const stopped = built.stopped.filter(({ name }) => withSecrets.every((field) => field.name !== name));
  const parameters = liveParameters(definition, live);
  const present = {
    state: 'present',
    id: live.id,
    digest: managedDigest(definition, live.body),
  } as const;
  const actKey = stepKey(desired, act?.action ?? '');
  let isStopped = sorted.blocked.length > 0;
  const blockedPaths = new Set(sorted.blocked.flatMap(({ paths = [] }) => paths));
  for (const { name, obstacle, reason, paths } of sorted.blocked) {
    const fields = only(draft.fields, [name]).filter(({ path }) => paths?.includes(path) !== false);
    const step = { ...draft, key: stepKey(desired, `stuck ${name}`), fields };
    planning.put(blocked(step, obstacle, `${name}: ${reason}`));
  }
  for (const { name, needs, obstacle, reason } of stopped) {
    isStopped = true;
    const step = {
      ...draft,
      key: stepKey(desired, `stuck ${name}`),
      fields: only(draft.fields, [name]).filter(({ path }) => !blockedPaths.has(path)),
      needs,
    };
    planning.put(blocked(step, obstacle, reason));
  }
  // The record must not run again while a part of it cannot be restored.
  const isActBlocked = act?.order === 'after' && isStopped;
  // Fields that the action sets wait with it: sent alone, they would contradict the present state.
  const held = isActBlocked ? act.alsoSets : [];
  const body = Object.fromEntries(Object.entries(built.body).filter(([name]) => !held.includes(name)));
  const names = Object.keys(body);
  if (names.length > 0) {
    const fills = built.fills.filter(({ pointer }) => !held.includes(topMember(pointer)));
    const resentNames = resent.map(({ name }) => name).join(', ');
    planning.put({
      ...draft,
      action: 'update',
      fields: only(draft.fields, names).filter(({ path }) => !blockedPaths.has(path)),
      reason: joinedReasons([
        resent.length === 0 ? null : `${act?.action} sets ${resentNames} again: restored as desired`,
        otherSecretsText(built.others),
        unseenText(
          unseen
            .flatMap(({ places }) => places)
            .filter((place) =>
              fills.some(({ pointer, from }) => from === 'configuration' && pointer === place),
            ),
        ),
      ]),
      request: {
        ...requestFor(definition, 'update', parameters, body, fills),
        alternative: alternativePath(definition, 'update', parameters, live.body, []),
      },
      precondition: isActFirst ? { state: 'after', step: actKey } : present,
      inverse: inverseOf(definition, changes, live.body, names),
      after: [...requiredSteps(parameters, fills), ...(isActFirst ? [actKey] : [])],
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
    fields: only(draft.fields, [field, ...held]),
    request: requestFor(definition, 'act', parameters, {}, [], act.action),
    precondition: isSecond ? { state: 'after', step: draft.key } : present,
    inverse: back === undefined ? null : { action: 'act', act: back.action },
    after: isSecond ? [draft.key] : [],
  };
  const reason = `${act.action} waits: a part of the record cannot be restored`;
  planning.put(isActBlocked ? blocked(step, 'depends_on_blocked', reason) : step);
}

/** The note of a step that sends secrets without knowing whether they differ; null if it sends none. */
function unseenText(places: readonly string[]): string | null {
  if (places.length === 0) return null;
  return `${FOUND_AGAIN}: the secrets at ${places.join(', ')} are sent as configured, since the service does not show what it has`;
}

/** Writable fields that the preceding action sets, and that are therefore sent although they may be equal now. */
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

/** The inverse of an update: the changed managed fields as they are now. */
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

function unchangeable({ title }: ResourceDefinition): string {
  return `${title.many} cannot be changed`;
}

/**
 * Adds the command that replaces the records to steps that are blocked because their kind has no PATCH.
 * @param extraOf how many other records of the kind the command would remove, because the desired state does not have them
 */
export function nameReplacements(planning: Planning, extraOf: (kind: Kind) => number): void {
  const { definitions, desired, live, options } = planning.input;
  if (options.prune !== null || options.keepsAccepted === null) return;
  const stuck = [...planning.drafts.values()].filter(
    ({ kind, reason }) => reason === unchangeable(definitions(kind)),
  );
  for (const [kind, drafts] of Map.groupBy(stuck, (draft) => draft.kind)) {
    const extra = extraOf(kind);
    const command = `${planCommand({ from: desired.reference, to: live.reference })} --kind ${kind} --prune --max-removals ${drafts.length + extra}`;
    const others = extra === 0 ? '' : ', and removes the others that the desired state does not have';
    for (const draft of drafts) {
      const reason = `${draft.reason}; \`${command}\` removes it and creates it again${others}`;
      planning.put({ ...draft, reason });
    }
  }
}

/** For a kind without PATCH: removes the record and creates it again, if `--prune` allows that. */
function planReplacement(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  { draft, kept }: Pick<Changing, 'draft' | 'kept'>,
): void {
  if (isLetterCaseOfName(definition, draft.fields)) {
    planning.addUntouched(definition.kind, SAME_BUT_FOR_CASE, draft.name);
    return;
  }
  const canReplace =
    definition.operation('remove') !== undefined && definition.operation('create') !== undefined;
  if (planning.input.options.prune === null || !canReplace) {
    planning.put(blocked(draft, 'not_replaceable', unchangeable(definition)));
    return;
  }
  if (kept.size > 0) {
    const reason = `${definition.title.many} cannot be changed, and to replace it would set back ${[...kept.keys()].join(', ')}: to allow this, leave out --keep-accepted`;
    planning.put(blocked(draft, 'not_replaceable', reason));
    return;
  }
  const createKey = stepKey(desired, 'create');
  const { replacesNamesake } = definition.restore;
  planCreation(planning, definition, desired, replacesNamesake ? [] : [removalKey(live)]);
  const creation = planning.drafts.get(createKey);
  // Not removed if it could not be created again.
  if (creation?.action === 'create')
    planRemoval(planning, definition, live, replacesNamesake ? [createKey] : []);
}
