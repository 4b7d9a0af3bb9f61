/**
 * The plan that takes a restore back. The state before it is put together from live and the inverses that were kept when
 * it was applied; then the one planner plans as for any other desired state.
 */
import type { Kind, ResourceDefinition, Scope } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { getOwn, isJsonObject, setOwn } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { compareBodies } from '../diff/compare.ts';
import { recordName } from '../diff/name.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../mirror/restores.ts';
import type { SecretLookup } from './configured-secrets.ts';
import { managedDigest } from './digest.ts';
import { idLookup } from './id-map.ts';
import { kindsToRead } from './kinds-to-read.ts';
import type { Inverse, Plan, PlannedRequest, PlanStep } from './plan.ts';
import { readPlan } from './plan-file.ts';
import { planHash } from './plan-hash.ts';
import type { PlanOptions, PlanState } from './plan-input.ts';
import { planRestore } from './planner.ts';
import { topMember } from './writable.ts';

export interface UndoOptions {
  /** The records as they are, of `undoKinds`. */
  readonly live: PlanState;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly secrets: SecretLookup;
  /** Take back what was changed since, too. */
  readonly forceChanged: boolean;
  readonly rate: PlanOptions['rate'];
  /** As for a plan; not known when left out. */
  readonly ownUserId?: string | null;
  /** Let the service mail invites that are made again; false when left out. */
  readonly sendEmail?: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The state before a restore, as far as it overwrote it; for the rest, live. */
export interface UndoneState {
  readonly state: PlanState;
  /** Records that were changed since, and stand in the state as they are live. */
  readonly changed: readonly ParsedRecord[];
  /** How many records the restore created that are still there. */
  readonly created: number;
}

/**
 * The kinds to read before a restore is undone; empty where it applied nothing.
 * @throws TidemarkError `reference_unknown`
 */
export function undoKinds(mirror: Mirror, restore: number, definitions: UndoOptions['definitions']): Kind[] {
  const { steps } = appliedSteps(mirror, restore);
  return kindsToRead(new Set(steps.map(({ request }) => request.kind)), definitions);
}

/**
 * The plan that takes back what a restore applied, for `applyPlan` with `undoes: restore`. A record that is not as the
 * restore left it is blocked (`changed_since`) unless `forceChanged`. What already is as it was before needs no step.
 * @throws TidemarkError `reference_unknown`; `usage` while the answer to one of its writes is not known
 */
export function planUndo(mirror: Mirror, restore: number, options: UndoOptions): Plan {
  const { state, changed, created } = undoneState(mirror, restore, options);
  const { row } = appliedSteps(mirror, restore);
  const plan = planRestore({
    desired: state,
    live: options.live,
    definitions: options.definitions,
    idMap: idLookup(mirror.idMap(row.source)),
    secrets: options.secrets,
    options: {
      // Exactly what the restore created, whatever else came since.
      prune: { maxRemovals: created },
      // The restore passed the limits; taking it back touches nothing else.
      limits: { maxShare: 1, minRecords: Number.MAX_SAFE_INTEGER },
      createOrganizations: true,
      inviteMissing: false,
      sendEmail: options.sendEmail ?? false,
      ownUserId: options.ownUserId ?? null,
      maxAgeMs: null,
      rate: options.rate,
    },
    now: options.now,
  });
  if (changed.length === 0) return plan;
  const steps = [
    ...plan.steps,
    ...changed.map((record, index) => refusal(plan.steps.length + index + 1, record, restore, options)),
  ];
  const summary = { ...plan.summary, blocked: plan.summary.blocked + changed.length };
  return { ...plan, steps, summary, hash: planHash(steps) };
}

/**
 * What `planUndo` wants live to be: its records are what `applyPlan` is given as desired.
 * @throws TidemarkError as `planUndo`
 */
export function undoneState(mirror: Mirror, restore: number, options: UndoOptions): UndoneState {
  const { row, steps } = appliedSteps(mirror, restore);
  const liveByPlace = new Map(options.live.records.map((record) => [placeOf(record), record]));
  const records = new Map(liveByPlace);
  const changed = new Map<string, ParsedRecord>();
  const made = new Set<string>();
  // The last step of a record left it as it must still be.
  const left = new Map(steps.map((applied) => [placeOf(applied), applied.row.digest]));
  for (const applied of steps.toReversed()) {
    const place = placeOf(applied);
    const { inverse } = applied;
    if (inverse === null || changed.has(place)) continue;
    if (inverse.action === 'create') {
      records.set(place, { kind: applied.kind, scope: applied.scope, id: applied.id, body: inverse.body });
      continue;
    }
    const live = records.get(place);
    if (live === undefined) continue;
    const definition = options.definitions(applied.kind);
    const before = inverse.action === 'remove' ? undefined : beforeStep(definition, live, inverse);
    const isAsBefore =
      before !== undefined && compareBodies(definition, live.body, before, 'managed').length === 0;
    const original = liveByPlace.get(place) ?? live;
    const digest = left.get(place) ?? null;
    const isChanged = digest !== null && managedDigest(definition, original.body) !== digest;
    if (isChanged && !isAsBefore && !options.forceChanged) {
      changed.set(place, original);
      records.set(place, original);
    } else if (before === undefined) {
      records.delete(place);
      made.add(place);
    } else {
      records.set(place, { ...live, body: before });
    }
  }
  const { collections } = options.live;
  const state = {
    reference: { ref: `before restore ${restore}`, at: row.startedAt },
    records: [...records.values()],
    collections,
  };
  return { state, changed: [...changed.values()], created: made.size };
}

/** A step that was applied, with the record that it was about. */
interface AppliedStep {
  readonly row: RestoreStepRow;
  readonly inverse: Inverse | null;
  readonly request: PlannedRequest;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}

function appliedSteps(
  mirror: Mirror,
  restore: number,
): { readonly row: RestoreRow; readonly steps: readonly AppliedStep[] } {
  const row = mirror.restore(restore);
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', `there is no restore ${restore}`, {
      hint: '`tidemark restores list` lists them',
    });
  }
  const rows = new Map(mirror.restoreSteps(restore).map((step) => [step.n, step]));
  if ([...rows.values()].some(({ outcome }) => outcome === 'sent')) {
    throw new TidemarkError('usage', `what restore ${restore} did is not known whole: an answer was lost`, {
      hint: `\`tidemark restore --resume ${restore}\` looks it up; then undo it`,
    });
  }
  const steps = readPlan(row.plan).steps.flatMap((step) => {
    const journaled = rows.get(step.n);
    return journaled?.outcome === 'applied' ? appliedStep(step, journaled, rows) : [];
  });
  return { row, steps };
}

