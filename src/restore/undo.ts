/**
 * The plan that takes a restore back. The state before it is put together from live and the inverses that were kept when
 * it was applied; then the one planner plans as for any other desired state.
 */
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { getOwn, isJsonObject, setOwn } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { compareBodies } from '../diff/compare.ts';
import { recordName } from '../diff/name.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { appliedSteps } from './applied-steps.ts';
import type { AppliedStep, AppliedSteps } from './applied-steps.ts';
import type { SecretLookup } from './configured-secrets.ts';
import { dependentKinds, goesWith } from './dependents.ts';
import { managedDigest } from './digest.ts';
import { idLookup } from './id-map.ts';
import { kindsToRead } from './kinds-to-read.ts';
import type { Inverse, LeftAlone, Plan, PlanStep } from './plan.ts';
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
  readonly changed: readonly ChangedSince[];
  /** Records that go: those that the restore created and that are still there, and what is in them by now. */
  readonly gone: readonly ParsedRecord[];
}

interface ChangedSince {
  readonly record: ParsedRecord;
  /** E.g. `it was changed since restore 3`. */
  readonly why: string;
}

/**
 * The kinds to read before a restore is undone; empty where it applied nothing.
 * @throws TidemarkError `reference_unknown`
 */
export function undoKinds(mirror: Mirror, restore: number, definitions: UndoOptions['definitions']): Kind[] {
  const { steps } = appliedSteps(mirror, restore);
  const kinds = new Set(steps.map(({ request }) => request.kind));
  // What was created may hold something by now that goes with it.
  const removes = steps.some(({ inverse }) => inverse?.action === 'remove');
  return kindsToRead(kinds, definitions, removes);
}

/**
 * The plan that takes back what a restore applied, for `applyPlan` with `undoes: restore`. A record that is not as the
 * restore left it is blocked (`changed_since`) unless `forceChanged`. What already is as it was before needs no step.
 * @throws TidemarkError `reference_unknown`; `usage` while the answer to one of its writes is not known
 */
