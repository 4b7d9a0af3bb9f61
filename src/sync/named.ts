/** Organizations that are named: each is retrieved by id, and no other is mirrored. */
import type { Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalError, TidemarkError } from '../core/errors.ts';
import { scanRecord, type ScannedRecord } from '../core/json-scan.ts';
import type { SweepOutcome, SweepReport } from './outcome.ts';
import { shapeOf, sweepError, unkeptError } from './sweep.ts';
import { type SweepContext } from './absence.ts';

interface NamedOptions {
  readonly ids: readonly string[];
  /** The option that names them; null where the caller of the run does. */
  readonly namedIn: string | null;
  readonly onRecord: (record: ScannedRecord, id: string) => void;
}

/**
 * Reads the named records. Not a list, so it testifies to no absence: one that answers 404 leaves the sweep `missing`
 * (or `incomplete` where others answered) and what the mirror holds of it stays.
 */
export async function sweepNamed(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  { ids, namedIn, onRecord }: NamedOptions,
): Promise<SweepReport> {
  const { client, run, events, signal } = context;
  const stage = run.stage(definition.kind, scope);
  const startedAt = context.clock.monotonicMs();
  events.sweepStarted({ kind: definition.kind, scope, reading: 'each', known: ids.length });
  const shape = shapeOf(definition);
  const failures: TidemarkError[] = [];
  let asked = 0;
  await eachConcurrently(ids, context.concurrency, async (id) => {
    try {
      const retrieved = await client.retrieve(definition, scope, id, signal);
      if (!retrieved.found) {
        failures.push(
          new TidemarkError(
            'not_found',
            `the service does not know the ${definition.title.one} ${id}${namedIn === null ? '' : ` (${namedIn})`}`,
          ),
        );
        return;
      }
      const record = { ...scanRecord(retrieved.text, shape), id };
      stage.accept([record]);
      onRecord(record, id);
    } catch (error) {
      signal.throwIfAborted();
      const known =
        error instanceof SyntaxError ? new TidemarkError('malformed', error.message) : asTidemarkError(error);
      if (isLocalError(known.code)) throw error;
      failures.push(known);
    } finally {
      asked += 1;
      events.sweepProgressed({
        kind: definition.kind,
        scope,
        pages: asked,
        received: asked - failures.length,
        count: ids.length,
      });
    }
  });
  const unkept = unkeptError(stage, definition);
  if (unkept !== null) failures.push(unkept);
  const counts = stage.counts();
  const report: SweepReport = {
    kind: definition.kind,
    scope,
    outcome: outcomeOf(failures, ids.length),
    mode: 'each',
    pages: ids.length,
    records: counts.distinct,
    added: counts.added,
    changed: counts.changed,
    removed: 0,
    unchanged: counts.unchanged,
    held: 0,
    leaked: 0,
    pending: 0,
    count: null,
    pageCap: null,
    error: sweepError(failures[0] ?? null, definition),
  };
  events.sweepEnded(report, context.clock.monotonicMs() - startedAt);
  return report;
}

function outcomeOf(failures: readonly TidemarkError[], asked: number): SweepOutcome {
  if (failures.length === 0) return 'complete';
  if (failures.length < asked) return 'incomplete';
  if (failures.every(({ code }) => code === 'forbidden' || code === 'unauthorized')) return 'denied';
  return failures.every(({ code }) => code === 'not_found') ? 'missing' : 'failed';
}
