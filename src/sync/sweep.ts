/**
 * One sweep: reads a collection from first to last page into the stage, and settles the records that did not show
 * (design.md, The sync). The walk proves, the stage counts, this file decides.
 */
import type { ReadClient } from '../api/read-client.ts';
import type { WalkVerdict } from '../api/walk-verdict.ts';
import type { WalkSink } from '../api/walk-verdict.ts';
import { RecordsWithoutId } from '../api/records-without-id.ts';
import { type Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isIdSecret, shownId } from '../catalog/masks.ts';
import { volatileFields } from '../catalog/volatile-names.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, TidemarkError, isLocalError } from '../core/errors.ts';
import { type RecordShape, type ScannedRecord, scanRecord } from '../core/json-scan.ts';
import type { Logger } from '../core/logger.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import { settleAbsences, reportRemoved, type Settlement, type SweepContext } from './absence.ts';
import type { SweepError, SweepMode, SweepReport } from './outcome.ts';

interface SweepOptions {
  /** `head`: only a feed's newest pages. */
  readonly mode: 'full' | 'head';
  /** Called for every record that the service shows, also again when a page overlaps. */
  readonly onRecord?: (record: ScannedRecord, id: string) => void;
  /** Called for every record that the mirror did not hold. */
  readonly onAdded?: (id: string) => void;
  /**
   * Set when this collection's parent was removed: an answer 404 then means that the collection is gone with it. If an
   * earlier run removed the parent (`before`) and no list showed it again, so does an answer 403.
   */
  readonly parentRemoved?: 'now' | 'before' | null;
}

/** What the scanner looks for in records of this kind. */
export function shapeOf(definition: ResourceDefinition): RecordShape {
  return { idPath: definition.idPath, volatile: volatileFields(definition) };
}

/**
 * Reads one collection into the run's stage. Errors of the service become the report's outcome; only local errors (disk,
 * mirror) and interruptions are thrown, and end the run.
 */
export async function sweepCollection(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  options: SweepOptions,
): Promise<SweepReport> {
  const { client, run, events, signal } = context;
  const stage = run.stage(definition.kind, scope);
  const startedAt = context.clock.monotonicMs();
  events.sweepStarted({ kind: definition.kind, scope, reading: options.mode, known: stage.known });
  const target = { definition, scope, shape: shapeOf(definition), pageSize: context.pageSize };
  const full = definition.listing.needsRetrieve ? new Set<string>() : null;
  const nameless = new RecordsWithoutId();

  const isDebug = context.log.isLevelEnabled('debug');
  const log = isDebug ? context.log.child({ kind: definition.kind, scope }) : context.log;
  const walkOnce = async (): Promise<WalkVerdict> => {
    stage.startWalk();
    const seen = new Set<string>();
    const sink: WalkSink = {
      accept: ({ records }) => {
        const named = withIds(records);
        nameless.note(records, records.length - named.length);
        for (const record of named) options.onRecord?.(record, record.id);
        if (full === null) {
          const page = stage.accept(named);
          if (options.onAdded !== undefined) for (const id of page.addedIds) options.onAdded(id);
          return page;
        }
        const before = seen.size;
        const ever = full.size;
        for (const { id } of named) {
          seen.add(id);
          full.add(id);
        }
        const fresh = seen.size - before;
        return { fresh, again: fresh - (full.size - ever), known: 0, distinct: seen.size };
      },
      startPass: () => {
        stage.startWalk();
        seen.clear();
      },
      progress: (state) => events.sweepProgressed({ kind: definition.kind, scope, ...state }),
    };
    return options.mode === 'head'
      ? client.walkHead(target, sink, signal)
      : client.walk(target, sink, signal);
  };

  const first = await walkOnce();
  signal.throwIfAborted();
  if (full === null && first.outcome === 'complete' && first.mode === 'full') {
    const dropped = stage.dropUnproven();
    if (dropped > 0) log.debug({ dropped }, 'records that only an earlier reading showed are not taken');
  }
  let verdict = first;
  if (full !== null && full.size > 0)
    verdict = await stageFullRecords(context, definition, scope, stage, full, first);

  let settlement: Settlement = {
    outcome: verdict.outcome,
    removed: 0,
    held: 0,
    leaked: 0,
    error: verdict.error,
  };
  let mode: SweepMode = verdict.mode;
  const unkept = unkeptError(stage, definition);
  if (unkept !== null && verdict.outcome === 'complete') {
    settlement = { ...settlement, outcome: 'incomplete', error: unkept };
  } else if (verdict.outcome === 'complete' && verdict.mode === 'full') {
    const walkAgain = (): Promise<WalkVerdict> => {
      log.debug({}, 'second walk: records did not show, and they cannot be retrieved one by one');
      return walkOnce();
    };
    const logging = isDebug ? { ...context, client: withLookupLogging(client, definition, log) } : context;
    settlement = await settleAbsences(logging, definition, scope, stage, verdict, walkAgain);
  } else if (isGoneWithParent(verdict, options)) {
    settlement = { ...settlement, outcome: 'complete', removed: await retire(context, stage), error: null };
    mode = 'parent';
  }
  const counts = stage.counts();
  if (isDebug && mode === 'parent')
    log.debug({ removed: settlement.removed }, 'the collection went with its parent');
  const report: SweepReport = {
    kind: definition.kind,
    scope,
    outcome: settlement.outcome,
    mode,
    pages: verdict.pages,
    records: full === null ? counts.distinct : full.size,
    added: counts.added,
    changed: counts.changed,
    removed: settlement.removed,
    unchanged: counts.unchanged,
    held: settlement.held,
    leaked: settlement.leaked,
    pending: 0,
    count: verdict.count,
    pageCap: verdict.pageCap,
    error: sweepError(settlement.error, definition),
  };
  if (nameless.count > 0)
    context.log.warn(
      { kind: definition.kind, scope, records: nameless.count },
      'records without an id were not mirrored',
    );
  if (isDebug) logVerdict(log, definition, report, verdict);
  events.sweepEnded(report, context.clock.monotonicMs() - startedAt);
  return report;
}

