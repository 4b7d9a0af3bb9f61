/**
 * One run: reads a source into the mirror. Parents are read before their children. What the sweeps staged becomes
 * visible in one transaction at the end (design.md, The sync; invariant 2).
 */
import { basename } from 'node:path';
import { collectionKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey } from '../catalog/order.ts';
import { volatileFields } from '../catalog/volatile-names.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, isLocalError, TidemarkError } from '../core/errors.ts';
import { duration, plural } from '../core/wording.ts';
import { warnOfRestored } from '../mirror/schema-check.ts';
import { isSameContent } from './content.ts';
import { narrowedKinds } from './run-extent.ts';
import type { SweepContext, SyncOptions } from './options.ts';
import { failureOf, runOutcome, type RunReport, type SweepReport } from './outcome.ts';
import { SyncRun } from './sync-run.ts';
import { acceptCommand, AcceptedRemovals, movedAddress, movedLine } from './removals.ts';
import { redactionWith } from './redaction.ts';

export type { RunReport } from './outcome.ts';

/**
 * Syncs one source. Errors of the service are part of the report. Only local errors and interruptions are thrown; then
 * nothing of the run becomes visible.
 */
export async function syncSource(options: SyncOptions): Promise<RunReport> {
  const { mirror, source, client, clock } = options;
  const startedAt = isoTime(clock.now());
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const redaction = source.redact
    ? redactionWith(options.fingerprintKey ?? mirror.acceptances.fingerprintKey())
    : null;
  const moved = movedAddress(mirror.runs.addressOf(source.name), source);
  const run = mirror.runs.begin({
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
  // Its timer keeps the process alive, so it must be ended in any case.
  const limit = new DurationLimit(options);
  const { signal } = limit;
  try {
    const held = mirror.runs.collections(source.name).filter(({ retiredRun }) => retiredRun === null);
    warnOfOtherPrograms(options, held);
    const gone = new Set<string>();
    const place = { isOther: false };
    const countsBelow = new Map<Kind, ReturnType<typeof mirror.records.countsBelow>>();
    const context: SweepContext = {
      source: source.name,
      client,
      run,
      clock,
      log: options.log.child({ source: source.name, run: run.run }),
      events: options.events,
      limits: source.removals,
      accepted: new AcceptedRemovals(options.acceptRemovals, options.kinds),
      moved,
      foundOther: () => {
        place.isOther = true;
      },
      isOther: () => place.isOther,
      definitionOf: (kind) => required(definitions.get(kind)),
      removed: (record) => gone.add(`${collectionKey(record)} ${record.id}`),
      dependents: ({ kind, ...parent }) => {
        // Read once, if a record of the kind is absent: the published state changes only at the end of the run.
        const countBelow = countsBelow.get(kind) ?? mirror.records.countsBelow(source.name, kind);
        countsBelow.set(kind, countBelow);
        return countBelow(parent);
      },
      // Called only if records are absent.
      sourceRecords: () =>
        mirror.records.countedOnce(source.name).reduce((sum, { records }) => sum + records, 0),
      pageSize: source.pageSize,
      concurrency: Math.max(1, source.rate.concurrency),
      signal,
    };
    const swept = await new SyncRun(context, { ...options, signal }, held, gone).sweepAll();
    // The command needs all held removals, which are known only now.
    const sweeps = swept.map((sweep) => withAcceptHint(sweep, context.accepted.held, source.name, options));
    limit.end();
    signal.throwIfAborted();
    options.events.publishing();
    const stats = client.stats();
    const outcome = runOutcome(sweeps);
    const error = outcome === 'failed' ? failureOf(sweeps) : null;
    const { added, changed, removed, cleanupError } = await run.publish({
      outcome,
      sweeps: sweeps.map((sweep) => ({
        ...sweep,
        mode: sweep.mode === 'full' || sweep.mode === 'head' ? sweep.mode : null,
      })),
      requests: stats.requests,
      retries: stats.retries,
      error,
      accepted: context.accepted,
      isAddressKnown: !place.isOther && sweeps.some((sweep) => isRootRead(sweep, context)),
    });
    const move = mirror.runs.moveOf(source.name);
    if (move?.run === run.run) context.log.warn({ ...move }, movedLine(source.name, move));
    // The run is published. The next process that opens the mirror for writing cleans up.
    if (cleanupError !== null)
      context.log.warn(
        { code: cleanupError.code },
        `run ${run.run} is stored; its data stays in ${basename(mirror.path)}-wal beside the mirror until a later command can move it: ${cleanupError.message}`,
      );
    return {
      run: run.run,
      source: source.name,
      outcome,
      started_at: startedAt,
      finished_at: isoTime(clock.now()),
      requests: stats.requests,
      retries: stats.retries,
      ...{ added, changed, removed },
      sweeps,
      ...(error === null ? {} : { error }),
    };
  } catch (error) {
    const passed = limit.reasonOf(error);
    run.abandon(
      passed ?? asTidemarkError(signal.aborted ? interruption(signal.reason, source.name) : error),
      client.stats(),
    );
    if (passed === null) throw error;
    options.log.warn({ source: source.name, run: run.run, code: passed.code }, passed.message);
    const { requests, retries } = client.stats();
    const { code, message, hint = null } = passed;
    return {
      run: run.run,
      source: source.name,
      outcome: 'failed',
      started_at: startedAt,
      finished_at: isoTime(clock.now()),
      requests,
      retries,
      ...{ added: 0, changed: 0, removed: 0 },
      // The records read were discarded, so the sweeps say nothing about the mirror.
      sweeps: [],
      error: { code, message, hint, permission: null },
    };
  } finally {
    limit.end();
  }
}

/** Warns of records that another program deleted from the mirror. The run reads them again and reports them as added. */
function warnOfOtherPrograms({ mirror, source, log }: SyncOptions, held: Iterable<CollectionKey>): void {
  warnOfRestored(mirror, log);
  for (const [kind, found] of Map.groupBy(mirror.records.miscounts(source.name, held), ({ kind }) => kind)) {
    const counted = found.reduce((sum, each) => sum + each.counted, 0);
    const stored = found.reduce((sum, each) => sum + each.stored, 0);
    log.warn(
      { source: source.name, code: 'mirror_corrupt', kind, counted, stored },
      `another program changed ${mirror.path}: it had ${plural(counted, 'record')} of ${kind}, and has ${stored}; ` +
        'what was deleted is read again, and counts as added: run `tidemark verify`',
    );
  }
}

/** True for the list of organizations if it was read completely. */
function isRootRead({ kind, outcome }: SweepReport, { definitionOf }: SweepContext): boolean {
  return definitionOf(kind).discovery.from === 'root' && (outcome === 'complete' || outcome === 'held');
}

/** The longest duration of a timer, 24 days. A timer with a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The time limit of a sync (`sync.maxDuration`). It ends the run like an interruption, but only that of this source. */
class DurationLimit {
  /** Aborted together with the caller's signal, and when the time is over. */
  readonly signal: AbortSignal;
  readonly #reason: TidemarkError;
  readonly #over = new AbortController();

  constructor({ source, clock, signal }: Pick<SyncOptions, 'source' | 'clock' | 'signal'>) {
    const { maxDurationMs } = source.sync;
    this.#reason = new TidemarkError(
      'timeout',
      `the sync of ${source.name} was ended after ${duration(maxDurationMs)} (sync.maxDuration of the source); what was published before is untouched`,
      {
        hint: `run \`tidemark doctor --source ${source.name}\` to see how fast the service answers; set sync.maxDuration higher where the run needs longer`,
      },
    );
    if (maxDurationMs === 0) {
      this.signal = signal;
      return;
    }
    const passed = new AbortController();
    this.signal = AbortSignal.any([signal, passed.signal]);
    clock.sleep(Math.min(maxDurationMs, LONGEST_TIMER_MS), this.#over.signal).then(
      () => passed.abort(this.#reason),
      // The run ended earlier.
      () => undefined,
    );
  }

  /** Stops the timer. */
  end(): void {
    this.#over.abort();
  }

  /** The error, if the time limit ended the run; null if something else did. */
  reasonOf(thrown: unknown): TidemarkError | null {
    if (!this.signal.aborted || this.signal.reason !== this.#reason) return null;
    const isOwnProblem = thrown instanceof TidemarkError && isLocalError(thrown.code);
    return isOwnProblem ? null : this.#reason;
  }
}

function withAcceptHint(
  sweep: SweepReport,
  held: AcceptedRemovals['held'],
  source: string,
  { kinds }: Pick<SyncOptions, 'kinds'>,
): SweepReport {
  const { error, kind } = sweep;
  if (error?.code !== 'removals_held') return sweep;
  return {
    ...sweep,
    error: { ...error, hint: `${error.hint}; ${acceptCommand(held, { kind, source, kinds })}` },
  };
}

/** The error of an interrupted run: the caller's reason, if it has one. */
function interruption(reason: unknown, source: string): TidemarkError {
  if (reason instanceof TidemarkError && reason.code !== 'interrupted') return reason;
  return new TidemarkError('interrupted', 'the run was interrupted; what was published before is untouched', {
    hint: `run \`tidemark sync --source ${source}\` again`,
  });
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a kind without a definition');
  return value;
}
