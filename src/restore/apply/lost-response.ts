/** Finds out whether a write whose response was lost had an effect (design.md, invariant 6). */
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { TidemarkError } from '../../core/errors.ts';
import { resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import { equalOptional } from '../../diff/canonical.ts';
import { topMember, withMember } from '../places.ts';
import { bySendableKey, isRenamable } from '../plan/settings.ts';
import { managedDigest, naturalKeyDigest } from '../records.ts';
import { HIDDEN } from '../secrets.ts';
import { holdsContent, differencesFrom } from './differences.ts';
import { isRetrieved } from './live-records.ts';
import {
  type ReadyStep,
  type LookUpContext,
  bodiesLeft,
  hasNameOf,
  isTaken,
  keyOfStep,
  claim,
  logStep,
} from './ready-step.ts';
import type { StepError } from './report.ts';
import {
  fieldsChangedSincePlan,
  idSuffix,
  oneOf,
  movedError,
  plannedDigest,
  withoutParentError,
} from './precondition.ts';

type Found =
  /** `id`: of the created record; null for the other actions. */
  | { readonly found: 'done'; readonly id: string | null }
  | { readonly found: 'not_done' }
  /** The record is neither as before nor as sent (`moved`), or the parent of a creation is gone (`not_found`). */
  | { readonly found: 'neither'; readonly error: StepError };

type LookUp =
  | Found
  /**
   * Unknown: the record was not found in a list that omits existing records, or a record of its name is not as sent. `next` says how to
   * continue the restore.
   */
  | { readonly found: 'unproven'; readonly error: StepError; readonly next: string };

/**
 * Looks up the effect of a write, without writing anything.
 * @throws TidemarkError when the look-up fails
 */
export async function lookUp(context: LookUpContext, ready: ReadyStep): Promise<LookUp> {
  const { step, definition, scope, id } = ready;
  if (ready.request.role === 'create' || id === null) return await lookUpCreated(context, ready);
  const body = await context.live.read(definition, scope, id, true);
  if (ready.request.role === 'remove') {
    if (body === undefined) return { found: 'done', id: null };
  } else if (body === undefined) {
    return { found: 'neither', error: movedError(`the ${definition.title.one} was removed meanwhile`) };
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
 * True if one of the fields that the step changes has the sent value instead of its old one: then the write was executed, whatever
 * happened to the other fields. A value that is neither may have been written by somebody else.
 */
function holdsSome({ step, request, sent }: ReadyStep, body: JsonValue): boolean {
  if (request.role !== 'update' || sent === null) return false;
  const moved = new Set(fieldsChangedSincePlan(step, body));
  return step.fields.some(({ path }) => {
    // A path with a masked name exists in neither body.
    if (path.includes(HIDDEN) || !moved.has(topMember(path))) return false;
    return equalOptional(resolvePointer(body, path), resolvePointer(sent, path));
  });
}

async function lookUpCreated(context: LookUpContext, ready: ReadyStep): Promise<LookUp> {
  const found = await createdRecords(context, ready);
  if (found === null) return { found: 'neither', error: withoutParentError(context, ready) };
  const { equal, namesake } = found;
  if (equal !== null) return { found: 'done', id: equal };
  if (namesake === null) return { found: 'not_done' };
  // Without a natural key, only equal content identifies the record.
  if (keyOfStep(ready) === null) return differsFromSent(context, ready, namesake);
  const isOwn = ready.request.kind === ready.step.kind && claim(context, ready, namesake.id);
  return isOwn ? { found: 'done', id: namesake.id } : { found: 'not_done' };
}

interface CreatedRecords {
  /** A record that is equal to what the creation sent, also after the action that follows; it is claimed for this step. */
  readonly equal: string | null;
  /** If there is none, another record of its name. */
  readonly namesake: { readonly id: string; readonly body: JsonValue } | null;
}

/** The records that the creation may have made; null if its collection is gone. */
export async function createdRecords(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<CreatedRecords | null> {
  const { step, definition, scope } = ready;
  const key = keyOfStep(ready);
  const ids = await context.live.idsOf(definition, scope, key, true);
  if (ids === null) return null;
  const isNamed = hasNameOf(context, ready);
  const bodies = bodiesLeft(context, ready);
  let namesake: CreatedRecords['namesake'] = null;
  const left: string[] = [];
  for (const id of ids) {
    if (isTaken(context, ready, id)) continue;
    const body = await context.live.read(definition, scope, id, true);
    // Another step may have claimed it in the meantime.
    if (body === undefined || isTaken(context, ready, id) || !isOpen(ready, body)) continue;
    const equal = bodies.findIndex((wanted) =>
      key === null
        ? holdsContent(definition, step, wanted, body)
        : differencesFrom(definition, step, wanted, body).length === 0,
    );
    if (equal === 0 && claim(context, ready, id)) return { equal: id, namesake: null };
    if (equal > 0) left.push(id);
    if (key !== null || isNamed?.(id, body) === true) namesake ??= { id, body };
  }
  const equal = left.find((id) => claim(context, ready, id)) ?? null;
  return { equal, namesake: equal === null ? namesake : null };
}

const PATHS_SHOWN = 3;

/** For a record of the creation's name that is not as sent: sending again might create a second one. */
function differsFromSent(
  context: LookUpContext,
  ready: ReadyStep,
  { id, body }: NonNullable<CreatedRecords['namesake']>,
): LookUp {
  const { step, definition, sent } = ready;
  const { restore } = context.journal;
  const paths = differencesFrom(definition, step, sent ?? {}, body).map(({ path }) => path);
  const more = paths.length > PATHS_SHOWN ? ', …' : '';
  const which = paths.length === 0 ? '' : ` (${paths.slice(0, PATHS_SHOWN).join(', ')}${more})`;
  const whose = 'the restore or somebody else may have created it';
  return {
    found: 'unproven',
    error: {
      code: 'moved',
      message: `there is ${oneOf(definition)} of that name already${idSuffix(definition, id)}, which is not as sent${which}: ${whose}`,
    },
    next: `if it is to stay, \`tidemark restore --abandon ${restore}\` ends this restore, and a new plan compares it; if not, rename or remove it, and \`tidemark restore --resume ${restore}\` sends this step`,
  };
}

/** False for a record that has ended (an expired invite): it is not the one just created. */
function isOpen({ definition }: ReadyStep, body: JsonValue): boolean {
  return definition.restore.endedWhen.every(({ pointer, value }) => resolvePointer(body, pointer) !== value);
}

/**
 * The effect of a write without an answer, looked up again after some time if the service may still be executing it. Null if the wait was
 * interrupted.
 * @param error of the request; null if the process that sent it ended
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
  const isYoung = sentAt !== null && clock.now() - Date.parse(sentAt) < SERVICE_EXECUTION_MS;
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
  if (late === null) {
    const renamed = await renamedSince(context, ready);
    if (renamed !== null) return otherName(context, ready, renamed);
    // The process ended after journaling `sent`: whether the request was sent is unknown. It is sent now.
    if (error === null && errorCode === null) context.perhapsSent.add(step.n);
    return looked;
  }
  const next = `\`tidemark restore --resume ${journal.restore}\` in some minutes looks it up, and sends it only if it is not there`;
  return { found: 'unproven', error: lateListError(ready, late), next };
}

/** The allowed difference between the clocks of this machine and of the service. */
export const CLOCKS_DIFFER_MS = 60_000;

/** The pointer at which most kinds show when a record was created. */
export const CREATED_AT = '/created_at';

/**
 * A record that was created at about the time of the request, equals what it sent except for the name, and is not created by another
 * step: somebody may have renamed what the lost request created. Null if there is none, or the kind does not allow to tell.
 * @throws TidemarkError when that cannot be found out
 */
async function renamedSince(context: LookUpContext, ready: ReadyStep): Promise<string | null> {
  const { step, definition, scope, request } = ready;
  const sentAt = Date.parse(context.journal.row(step.n).sentAt ?? '');
  if (request.role !== 'create' || request.kind !== step.kind) return null;
  const byName = bySendableKey(definition);
  if (byName.naturalKey.length === 0 || !isRenamable(byName)) return null;
  const bodies = bodiesLeft(context, ready).map((body) =>
    byName.naturalKey.reduce<JsonValue>(
      (rest, pointer) => withMember(rest, splitPointer(pointer), undefined) ?? {},
      body,
    ),
  );
  const isCandidate = (body: JsonValue, id: string): boolean => {
    const created = resolvePointer(body, definition.createdAt ?? CREATED_AT);
    const lateMs = typeof created === 'string' ? Date.parse(created) - sentAt : Number.NaN;
    if (!(lateMs >= -CLOCKS_DIFFER_MS && lateMs <= SERVICE_EXECUTION_MS + CLOCKS_DIFFER_MS)) return false;
    const name = naturalKeyDigest(byName, body);
    if (name === null || context.plannedNames.has(`${definition.kind} ${name}`)) return false;
    if (isTaken(context, ready, id) || !isOpen(ready, body)) return false;
    return bodies.some((wanted) => holdsContent(definition, step, wanted, body));
  };
  const ids = await context.live.idsWhere(definition, scope, isCandidate, context.grace);
  return ids?.[0] ?? null;
}

/** For a record that the creation may have made and somebody renamed since. */
function otherName(context: LookUpContext, { definition }: ReadyStep, id: string): LookUp {
  const { restore } = context.journal;
  return {
    found: 'unproven',
    error: {
      code: 'moved',
      message: `there is ${oneOf(definition)} of another name${idSuffix(definition, id)}, created when this was sent and equal but for the name: somebody may have renamed what the restore created`,
    },
    next: `if it is the same, give it its name back, and \`tidemark restore --resume ${restore}\` finds it; if not, \`tidemark restore --abandon ${restore}\`, and a new plan creates this one beside it`,
  };
}

/** For a creation: an existing record that the searched list omits; null if there is none. */
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
 * The record of a creation that was sent again after a lost answer and then refused, because the first request had created it: one that
 * is equal to what was sent. Looked for repeatedly, as the list may show it late; null if there is none, or the wait was interrupted.
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

/** The error for a record that is neither as before the write nor as sent. */
function neitherError({ definition }: ReadyStep): StepError {
  return movedError(`the ${definition.title.one} is neither as before nor as sent`);
}

/** How long the service may still be executing a request whose process was killed. */
export const SERVICE_EXECUTION_MS = 60_000;

/** Delays before further look-ups: a request that was cut off may still be running. */
const RETRY_DELAYS_MS = [2000];

/** The same for a creation that a gateway gave up: if the service still executes it, a second request would duplicate the record. */
const LONG_RETRY_DELAYS_MS = [2000, 4000, 8000, 16_000, 30_000];

/** The same for other creations without an answer: the service's lists may show the record some seconds late. */
const CREATION_RETRY_DELAYS_MS = LONG_RETRY_DELAYS_MS.slice(0, -1);

/** Delays before a created record that is not found is read back again: it may appear late, in its list or by its id. */
export function readBackDelays(definition: ResourceDefinition): readonly number[] {
  return isRetrieved(definition) ? RETRY_DELAYS_MS : LONG_RETRY_DELAYS_MS;
}

/** Delays before a request without an answer is looked up again, milliseconds. @param isLate true if the list omits existing records */
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
  // With 500, the service itself says that it did not execute the request.
  return error?.status === 500 ? RETRY_DELAYS_MS : CREATION_RETRY_DELAYS_MS;
}
