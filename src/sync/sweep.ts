/**
 * One sweep: reads a collection from the first page to the last into the stage, and decides on the records that were
 * not shown (design.md, The sync). The walk proves, the stage counts, this module decides.
 */
import type { ReadClient } from '../api/read-client.ts';
import { RecordsWithoutId, type WalkSink, type WalkVerdict } from '../api/walk-verdict.ts';
import { definitionOf } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { KindRow } from '../catalog/kinds.ts';
import { isIdSecret, shownId, type ResourceDefinition } from '../catalog/resource-definition.ts';
import { volatileFields } from '../catalog/volatile-names.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { NO_ORGANIZATIONS, OR_EXCLUDE, permissionAdvice } from '../core/hints.ts';
import { type RecordShape, type ScannedRecord, scanRecord } from '../core/json-scan.ts';
import type { Logger } from '../core/logger.ts';
import { plural } from '../core/wording.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import { proofOfAbsence, reportRemoved, resolveAbsences, type AbsenceResult } from './absence.ts';
import type { SweepContext } from './options.ts';
import { sweepReport, type SweepError, type SweepMode, type SweepReport } from './outcome.ts';
import { retrieveEach } from './retrieve.ts';

interface SweepOptions {
  /** `head`: only the newest pages of a feed. */
  readonly mode: 'full' | 'head';
  /** Called for every record received, repeatedly for those on overlapping pages. */
  readonly onRecord: (record: ScannedRecord, id: string) => void;
  /** Called for every record that is new to the mirror. */
  readonly onAdded: (id: string) => void;
  /**
   * Set if the parent of this collection was removed: then a 404 means that the collection is gone too. If an earlier
   * run removed the parent (`before`) and no list showed it again, so does a 403.
   */
  readonly parentRemoved: 'now' | 'before' | null;
  /** False if the parent is known only from the mirror, because no list of this run has shown it. */
  readonly isParentShown: boolean;
}

/** What the scanner looks for in records of the kind. */
export function shapeOf(definition: ResourceDefinition): RecordShape {
  return { idPath: definition.idPath, volatile: volatileFields(definition) };
}

/**
 * Reads one collection into the stage of the run. Errors of the service become the outcome of the report. Only local
 * errors (disk, mirror) and interruptions are thrown, and end the run.
 */
