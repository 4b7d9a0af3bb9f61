/**
 * Reads the live record before a write, and after a write whose response was lost (design.md, Never broken 5 and 6).
 */
import { scopeKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import { SCOPE_KIND, scopeKeyNaming } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { TidemarkError } from '../../core/errors.ts';
import { pointerTo, resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import { equalValues } from '../../diff/canonical.ts';
import { recordName } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { idText } from '../../diff/match-records.ts';
import { textsWhere, topMember, withMember } from '../places.ts';
import { dependentKinds } from '../plan/dependents.ts';
import type { PlanStep } from '../plan/plan.ts';
import { asId } from '../plan/references.ts';
import { bySendableKey } from '../plan/settings.ts';
import { managedDigest, naturalKeyDigest } from '../records.ts';
import { HIDDEN, hiddenFields } from '../secrets.ts';
import { holdsContent, differencesFrom } from './differences.ts';
import { isRetrieved } from './live-records.ts';
import { type ReadyStep, type LookUpContext, isTaken, keyOfStep, claim, logStep } from './ready-step.ts';
import type { StepError } from './report.ts';

const MOVED_HINT = 'look at what changed with `tidemark diff latest live`, then make a new plan';

/**
 * Why the step must not be sent; null where it may.
 * @throws TidemarkError when that cannot be found out
 */
export async function failedPrecondition(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<StepError | null> {
  const { step, definition } = ready;
  const { precondition } = step;
  if (precondition === null) return null;
  if (precondition.state === 'absent') {
    return (
      (await returned(context, ready)) ??
      (await matchOf(context, ready)) ??
      (await unlistedNamesake(context, ready))
    );
  }
  const id = ready.id ?? step.id;
  const body = await context.live.read(definition, ready.scope, id, false, context.signal);
  if (body === undefined) return movedError(`the ${definition.title.one} is gone`);
  const digest = plannedDigest(context, step);
  if (digest === null || managedDigest(definition, body) === digest) {
    return ready.request.role === 'remove' ? await unplannedChildren(context, ready, id) : null;
  }
  const names = fieldsChangedSincePlan(step, body);
  return movedError(
    `the ${definition.title.one} is no longer as planned${names.length === 0 ? '' : `: ${names.join(', ')} changed`}`,
  );
}

/** True for a step whose check is one request: it may share its concurrency slot with the write. */
export function checkIsOneRequest({ step, request, definition }: ReadyStep): boolean {
  const isChange = request.role === 'update' || request.role === 'act';
  return isChange && step.precondition?.state !== 'absent' && isRetrieved(definition);
}

/** What the record must look like before the step; null where that is not known. */
export function plannedDigest(context: LookUpContext, { precondition }: PlanStep): string | null {
  if (precondition?.state === 'present') return precondition.digest;
  return precondition?.state === 'after' ? context.journal.row(precondition.step).digest : null;
}

/** The fields that the step would change and that are not as they were planned against. */
function fieldsChangedSincePlan({ fields }: PlanStep, body: JsonValue): string[] {
  const names = fields
    .filter(({ path, from_path, from }) => {
      const now = resolvePointer(body, from_path ?? path);
      if (from !== undefined && textsWhere(from, (text) => text === HIDDEN).length > 0) return false;
      return from === undefined || now === undefined ? from !== now : !equalValues(from, now);
    })
    .map(({ path }) => topMember(path));
  return [...new Set(names)];
}

/**
 * The record by id, if its kind has GET by id: a list that omitted the record must not lead to a duplicate. Below a
 * parent with a new id, the old id is unused or belongs to another record.
 */
async function returned(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, definition, scope } = ready;
  const { desired, kind } = step;
  if (desired === null || kind !== ready.request.kind) return null;
  if (definition.operation('retrieve') === undefined) return null;
  const now = context.idMap(kind, desired.id);
  const ids = scopeKey(desired.scope) === scopeKey(scope) ? [desired.id] : [];
  for (const id of now === undefined || now === desired.id ? ids : [...ids, now]) {
    if (context.replaced.has(`${kind} ${id}`)) continue;
    const body = await context.live.read(definition, scope, id, true, context.signal);
    if (body !== undefined)
      return movedError(`the ${definition.title.one} is there after all${idSuffix(definition, id)}`);
  }
  return null;
}

/** A record of the same name created meanwhile by hand: the next plan adopts it, this one must not duplicate it. */
async function matchOf(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope } = ready;
  const definition = context.definitions(step.kind);
  const key = step.kind === ready.request.kind ? keyOfStep(ready) : absentKey(step);
  if (key === null) return await matchByContent(context, ready);
  const ids = await context.live.idsOf(definition, scope, key, false, context.signal);
  if (ids === null) return withoutParentError(context, ready);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  return counterpart === undefined
    ? null
    : movedError(
        `there is a ${definition.title.one} of that name already${idSuffix(definition, counterpart)}`,
      );
}

/** A record of the same natural key that the list does not show, and the mirror's newest run did: retrieved by its id. */
async function unlistedNamesake(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope, sent, request } = ready;
  const definition = bySendableKey(ready.definition);
  const key = sent === null ? null : naturalKeyDigest(definition, sent);
  if (key === null || step.kind !== request.kind || !isRetrieved(definition)) return null;
  const known = context
    .namesakes(definition, scope, key)
    .filter((id) => id !== step.desired?.id && !isTaken(context, ready, id));
  if (known.length === 0) return null;
  const listed = new Set(await context.live.idsOf(ready.definition, scope, null, false, context.signal));
  for (const id of known) {
    if (listed.has(id)) continue;
    const body = await context.live.read(ready.definition, scope, id, true, context.signal);
    if (body === undefined || naturalKeyDigest(definition, body) !== key) continue;
    return movedError(
      `there is a ${definition.title.one} of that name already, which the list does not show${idSuffix(definition, id)}`,
    );
  }
  return null;
}

