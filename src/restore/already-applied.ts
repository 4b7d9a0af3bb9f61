/** Steps of a restore that is gone on with which need nothing any more: another restore, or somebody, did them since. */
import type { ConcurrencySlot } from '../api/write-client.ts';
import { managedDigest } from './live-records.ts';
import { differencesFrom } from './read-back.ts';
import type { ReadyStep, StepContext } from './step-context.ts';

/** What the step would make true and live shows already. */
export interface AlreadyApplied {
  /** The id of the record that a creation would have made again; null for the other actions. */
  readonly newId: string | null;
  readonly digest: string | null;
}

/**
 * Null where there is something to send; always for a restore that is not gone on with, whose plan is as new as its look.
 * A record to be created counts when a restore made it, or found it, since: of one that was made by hand nobody knows.
 * @param slot the step's concurrency slot (`checkIsOneRequest`)
 * @throws TidemarkError when that cannot be found out
 */
export async function findAlreadyApplied(
  context: StepContext,
  ready: ReadyStep,
  slot?: ConcurrencySlot,
): Promise<AlreadyApplied | null> {
  const { isResumed, live, signal, idMap } = context;
  const { step, request, definition, scope, sent } = ready;
  if (!isResumed) return null;
  const isCreation = request.role === 'create';
  if (isCreation && request.kind !== step.kind) return null;
  const id = isCreation ? idMap(step.kind, step.desired?.id ?? step.id) : ready.id;
  if (id === undefined || id === null) return null;
  const body = await live.read(definition, scope, id, true, signal, slot);
  if (request.role === 'remove') return body === undefined ? { newId: null, digest: null } : null;
  if (body === undefined || differencesFrom(definition, step, sent ?? {}, body).length > 0) return null;
  return { newId: isCreation ? id : null, digest: managedDigest(definition, body) };
}
