/**
 * One run: one sync pass of one source into the mirror. Parents are swept before their children; what the sweeps
 * staged becomes visible in one transaction at the end (design.md, The sync; Never broken 2).
 */
import { volatileFields } from '../catalog/definition.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { isSameContent } from './content.ts';
import { narrowedKinds } from './extent.ts';
import type { RunReport, SyncOptions } from './options.ts';
import { failureOf, runOutcome } from './outcome.ts';
import { Pass } from './pass.ts';
import { AcceptedRemovals } from './removals.ts';
import { redactionWith } from './redaction.ts';
import type { SweepContext } from './sweep.ts';

export type { RunReport, SyncOptions } from './options.ts';

/**
 * Syncs one source. Whatever the far side does ends up in the report; thrown is this machine's trouble and an
 * interruption, and then nothing of the run is visible.
 */
export async function syncSource(options: SyncOptions): Promise<RunReport> {
  const { mirror, source, client, clock, signal } = options;
  const startedAt = isoTime(clock.now());
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const redaction = source.redact ? redactionWith(options.fingerprintKey ?? mirror.fingerprintKey()) : null;
  const run = mirror.beginRun({
    source: { name: source.name, baseUrl: source.baseUrl.href },
    trigger: options.trigger,
    kinds: narrowedKinds(source, options.kinds, options.only),
    definitions: source.definitions,
    volatileFields: new Map(
      source.definitions.map((definition) => [definition.kind, volatileFields(definition)]),
    ),
    isEqual: (kind, oldText, newText) => isSameContent(required(definitions.get(kind)), oldText, newText),
    ...(redaction === null
      ? {}
      : { redact: (kind, record) => redaction.record(required(definitions.get(kind)), record) }),
  });
  try {
    const held = mirror.collectionsOf(source.name).filter(({ retiredRun }) => retiredRun === null);
    const gone = new Set<string>();
    const context: SweepContext = {
      client,
      run,
      clock,
      log: options.log.child({ source: source.name, run: run.run }),
      events: options.events,
      limits: source.removals,
      accepted: new AcceptedRemovals(options.acceptRemovals),
      definitionOf: (kind) => required(definitions.get(kind)),
      removed: (kind, id) => gone.add(`${kind} ${id}`),
      dependents: (kind, id) => {
        const key = scopeKeyNaming(kind);
        if (key === undefined) return 0;
        return held.filter(({ scope }) => scope[key] === id).reduce((sum, { records }) => sum + records, 0);
      },
      sourceRecords: held.reduce((sum, { records }) => sum + records, 0),
      pageSize: source.pageSize,
      concurrency: Math.max(1, source.rate.concurrency),
      signal,
    };
    const sweeps = await new Pass(context, options, held, gone).sweepAll();
    signal.throwIfAborted();
    options.events.publishing();
    const figures = client.figures();
    const outcome = runOutcome(sweeps);
    const error = outcome === 'failed' ? failureOf(sweeps) : null;
    const { untidy } = await run.publish({
      outcome,
      sweeps: sweeps.map((sweep) => ({
        ...sweep,
        mode: sweep.mode === 'full' || sweep.mode === 'head' ? sweep.mode : null,
      })),
      requests: figures.requests,
      retries: figures.retries,
      error,
    });
    // Published all the same: the next opening for writing tidies up.
    if (untidy !== null) context.log.warn({ code: untidy.code }, untidy.message);
    return {
      run: run.run,
      source: source.name,
      outcome,
      started_at: startedAt,
      finished_at: isoTime(clock.now()),
      requests: figures.requests,
      retries: figures.retries,
      sweeps,
      ...(error === null ? {} : { error }),
    };
  } catch (error) {
    run.abandon(asTidemarkError(signal.aborted ? interruption() : error), client.figures());
    throw error;
  }
}

function interruption(): TidemarkError {
  return new TidemarkError('interrupted', 'the run was interrupted; what was published before is untouched', {
    hint: 'run `tidemark sync` again',
  });
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a kind without a definition');
  return value;
}
