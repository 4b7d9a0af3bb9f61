/**
 * What becomes of records that a proven walk did not show. Only here does a record come to be removed from the mirror
 * (design.md, The sync: Absence; Never broken 1).
 */
import { operationOf } from '../catalog/definition.ts';
import type { ResourceDefinition, Scope } from '../catalog/definition.ts';
import type { WalkVerdict } from '../api/read-client.ts';
import { isoTime } from '../core/clock.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalTrouble, TidemarkError } from '../core/errors.ts';
import type { AbsentRecord } from '../mirror/absence.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import { isAlarming, isConfirmed, removalLimit } from './removals.ts';
import type { Settlement, SweepContext } from './sweep.ts';

type Absent = AbsentRecord;

/**
 * Settles the absent records of a collection whose walk was complete. Alarming numbers are held without another
 * request; otherwise a retrieve confirms each one, or, for kinds without retrieve, one whole page or a second walk.
 */
export async function settleAbsent(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  stage: CollectionStage,
  verdict: WalkVerdict,
  walkAgain: () => Promise<WalkVerdict>,
): Promise<Settlement> {
  const settled: Settlement = { outcome: 'complete', removed: 0, held: 0, leaked: 0, error: null };
  let absent = await allAbsent(stage);
  if (absent.length === 0) return settled;

  const canRetrieve = operationOf(definition, 'retrieve') !== undefined;
  if (!canRetrieve && !verdict.isOnePage) {
    const second = await walkAgain();
    context.signal.throwIfAborted();
    if (second.outcome !== 'complete') {
      return {
        ...settled,
        outcome: 'incomplete',
        error: new TidemarkError(
          'walk_unproven',
          `${absent.length} records did not show, and the second walk could not confirm it`,
          {
            hint: 'nothing was removed; the next run looks again',
            cause: second.error ?? undefined,
          },
        ),
      };
    }
    absent = await allAbsent(stage);
    if (absent.length === 0) return settled;
  }

  const now = context.clock.now();
  const { limits } = context;
  const waiting = absent.filter(({ heldSince }) => !isConfirmed(limits, heldSince?.at ?? null, now));
  const dependents = waiting.reduce((sum, { id }) => sum + context.dependents(definition.kind, id), 0);
  // Removing one organization takes all that is below it along: that counts too.
  const isDragging = dependents > removalLimit(limits, context.sourceRecords);
  const isHeld = waiting.length > 0 && (isDragging || isAlarming(limits, stage.known, absent.length));
  if (isHeld && !context.accepted.take(absent.length + dependents)) {
    // What was found absent long enough ago has had its second look; only the rest waits.
    const confirmed = absent.filter(({ heldSince }) => isConfirmed(limits, heldSince?.at ?? null, now));
    const result = await confirmEach(context, definition, scope, stage, confirmed, canRetrieve);
    for (const { id } of waiting) stage.hold(id);
    return {
      ...result,
      outcome: 'held',
      held: waiting.length,
      error: result.error ?? heldError(context, stage.known, waiting, dependents),
    };
  }
  return confirmEach(context, definition, scope, stage, absent, canRetrieve);
}

async function allAbsent(stage: CollectionStage): Promise<Absent[]> {
  const absent: Absent[] = [];
  for await (const record of stage.absent()) absent.push(record);
  return absent;
}

/** Removes what a retrieve no longer finds (or, where the kind has none, what the walks testified). */
async function confirmEach(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  stage: CollectionStage,
  absent: readonly Absent[],
  canRetrieve: boolean,
): Promise<Settlement> {
  let removed = 0;
  let leaked = 0;
  let unconfirmed = 0;
  const errors: TidemarkError[] = [];
  await eachConcurrently(absent, context.concurrency, async ({ id }) => {
    if (canRetrieve) {
      try {
        const { found } = await context.client.retrieve(definition, scope, id, context.signal);
        if (found) {
          stage.keep(id);
          leaked += 1;
          context.log.warn(
            { kind: definition.kind, scope, id },
            'a proven list did not show a record that exists: kept',
          );
          return;
        }
      } catch (error) {
        context.signal.throwIfAborted();
        const known = asTidemarkError(error);
        if (isLocalTrouble(known.code)) throw error;
        stage.keep(id);
        unconfirmed += 1;
        errors.push(known);
        return;
      }
    }
    stage.remove(id);
    context.removed(definition.kind, id);
    removed += 1;
  });
  if (unconfirmed > 0) {
    return {
      outcome: 'incomplete',
      removed,
      held: 0,
      leaked,
      error: new TidemarkError(
        'walk_unproven',
        `${unconfirmed} records did not show, and retrieving them could not confirm it`,
        {
          hint: 'they were kept; the next run looks again',
          cause: errors[0],
        },
      ),
    };
  }
  const error =
    leaked === 0
      ? null
      : new TidemarkError(
          'walk_unproven',
          `the list did not show ${leaked} records that exist; they were kept`,
          {
            hint: "the server's list leaks rows: look at its ordering, and expect the next run to see them again",
          },
        );
  return { outcome: leaked === 0 ? 'complete' : 'incomplete', removed, held: 0, leaked, error };
}

function heldError(
  context: SweepContext,
  known: number,
  waiting: readonly Absent[],
  dependents: number,
): TidemarkError {
  const { limits } = context;
  const first = waiting.reduce<string | null>(
    (earliest, { heldSince }) =>
      heldSince !== null && (earliest === null || heldSince.at < earliest) ? heldSince.at : earliest,
    null,
  );
  const since = Date.parse(first ?? isoTime(context.clock.now()));
  return new TidemarkError(
    'walk_unproven',
    `${waiting.length} of ${known} records${dependents === 0 ? '' : ` and ${dependents} below them`} would be removed, ` +
      `more than ${removalLimit(limits, known)} or all of them: held`,
    {
      hint:
        `they go if a run after ${isoTime(since + limits.confirmAfterMs)} still does not find them, ` +
        `or at once with \`tidemark sync --accept-removals ${waiting.length + dependents}\``,
    },
  );
}