/** The error that names the records that cannot be kept; null where there are none. */
export function unkeptError(stage: CollectionStage, definition: ResourceDefinition): TidemarkError | null {
  const { unkept } = stage;
  if (unkept.length === 0) return null;
  const { one, many } = definition.title;
  const named = unkept.slice(0, MOST_NAMED).map(({ id, reason }) => `${shownId(definition, id)} ${reason}`);
  const more = unkept.length > MOST_NAMED ? `; and ${unkept.length - MOST_NAMED} more` : '';
  return new TidemarkError(
    'malformed',
    `${unkept.length} ${unkept.length === 1 ? one : many} cannot be kept: ${named.join('; ')}${more}`,
    { hint: 'the mirror keeps what it held of them, and nothing was removed; correct them in the service' },
  );
}

/** Records that a message names. */
const MOST_NAMED = 5;

/** The client with its retrieves of absent records logged. */
function withLookupLogging(client: ReadClient, definition: ResourceDefinition, log: Logger): ReadClient {
  const isMasked = isIdSecret(definition);
  return {
    walk: (...asked) => client.walk(...asked),
    walkHead: (...asked) => client.walkHead(...asked),
    stats: () => client.stats(),
    close: () => client.close(),
    retrieve: async (...asked) => {
      const found = await client.retrieve(...asked);
      const [, , id] = asked;
      log.debug(
        { id: isMasked ? '[secret]' : id, found: found.found },
        found.found
          ? 'retrieve found a record that the list did not show: it is kept'
          : 'retrieve confirmed that a record is gone',
      );
      return found;
    },
  };
}

function logVerdict(
  log: Logger,
  definition: ResourceDefinition,
  report: SweepReport,
  verdict: WalkVerdict,
): void {
  const { outcome, mode, removed, held, leaked, error } = report;
  let confirmedBy = null;
  if (removed > 0 && mode === 'parent') confirmedBy = 'parent';
  else if (removed > 0)
    confirmedBy =
      definition.operation('retrieve') === undefined
        ? verdict.isOnePage
          ? 'one page'
          : 'second walk'
        : 'retrieve';
  log.debug(
    {
      ...{ outcome, mode, records: report.records, added: report.added, changed: report.changed },
      ...{ removed, held, leaked },
      ...(confirmedBy === null ? {} : { confirmedBy }),
      ...(error === null ? {} : { code: error.code, reason: error.message, permission: error.permission }),
    },
    `collection ${outcome}`,
  );
}

function withIds(records: readonly ScannedRecord[]): (ScannedRecord & { readonly id: string })[] {
  return records.filter(
    (record): record is ScannedRecord & { readonly id: string } => record.id !== undefined,
  );
}

/** Removes every record of a collection whose parent was removed. */
async function retire(context: SweepContext, stage: CollectionStage): Promise<number> {
  await reportRemoved(context, stage);
  return await context.run.retire(stage.kind, stage.scope);
}

function isGoneWithParent({ outcome }: WalkVerdict, { parentRemoved = null }: SweepOptions): boolean {
  return (
    (outcome === 'missing' && parentRemoved !== null) || (outcome === 'denied' && parentRemoved === 'before')
  );
}

/** An error as a sweep's report carries it: one line, what to do, the permission that is missing. */
export function sweepError(error: unknown, definition: ResourceDefinition): SweepError | null {
  if (error === null || error === undefined) return null;
  const known = asTidemarkError(error);
  const permission = known.code === 'forbidden' ? (known.permission ?? readPermission(definition)) : null;
  return {
    code: known.code,
    message: known.message,
    hint: rootHint(known, definition, permission) ?? known.hint ?? hintFor(known, definition, permission),
    permission,
  };
}

/** Without the root nothing is found at all: excluding it is not a way out. */
function rootHint(
  { code }: TidemarkError,
  { discovery }: ResourceDefinition,
  permission: string | null,
): string | null {
  if (discovery.from !== 'root') return null;
  if (permission !== null) return `give the key the permission ${permission}`;
  return code === 'not_found'
    ? 'check baseUrl, and the ids under `organizations` where some are named'
    : null;
}

function readPermission(definition: ResourceDefinition): string {
  const operation = definition.operation(definition.reading === 'each' ? 'retrieve' : 'list');
  return operation?.permission ?? definition.permission.read;
}

function hintFor(
  error: TidemarkError,
  definition: ResourceDefinition,
  permission: string | null,
): string | null {
  if (permission !== null)
    return `give the key the permission ${permission}, or exclude ${definition.kind} in the configuration`;
  if (error.code === 'not_found')
    return `not offered here? then exclude ${definition.kind} in the configuration`;
  return null;
}

// Kinds whose list rows are abridged: the list proves which records exist, retrieve returns each one in full.

/**
 * Retrieves every listed id into the stage. If one cannot be read, the mirror keeps the version that it has and the sweep
 * is incomplete, even if the answer is 404: only a list that no longer shows the record proves that it is gone.
 */
async function stageFullRecords(
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
          'a record is listed, but cannot be retrieved: the mirror keeps what it held of it',
        );
      }
    } catch (error) {
      context.signal.throwIfAborted();
      const known =
        error instanceof SyntaxError ? new TidemarkError('malformed', error.message) : asTidemarkError(error);
      if (isLocalError(known.code)) throw error;
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
        hint: 'the mirror keeps what it held of them; the next run tries again',
        cause: errors[0],
      },
    ),
  };
}
