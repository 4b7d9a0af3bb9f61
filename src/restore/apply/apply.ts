/** Applies a plan: the only code that changes the service (design.md, Restore: Apply). */
import { UNLIMITED_REQUESTS } from '../../api/transport.ts';
import type { ReadClient } from '../../api/read-client.ts';
import type { WriteClient } from '../../api/write-client.ts';
import { collectionKey, definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { SourceConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { eachConcurrently } from '../../core/concurrently.ts';
import { TidemarkError } from '../../core/errors.ts';
import { type JsonValue, parseLossless } from '../../core/json.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { redactionWith } from '../../sync/redaction.ts';
import {
  type Plan,
  type PlannedRequest,
  type PlanStep,
  isExecutable,
  planHash,
  type SecretLookup,
} from '../plan/plan.ts';
import { bySendableKey } from '../plan/settings.ts';
import { naturalKeyDigest } from '../records.ts';
import { idLookup } from '../../state/recreated-ids.ts';
import { reportCreatedTwice } from './created-twice.ts';
import { RestoreJournal } from './journal.ts';
import { LiveRecords, isRetrieved } from './live-records.ts';
import {
  type ApplyEvents,
  type DesiredLookup,
  type LookUpContext,
  type StepContext,
  sharedNames,
} from './ready-step.ts';
import {
  type RestoreReport,
  isAlreadyApplied,
  isDoneStep,
  isUnendedStep,
  mayHaveActed,
  restoreReport,
  resumedReport,
} from './report.ts';
import { runStep } from './step.ts';

export const NO_EVENTS: ApplyEvents = {
  started: () => undefined,
  stepStarted: () => undefined,
  stepEnded: () => undefined,
  sending: () => undefined,
  sent: () => undefined,
  lookingUp: () => undefined,
};

export interface ApplyOptions {
  readonly plan: Plan;
  /** Open for writing: its lock excludes other restores and syncs. */
  readonly mirror: Mirror;
  readonly source: Pick<SourceConfig, 'name' | 'definitions' | 'pageSize'> &
    Partial<Pick<SourceConfig, 'redact'>>;
  /** Stays open. */
  readonly client: WriteClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** When aborted, the steps in flight are finished, and no other one is begun. */
  readonly signal: AbortSignal;
  readonly events: ApplyEvents;
  readonly secrets: SecretLookup;
  /**
   * The bodies of all desired records from which the plan was made: for secrets in clear text, and to distinguish a record that was
   * created by hand from another desired one of the same name.
   */
  readonly desired: DesiredLookup;
  /** The number of steps of a level that run at the same time; the client's own limits apply too. */
  readonly concurrency: number;
  /** The maximum of creations that are journaled as sent without an answer: after a kill, these are in doubt. Default: `concurrency`. */
  readonly requests?: number;
  /** What the user approved besides the plan; stored with the restore. */
  readonly approved?: Readonly<Record<string, JsonValue>>;
  /** The restore that the plan undoes. */
  readonly undoes?: number;
  /** Resumes this restore instead of starting one; its plan is `plan` (`readResumable`). */
  readonly restore?: number;
}

/** How long an interrupted restore waits for the steps in flight: one may be waiting for the hourly limit. */
const GRACE_MS = 15_000;

/**
 * Journals the plan and applies it, level by level. Errors of the service are part of the report; only a local error (the journal cannot
 * be written) is thrown, after the steps in flight ended.
 * @throws TidemarkError `unsafe_plan` when guards refuse the plan, or its hash does not match
 */
export async function applyPlan(options: ApplyOptions): Promise<RestoreReport> {
  const { plan, mirror, source, clock, signal } = options;
  requireSafe(plan);
  const mostUnanswered = options.requests ?? options.concurrency;
  const journal =
    options.restore === undefined
      ? RestoreJournal.begin({
          mirror,
          clock,
          source: source.name,
          plan,
          approved: options.approved ?? {},
          mostUnanswered,
          ...(options.undoes === undefined ? {} : { undoes: options.undoes }),
        })
      : RestoreJournal.resume({ mirror, clock, plan, mostUnanswered }, options.restore);
  const done = new Set(journal.rows().flatMap(({ n, outcome }) => (outcome === 'applied' ? [n] : [])));
  const finished = new AbortController();
  /** Aborted after an interruption, or an error that every further request would meet: then no further step is started. */
  const halt = new AbortController();
  const grace = new AbortController();
  const onAbort = (): void => {
    halt.abort(signal.reason);
    void waitThenAbort(clock, finished.signal, grace);
  };
  if (signal.aborted) halt.abort(signal.reason);
  else signal.addEventListener('abort', onAbort, { once: true });
  let stoppedBy: string | null;
  try {
    stoppedBy = await applyLevels(
      contextOf(options, journal, { halt: halt.signal, grace: grace.signal }),
      options,
      halt,
    );
    journal.finish(outcomeOf(plan, journal, signal.aborted));
  } catch (error) {
    // The latest entries may not be on disk yet. If writing them fails, that is this same error, or `finish` reports it.
    await journal.settled().catch(() => undefined);
    endAfterProblem(journal, options.log);
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    finished.abort();
  }
  const whole = restoreReport(mirror, journal.restore);
  const report = { ...whole, ...(stoppedBy === null ? {} : { stopped_by: stoppedBy }) };
  return options.restore === undefined ? report : resumedReport(report, done);
}

function requireSafe(plan: Plan): void {
  const [refusal] = plan.refused;
  if (refusal !== undefined) throw new TidemarkError('unsafe_plan', refusal.reason, { hint: refusal.hint });
  if (planHash(plan) === plan.hash) return;
  throw new TidemarkError(
    'unsafe_plan',
    'the plan does not match its hash: it was changed after it was made',
    {
      hint: 'make a new plan, by the command that made this one',
    },
  );
}

async function waitThenAbort(clock: Clock, finished: AbortSignal, grace: AbortController): Promise<void> {
  try {
    await clock.sleep(GRACE_MS, finished);
    grace.abort();
  } catch (error) {
    if (!finished.aborted) throw error;
  }
}

/** The options for looking up steps, without anything that writes. */
export interface LookUpOptions extends Pick<
  ApplyOptions,
  'plan' | 'source' | 'clock' | 'log' | 'events' | 'secrets' | 'desired' | 'restore'
> {
  readonly mirror: Pick<Mirror, 'acceptances'> & {
    readonly restores: Pick<Mirror['restores'], 'idMap' | 'backupSince' | 'creations'>;
    /** Left out if nothing will be created. */
    readonly records?: Pick<Mirror['records'], 'read'>;
  };
  readonly reader: ReadClient;
  /** As in `LookUpContext`. Default: false, because a resumed restore would create a second record. */
  readonly leavesOthers?: boolean;
}

interface StopSignals {
  readonly halt: AbortSignal;
  readonly grace: AbortSignal;
}

function contextOf(options: ApplyOptions, journal: RestoreJournal, signals: StopSignals): StepContext {
  const { client } = options;
  return { ...lookUpContext({ ...options, reader: client.reader }, journal, signals), client };
}

/** The context of a restore's steps in which nothing can be sent. */
export function lookUpContext(
  options: LookUpOptions,
  journal: RestoreJournal,
  { halt, grace }: StopSignals,
): LookUpContext {
  const { plan, source, reader, clock, log, events, secrets, desired } = options;
  const byKind = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const claims = new Map<string, number>();
  const definitions = (kind: Kind): ResourceDefinition => byKind.get(kind) ?? definitionOf(kind);
  const live = new LiveRecords({
    definitions,
    reader,
    clock,
    pageSize: source.pageSize,
    redaction: source.redact === true ? redactionWith(options.mirror.acceptances.fingerprintKey()) : null,
  });
  const idMap = idLookup(options.mirror.restores.idMap(source.name));
  const kinds = new Map(
    plan.steps.flatMap(({ n, request }) => (request === null ? [] : [[n, request.kind]])),
  );
  const newIdOf = (n: number): string | null => {
    const { newId } = journal.row(n);
    const kind = kinds.get(n);
    return newId === null || kind === undefined ? newId : (idMap(kind, newId) ?? newId);
  };
  const creations = new Map(
    plan.steps.flatMap(({ n, kind, desired: own, request }) =>
      request?.role === 'create' && request.kind === kind && own !== null ? [[`${kind} ${own.id}`, n]] : [],
    ),
  );
  const idNow = (kind: Kind, id: string): string => {
    const n = creations.get(`${kind} ${id}`);
    return (n === undefined ? null : newIdOf(n)) ?? idMap(kind, id) ?? id;
  };
  for (const { n, request } of plan.steps) {
    const newId = newIdOf(n);
    if (request === null || newId === null) continue;
    claims.set(`${request.kind} ${newId}`, n);
    const definition = definitions(request.kind);
    const scope = scopeOfRequest(request, definition, newIdOf);
    // A record of a kind without GET by id may have been removed since.
    if (scope !== null && isRetrieved(definition)) live.created(definition, scope, newId);
  }
  return {
    source: source.name,
    live,
    journal,
    definitions,
    secrets,
    desired,
    ...{ idMap, newIdOf, idNow },
    namesakes: namesakesIn(options.mirror.records, source.name),
    adopted: new Set(plan.adopted.map(({ kind, live_id }) => `${kind} ${live_id}`)),
    replaced: replacedIds(plan, definitions),
    leaving: new Set(
      plan.steps.flatMap(({ kind, id, request }) => (request?.role === 'remove' ? [`${kind} ${id}`] : [])),
    ),
    sharedNames: sharedNames(plan.steps, definitions),
    plannedNames: new Set(
      plan.steps.flatMap(({ kind, request }) => {
        if (request?.role !== 'create' || request.kind !== kind || request.body === null) return [];
        return [`${kind} ${naturalKeyDigest(bySendableKey(definitions(kind)), request.body)}`];
      }),
    ),
    createdBy: otherCreators(options.mirror.restores, source.name, journal.restore),
    leavesOthers: options.leavesOthers ?? false,
    claims,
    persons: personSteps(plan.steps),
    actions: followingActions(plan.steps),
    clock,
    log,
    events,
    perhapsSent: new Set(),
    unknownPaths: new Set(),
    isResumed: options.restore !== undefined,
    isFromBackup:
      options.restore !== undefined && options.mirror.restores.backupSince(options.restore) !== null,
    // Not AbortSignal.any(): that checks each of its sources on every read of `aborted`.
    signal: halt,
    grace,
  };
}

/** The scope of the record of a request, with the ids of records that earlier steps created; null if one is missing. */
function scopeOfRequest(
  { parameters }: PlannedRequest,
  { scope }: ResourceDefinition,
  newIdOf: LookUpContext['newIdOf'],
): Scope | null {
  const ids = scope.map((key) => {
    const found = parameters.find(({ name }) => name === key);
    if (found === undefined) return null;
    return 'value' in found ? found.value : newIdOf(found.step);
  });
  return ids.includes(null) ? null : (Object.fromEntries(scope.map((key, at) => [key, ids[at]])) as Scope);
}

/** Looks up other restores' creations. They are read once, on first use: nothing else is created in the meantime. */
function otherCreators(
  restores: LookUpOptions['mirror']['restores'],
  source: string,
  own: number,
): LookUpContext['createdBy'] {
  let others: ReadonlyMap<string, number> | undefined;
  return (kind, id) =>
    (others ??= new Map(
      restores
        .creations(source)
        .flatMap((each) =>
          each.restore === own ? [] : [[`${each.kind} ${each.id}`, each.restore] as const],
        ),
    )).get(`${kind} ${id}`);
}

/** Looks up ids by natural key. The keys of a collection are read when its first record is going to be created. */
function namesakesIn(
  records: LookUpOptions['mirror']['records'],
  source: string,
): LookUpContext['namesakes'] {
  const collections = new Map<string, Map<string, string[]>>();
  return (definition, scope, key) => {
    const { kind } = definition;
    const collection = collectionKey({ kind, scope });
    let ids = collections.get(collection);
    if (ids === undefined) {
      collections.set(collection, (ids = new Map<string, string[]>()));
      for (const { id, body } of records?.read({ sources: [source], kinds: [kind], scope }) ?? []) {
        const own = naturalKeyDigest(definition, parseLossless(body));
        if (own !== null) ids.set(own, [...(ids.get(own) ?? []), id]);
      }
    }
    return ids.get(key) ?? [];
  };
}

/** Records to be removed of kinds whose creations replace their namesakes. */
function replacedIds({ steps }: Plan, definitions: StepContext['definitions']): ReadonlySet<string> {
  return new Set(
    steps.flatMap(({ kind, id, request }) =>
      request?.role === 'remove' && definitions(kind).restore.replacesNamesake ? [`${kind} ${id}`] : [],
    ),
  );
}

/** Applies the open steps; returns the code of the error that stopped it because every further request would meet it, or null. */
async function applyLevels(
  context: StepContext,
  options: ApplyOptions,
  halt: AbortController,
): Promise<string | null> {
  const { plan, concurrency, events } = options;
  const { journal, log, signal } = context;
  // An action became manual work if its record is in another place than it was.
  const isLeft = ({ n, action }: PlanStep): boolean =>
    action === 'act' && journal.row(n).outcome === 'manual';
  const isOpen = (step: PlanStep): boolean => {
    const { outcome, verified, errorCode } = journal.row(step.n);
    // A record that differed in an earlier attempt is read again. Not for `rejected`: a second record does not show in the first.
    const isDifferent = verified === false && errorCode !== 'rejected';
    return !isLeft(step) && (outcome !== 'applied' || verified === null || isDifferent);
  };
  const open = plan.steps.filter((step) => isExecutable(step) && isOpen(step));
  events.started(journal.restore, open.length);
  /** Applied steps whose journal entry is not durable yet. */
  const awaitingDisk = new Set<PlanStep>();
  const reportEnded = (step: PlanStep): void => {
    awaitingDisk.delete(step);
    events.stepEnded(step, journal.row(step.n));
  };
  const reportEndedOnceDurable = (step: PlanStep, onDisk: Promise<void>): void => {
    awaitingDisk.add(step);
    onDisk
      .then(() => awaitingDisk.has(step) && reportEnded(step))
      .catch((error: unknown) => log.debug({ step: step.n, error }, 'not journaled yet: it is tried again'));
  };
  const stops: string[] = [];
  const levels = Map.groupBy(open, ({ level }) => level);
  for (const level of [...levels.keys()].sort((a, b) => a - b)) {
    await eachConcurrently(levels.get(level) ?? [], concurrency, async (step) => {
      if (signal.aborted) return;
      events.stepStarted(step);
      const obstacle =
        missingBefore(context, plan, step) ??
        (step.action === 'act' ? await unseenBefore(context, plan, step) : null);
      if (isLeft(step)) {
        reportEnded(step);
        return;
      }
      if (obstacle !== null) {
        journal.end(step.n, { outcome: 'skipped', errorCode: 'needs_failed', error: obstacle });
        reportEnded(step);
        return;
      }
      const { stoppedBy, onDisk } = await runStep(context, step).finally(() => journal.over(step.n));
      if (stoppedBy !== null) {
        stops.push(stoppedBy);
        halt.abort();
      }
      // The next step does not wait for this entry: its own `sent` is written after it.
      if (onDisk !== null) reportEndedOnceDurable(step, onDisk);
      else reportEnded(step);
    });
    await journal.settled();
    // Their entries could not be written at first, and are written now.
    for (const step of awaitingDisk) reportEnded(step);
  }
  if (!signal.aborted) await reportCreatedTwice(context, plan.steps);
  return stops[0] ?? null;
}

/** The message that a step on which this one depends was not applied; null if all were. */
function missingBefore(context: StepContext, plan: Plan, step: PlanStep): string | null {
  const { journal } = context;
  const missing = step.after.find(
    (n) => journal.row(n).outcome !== 'applied' && !isAlreadyApplied(journal.row(n)),
  );
  return missing === undefined ? null : `it needs ${named(context, plan, missing)}, which was not applied`;
}

/** The message that an action has to wait, because its record was not read back as sent; null if it was. */
async function unseenBefore(context: StepContext, plan: Plan, step: PlanStep): Promise<string | null> {
  const { journal } = context;
  for (const n of step.after) {
    const before = plan.steps.find((each) => each.n === n);
    if (before === undefined || before.kind !== step.kind || before.id !== step.id) continue;
    if (journal.row(n).verified === null) await runStep(context, before);
    const { verified } = journal.row(n);
    if (verified === true) continue;
    const why = verified === false ? 'which differs from what was sent' : 'which was not read back';
    return `it waits for ${named(context, plan, n)}, ${why}`;
  }
  return null;
}

function named({ definitions }: StepContext, plan: Plan, n: number): string {
  const step = plan.steps.find((each) => each.n === n);
  return step === undefined ? `step ${n}` : `step ${n} (${definitions(step.kind).title.one} ${step.name})`;
}

/** The outcome of a restore. @param isStopped true if a signal ended it */
export function outcomeOf(
  plan: Plan,
  journal: RestoreJournal,
  isStopped: boolean,
): Exclude<RestoreReport['outcome'], 'running'> {
  const rows = journal.rows();
  const isUnfinished = rows.some(isUnendedStep);
  // The service may be half-way between two states, so the restore is reported until somebody resumes or abandons it.
  if (isUnfinished && (isStopped || rows.some(mayHaveActed))) return 'interrupted';
  if (rows.every(isDoneStep)) return 'complete';
  const isLeft = plan.steps.some((step) => isExecutable(step) && !isDoneStep(journal.row(step.n)));
  return isLeft && !rows.some(mayHaveActed) ? 'failed' : 'partial';
}

/** Journals that the restore ended, if that is still possible; the caller reports the error. */
function endAfterProblem(journal: RestoreJournal, log: Logger): void {
  try {
    journal.finish('interrupted');
  } catch (error) {
    // The next opening for writing marks it as interrupted, and the caller's error is about the journal anyway.
    log.debug({ restore: journal.restore, error }, 'the end of the restore could not be journaled');
  }
}

/** Steps for each concurrency slot, if no rate limits the requests. */
const STEPS_PER_REQUEST = 64;

/** Requests of a step. */
const REQUESTS = 3;

/** How long a creation waits for a slow disk in milliseconds: two writes, shared with other steps. */
const DISK_WAITS_MS = 200;

/**
 * The number of steps that run at the same time. A step also waits for the disk, and other steps use its slot meanwhile. With a rate
 * limit, more steps would only wait in the queue of the limiter. No more creations than slots are journaled as sent.
 * @param rate of a source; 0 = no limit
 */
export function applyConcurrency(rate: {
  readonly perMinute: number;
  readonly perHour: number;
  readonly concurrency: number;
}): Pick<ApplyOptions, 'concurrency'> & { readonly requests: number } {
  const requests = rate.concurrency === 0 ? UNLIMITED_REQUESTS : rate.concurrency;
  const most = requests * STEPS_PER_REQUEST;
  const perMinute = rate.perMinute === 0 ? rate.perHour : rate.perMinute;
  const atWork = requests + Math.ceil((perMinute / REQUESTS / 60_000) * DISK_WAITS_MS);
  return { concurrency: perMinute === 0 ? most : Math.min(most, atWork), requests };
}

/** Actions, by the step of the same record that they follow. */
function followingActions(steps: readonly PlanStep[]): ReadonlyMap<number, PlanStep> {
  return new Map(
    steps.flatMap((step) =>
      step.action === 'act' && step.precondition?.state === 'after' ? [[step.precondition.step, step]] : [],
    ),
  );
}

/** Manual steps, by the step that creates their record. */
function personSteps(steps: readonly PlanStep[]): ReadonlyMap<number, readonly PlanStep[]> {
  const byCreation = new Map<number, PlanStep[]>();
  for (const step of steps) {
    if (step.obstacle !== 'needs_person') continue;
    for (const n of step.after) byCreation.set(n, [...(byCreation.get(n) ?? []), step]);
  }
  return byCreation;
}