export async function sweepCollection(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  options: SweepOptions,
): Promise<SweepReport> {
  const { client, run, events, signal } = context;
  const { kind } = definition;
  const stage = run.stage(kind, scope);
  const target = { definition, scope, shape: shapeOf(definition), pageSize: context.pageSize };
  const full = definition.listing.needsRetrieve ? new Set<string>() : null;
  const nameless = new RecordsWithoutId();

  const isDebug = context.log.isLevelEnabled('debug');
  const log = isDebug ? context.log.child({ kind, scope }) : context.log;
  const walkOnce = async (): Promise<WalkVerdict> => {
    stage.startPass();
    const seen = new Set<string>();
    const sink: WalkSink = {
      accept: ({ records }) => {
        const named = withIds(records);
        nameless.note(records, records.length - named.length);
        for (const record of named) options.onRecord(record, record.id);
        if (full === null) {
          const page = stage.accept(named);
          for (const id of page.addedIds) options.onAdded(id);
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
        stage.startPass();
        seen.clear();
      },
      progress: (state) => events.sweepProgressed({ kind, scope, ...state }),
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

  const { outcome, error, pages } = verdict;
  let absences: AbsenceResult = { outcome, removed: 0, held: 0, leaked: 0, error };
  let mode: SweepMode = verdict.mode;
  const proof = proofOfAbsence(definition, verdict.isOnePage);
  const unkept = unkeptError(stage, definition);
  if (unkept !== null && outcome === 'complete') {
    absences = { ...absences, outcome: 'incomplete', error: unkept };
  } else if (outcome === 'complete' && mode === 'full') {
    const walkAgain = (): Promise<WalkVerdict> => {
      log.debug({}, 'second walk: records did not show, and they cannot be retrieved one by one');
      return walkOnce();
    };
    const logging = isDebug ? { ...context, client: withLookupLogging(client, definition, log) } : context;
    absences = await resolveAbsences({ context: logging, definition, scope, stage, proof }, walkAgain);
  } else if (isGoneWithParent(verdict, options)) {
    await reportRemoved(context, stage);
    absences = { ...absences, outcome: 'complete', removed: await run.retire(kind, scope), error: null };
    mode = 'parent';
    log.debug({ removed: absences.removed }, 'the collection went with its parent');
  }
  const { added, changed, unchanged, distinct } = stage.counts();
  const { removed, held, leaked } = absences;
  const report = sweepReport({
    ...{
      kind,
      scope,
      outcome: absences.outcome,
      mode,
      pages,
      records: full === null ? distinct : full.size,
    },
    ...{ added, changed, removed, unchanged, held, leaked, count: verdict.count, pageCap: verdict.pageCap },
    error: sweepError(absences.error, definition, options),
  });
  if (nameless.count > 0)
    context.log.warn({ kind, scope, records: nameless.count }, 'records without an id were not mirrored');
  if (isDebug) logReport(log, report, proof);
  return report;
}

/** The error that names the records that cannot be kept; null if there are none. */
export function unkeptError(stage: CollectionStage, definition: ResourceDefinition): TidemarkError | null {
  const { unkept } = stage;
  if (unkept.length === 0) return null;
  const { one, many } = definition.title;
  const named = unkept.slice(0, MOST_NAMED).map(({ id, reason }) => `${shownId(definition, id)} ${reason}`);
  const more = unkept.length > MOST_NAMED ? `; and ${unkept.length - MOST_NAMED} more` : '';
  return new TidemarkError(
    'malformed',
    `${plural(unkept.length, one, many)} cannot be kept: ${named.join('; ')}${more}`,
    { hint: 'the mirror keeps what it held of them, and nothing was removed; correct them in the service' },
  );
}

/** How many records a message names. */
const MOST_NAMED = 5;

/** The client, with each retrieve of an absent record logged. */
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

function logReport(log: Logger, report: SweepReport, proof: string): void {
  const { outcome, mode, records, added, changed, removed, held, leaked, error } = report;
  log.debug(
    {
      ...{ outcome, mode, records, added, changed, removed, held, leaked },
      ...(removed > 0 ? { confirmedBy: mode === 'parent' ? 'parent' : proof } : {}),
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

function isGoneWithParent({ outcome, pages }: WalkVerdict, { parentRemoved }: SweepOptions): boolean {
  // A collection with a page exists.
  if (pages > 0) return false;
  return (
    (outcome === 'missing' && parentRemoved !== null) || (outcome === 'denied' && parentRemoved === 'before')
  );
}

/** The error of a sweep's report: its message, a hint, and the missing permission. */
export function sweepError(
  error: unknown,
  definition: ResourceDefinition,
  { isParentShown }: Pick<SweepOptions, 'isParentShown'> = { isParentShown: true },
): SweepError | null {
  if (error === null || error === undefined) return null;
  const { code, message, hint, permission: named } = asTidemarkError(error);
  const operation = definition.operation(definition.reading === 'each' ? 'retrieve' : 'list');
  const needed = named ?? operation?.permission ?? definition.permission.read;
  const permission = code === 'forbidden' ? needed : null;
  const isRoot = definition.discovery.from === 'root';
  const notFound = isRoot
    ? NO_ORGANIZATIONS
    : `not offered here? then exclude ${definition.kind} in the configuration`;
  if (code === 'not_found' && !isParentShown)
    return { code, message, hint: parentMissing(definition), permission };
  const forbidden = deniedAdvice([{ kind: definition.kind, permission: needed }]);
  const advice = code === 'forbidden' ? forbidden : code === 'not_found' ? notFound : null;
  const isAdvised = isRoot || code === 'forbidden';
  return { code, message, hint: (isAdvised ? (advice ?? hint) : (hint ?? advice)) ?? null, permission };
}

/** The hint for any lists that the key may not read. */
export function deniedAdvice(
  denied: readonly { readonly kind: KindRow['kind']; readonly permission: string | null }[],
): string {
  const needed = denied.map(({ kind, permission }) => permission ?? definitionOf(kind).permission.read);
  // Excluding the root does not help, because without it nothing is found at all.
  const isRoot = denied.some(({ kind }) => definitionOf(kind).discovery.from === 'root');
  return `${permissionAdvice(...new Set(needed))}${isRoot ? '' : OR_EXCLUDE}`;
}

/** The hint for a missing list whose parent record no list of the run showed, so that the kind is not at fault. */
export function parentMissing({ kind, discovery }: KindRow): string {
  const above = discovery.from === 'root' ? kind : discovery.from;
  return `no list of the run shows the ${definitionOf(above).title.one} that it belongs to: look at ${above} first`;
}

// Kinds whose list rows are abridged: the list proves which records exist, retrieve returns each one in full.

/**
 * Retrieves every listed id into the stage. If one cannot be read, the mirror keeps its version and the sweep is
 * incomplete, even after a 404: only a list that no longer shows the record proves that it is gone.
 */
async function stageFullRecords(
  context: SweepContext,
  definition: ResourceDefinition,
  scope: Scope,
  stage: CollectionStage,
  ids: ReadonlySet<string>,
  verdict: WalkVerdict,
): Promise<WalkVerdict> {
  const { kind } = definition;
  const shape = shapeOf(definition);
  const tally = { received: 0, notFound: 0 };
  const errors: TidemarkError[] = [];
  const progressed = (): void => {
    const { received, notFound } = tally;
    const pages = verdict.pages + received + notFound + errors.length;
    context.events.sweepProgressed({ kind, scope, pages, received, count: ids.size });
  };
  await retrieveEach(context, {
    ...{ definition, scope, ids },
    answered: (id, text) => {
      if (text === null) {
        stage.keep(id);
        tally.notFound += 1;
        context.log.warn(
          { kind, scope, id },
          'a record is listed, but cannot be retrieved: the mirror keeps what it held of it',
        );
      } else {
        stage.accept([{ ...scanRecord(text, shape), id }]);
        tally.received += 1;
      }
      progressed();
    },
    failed: (_id, error) => {
      errors.push(error);
      progressed();
    },
  });
  const unread = errors.length + tally.notFound;
  if (unread === 0 || verdict.outcome !== 'complete') return verdict;
  const message =
    errors.length === 0
      ? `${unread} of ${ids.size} records are listed, but cannot be retrieved (404)`
      : `${unread} of ${ids.size} records could not be retrieved completely`;
  const hint = 'the mirror keeps what it held of them; the next run tries again';
  return {
    ...verdict,
    outcome: 'incomplete',
    error: new TidemarkError('walk_unproven', message, { hint, cause: errors[0] }),
  };
}