export function planUndo(mirror: Mirror, restore: number, options: UndoOptions): Plan {
  const { state, changed, gone } = undoneState(mirror, restore, options);
  const applied = appliedSteps(mirror, restore);
  const plan = planRestore({
    desired: state,
    live: options.live,
    definitions: options.definitions,
    idMap: idLookup(mirror.idMap(applied.row.source)),
    secrets: options.secrets,
    options: {
      // Exactly what the restore created, and what was put into it since where that is forced.
      prune: { maxRemovals: gone.length },
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
  const left = [...plan.left, ...notTakenBack(plan, applied, gone, options)];
  if (changed.length === 0 && left.length === plan.left.length) return plan;
  const steps = [
    ...plan.steps,
    ...changed.map((each, index) => refusal(plan.steps.length + index + 1, each, options)),
  ];
  const summary = { ...plan.summary, blocked: plan.summary.blocked + changed.length };
  const whole = { ...plan, steps, left, summary };
  return { ...whole, hash: planHash(whole) };
}

/** What the restore did and the plan says nothing of: told, so that nobody believes it was taken back. */
function notTakenBack(
  { steps }: Plan,
  { steps: applied, unknown }: AppliedSteps,
  gone: readonly ParsedRecord[],
  { definitions }: UndoOptions,
): LeftAlone[] {
  const about = new Set(steps.map(({ id, kind }) => `${definitions(kind).family ?? kind} ${id}`));
  const whole = new Set(applied.flatMap((each) => (each.inverse === null ? [] : [placeOf(each)])));
  const silent = gone
    .map(({ kind, id, body }) => ({ kind, id, name: recordName(definitions(kind), body, id) }))
    .filter(
      ({ kind, id }) =>
        !about.has(`${definitions(kind).family ?? kind} ${id}`) && definitions(kind).restore.isRemovable,
    );
  const noWay = applied.filter((each) => each.inverse === null && !whole.has(placeOf(each)));
  return [
    ...leftAlone(silent, 'the restore created it, and it cannot be removed through the interface'),
    ...leftAlone(noWay, 'what the restore did to it cannot be taken back'),
    ...leftAlone(unknown, 'the restore created it, and the service told no id: look for it by its name'),
  ];
}

function leftAlone(
  records: readonly { readonly kind: Kind; readonly name: string }[],
  reason: string,
): LeftAlone[] {
  return [...Map.groupBy(records, ({ kind }) => kind)].map(([kind, same]) => ({
    ...{ kind, count: same.length, reason },
    names: same.slice(0, 10).map(({ name }) => name),
  }));
}

/**
 * What `planUndo` wants live to be: its records are what `applyPlan` is given as desired.
 * @throws TidemarkError as `planUndo`
 */
export function undoneState(mirror: Mirror, restore: number, options: UndoOptions): UndoneState {
  const { row, steps } = appliedSteps(mirror, restore);
  const liveByPlace = new Map(options.live.records.map((record) => [placeOf(record), record]));
  const records = new Map(liveByPlace);
  const changed = new Map<string, ChangedSince>();
  const gone = new Map<string, ParsedRecord>();
  // The last step of a record left it as it must still be.
  const left = new Map(steps.map((applied) => [placeOf(applied), applied.row.digest]));
  const created = new Set(steps.filter(({ inverse }) => inverse?.action === 'remove').map(placeOf));
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
    const added = before === undefined ? addedTo(original, records.values(), created, options) : [];
    const digest = left.get(place) ?? null;
    const why = changedSince(
      restore,
      { digest, now: managedDigest(definition, original.body), added },
      options,
    );
    if (why !== null && !isAsBefore && !options.forceChanged) {
      changed.set(place, { record: original, why });
      records.set(place, original);
      continue;
    }
    // Other kinds that show the record would hold on to it as it is.
    for (const twin of twinsOf(applied, options)) records.delete(twin);
    if (before === undefined) {
      for (const record of [live, ...added]) {
        records.delete(placeOf(record));
        gone.set(placeOf(record), record);
      }
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
  return { state, changed: [...changed.values()], gone: [...gone.values()] };
}

/** Why a record is not as the restore left it, or may not be; null where it is. */
function changedSince(
  restore: number,
  { digest, now, added }: { digest: string | null; now: string; added: readonly ParsedRecord[] },
  { definitions }: UndoOptions,
): string | null {
  if (digest === null)
    return `restore ${restore} could not read it back, so what was changed since is not known`;
  if (now !== digest) return `it was changed since restore ${restore}`;
  const [first] = added;
  if (first === undefined) return null;
  const { one, many } = definitions(first.kind).title;
  return `it has ${added.length} ${added.length === 1 ? one : many} since restore ${restore}`;
}

/** What is in a created record by now that the restore did not put there: it would go with it. */
function addedTo(
  record: ParsedRecord,
  records: Iterable<ParsedRecord>,
  created: ReadonlySet<string>,
  { definitions }: UndoOptions,
): ParsedRecord[] {
  const definition = definitions(record.kind);
  const dependents = dependentKinds(record.kind, definitions);
  if (dependents.length === 0) return [];
  return [...records].filter(
    (other) =>
      !created.has(placeOf(other)) &&
      dependents.some((dependent) => goesWith(dependent, other, definition, record)),
  );
}

/** Places where other kinds of its family show the record. */
function twinsOf({ kind, scope, id }: AppliedStep, { definitions }: UndoOptions): string[] {
  const { family } = definitions(kind);
  if (family === null) return [];
  const others = CATALOG.filter((each) => each.kind !== kind && definitions(each.kind).family === family);
  return others.map((other) => placeOf({ kind: other.kind, scope, id }));
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

function refusal(n: number, { record, why }: ChangedSince, { definitions }: UndoOptions): PlanStep {
  const definition = definitions(record.kind);
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
    reason: `${why}; --force-changed takes it back all the same`,
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