/** What has no name is recognized by its content. */
async function matchByContent(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope, definition, sent, request } = ready;
  if (step.kind !== request.kind) return null;
  const isSame = (body: JsonValue): boolean => holdsContent(definition, step, sent, body);
  const ids = await context.live.idsWhere(definition, scope, isSame, context.signal);
  if (ids === null) return withoutParentError(context, ready);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  return counterpart === undefined
    ? null
    : movedError(
        `there is a ${definition.title.one} of the same content already${idSuffix(definition, counterpart)}`,
      );
}

/** Refuses a removal if the record has children that the plan does not remove; those that it removes are gone by now. */
async function unplannedChildren(
  context: LookUpContext,
  { definition, scope }: ReadyStep,
  id: string,
): Promise<StepError | null> {
  const key = scopeKeyNaming(definition.kind);
  if (key === undefined) return null;
  for (const below of dependentKinds(definition.kind, context.definitions)) {
    if (below.scope.at(-1) !== key) continue;
    const ids = await idsWithin(context, below, { ...scope, [key]: id });
    if (ids.length === 0) continue;
    const what = ids.length === 1 ? below.title.one : below.title.many;
    return movedError(`the ${definition.title.one} has ${ids.length} ${what} that the plan does not know`);
  }
  return null;
}

/** Empty where the service has no such collection. */
async function idsWithin(
  { live, signal }: LookUpContext,
  definition: ResourceDefinition,
  scope: Scope,
): Promise<readonly string[]> {
  try {
    return (await live.idsOf(definition, scope, null, true, signal)) ?? [];
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'not_found') return [];
    throw error;
  }
}

function absentKey({ precondition }: PlanStep): string | null {
  return precondition?.state === 'absent' ? precondition.digest : null;
}

/** The id as the end of a sentence; nothing where it is a secret: an invite's is its sign-up link. */
export function idSuffix(definition: ResourceDefinition, id: string): string {
  const isSecret = definition.fields.some(
    (field) => field.isSecret && field.name === definition.idPath.at(-1),
  );
  return isSecret ? '' : `: ${id}`;
}

function movedError(message: string): StepError {
  return { code: 'moved', message, hint: MOVED_HINT };
}

