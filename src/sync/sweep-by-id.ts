/**
 * Sweeps that read records by id instead of by list: named organizations, and kinds with one object per parent record
 * (recording sharing). They prove nothing about records that they did not request.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError, type ErrorCode } from '../core/errors.ts';
import { scanRecord, type ScannedRecord } from '../core/json-scan.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import type { SweepContext } from './options.ts';
import { sweepReport, type SweepReport } from './outcome.ts';
import { retrieveEach } from './retrieve.ts';
import { shapeOf, sweepError, unkeptError } from './sweep.ts';

interface NamedOptions {
  readonly ids: readonly string[];
  /** The option that names the records; null if the caller of the run names them. */
  readonly namedIn: string | null;
  readonly onRecord: (record: ScannedRecord, id: string) => void;
}

/**
 * Reads the named records. This is not a list, so it proves no removals: a 404 makes the sweep `missing` (`incomplete`
 * if others were found), and the mirror keeps the record.
 */
export async function sweepNamed(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  { ids, namedIn, onRecord }: NamedOptions,
): Promise<SweepReport> {
  const { kind } = definition;
  const stage = context.run.stage(kind, scope);
  const shape = shapeOf(definition);
  const failures: TidemarkError[] = [];
  let requested = 0;
  const progressed = (): void => {
    requested += 1;
    const counts = { pages: requested, received: requested - failures.length, count: ids.length };
    context.events.sweepProgressed({ kind, scope, ...counts });
  };
  await retrieveEach(context, {
    ...{ definition, scope, ids },
    answered: (id, text) => {
      if (text === null) {
        const where = namedIn === null ? '' : ` (${namedIn})`;
        const message = `the service does not know the ${definition.title.one} ${id}${where}`;
        failures.push(new TidemarkError('not_found', message));
      } else {
        const record = { ...scanRecord(text, shape), id };
        stage.accept([record]);
        onRecord(record, id);
      }
      progressed();
    },
    failed: (_id, error) => {
      failures.push(error);
      progressed();
    },
  });
  const unkept = unkeptError(stage, definition);
  if (unkept !== null) failures.push(unkept);
  const { distinct, added, changed, unchanged } = stage.counts();
  return sweepReport({
    ...{ kind, scope, outcome: outcomeOfNamed(failures, ids.length), mode: 'each', pages: ids.length },
    ...{ records: distinct, added, changed, unchanged },
    error: sweepError(failures[0] ?? null, definition),
  });
}

function outcomeOfNamed(failures: readonly TidemarkError[], requested: number): SweepOutcome {
  if (failures.length === 0) return 'complete';
  if (failures.length < requested) return 'incomplete';
  if (failures.every(({ code }) => REFUSED.has(code))) return 'denied';
  return failures.every(({ code }) => code === 'not_found') ? 'missing' : 'failed';
}

// Kinds read with one request per parent record, limited per run: first new parents, then those never checked, then
// those checked longest ago (design.md, The sync).

interface EachOptions {
  readonly parentKind: Kind;
  /** Ids of the parents to check, in this order, each once. */
  readonly ids: readonly string[];
  /** True if the mirror has a current record of this kind for the parent. */
  readonly isMirrored: (id: string) => boolean;
  /** True if a run need not check all of them. Then parents for which the limits of the source have no room wait too. */
  readonly mayWait: boolean;
}

const REFUSED: ReadonlySet<ErrorCode> = new Set(['forbidden', 'unauthorized']);
/** Errors that every further request would meet too. */
const STOPPING: ReadonlySet<ErrorCode> = new Set([
  ...REFUSED,
  'retry_budget',
  'throttled',
  'unreachable',
  'unresponsive',
]);

/**
 * Checks parents of one scope, and removes records whose parent is gone. `pending` of the report counts the parents
 * that no run has checked: those beyond the budget, and those for which the limits had no room.
 */
