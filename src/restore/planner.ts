/** Makes the plan that brings live to desired (design.md, Restore). Pure: equal input gives an equal plan. */
import { CATALOG, scopeKey, fillPath } from '../catalog/catalog.ts';
import type { Scope, ScopeKey, KindRate } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, isJsonObject, type JsonObject } from '../core/json.ts';
import { recordName } from '../diff/name.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { planChange } from './change-steps.ts';
import { planCreation } from './creation-steps.ts';
import { naturalKeyDigest } from './live-records.ts';
import {
  draftKey,
  type Draft,
  blocked,
  type DraftPath,
  type DraftPrecondition,
  type DraftRequest,
  type KnownOrStepId,
} from './draft.ts';
import { refusalsOf } from './guards.ts';
import { matchStates } from './matching.ts';
import { type KindMatch } from './same-content.ts';
import { ordered, type OrderedDraft } from './order.ts';
import { placesOf, withMember } from './places.ts';
import { planHash } from './plan.ts';
import type { PlanInput, PlanOptions } from './plan.ts';
import type {
  UntouchedRecords,
  Plan,
  PlanStep,
  Adoption,
  StepAction,
  Fill,
  Parameter,
  PathPlan,
  PlannedRequest,
  Precondition,
} from './plan.ts';
import { keepLastHolders } from './protected-records.ts';
import { PlacesOfKind } from './record-place.ts';
import { referencesOf } from './references.ts';
import { planDependentRemovals, planRemovals } from './removal-steps.ts';
import { draftOf, stopped, type Planning } from './step-parts.ts';
import { topMember } from './unmanaged-settings.ts';

const NAMES_SHOWN = 10;
const NOT_A_FIELD = 'it is missing as a whole; without --field it is created again';

/**
 * The plan. Both states hold the records of the affected collections, and of those that are their parents or that they
 * refer to (`kindsToRead`).
 * @throws TidemarkError `not_found` when neither state holds a collection or a record: a plan of nothing proves nothing
 */
export function planRestore(input: PlanInput): Plan {
  requireSomething(input);
  const matching = matchStates(input);
  const drafts = new Map<string, Draft>();
  const untouched = new Map<string, { kind: Kind; count: number; reason: string; names: string[] }>();
  const planning: Planning = {
    input,
    matching,
    references: referencesOf(input, matching),
    drafts,
    addUntouched: (kind, reason, name) => {
      const entry = untouched.get(`${kind} ${reason}`) ?? { kind, count: 0, reason, names: [] };
      entry.count += 1;
      if (entry.names.length < NAMES_SHOWN) entry.names.push(name);
      untouched.set(`${kind} ${reason}`, entry);
    },
  };
  let unchanged = 0;
  for (const { kind } of CATALOG) {
    const match = matching.kinds.get(kind);
    if (match !== undefined) unchanged += planKind(planning, match);
  }
  planRemovals(planning);
  keepLastHolders(planning);
  planDependentRemovals(planning);
  orderNames(planning);
  const steps = finishedSteps(ordered(drafts));
  const plan = {
    from: input.desired.reference,
    to: input.live.reference,
    steps,
    adopted: listedAdoptions(planning, steps),
    left: [...untouched.values()] satisfies readonly UntouchedRecords[],
    refused: refusalsOf(input, matching, steps),
    ...(input.skipped === undefined || input.skipped.length === 0 ? {} : { skipped: input.skipped }),
    summary: { ...countsOf(steps), unchanged },
    cost: costOf(steps, input.options.rate),
  };
  return { ...plan, hash: planHash(plan) };
}