/** What the step would make true and live shows already. */
interface AlreadyApplied {
  /** A live record, not of the request's kind, that is the desired one: the member whom an invite would bring. */
  readonly adoptedId?: string;
  /** What of that one is not as desired; left out if nothing. */
  readonly unmet?: { readonly reason: string; readonly differences: readonly FieldChange[] };
  /** The id of the record that a creation recreates; null for the other actions. */
  readonly newId: string | null;
  readonly digest: string | null;
  /** True for an id that the id map does not have. */
  readonly isNew: boolean;
}

/**
 * Null if there is something to send. For a restore that is not resumed, whose plan is as recent as its check, that is always so,
 * but for a member who is to be invited: the service itself adds the key's user to an organization that was created, as
 * its owner. Nobody has changed such a member where this restore created the organization, whatever the level is.
 * What a later restore created again counts under its new id. A record to be created counts when a restore made it, or found it, since: of one that was made by hand nobody knows. Where the
 * mirror comes from a backup that was made before the restore had ended, its journal lacks what was created after that: there
 * one that is equal counts too.
 * @throws TidemarkError when that cannot be found out
 */
export async function findAlreadyApplied(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<AlreadyApplied | null> {
  const { isResumed, isFromBackup, live, signal, idMap } = context;
  const { step, request, definition, scope, sent } = ready;
  const isCreation = request.role === 'create';
  if (isCreation && request.kind !== step.kind) return await joinedAlready(context, ready);
  if (!isResumed) return null;
  const known = isCreation ? idMap(step.kind, step.desired?.id ?? step.id) : ready.id;
  let id = known ?? null;
  let body = id === null ? undefined : await live.read(definition, scope, id, true, signal);
  if (body === undefined && id !== null && request.role !== 'remove')
    body = await readFollowed(context, ready, id);
  // One that is known and gone was created by an earlier restore: this one created it again.
  if (isCreation && isFromBackup && body === undefined) {
    id = (await createdRecords(context, ready))?.equal ?? null;
    body = id === null ? undefined : await live.read(definition, scope, id, true, signal);
  }
  if (id === null) return null;
  if (request.role === 'remove')
    return body === undefined ? { newId: null, digest: null, isNew: false } : null;
  if (body === undefined) return null;
  const isAsDesired = [sent, followedReferences(context, definition, sent)]
    .flatMap((wanted) => [wanted ?? {}, afterAction(context, ready, wanted ?? {})])
    .some((wanted) => differencesFrom(definition, step, wanted, body).length === 0);
  if (!isAsDesired) return null;
  return { newId: isCreation ? id : null, digest: managedDigest(definition, body), isNew: known !== id };
}

/** The member whom the step would invite, if there is one: with every field as desired, or in a record that this restore created. */
async function joinedAlready(
  { live, signal, definitions, journal }: LookUpContext,
  { step, request, scope }: ReadyStep,
): Promise<AlreadyApplied | null> {
  const definition = definitions(step.kind);
  const key = absentKey(step);
  if (key === null) return null;
  const [id] = (await live.idsOf(definition, scope, key, false, signal)) ?? [];
  if (id === undefined) return null;
  const body = await live.read(definition, scope, id, true, signal);
  if (body === undefined) return null;
  const changes = step.fields.flatMap(({ path, to }): FieldChange[] => {
    const from = resolvePointer(body, path);
    if (to === undefined || equalValues(from ?? null, to)) return [];
    return [{ path, ...(from === undefined ? {} : { from }), to }];
  });
  const joined = { newId: null, digest: null, isNew: false, adoptedId: id };
  if (changes.length === 0) return joined;
  const parentKey = definition.scope.at(-1);
  const parent = request.parameters.find(({ name }) => name === parentKey);
  const isOwnParent =
    parent !== undefined && 'step' in parent && journal.row(parent.step).outcome === 'applied';
  if (parentKey === undefined || !isOwnParent) return null;
  const differences = hiddenFields(definition, changes);
  const within = definitions(SCOPE_KIND[parentKey]).title.one;
  const texts = differences.map(
    ({ path, from, to }) =>
      `${topMember(path)} is ${JSON.stringify(from ?? null)} instead of ${JSON.stringify(to)}`,
  );
  const reason = `the service itself added this ${definition.title.one} when the ${within} was created; ${texts.join(', ')}: a new plan sets it where it may be changed`;
  return { ...joined, unmet: { reason, differences } };
}

/** The record under the ids that it and its parents have since later restores created them again; undefined without one. */
async function readFollowed(
  context: LookUpContext,
  { definition, scope }: ReadyStep,
  id: string,
): Promise<JsonValue | undefined> {
  const { idMap, live, signal } = context;
  const now = idMap(definition.kind, id) ?? id;
  const within = Object.fromEntries(
    definition.scope.map((key) => {
      const parent = scope[key] ?? '';
      return [key, idMap(SCOPE_KIND[key], parent) ?? parent];
    }),
  );
  if (now === id && scopeKey(within) === scopeKey(scope)) return undefined;
  return await live.read(definition, within, now, true, signal);
}

/** What was sent, with the latest ids of the records that it refers to. */
function followedReferences(
  { idMap, definitions }: LookUpContext,
  { references }: ResourceDefinition,
  sent: JsonValue | null,
): JsonValue | null {
  let followed = sent;
  for (const { pointer, kind, target } of references) {
    const value = resolvePointer(followed ?? {}, pointer) ?? null;
    if (value === null || target !== pointerTo(definitions(kind).idPath)) continue;
    const now = idMap(kind, idText(value));
    if (now !== undefined)
      followed = withMember(followed ?? {}, splitPointer(pointer), asId(now, value)) ?? null;
  }
  return followed;
}

/**
 * What was sent, as the plan leaves it: with the state of the action that follows the step, such as the start of an export
 * that was created stopped, and without what the service sets on that.
 */
function afterAction(
  { actions }: LookUpContext,
  { step, definition: { restore } }: ReadyStep,
  sent: JsonValue,
): JsonValue {
  const act = actions.get(step.n)?.request?.act;
  const action = restore.state?.actions.find((each) => each.action === act);
  if (restore.state === null || action === undefined) return sent;
  const others = action.alsoSets.reduce((body, name) => withMember(body, [name], undefined) ?? {}, sent);
  return withMember(others, [restore.state.field], action.value) ?? {};
}

type Found =
  /** `id` of the created record; null for the other actions. */
  | { readonly found: 'done'; readonly id: string | null }
  | { readonly found: 'not_done' }
  /** Neither as before nor as sent (`moved`), or gone with the record that it was to be created in (`not_found`). */
  | { readonly found: 'neither'; readonly error: StepError };

type LookUp =
  | Found
  /** Not found in a list that does not show everything that is there: whether it was done is not known. */
  | { readonly found: 'unproven'; readonly error: StepError };

/**
 * Looks it up, without writing anything.
 * @throws TidemarkError when the look-up fails
 */
export async function lookUp(context: LookUpContext, ready: ReadyStep): Promise<Found> {
  const { step, definition, scope, id } = ready;
  if (ready.request.role === 'create' || id === null) return await lookUpCreated(context, ready);
  const body = await context.live.read(definition, scope, id, true);
  if (ready.request.role === 'remove') {
    if (body === undefined) return { found: 'done', id: null };
  } else if (body === undefined) {
    return { found: 'neither', error: neitherError(ready) };
  } else if (differencesFrom(definition, step, ready.sent ?? {}, body).length === 0) {
    return { found: 'done', id: null };
  }
  const before = plannedDigest(context, step);
  if (before !== null && managedDigest(definition, body) === before) return { found: 'not_done' };
  return holdsSome(ready, body)
    ? { found: 'done', id: null }
    : { found: 'neither', error: neitherError(ready) };
}

/**
 * True for a record to be removed that disappeared when an earlier step created its replacement.
 * @throws TidemarkError when that cannot be found out
 */
export async function isReplaced(context: LookUpContext, ready: ReadyStep): Promise<boolean> {
  const { step, definition, scope, id } = ready;
  if (id === null || step.after.length === 0) return false;
  if (!context.replaced.has(`${definition.kind} ${id}`)) return false;
  return (await context.live.read(definition, scope, id, true, context.signal)) === undefined;
}

/**
 * True if one of the fields that the step changes no longer has its old value but the sent one: then the write was
 * executed, whatever happened to the other fields. A value that is neither may have been written by somebody else.
 */
function holdsSome({ step, request, sent }: ReadyStep, body: JsonValue): boolean {
  if (request.role !== 'update' || sent === null) return false;
  const moved = new Set(fieldsChangedSincePlan(step, body));
  return step.fields.some(({ path }) => {
    // Where a name is hidden, nothing is found in either.
    if (path.includes(HIDDEN) || !moved.has(topMember(path))) return false;
    const [now, wanted] = [resolvePointer(body, path), resolvePointer(sent, path)];
    return now === undefined || wanted === undefined ? now === wanted : equalValues(now, wanted);
  });
}

async function lookUpCreated(context: LookUpContext, ready: ReadyStep): Promise<Found> {
  const found = await createdRecords(context, ready);
  if (found === null) return { found: 'neither', error: withoutParentError(context, ready) };
  const { equal, namesake } = found;
  if (equal !== null) return { found: 'done', id: equal };
  // Without a natural key only equal content identifies it.
  const hasKey = keyOfStep(ready) !== null && ready.request.kind === ready.step.kind;
  if (hasKey && namesake !== null && claim(context, ready, namesake)) return { found: 'done', id: namesake };
  return { found: 'not_done' };
}

/** Records that the creation may have made: one that is equal to what it sends, which is then this step's, or else one of its name; null without its collection. */
async function createdRecords(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<{ readonly equal: string | null; readonly namesake: string | null } | null> {
  const { step, definition, scope, sent } = ready;
  const key = keyOfStep(ready);
  const ids = await context.live.idsOf(definition, scope, key, true);
  if (ids === null) return null;
  let namesake: string | null = null;
  for (const id of ids) {
    if (isTaken(context, ready, id)) continue;
    const body = await context.live.read(definition, scope, id, true);
    // Another step may have taken it meanwhile.
    if (body === undefined || isTaken(context, ready, id) || !isOpen(ready, body)) continue;
    const isEqual =
      key === null
        ? holdsContent(definition, step, sent, body)
        : differencesFrom(definition, step, sent ?? {}, body).length === 0;
    if (isEqual && claim(context, ready, id)) return { equal: id, namesake: null };
    namesake ??= id;
  }
  return { equal: null, namesake };
}

/** A record that had ended before (an expired invite) is not the one just created. */
function isOpen({ definition }: ReadyStep, body: JsonValue): boolean {
  return definition.restore.endedWhen.every(({ pointer, value }) => resolvePointer(body, pointer) !== value);
}

/**
 * What a write without an answer did: looked up again after some time where the service may still be executing it. Null
 * where the wait was interrupted: it is not known then.
 * @param error of the request; null where the process ended that sent it
 * @throws TidemarkError when the look-up fails
 */
export async function effectOf(
  context: LookUpContext,
  ready: ReadyStep,
  error: TidemarkError | null,
): Promise<LookUp | null> {
  const { events, journal, clock, grace } = context;
  const { step } = ready;
  events.lookingUp(step);
  let looked = await lookUp(context, ready);
  logStep(context, step, 'looked up the effect of a write without an answer', { found: looked.found });
  const { sentAt, errorCode } = journal.row(step.n);
  // Journaled as `sent` and nothing after it: the process ended, and whether the request was sent is unknown.
  if (error === null && errorCode === null) context.perhapsSent.add(step.n);
  const isYoung = sentAt !== null && clock.now() - Date.parse(sentAt) < AT_WORK_MS;
  let late = looked.found === 'not_done' ? await lateRecordOf(context, ready) : null;
  const delays = late !== null || error !== null || isYoung ? retryDelays(ready, error, late !== null) : [];
  for (const wait of delays) {
    if (looked.found !== 'not_done') break;
    if (grace.aborted) return null;
    await clock.sleep(wait, grace);
    looked = await lookUp(context, ready);
  }
  if (looked.found !== 'not_done') return looked;
  late = await lateRecordOf(context, ready);
  return late === null ? looked : { found: 'unproven', error: lateListError(ready, late) };
}

/** For a creation: a record that the list it was looked for in should show and does not; null without one. */
async function lateRecordOf(
  { live, grace }: LookUpContext,
  { request, definition, scope }: ReadyStep,
): Promise<string | null> {
  return request.role === 'create' ? await live.lateRecord(definition, scope, grace) : null;
}

function lateListError({ definition }: ReadyStep, late: string): StepError {
  const { one, many } = definition.title;
  const which = idSuffix(definition, late) === '' ? `another ${one}` : late;
  return {
    code: 'walk_unproven',
    message: `it is not known whether it was created: the service's list of ${many} is late (it does not show ${which} yet, which is there)`,
  };
}

/**
 * The record of a creation that was sent again after a lost answer, and was then refused: as the first request had created
 * it, if it is equal to what was sent. Looked for some time, as the list may show it late; null without one, or where the
 * wait was interrupted.
 * @throws TidemarkError when the look-up fails
 */
export async function createdBefore(context: LookUpContext, ready: ReadyStep): Promise<string | null> {
  const { clock, grace } = context;
  for (const wait of [0, ...LONG_RETRY_DELAYS_MS]) {
    if (grace.aborted) return null;
    if (wait > 0) await clock.sleep(wait, grace);
    const id = (await createdRecords(context, ready))?.equal ?? null;
    if (id !== null) return id;
  }
  return null;
}

/** The error of a record that is not as a write expects it, nor as the write would leave it. */
function neitherError({ definition }: ReadyStep): StepError {
  return movedError(`the ${definition.title.one} is neither as before nor as sent`);
}

/** The error of a creation in a record that was removed: what it may have created went with that. */
export function withoutParentError(
  context: LookUpContext,
  { step, definition, scope }: ReadyStep,
): StepError {
  const key = definition.scope.at(-1);
  if (key === undefined) throw new Error(`${definition.kind} are in no other record`);
  const kind = SCOPE_KIND[key];
  const parent = context.definitions(kind);
  const { [key]: desiredId = '', ...above } = step.desired?.scope ?? {};
  const body = context.desired({ kind, scope: above, id: desiredId });
  const id = scope[key] ?? '';
  const name = body === undefined ? id : recordName(parent, body, id);
  return {
    code: 'not_found',
    message: `it is not there (any more): its ${parent.title.one} ${name} was removed meanwhile`,
  };
}

/** How long the service may still be executing a request whose process was killed. */
export const AT_WORK_MS = 60_000;

/** A request that was cut off may still be running: if its record is not found, it is looked up once more after this time. */
const RETRY_DELAYS_MS = [2000];

/** The same for one that a gateway gave up: if it still creates the record, a second request would duplicate it. */
const LONG_RETRY_DELAYS_MS = [2000, 4000, 8000, 16_000, 30_000];

/** The same for other creations without an answer: the service's lists may show the record some seconds late. */
const CREATION_RETRY_DELAYS_MS = LONG_RETRY_DELAYS_MS.slice(0, -1);

/** A record that was created and is not there when it is read back may be late too: in its list, or by its id. */
export function readBackDelays(definition: ResourceDefinition): readonly number[] {
  return isRetrieved(definition) ? RETRY_DELAYS_MS : LONG_RETRY_DELAYS_MS;
}

/** Delays before a request without an answer is looked up again, milliseconds. @param isLate whether the list is known to be late */
function retryDelays(
  { request: { role } }: ReadyStep,
  error: TidemarkError | null,
  isLate: boolean,
): readonly number[] {
  if (role !== 'create') return RETRY_DELAYS_MS;
  const isTimeout =
    error?.code === 'timeout' ||
    error?.code === 'unresponsive' ||
    error?.status === 504 ||
    error?.status === 408;
  if (isTimeout || isLate) return LONG_RETRY_DELAYS_MS;
  // The service itself says that it did not do it.
  return error?.status === 500 ? RETRY_DELAYS_MS : CREATION_RETRY_DELAYS_MS;
}
