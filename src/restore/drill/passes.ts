/** The drill itself: read, plan, apply, and again, until a plan has nothing left to send. All of it the real code. */
import type { WriteClient } from '../../api/write-client.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { SourceConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { Logger } from '../../core/logger.ts';
import type { ParsedRecord, Skipped } from '../../diff/change.ts';
import type { RecordKey } from '../../diff/order.ts';
import { type RecordState, parseState } from '../../diff/states.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type StateFilter, filterParts, selectsCollection, selectsRecord } from '../../state/filter.ts';
import { readLive } from '../../state/live-state.ts';
import type { LoadedState } from '../../state/state.ts';
import type { Reader } from '../../state/temporary-mirror.ts';
import { silentEvents } from '../../sync/events.ts';
import { applyPlan, applyConcurrency } from '../apply/apply.ts';
import type { ApplyEvents } from '../apply/ready-step.ts';
import type { RestoreReport } from '../apply/report.ts';
import { kindsToRead } from '../plan/dependents.ts';
import { type PlanInput, type PlanState, type Plan, isExecutable } from '../plan/plan.ts';
import { planRestore } from '../plan/planner.ts';
import { idLookup, recordKeyText } from '../records.ts';

/** What restoring asks for by hand: once more after parents, members or verified domains are there. */
const MOST_PASSES = 5;

export interface DrillEvents {
  /** What is being done, for people; `steps` where they can be counted. */
  phase(name: 'reading' | 'planning' | 'restoring' | 'comparing', steps: number | null): void;
  stepEnded(): void;
}

export const NO_DRILL_EVENTS: DrillEvents = { phase: () => undefined, stepEnded: () => undefined };

interface PassOptions {
  readonly desired: PlanState;
  readonly kinds: readonly Kind[];
  readonly source: SourceConfig;
  readonly client: WriteClient;
  /** Open for writing: holds the journal and the id map. */
  readonly mirror: Mirror;
  readonly reader: Reader;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly events: DrillEvents;
  readonly definitions: PlanInput['definitions'];
  readonly secrets: PlanInput['secrets'];
  readonly keyUser: string;
  /** Ids that organizations have on the service. */
  readonly organizations: ReadonlyMap<string, string>;
}

export interface Restored {
  /** What the last plan was made from: `live` is what the service holds in the end. */
  readonly input: PlanInput;
  /** The same as received. */
  readonly states: readonly RecordState[];
  /** What it leaves to do. */
  readonly plan: Plan;
  /** One for each plan that was applied. */
  readonly reports: readonly RestoreReport[];
}

/**
 * Restores until nothing is left that could be sent, or nothing more is achieved.
 * @throws TidemarkError `interrupted`, an error of this machine, `internal` when the service cannot be read whole
 */
export async function restoreInPasses(options: PassOptions): Promise<Restored> {
  const { source, signal, events } = options;
  const reports: RestoreReport[] = [];
  for (;;) {
    events.phase('reading', null);
    const { states, live } = await readService(options);
    events.phase('planning', null);
    const input = planInput(options, live);
    const plan = planRestore(input);
    const achieved = reports.at(-1)?.summary.applied ?? 1;
    const steps = plan.steps.filter(isExecutable).length;
    if (steps === 0 || achieved === 0 || reports.length === MOST_PASSES)
      return { input, states, plan, reports };
    events.phase('restoring', steps);
    const desired = new Map(options.desired.records.map((record) => [keyOf(record), record.body]));
    const report = await applyPlan({
      plan,
      mirror: options.mirror,
      source,
      client: options.client,
      clock: options.clock,
      log: options.log,
      signal,
      events: applyEvents(events),
      secrets: options.secrets,
      desired: (key) => desired.get(keyOf(key)),
      concurrency: applyConcurrency(source.rate),
    });
    signal.throwIfAborted();
    reports.push(report);
  }
}

function keyOf({ kind, scope, id }: Pick<ParsedRecord, 'kind' | 'scope' | 'id'>): string {
  return recordKeyText(kind, scope, id);
}

function applyEvents(events: DrillEvents): ApplyEvents {
  return {
    started: () => undefined,
    stepStarted: () => undefined,
    stepEnded: () => events.stepEnded(),
    lookingUp: () => undefined,
  };
}

/** Syncs the service back by the engine that syncs every service. */
async function readService(options: PassOptions): Promise<{ states: RecordState[]; live: PlanState }> {
  const { source, client, reader, log, signal, kinds } = options;
  const state = await readLive({
    source,
    client: client.reader,
    filter: { kinds },
    reader,
    log,
    events: silentEvents,
    signal,
  });
  try {
    requireWhole(state);
    const states = [...state.records({ kinds })];
    return {
      states,
      live: {
        reference: { ...state.reference, ref: 'sandbox' },
        records: states.map(parseState),
        collections: state.collections().map(({ kind, scope }) => ({ kind, scope, isComplete: true })),
      },
    };
  } finally {
    state.close();
  }
}

/** A drill that read half of its own service would report losses that are none. */
function requireWhole(state: LoadedState): void {
  for (const { kind, scope } of state.collections()) {
    const coverage = state.coverage(kind, scope);
    if (coverage.how === 'read') continue;
    const why = coverage.how === 'absent' ? 'its parent is gone' : coverage.reason;
    throw new TidemarkError('internal', `${kind} of the sandbox could not be read: ${why}`, {
      hint: 'run the drill again with --log-level debug',
    });
  }
}