/** Plans one kind's desired records; returns how many need nothing. */
function planKind(planning: Planning, match: KindMatch): number {
  const { definition } = match;
  const { isInScope = () => true, isFieldInScope } = planning.input;
  const pairs = match.pairs.filter(({ desired, live }) => isInScope(desired) || isInScope(live));
  const missing = match.missing.filter(isInScope);
  const { never } = definition.restore;
  const leaving = never ?? (isFieldInScope === undefined ? null : NOT_A_FIELD);
  if (leaving !== null) {
    for (const { id, body } of missing)
      planning.addUntouched(definition.kind, leaving, recordName(definition, body, id));
  }
  if (never !== null) return pairs.length;
  let unchanged = 0;
  for (const { desired, live } of pairs) {
    if (!planChange(planning, definition, desired, live)) unchanged += 1;
  }
  if (leaving === null) for (const desired of missing) planCreation(planning, definition, desired);
  for (const { name, desired, live, goneSince } of match.ambiguous) {
    const candidates = live.map(({ id }) => id).join(' and ');
    const rivals = desired.length > 1 ? `, and ${desired.length} desired records are called so` : '';
    for (const record of desired.filter(isInScope)) {
      const draft = draftOf(planning, definition, record, null, draftKey(record, 'create'));
      const called = `live has ${candidates} called ${JSON.stringify(name)}`;
      const reason =
        goneSince === undefined
          ? `which one it is cannot be known: ${called}${rivals}`
          : `run ${goneSince} found it gone, and ${called} beside it: made again, it would be there twice; ` +
            'accept its removal (`tidemark sync --accept-removals N`) if that one is it, or name a state from before that run';
      planning.drafts.set(draft.key, stopped(draft, 'blocked', 'ambiguous', reason));
    }
  }
  return unchanged;
}

function requireSomething({ desired, live }: PlanInput): void {
  const sides = [desired, live];
  if (sides.some(({ records, collections }) => records.length > 0 || collections.length > 0)) return;
  throw new TidemarkError(
    'not_found',
    'nothing was compared: neither state holds anything that the filters let through',
    {
      hint: 'widen the filters; `tidemark doctor` shows whether the service answers and what the key reaches',
    },
  );
}

function countsOf(steps: readonly PlanStep[]): Omit<Plan['summary'], 'unchanged'> {
  const counts = { create: 0, update: 0, act: 0, remove: 0, blocked: 0, manual: 0 };
  for (const { action } of steps) counts[action] += 1;
  return counts;
}

// Which of the records found under another id a plan lists: those in scope, and those that its steps rely on.

/**
 * All of them without filters. With filters also the parents of steps, and namesakes of created records (for a record
 * without a name: all without one), which apply must not take for records created by hand meanwhile.
 */
function listedAdoptions({ input, matching }: Planning, steps: readonly PlanStep[]): Adoption[] {
  const { isInScope } = input;
  const all = matching.adopted;
  if (isInScope === undefined) return all.map(({ adoption }) => adoption);
  const parents = new Set(
    steps.flatMap(({ scope }) =>
      (Object.entries(scope) as [ScopeKey, string][]).map(([key, id]) => `${SCOPE_KIND[key]} ${id}`),
    ),
  );
  // Apply recognizes a record without a name, and so without a digest, by its content, which any nameless one may have.
  const nameOf = (kind: Kind, scope: Scope, digest: string | null): string =>
    `${kind} ${scopeKey(scope)} ${digest ?? 'without a name'}`;
  const created = new Set(
    steps.flatMap(({ kind, scope, precondition, request }) =>
      precondition?.state === 'absent'
        ? // Another kind's request may stand for the record: an invite for a member.
          [kind, request?.kind ?? kind].map((each) => nameOf(each, scope, precondition.digest))
        : [],
    ),
  );
  return all
    .filter(({ adoption: { kind, live_id: id }, desired, live }) => {
      if (isInScope(desired) || isInScope(live) || parents.has(`${kind} ${id}`)) return true;
      return created.has(nameOf(kind, live.scope, naturalKeyDigest(input.definitions(kind), live.body)));
    })
    .map(({ adoption }) => adoption);
}

// What applying a plan costs, counted before anything is sent.

/** Requests of a step: re-read, send, read back. A creation asks for its old id; the list of names is shared. */
const REQUESTS: Readonly<Record<StepAction, number>> = {
  create: 3,
  update: 3,
  act: 3,
  remove: 3,
  blocked: 0,
  manual: 0,
};

