/** Kinds whose list rows are a reduced form: the list proves what exists, retrieve gives each record whole. */
import type { WalkVerdict } from '../api/read-client.ts';
import type { ResourceDefinition, Scope } from '../catalog/definition.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalTrouble, TidemarkError } from '../core/errors.ts';
import { scanRecord } from '../core/json-scan.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import { type SweepContext, shapeOf } from './sweep.ts';

/**
 * Retrieves every listed id into the stage. One that cannot be read keeps what the mirror holds and leaves the sweep
 * incomplete, also where the answer is 404: the list shows it, and only a list that no longer does testifies that it is
 * gone.
 */
export async function stageFullRecords(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  stage: CollectionStage,
  ids: ReadonlySet<string>,
  verdict: WalkVerdict,
): Promise<WalkVerdict> {
  const shape = shapeOf(definition);
  const errors: TidemarkError[] = [];
  let asked = 0;
  let notFound = 0;
  await eachConcurrently(ids, context.concurrency, async (id) => {
    try {
      const retrieved = await context.client.retrieve(definition, scope, id, context.signal);
      if (retrieved.found) {
        stage.accept([{ ...scanRecord(retrieved.text, shape), id }]);
      } else {
        stage.keep(id);
        notFound += 1;
        context.log.warn(
          { kind: definition.kind, scope, id },
          'a record is listed, but cannot be retrieved: what the mirror held of it stands',
        );
      }
    } catch (error) {
      context.signal.throwIfAborted();
      const known =
        error instanceof SyntaxError ? new TidemarkError('malformed', error.message) : asTidemarkError(error);
      if (isLocalTrouble(known.code)) throw error;
      errors.push(known);
    }
    asked += 1;
    context.events.sweepProgressed({
      kind: definition.kind,
      scope,
      pages: verdict.pages + asked,
      received: asked - errors.length - notFound,
      count: ids.size,
    });
  });
  const unread = errors.length + notFound;
  if (unread === 0 || verdict.outcome !== 'complete') return verdict;
  return {
    ...verdict,
    outcome: 'incomplete',
    error: new TidemarkError(
      'walk_unproven',
      errors.length === 0
        ? `${notFound} of ${ids.size} records are listed, but cannot be retrieved (404)`
        : `${unread} of ${ids.size} records could not be retrieved whole`,
      {
        hint: 'what the mirror held of them stands; the next run tries again',
        cause: errors[0],
      },
    ),
  };
}
