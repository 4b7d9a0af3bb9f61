/**
 * Settles records that a proven walk did not show. Only this file decides that a record is removed from the mirror
 * (design.md, The sync: Absence; Never broken 1).
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { ReadClient } from '../api/read-client.ts';
import type { WalkVerdict } from '../api/walk-verdict.ts';
import { isoTime, type Clock } from '../core/clock.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalError, TidemarkError } from '../core/errors.ts';
import type { AbsentCounts, AbsentShare } from '../mirror/absence.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import {
  confirmationCutoff,
  isAlarming,
  removalLimit,
  type RemovalLimits,
  type AcceptedRemovals,
} from './removals.ts';
import type { SweepOutcome } from './outcome.ts';
import type { Logger } from '../core/logger.ts';
import type { RunWriter } from '../mirror/run-rows.ts';
import type { SyncEvents } from './events.ts';

/** Ids held in memory at a time. */
const BATCH = 1000;
/** Records fetched by id before many are held: a few suffice to detect a list that leaks rows or came back empty. */
const SAMPLE = 10;
const LEAK_HINT =
  "the server's list leaks rows: look at its ordering, and expect the next run to see them again";

/**
 * Settles the absent records of a collection whose walk was complete. If too many are absent, SAMPLE of them are fetched
 * by id: if one exists, the list is unreliable; otherwise their removal is held. Else each one is confirmed by a
 * retrieve or, for kinds without one, by a list in one page or a second walk.
 */
export async function settleAbsences(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  stage: CollectionStage,
  verdict: WalkVerdict,
  walkAgain: () => Promise<WalkVerdict>,
): Promise<Settlement> {
  const settled: Settlement = { outcome: 'complete', removed: 0, held: 0, leaked: 0, error: null };
  const { limits } = context;
  const heldBy = confirmationCutoff(limits, context.clock.now());
  let counts = await stage.countAbsent(heldBy);
  if (counts.absent === 0) return settled;

  const canRetrieve = definition.operation('retrieve') !== undefined;
  if (!canRetrieve && !verdict.isOnePage) {
    const second = await walkAgain();
    context.signal.throwIfAborted();
    if (second.outcome !== 'complete') {
      return {
        ...settled,
        outcome: 'incomplete',
        error: new TidemarkError(
          'walk_unproven',
          `${counts.absent} ${counts.absent === 1 ? 'record' : 'records'} did not show, and the second walk could not confirm it`,
          {
            hint: 'nothing was removed; the next run looks again',
            cause: second.error ?? undefined,
          },
        ),
      };
    }
    counts = await stage.countAbsent(heldBy);
    if (counts.absent === 0) return settled;
  }

  const removal = { context, definition, scope, stage, canRetrieve };
  const waiting: AbsentShare = { which: 'waiting', heldBy };
  const waitingCount = counts.absent - counts.confirmed;
  // A record that a restore recreated under another id is not lost.
  const lost = counts.absent - counts.replaced;
  const dependents = waitingCount === 0 ? 0 : await countBelow(context, stage, waiting);
  // Removing an organization also removes its children: they count too.
  const removesTooManyChildren = dependents > removalLimit(limits, context.sourceRecords);
  const isHeld = waitingCount > 0 && (removesTooManyChildren || isAlarming(limits, stage.known, lost));
  if (isHeld && !context.accepted.take(lost + dependents)) {
    const sample = canRetrieve ? await findLeaked(removal, waiting, waitingCount) : null;
    if (sample !== null && sample.leaked > 0) return sample;
    // Records found absent long enough ago are confirmed by this run; only the others wait.
    const result = await removeAbsent({ ...removal, share: { which: 'confirmed', heldBy } });
    const held = await stage.decideAbsent('hold', waiting);
    return {
      ...result,
      outcome: 'held',
      held,
      error: result.error ?? heldError(context, stage.known, counts, dependents),
    };
  }
  return await removeAbsent(removal);
}

/**
 * Fetches a sample of the absent records, spread over all of them. If one exists, the list is not reliable, and
 * nothing is known about the others. A refusal proves nothing.
 */
async function findLeaked(
  { context, definition, scope, stage }: Removal,
  share: AbsentShare,
  count: number,
): Promise<Settlement> {
  const ids: string[] = [];
  const stride = Math.max(1, Math.floor(count / SAMPLE));
  let at = 0;
  for await (const { id } of stage.absent(share)) {
    if (at % stride === 0) ids.push(id);
    at += 1;
    if (ids.length === SAMPLE) break;
  }
  let leaked = 0;
  await eachConcurrently(ids, context.concurrency, async (id) => {
    try {
      const { found } = await context.client.retrieve(definition, scope, id, context.signal);
      if (!found) return;
      stage.keep(id);
      leaked += 1;
    } catch (error) {
      context.signal.throwIfAborted();
      if (isLocalError(asTidemarkError(error).code)) throw error;
    }
  });
  return {
    outcome: 'incomplete',
    removed: 0,
    held: 0,
    leaked,
    error: new TidemarkError(
      'walk_unproven',
      `the list did not show ${count} ${count === 1 ? 'record' : 'records'}, and ${leaked} of ${ids.length} asked for by id ${leaked === 1 ? 'exists' : 'exist'}: nothing was removed`,
      { hint: LEAK_HINT },
    ),
  };
}

/** Records that the mirror holds below these, for kinds with children: there are few, so each is counted. */
async function countBelow(
  context: SweepContext,
  stage: CollectionStage,
  share: AbsentShare,
): Promise<number> {
  if (scopeKeyNaming(stage.kind) === undefined) return 0;
  let sum = 0;
  for await (const { id } of stage.absent(share)) sum += context.dependents(stage.kind, id);
  return sum;
}