function planInput(options: PassOptions, live: PlanState): PlanInput {
  const { desired, definitions, secrets, keyUser, organizations, mirror, source, clock } = options;
  const recreated = idLookup(mirror.restores.idMap(source.name));
  return {
    desired,
    live,
    definitions,
    idMap: (kind, id) =>
      (definitions(kind).discovery.from === 'root' ? organizations.get(id) : undefined) ??
      recreated(kind, id),
    secrets,
    options: {
      prune: null,
      // Everything is to be put back: shares say nothing here.
      limits: { maxShare: 1, minRecords: 1 },
      createOrganizations: false,
      inviteMissing: false,
      sendEmail: false,
      ownUserId: keyUser,
      maxAgeMs: null,
      rate: { perMinute: 0, perHour: 0 },
    },
    isPractice: true,
    now: clock.now(),
  };
}

// The snapshot that a drill practises with: what is asked about, and what it depends on.

export interface DrillSnapshot {
  /** What the restore is given: the records asked about, and those that they hang from or refer to. */
  readonly desired: PlanState;
  /** The same as received. */
  readonly states: readonly RecordState[];
  /** Organizations and members, whatever is asked about: the key's own user is one of them. */
  readonly people: readonly ParsedRecord[];
  /** The kinds of `desired`, in catalog order. */
  readonly kinds: readonly Kind[];
  /** True for a record that the drill reports on. */
  readonly isAsked: (key: RecordKey) => boolean;
  /** Records asked about that belong to another organization than the one whose list shows them. */
  readonly foreign: readonly ParsedRecord[];
  /** How many records there are of kinds that are never restored. */
  readonly never: ReadonlyMap<Kind, number>;
  /** What the snapshot never held. */
  readonly skipped: readonly Skipped[];
}

/** @throws TidemarkError `not_found` when the filter leaves nothing: a drill of nothing proves nothing */
export function drillSnapshot(
  state: LoadedState,
  filter: StateFilter,
  definitions: (kind: Kind) => ResourceDefinition,
): DrillSnapshot {
  const isWritten = (kind: Kind): boolean => definitions(kind).restore.never === null;
  const parts = filterParts(filter, () => state.projectsOf(filter.organizations ?? []));
  const isAsked = (key: RecordKey): boolean => parts.some((part) => selectsRecord(part, key));
  const never = new Map<Kind, number>();
  for (const part of parts) {
    const kinds = (part.kinds ?? KINDS).filter((kind) => !isWritten(kind));
    if (kinds.length === 0) continue;
    for (const { kind } of state.records({ ...part, kinds })) never.set(kind, (never.get(kind) ?? 0) + 1);
  }
  const { organizations } = filter;
  const around: StateFilter = organizations === undefined ? {} : { organizations };
  const all = filterParts({ ...around, kinds: KINDS.filter(isWritten) }, () => []).flatMap((part) => [
    ...state.records(part),
  ]);
  const kinds = kindsToRead(new Set(all.filter(isAsked).map(({ kind }) => kind)), definitions);
  if (kinds.length === 0) {
    const [only] = never.keys();
    throw nothingToDrill(state.reference.ref, only === undefined ? null : definitions(only));
  }
  const states = all.filter(({ kind }) => kinds.includes(kind));
  const records = states.map(parseState);
  const isOwn = (record: ParsedRecord): boolean => !isForeign(definitions(record.kind), record);
  const known = state
    .collections()
    .map(({ kind, scope }) => ({ kind, scope, coverage: state.coverage(kind, scope) }));
  return {
    desired: {
      reference: state.reference,
      records: records.filter(isOwn),
      collections: known
        .filter(({ kind, coverage }) => kinds.includes(kind) && coverage.how === 'read')
        .map(({ kind, scope, coverage }) => ({
          kind,
          scope,
          isComplete: coverage.how === 'read' && coverage.stale === undefined,
        })),
    },
    states: states.filter((_state, index) => records[index] !== undefined && isOwn(records[index])),
    people: all.filter(({ kind }) => isOfPeople(definitions(kind))).map(parseState),
    kinds,
    isAsked,
    foreign: records.filter((record) => !isOwn(record) && isAsked(record)),
    never,
    skipped: known.flatMap(({ kind, scope, coverage }): Skipped[] =>
      isWritten(kind) &&
      coverage.how === 'unread' &&
      // Not offered by the service: there is nothing to bring back.
      coverage.code !== 'not_found' &&
      parts.some((part) => selectsCollection(part, kind, scope))
        ? [{ kind, scope, reason: coverage.reason }]
        : [],
    ),
  };
}

function isOfPeople({ discovery, restore }: ResourceDefinition): boolean {
  return discovery.from === 'root' || restore.protectsOwnUser;
}

/** True for a record that another organization's list shows too (wire-notes.md, Lists): it comes back with its owner. */
export function isForeign(
  { restore }: Pick<ResourceDefinition, 'restore'>,
  { scope, body }: Pick<ParsedRecord, 'scope' | 'body'>,
): boolean {
  const holder = restore.owner === null ? undefined : resolvePointer(body, restore.owner);
  return (
    typeof holder === 'string' && scope.organization_id !== undefined && holder !== scope.organization_id
  );
}

function nothingToDrill(ref: string, never: ResourceDefinition | null): TidemarkError {
  const why =
    never === null
      ? `no record of ${ref} was selected`
      : `${never.title.many} are never restored: ${never.restore.never ?? ''}`;
  return new TidemarkError('not_found', `there is nothing to practise with: ${why}`, {
    hint: 'correct the filter, or look at `tidemark status` for what the mirror holds',
  });
}