/** Requests, and the least minutes that the rate allows, that of single kinds too: 0 when all fits into one burst. */
export function costOf(
  steps: readonly Pick<PlanStep, 'action' | 'kind' | 'request'>[],
  rate: PlanOptions['rate'],
): Plan['cost'] {
  const requests = requestsOf(steps);
  const removals = requestsOf(steps.filter(({ action }) => action === 'remove'));
  // Kinds with limits of their own are under way at the same time as the others.
  const ofKinds = (rate.kinds ?? []).map(({ kinds, ...limit }) =>
    minutesFor(requestsOf(steps.filter(({ kind, request }) => kinds.includes(request?.kind ?? kind))), limit),
  );
  const minutes = Math.max(minutesFor(requests, rate), ...ofKinds);
  return { requests, minutes, ...(removals === 0 ? {} : { removals }) };
}

function requestsOf(steps: readonly Pick<PlanStep, 'action'>[]): number {
  return steps.reduce((sum, { action }) => sum + REQUESTS[action], 0);
}

function minutesFor(requests: number, rate: KindRate): number {
  if (requests === 0) return 0;
  const hours = rate.perHour === 0 ? 0 : Math.floor((requests - 1) / rate.perHour);
  const rest = rate.perHour === 0 ? requests : requests - hours * rate.perHour;
  return hours * 60 + (rate.perMinute === 0 ? 0 : Math.floor((rest - 1) / rate.perMinute));
}

// If one step frees a name that another takes, the freeing step runs first: a unique name would be refused otherwise.
// Cyclic renames are blocked: a temporary name would be visible, and could remain after a crash.

/** Adds to every step that takes a natural key the step that frees it. */
function orderNames(planning: Planning): void {
  for (const [kind, { definition, live }] of planning.matching.kinds) {
    const drafts = [...planning.drafts.values()].filter(
      (draft) =>
        draft.kind === kind &&
        (draft.action === 'create' || draft.action === 'update' || draft.action === 'remove'),
    );
    if (drafts.length < 2) continue;
    const ids = new Set(drafts.map(({ id }) => id));
    const bodies = new PlacesOfKind<JsonValue>();
    for (const each of live) if (ids.has(each.id)) bodies.set(each.scope, each.id, each.body);
    const before = (draft: Draft): JsonValue =>
      draft.action === 'create' ? {} : (bodies.get(draft.scope, draft.id) ?? {});
    const freed = new Map<string, string>();
    const taken: { draft: Draft; name: string }[] = [];
    const nameMembers = new Set(definition.naturalKey.map(topMember));
    for (const draft of drafts) {
      const sent = draft.request?.body ?? {};
      if (draft.action === 'update' && !Object.keys(sent).some((name) => nameMembers.has(name))) continue;
      const was = nameIn(draft, before(draft));
      const becomes = draft.action === 'remove' ? null : nameIn(draft, merged(before(draft), sent));
      if (was === becomes) continue;
      if (was !== null) freed.set(was, draft.key);
      if (becomes !== null) taken.push({ draft, name: becomes });
    }
    const holderOf = new Map(taken.map(({ draft, name }) => [draft.key, freed.get(name)]));
    for (const { draft, name } of taken) {
      const first = freed.get(name);
      if (first === undefined || first === draft.key || draft.after.includes(first)) continue;
      // The service lets it take the name: the step that frees it runs after.
      if (planning.drafts.get(first)?.after.includes(draft.key) === true) continue;
      const cycle = renameCycleFrom(draft.key, holderOf);
      if (cycle !== null) {
        const others = cycle.slice(1).map((key) => planning.drafts.get(key));
        const whose = others.map((other) => `${other?.name} (${other?.id})`).join(', ');
        const reason =
          `its name is taken by what is to be called ${whose}, which waits for a name that goes round to this one: ` +
          `rename one of the ${cycle.length} by hand to anything else, then restore again`;
        planning.drafts.set(draft.key, blocked(planning.drafts.get(draft.key) ?? draft, 'cycle', reason));
        continue;
      }
      const current = planning.drafts.get(draft.key) ?? draft;
      planning.drafts.set(draft.key, { ...current, after: [...current.after, first] });
    }

    function nameIn(draft: Draft, body: JsonValue): string | null {
      const digest = naturalKeyDigest(definition, body);
      return digest === null ? null : `${scopeKey(draft.scope)} ${digest}`;
    }
  }
}

