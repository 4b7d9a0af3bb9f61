/** The rounds of a drill: read, plan and apply with the real code, until a plan has nothing left to send. */
import { createWriteClient, type WriteClient } from '../../api/write-client.ts';
import type { SourceConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { type RecordState, parseState } from '../../diff/states.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { StateFilter } from '../../state/filter.ts';
import { readLive } from '../../state/live-state.ts';
import type { LoadedState } from '../../state/state.ts';
import { type Reader, openTemporaryMirror } from '../../state/temporary-mirror.ts';
import { silentEvents } from '../../sync/events.ts';
import { applyPlan, applyConcurrency, NO_EVENTS } from '../apply/apply.ts';
import type { RestoreReport } from '../apply/report.ts';
import { type PlanInput, type PlanState, type Plan, isExecutable } from '../plan/plan.ts';
import { planRestore } from '../plan/planner.ts';
import { recordKey } from '../records.ts';
import { idLookup } from '../../state/recreated-ids.ts';
import type { DrillSnapshot } from './snapshot.ts';
import { type DamageChoice, type DrillService, drillSource } from './start.ts';

/** A restore has to be repeated once parents, members or verified domains exist. */
const MOST_ROUNDS = 5;

export interface DrillEvents {
  /** The current phase, with the number of steps if there are any. */
  phase(name: 'reading' | 'planning' | 'restoring' | 'comparing', steps: number | null): void;
  stepEnded(): void;
}

export const NO_DRILL_EVENTS: DrillEvents = { phase: () => undefined, stepEnded: () => undefined };

export interface DrillOptions {
  readonly state: LoadedState;
  readonly filter: StateFilter;
  readonly definitions: PlanInput['definitions'];
  readonly secrets: PlanInput['secrets'];
  /** The key's own user as configured: uuid or e-mail address; null if not configured. */
  readonly ownUser: string | null;
  /** Null: start with an empty sandbox. */
  readonly damage: DamageChoice | null;
  /** Uniform in [0, 1), determined by the seed. */
  readonly random: (seed: number) => () => number;
  /** Opens the sandbox with a key of that user. The caller closes it. */
  readonly openService: (userUuid: string) => Promise<DrillService>;
  readonly reader: Reader;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly events: DrillEvents;
}

export interface Restored {
  /** The input of the last plan: `live` is the final state of the sandbox. */
  readonly input: PlanInput;
  /** The records of `live` as received. */
  readonly states: readonly RecordState[];
  /** The last plan: what remains to be done. */
  readonly plan: Plan;
  /** One for each applied plan. */
  readonly reports: readonly RestoreReport[];
}

interface RoundContext extends DrillOptions {
  readonly snapshot: DrillSnapshot;
  readonly source: SourceConfig;
  readonly client: WriteClient;
  /** A temporary one, open for writing: for the journal and the id map. */
  readonly mirror: Mirror;
  /** The owner of the key, and the ids of organizations in the sandbox by their ids in the snapshot. */
  readonly known: { readonly keyUser: string; readonly organizations: ReadonlyMap<string, string> };
}

/**
 * Restores until a plan has nothing to send, or the last one achieved nothing.
 * @throws TidemarkError `interrupted`, an error of this machine, `internal` when the sandbox cannot be read completely
 */
export async function restoreInRounds(
  options: DrillOptions,
  service: DrillService,
  snapshot: DrillSnapshot,
  known: RoundContext['known'],
): Promise<Restored> {
  const { definitions, reader, clock, log, signal, state } = options;
  const source = drillSource(state.source ?? 'drill', service, snapshot.kinds, definitions);
  const temporary = openTemporaryMirror(reader);
  const client = createWriteClient({
    ...{ baseUrl: source.baseUrl, apiKey: source.apiKey, rate: source.rate, retry: source.retry },
    ...{ userAgent: 'tidemark', clock, log },
    // Only varies the waits between attempts.
    random: () => 0.5,
  });
  try {
    return await runRounds({ ...options, snapshot, source, client, mirror: temporary.mirror, known });
  } catch (error) {
    if (!signal.aborted) throw error;
    const what = 'the drill was interrupted; nothing but its own sandbox was written';
    throw new TidemarkError('interrupted', what, { hint: 'run `tidemark drill` again', cause: error });
  } finally {
    await client.close();
    temporary.discard();
  }
}

async function runRounds(options: RoundContext): Promise<Restored> {
  const { source, client, mirror, clock, log, secrets, signal, events, snapshot } = options;
  const desired = new Map(snapshot.desired.records.map((record) => [recordKey(record), record.body]));
  const reports: RestoreReport[] = [];
  for (;;) {
    events.phase('reading', null);
    const { states, live } = await readService(options);
    events.phase('planning', null);
    const input = planInput(options, live);
    const plan = planRestore(input);
    const achieved = reports.at(-1)?.summary.applied ?? 1;
    const steps = plan.steps.filter(isExecutable).length;
    if (steps === 0 || achieved === 0 || reports.length === MOST_ROUNDS)
      return { input, states, plan, reports };
    events.phase('restoring', steps);
    const report = await applyPlan({
      ...{ plan, mirror, source, client, clock, log, signal, secrets },
      events: { ...NO_EVENTS, stepEnded: () => events.stepEnded() },
      desired: (key) => desired.get(recordKey(key)),
      ...applyConcurrency(source.rate),
    });
    signal.throwIfAborted();
    reports.push(report);
  }
}

/** Reads the sandbox with the code that syncs every service. */
async function readService(options: RoundContext): Promise<{ states: RecordState[]; live: PlanState }> {
  const { source, client, reader, log, signal } = options;
  const { kinds } = options.snapshot;
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
    // With an incomplete reading, the drill would report records as lost that are not.
    for (const { kind, scope } of state.collections()) {
      const coverage = state.coverage(kind, scope);
      if (coverage.how === 'read') continue;
      const why = coverage.how === 'absent' ? 'its parent is gone' : coverage.reason;
      throw new TidemarkError('internal', `${kind} of the sandbox could not be read: ${why}`, {
        hint: 'run the drill again with --log-level debug',
      });
    }
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

function planInput(options: RoundContext, live: PlanState): PlanInput {
  const { snapshot, definitions, secrets, known, mirror, source, clock } = options;
  const { keyUser, organizations } = known;
  const recreated = idLookup(mirror.restores.idMap(source.name));
  return {
    desired: snapshot.desired,
    live,
    definitions,
    idMap: (kind, id) =>
      (definitions(kind).discovery.from === 'root' ? organizations.get(id) : undefined) ??
      recreated(kind, id),
    secrets,
    options: {
      prune: null,
      // No limit, because everything is to be restored.
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