export async function sweepByParent(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  options: EachOptions,
): Promise<SweepReport> {
  const { run, client, events, signal } = context;
  const { kind } = definition;
  const { ids } = options;
  const stage = run.stage(kind, scope);
  const shape = shapeOf(definition);
  const tally = { asked: 0, found: 0, absent: 0, removed: 0 };
  const failures: TidemarkError[] = [];
  // A list, because the type of a variable that only callbacks assign would be narrowed to its initial value.
  const noRoom: TidemarkError[] = [];
  const progressed = (): void => {
    tally.asked += 1;
    const received = tally.found + tally.absent;
    events.sweepProgressed({ kind, scope, pages: tally.asked, received, count: ids.length });
  };
  await retrieveEach(context, {
    ...{ definition, scope, ids },
    isOver: () => noRoom.length > 0 || failures.some(({ code }) => STOPPING.has(code)),
    answered: async (id, text) => {
      if (text !== null) {
        stage.accept([{ ...scanRecord(text, shape), id }]);
        tally.found += 1;
      } else {
        tally.absent += 1;
        // If the parent is gone, its own sweep decides on this record. Otherwise only its sharing ended.
        const parent = context.definitionOf(options.parentKind);
        if (options.isMirrored(id) && (await client.retrieve(parent, scope, id, signal)).found) {
          stage.remove(id);
          tally.removed += 1;
        }
      }
      stage.markChecked(id);
      progressed();
    },
    failed: (_id, error) => {
      if (options.mayWait && isOwnLimit(error)) {
        noRoom.push(error);
        return;
      }
      failures.push(error);
      progressed();
    },
  });

  // If nothing was requested at all, the limit is reported as an error, not as work for later runs.
  if (tally.asked === 0) failures.push(...noRoom.slice(0, 1));
  tally.removed += await run.removeOrphans(kind, scope);
  const unkept = unkeptError(stage, definition);
  if (unkept !== null) failures.push(unkept);
  const failure = failures.find(({ code }) => STOPPING.has(code)) ?? failures[0] ?? null;
  const hadAny = stage.known > 0 || stage.hasRemoved;
  // A 404 means that this parent has no such record. If all responses were 404 and no record of the kind was ever seen,
  // the service may not offer the kind.
  const notOffered =
    !hadAny && tally.found === 0 && tally.absent > 0
      ? new TidemarkError('not_found', `none of the ${tally.absent} records asked for exists here`)
      : null;
  const { distinct, added, changed, unchanged } = stage.counts();
  let outcome: SweepOutcome = notOffered === null ? 'complete' : 'missing';
  if (failure !== null && REFUSED.has(failure.code) && tally.found === 0) outcome = 'denied';
  else if (failure !== null) outcome = tally.found + tally.absent === 0 ? 'failed' : 'incomplete';
  return sweepReport({
    ...{
      kind,
      scope,
      outcome,
      mode: 'each',
      pages: tally.asked,
      records: distinct,
      added,
      changed,
      unchanged,
    },
    removed: tally.removed,
    pending: await run.countUnchecked(kind, scope),
    error: sweepError(failure ?? notOffered, definition),
  });
}

/** True if the request was not sent because our own limits would make it wait for too long. */
function isOwnLimit({ code, status }: TidemarkError): boolean {
  return code === 'throttled' && status === undefined;
}

/** The share of a kind's hourly limit for reading one by one. The rest is for the lists of later runs. */
const SHARE_OF_HOUR = 0.5;
/** The share that a run may always use, so that it makes progress even if the lists alone use up the limit. */
const LEAST_SHARE = 0.01;

/** How many parents a run may request: within its budget, and within a share of the kind's own limit. */
export function budgetByParent({ client }: SweepContext, kind: Kind, budget: number): number {
  const own = client.stats().kinds?.find(({ kinds }) => kinds.includes(kind));
  if (own === undefined || own.perHour.limit === 0) return budget;
  const { limit, used } = own.perHour;
  const room = Math.floor(limit * SHARE_OF_HOUR) - used;
  return Math.min(budget, Math.max(room, Math.ceil(limit * LEAST_SHARE)));
}