/** The steps that wait for each other's names, beginning with this one; null where they come to an end. */
function renameCycleFrom(
  start: string,
  holderOf: ReadonlyMap<string, string | undefined>,
): readonly string[] | null {
  const cycle: string[] = [];
  for (let key: string | undefined = start; key !== undefined; key = holderOf.get(key)) {
    if (key === start && cycle.length > 0) return cycle;
    // A cycle that this step only leads into.
    if (cycle.includes(key)) return null;
    cycle.push(key);
  }
  return null;
}

function merged(before: JsonValue, sent: JsonValue): JsonValue {
  return isJsonObject(before) && isJsonObject(sent) ? { ...before, ...sent } : before;
}

// Drafts in their order become the numbered steps of a plan.

/** Numbers the steps from 1 and lets them name each other by number. */
function finishedSteps(drafts: readonly OrderedDraft[]): PlanStep[] {
  const numbers = new Map(drafts.map(({ draft }, index) => [draft.key, index + 1]));
  const numberOf = (key: string): number => {
    const n = numbers.get(key);
    if (n === undefined) throw new Error(`a step waits for ${key}, which is not planned`);
    return n;
  };
  return drafts.map(({ draft, level }) => {
    const { key, after, request, precondition, ...rest } = draft;
    const numbered = [...new Set(after.filter((need) => numbers.has(need)).map(numberOf))];
    return {
      n: numberOf(key),
      level,
      after: numbered.sort((a, b) => a - b),
      ...rest,
      request: request === null ? null : finishedRequest(request, numberOf),
      precondition: precondition === null ? null : finishedPrecondition(precondition, numberOf),
    };
  });
}

type NumberOf = (key: string) => number;

function finishedPrecondition(precondition: DraftPrecondition, numberOf: NumberOf): Precondition {
  return precondition.state === 'after'
    ? { state: 'after', step: numberOf(precondition.step) }
    : precondition;
}

function finishedRequest(draft: DraftRequest, numberOf: NumberOf): PlannedRequest {
  const { template, parameters, fills, alternative, body, ...rest } = draft;
  const path = finishedPath({ template, parameters }, numberOf);
  const first = alternative === null ? null : finishedPath(alternative, numberOf);
  return {
    ...rest,
    ...path,
    path: shownPath(first ?? path),
    body: body === null ? null : withStepTexts(body, fills, numberOf),
    fills: fills.map((fill): Fill => (fill.from === 'step' ? { ...fill, step: numberOf(fill.step) } : fill)),
    alternative: first,
  };
}

function finishedPath({ template, parameters }: DraftPath, numberOf: NumberOf): PathPlan {
  return {
    template,
    parameters: Object.entries(parameters).map(([name, slot]): Parameter => parameter(name, slot, numberOf)),
  };
}

function parameter(name: string, slot: KnownOrStepId, numberOf: NumberOf): Parameter {
  return 'step' in slot ? { name, step: numberOf(slot.step) } : { name, value: slot.value };
}

/** For people: what is known filled in and encoded, the rest named by the step that gives it. */
function shownPath({ template, parameters }: PathPlan): string {
  return template.replace(/:([a-z_]+)/g, (whole, name: string) => {
    const found = parameters.find((each) => each.name === name);
    if (found === undefined) return whole;
    return 'value' in found ? fillPath(whole, { [name]: found.value }) : `{id of step ${found.step}}`;
  });
}

function withStepTexts(body: JsonObject, fills: DraftRequest['fills'], numberOf: NumberOf): JsonObject {
  let shown: JsonObject = body;
  for (const fill of fills) {
    if (fill.from !== 'step' || placesOf(shown, fill.pointer).length === 0) continue;
    shown = withMember(
      shown,
      splitPointer(fill.pointer),
      `{id of step ${numberOf(fill.step)}}`,
    ) as JsonObject;
  }
  return shown;
}
