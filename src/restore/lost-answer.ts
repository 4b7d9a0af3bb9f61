/** Looks up whether a write was done whose answer was lost (design.md, Never broken 6). */
import type { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { equalValues } from '../diff/compare.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { managedDigest } from './live-records.ts';
import { fieldsChangedSincePlan, plannedDigest } from './precondition.ts';
import { differencesFrom } from './read-back.ts';
import { holdsContent } from './same-content.ts';
import { type ReadyStep, type StepContext, claim, isTaken, keyOfStep } from './step-context.ts';
import { topMember } from './unmanaged-settings.ts';

export type LookUp =
  /** `id` of the created record; null for the other actions. */
  | { readonly found: 'done'; readonly id: string | null }
  | { readonly found: 'not_done' }
  /** Neither as before nor as sent. */
  | { readonly found: 'moved' };

/**
 * Looks it up, without writing anything.
 * @throws TidemarkError when the look-up fails
 */
export async function lookUp(context: StepContext, ready: ReadyStep): Promise<LookUp> {
  const { step, definition, scope, id } = ready;
  if (ready.request.role === 'create' || id === null) return await lookUpCreated(context, ready);
  const body = await context.live.read(definition, scope, id, true);
  if (ready.request.role === 'remove') {
    if (body === undefined) return { found: 'done', id: null };
  } else if (body === undefined) {
    return { found: 'moved' };
  } else if (differencesFrom(definition, step, ready.sent ?? {}, body).length === 0) {
    return { found: 'done', id: null };
  }
  const before = plannedDigest(context, step);
  if (before !== null && managedDigest(definition, body) === before) return { found: 'not_done' };
  return holdsSome(ready, body) ? { found: 'done', id: null } : { found: 'moved' };
}

/**
 * True for a record to be removed that is gone since an earlier step created its replacement.
 * @throws TidemarkError when that cannot be found out
 */
export async function isReplaced(context: StepContext, ready: ReadyStep): Promise<boolean> {
  const { step, definition, scope, id } = ready;
  if (id === null || step.after.length === 0) return false;
  if (!context.replaced.has(`${definition.kind} ${id}`)) return false;
  return (await context.live.read(definition, scope, id, true, context.signal)) === undefined;
}

/**
 * Whether one of the fields that the step changes is no longer as before, but as sent: then the write was done,
 * whatever happened to the other fields. A value that is neither may have been written by somebody else.
 */
function holdsSome({ step, request, sent }: ReadyStep, body: JsonValue): boolean {
  if (request.role !== 'update' || sent === null) return false;
  const moved = new Set(fieldsChangedSincePlan(step, body));
  return step.fields.some(({ path }) => {
    if (!moved.has(topMember(path))) return false;
    const [now, wanted] = [resolvePointer(body, path), resolvePointer(sent, path)];
    return now === undefined || wanted === undefined ? now === wanted : equalValues(now, wanted);
  });
}

async function lookUpCreated(context: StepContext, ready: ReadyStep): Promise<LookUp> {
  const { step, definition, scope, sent } = ready;
  const key = keyOfStep(ready);
  const ids = await context.live.idsOf(definition, scope, key, true);
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
    if (isEqual && claim(context, ready, id)) return { found: 'done', id };
    namesake ??= id;
  }
  // Without a natural key only equal content identifies it.
  const hasKey = key !== null && ready.request.kind === step.kind;
  if (hasKey && namesake !== null && claim(context, ready, namesake)) return { found: 'done', id: namesake };
  return { found: 'not_done' };
}

/** A record that had ended before (an expired invite) is not the one just created. */
function isOpen({ definition }: ReadyStep, body: JsonValue): boolean {
  return definition.restore.endedWhen.every(({ pointer, value }) => resolvePointer(body, pointer) !== value);
}

/** A request that was cut off may still be running: if its record is not found, it is looked up once more after this time. */
const RETRY_DELAYS_MS = [2000];
/** The same for one that a gateway gave up: if it still creates the record, a second request would duplicate it. */
const LONG_RETRY_DELAYS_MS = [2000, 4000, 8000, 16_000, 30_000];

/** Delays before a request without an answer is looked up again, milliseconds. */
export function retryDelays(
  { request: { role } }: ReadyStep,
  error: TidemarkError | null,
): readonly number[] {
  const isTimeout =
    error?.code === 'timeout' ||
    error?.code === 'unresponsive' ||
    error?.status === 504 ||
    error?.status === 408;
  return role === 'create' && isTimeout ? LONG_RETRY_DELAYS_MS : RETRY_DELAYS_MS;
}