function appliedStep(
  { request, scope }: PlanStep,
  row: RestoreStepRow,
  rows: ReadonlyMap<number, RestoreStepRow>,
): AppliedStep[] {
  if (request === null) return [];
  const values: Record<string, string | undefined> = {};
  for (const each of request.parameters) {
    values[each.name] = 'value' in each ? each.value : (rows.get(each.step)?.newId ?? undefined);
  }
  const within = Object.fromEntries(
    Object.keys(scope).map((key) => [key, values[key] ?? scope[key as keyof Scope]]),
  );
  const own = request.parameters.map(({ name }) => name).find((name) => !Object.hasOwn(scope, name));
  const id = request.role === 'create' ? row.newId : own === undefined ? undefined : values[own];
  if (id === null || id === undefined) return [];
  const inverse = row.inverse as unknown as Inverse | null;
  return [{ row, inverse, request, kind: request.kind, scope: within, id }];
}

/** The record as it was before the step; secrets that were not kept stand as what the planner takes for a mask. */
function beforeStep(
  definition: ResourceDefinition,
  live: ParsedRecord,
  inverse: Extract<Inverse, { action: 'update' | 'act' }>,
): JsonValue {
  if (!isJsonObject(live.body)) return live.body;
  const body: JsonObject = {};
  const overwritten = inverse.action === 'update' ? inverse.body : stateBefore(definition, inverse.act);
  const absent = inverse.action === 'update' ? inverse.absent.map(topMember) : [];
  for (const name of Object.keys(live.body)) {
    const value = getOwn(live.body, name);
    if (value !== undefined && !absent.includes(name)) setOwn(body, name, value);
  }
  for (const name of Object.keys(overwritten)) setOwn(body, name, getOwn(overwritten, name) ?? null);
  return body;
}

function stateBefore({ restore: { state } }: ResourceDefinition, act: string): JsonObject {
  const action = state?.actions.find((each) => each.action === act);
  return state === null || action === undefined ? {} : { [state.field]: action.value };
}

function refusal(n: number, record: ParsedRecord, restore: number, options: UndoOptions): PlanStep {
  const definition = options.definitions(record.kind);
  return {
    n,
    level: 0,
    after: [],
    action: 'blocked',
    kind: record.kind,
    scope: record.scope,
    id: record.id,
    name: recordName(definition, record.body, record.id),
    fields: [],
    request: null,
    reason: `it was changed since restore ${restore}; --force-changed takes it back all the same`,
    obstacle: 'changed_since',
    needs: [],
    precondition: null,
    desired: null,
    inverse: null,
  };
}

function placeOf({ kind, scope, id }: Pick<ParsedRecord, 'kind' | 'scope' | 'id'>): string {
  return `${kind} ${scopeKey(scope)} ${id}`;
}