interface Removal {
  readonly context: SweepContext;
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  readonly stage: CollectionStage;
  readonly canRetrieve: boolean;
  /** Left out: all that are absent. */
  readonly share?: AbsentShare;
}

/** Removes records that a retrieve no longer finds, or for kinds without one, that the walks did not show. */
async function removeAbsent(removal: Removal): Promise<Settlement> {
  const { context, stage, canRetrieve, share } = removal;
  if (canRetrieve) return await confirmEach(removal);
  await reportRemoved(context, stage, share);
  const removed = await stage.decideAbsent('remove', share);
  return { outcome: 'complete', removed, held: 0, leaked: 0, error: null };
}

/** Reports removed records of kinds with children to the run. */
export async function reportRemoved(
  context: SweepContext,
  stage: CollectionStage,
  share?: AbsentShare,
): Promise<void> {
  if (scopeKeyNaming(stage.kind) === undefined) return;
  for await (const { id } of stage.absent(share)) context.removed(stage.kind, id);
}

interface Confirmations {
  removed: number;
  leaked: number;
  unconfirmed: number;
  firstError: TidemarkError | null;
}

async function confirmEach({ context, definition, scope, stage, share }: Removal): Promise<Settlement> {
  const found: Confirmations = { removed: 0, leaked: 0, unconfirmed: 0, firstError: null };
  const namesScopes = scopeKeyNaming(definition.kind) !== undefined;
  const confirm = async (id: string): Promise<void> => {
    try {
      const retrieved = await context.client.retrieve(definition, scope, id, context.signal);
      if (retrieved.found) {
        stage.keep(id);
        found.leaked += 1;
        context.log.warn(
          { kind: definition.kind, scope, id },
          'a proven list did not show a record that exists: kept',
        );
        return;
      }
    } catch (error) {
      context.signal.throwIfAborted();
      const known = asTidemarkError(error);
      if (isLocalError(known.code)) throw error;
      stage.keep(id);
      found.unconfirmed += 1;
      found.firstError ??= known;
      return;
    }
    stage.remove(id);
    if (namesScopes) context.removed(definition.kind, id);
    found.removed += 1;
  };
  let batch: string[] = [];
  const settle = async (): Promise<void> => {
    const ids = batch;
    batch = [];
    await eachConcurrently(ids, context.concurrency, confirm);
  };
  for await (const { id } of stage.absent(share)) {
    batch.push(id);
    if (batch.length === BATCH) await settle();
  }
  await settle();
  return confirmed(found);
}

function confirmed({ removed, leaked, unconfirmed, firstError }: Confirmations): Settlement {
  if (unconfirmed > 0) {
    return {
      outcome: 'incomplete',
      removed,
      held: 0,
      leaked,
      error: new TidemarkError(
        'walk_unproven',
        `${unconfirmed} ${unconfirmed === 1 ? 'record' : 'records'} did not show, and retrieving ${unconfirmed === 1 ? 'it' : 'them'} could not confirm it`,
        {
          hint: 'they were kept; the next run looks again',
          cause: firstError ?? undefined,
        },
      ),
    };
  }
  const error =
    leaked === 0
      ? null
      : new TidemarkError(
          'walk_unproven',
          leaked === 1
            ? 'the list did not show 1 record that exists; it was kept'
            : `the list did not show ${leaked} records that exist; they were kept`,
          { hint: LEAK_HINT },
        );
  return { outcome: leaked === 0 ? 'complete' : 'incomplete', removed, held: 0, leaked, error };
}

function heldError(
  context: SweepContext,
  known: number,
  { absent, confirmed, replaced, firstHeldAt }: AbsentCounts,
  dependents: number,
): TidemarkError {
  const { limits } = context;
  const waiting = absent - confirmed;
  const they = waiting + dependents === 1 ? 'it' : 'they';
  const gone =
    known === 1
      ? 'its only record'
      : waiting >= known
        ? `any of its ${known} records`
        : `${waiting} of ${known} records`;
  const below =
    dependents === 0 ? '' : `, with ${dependents} ${dependents === 1 ? 'record' : 'records'} below`;
  const limit = removalLimit(limits, known);
  const why =
    absent >= known
      ? 'a collection is not emptied unasked'
      : absent - replaced > limit
        ? `more than the ${limit} that go unasked`
        : `more than the ${removalLimit(limits, context.sourceRecords)} that go unasked with what is below`;
  const since = Date.parse(firstHeldAt ?? isoTime(context.clock.now()));
  return new TidemarkError('removals_held', `the list no longer shows ${gone}${below}: ${why}`, {
    hint:
      `${they} ${they === 'it' ? 'goes' : 'go'} if a run after ${isoTime(since + limits.confirmAfterMs)} still does not find ${they === 'it' ? 'it' : 'them'}, ` +
      `or at once with \`tidemark sync --accept-removals ${absent - replaced + dependents}\``,
  });
}

/** The result for the records that a walk did not show. */
export interface Settlement {
  readonly outcome: SweepOutcome;
  readonly removed: number;
  readonly held: number;
  readonly leaked: number;
  readonly error: TidemarkError | null;
}

/** What every sweep of a run works with. */
export interface SweepContext {
  readonly client: ReadClient;
  readonly run: RunWriter;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly limits: RemovalLimits;
  readonly accepted: AcceptedRemovals;
  /** The effective definition of a kind: the catalog's with profile and configuration applied. */
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  /** Called for every record of a kind with children whose removal this run decided. */
  readonly removed: (kind: Kind, id: string) => void;
  /** Records that the mirror holds below a record of a parent kind: they would be removed with it. */
  readonly dependents: (kind: Kind, id: string) => number;
  /** Records that the mirror holds of the whole source. */
  readonly sourceRecords: number;
  readonly pageSize: number;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}
