/**
 * Kinds read one request per parent record (recording sharing), within a budget per run: parents that are new first,
 * then never checked ones, then the longest unchecked (design.md, The sync).
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalError, TidemarkError, type ErrorCode } from '../core/errors.ts';
import { scanRecord } from '../core/json-scan.ts';
import type { SweepReport } from './outcome.ts';
import { shapeOf, sweepError, unkeptError } from './sweep.ts';
import { type SweepContext } from './absence.ts';

interface EachOptions {
  readonly parentKind: Kind;
  /** Ids of the parents to ask for, in this order, each once. */
  readonly ids: readonly string[];
  /** True when the mirror holds a current record of this kind for the parent. */
  readonly isMirrored: (id: string) => boolean;
  /** True where a run need not ask for all of them: then what the source's own limits leave no room for waits as well. */
  readonly mayWait: boolean;
}

/** Refusals that hold for every parent: one answer says it, thousands would only repeat it. */
const STOPPING: ReadonlySet<ErrorCode> = new Set([
  'forbidden',
  'unauthorized',
  'retry_budget',
  'throttled',
  'unreachable',
  'unresponsive',
]);
const REFUSED: ReadonlySet<ErrorCode> = new Set(['forbidden', 'unauthorized']);

/**
 * Checks parents of one scope, and removes what lost its parent. `pending` of the report counts the parents that no run
 * has had an answer for: those beyond the budget, and those that the limits had no room for.
 */
export async function sweepByParent(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  options: EachOptions,
): Promise<SweepReport> {
  const { run, client, events, signal } = context;
  const { kind } = definition;
  const stage = run.stage(kind, scope);
  const startedAt = context.clock.monotonicMs();
  events.sweepStarted({ kind, scope, reading: 'each', known: options.ids.length });

  const shape = shapeOf(definition);
  const tally = { asked: 0, found: 0, absent: 0, removed: 0 };
  const failures: TidemarkError[] = [];
  const room: { ended: TidemarkError | null } = { ended: null };
  await eachConcurrently(options.ids, context.concurrency, async (id) => {
    if (room.ended !== null || failures.some(({ code }) => STOPPING.has(code))) return;
    tally.asked += 1;
    try {
      const retrieved = await client.retrieve(definition, scope, id, signal);
      if (retrieved.found) {
        stage.accept([{ ...scanRecord(retrieved.text, shape), id }]);
        tally.found += 1;
      } else {
        tally.absent += 1;
        // If the parent is gone, its own sweep removes this record; here only its sharing ended.
        const isOver =
          options.isMirrored(id) &&
          (await client.retrieve(context.definitionOf(options.parentKind), scope, id, signal)).found;
        if (isOver) {
          stage.remove(id);
          tally.removed += 1;
        }
      }
      stage.markChecked(id);
    } catch (error) {
      signal.throwIfAborted();
      const known =
        error instanceof SyntaxError ? new TidemarkError('malformed', error.message) : asTidemarkError(error);
      if (isLocalError(known.code)) throw error;
      if (options.mayWait && isOwnLimit(known)) {
        room.ended = known;
        tally.asked -= 1;
        return;
      }
      failures.push(known);
    }
    const count = options.ids.length;
    events.sweepProgressed({ kind, scope, pages: tally.asked, received: tally.found + tally.absent, count });
  });

  // None was requested: not reported as work that continues in later runs.
  if (room.ended !== null && tally.asked === 0) failures.push(room.ended);
  tally.removed += await run.removeOrphans(kind, scope);
  const unkept = unkeptError(stage, definition);
  if (unkept !== null) failures.push(unkept);
  const failure = failures.find(({ code }) => STOPPING.has(code)) ?? failures[0] ?? null;
  const hadAny = stage.known > 0 || stage.hasRemoved;
  const counts = stage.counts();
  const report: SweepReport = {
    kind,
    scope,
    outcome: outcomeOf(failure, tally, hadAny),
    mode: 'each',
    pages: tally.asked,
    records: counts.distinct,
    added: counts.added,
    changed: counts.changed,
    removed: tally.removed,
    unchanged: counts.unchanged,
    held: 0,
    leaked: 0,
    pending: await run.countUnchecked(kind, scope),
    count: null,
    pageCap: null,
    error: sweepError(failure ?? (isNotOffered(tally, hadAny) ? notOffered(tally) : null), definition),
  };
  events.sweepEnded(report, context.clock.monotonicMs() - startedAt);
  return report;
}

/** The parents' whole collection went with its own parent, and so does what belongs to each of them. */
export async function retireEach(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
): Promise<SweepReport> {
  const { run, events } = context;
  const { kind } = definition;
  const startedAt = context.clock.monotonicMs();
  events.sweepStarted({ kind, scope, reading: 'each', known: 0 });
  const report: SweepReport = {
    kind,
    scope,
    outcome: 'complete',
    mode: 'parent',
    pages: 0,
    records: 0,
    added: 0,
    changed: 0,
    removed: await run.retire(kind, scope),
    unchanged: 0,
    held: 0,
    leaked: 0,
    pending: 0,
    count: null,
    pageCap: null,
    error: null,
  };
  events.sweepEnded(report, context.clock.monotonicMs() - startedAt);
  return report;
}

/** The service said nothing: the wait that our own limits ask for is longer than a single one may be. */
function isOwnLimit({ code, status }: TidemarkError): boolean {
  return code === 'throttled' && status === undefined;
}

interface Tally {
  readonly asked: number;
  readonly found: number;
  readonly absent: number;
}

function outcomeOf(failure: TidemarkError | null, tally: Tally, hadAny: boolean): SweepReport['outcome'] {
  if (failure !== null) {
    if (REFUSED.has(failure.code) && tally.found === 0) return 'denied';
    return tally.found + tally.absent === 0 ? 'failed' : 'incomplete';
  }
  return isNotOffered(tally, hadAny) ? 'missing' : 'complete';
}

/**
 * A 404 says that this record has none. Only where every answer was that, and nobody ever saw one of the kind, may it be
 * that the service does not offer it.
 */
function isNotOffered(tally: Tally, hadAny: boolean): boolean {
  return !hadAny && tally.found === 0 && tally.absent > 0;
}

function notOffered(tally: Tally): TidemarkError {
  return new TidemarkError('not_found', `none of the ${tally.absent} records asked for exists here`);
}

/** The share of a kind's own hour that what is read one by one may use: the rest is for the lists of the runs to come. */
const SHARE_OF_HOUR = 0.5;
/** Requests that a run may always use here, so that there is progress even if the lists alone use up the budget. */
const LEAST_SHARE = 0.01;

/** How many parents a run may request: within its budget, and within a share of the kind's own limit. */
export function budgetByParent({ client }: SweepContext, kind: Kind, budget: number): number {
  const own = client.stats().kinds?.find(({ kinds }) => kinds.includes(kind));
  if (own === undefined || own.perHour.limit === 0) return budget;
  const { limit, used } = own.perHour;
  const room = Math.floor(limit * SHARE_OF_HOUR) - used;
  return Math.min(budget, Math.max(room, Math.ceil(limit * LEAST_SHARE)));
}
