/** Makes the plan that brings live to desired (design.md, Restore). Pure: equal input gives an equal plan. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { recordName } from '../diff/name.ts';
import { planChange } from './change-steps.ts';
import { costOf } from './cost.ts';
import { planCreation } from './creation-steps.ts';
import { draftKey, type Draft } from './draft.ts';
import { toldAdoptions } from './adoptions.ts';
import { finishedSteps } from './finished-steps.ts';
import { refusalsOf } from './guards.ts';
import { matchStates, type KindMatch } from './matching.ts';
import { orderNames } from './name-conflicts.ts';
import { ordered } from './order.ts';
import type { LeftAlone, Plan, PlanStep } from './plan.ts';
import { planHash } from './plan-hash.ts';
import type { PlanInput } from './plan-input.ts';
import { keepLastHolders } from './protected-records.ts';
import { referencesOf } from './references.ts';
import { planDependentRemovals, planRemovals } from './removal-steps.ts';
import { draftOf, stopped, type Planning } from './step-parts.ts';

const NAMES_SHOWN = 10;
const NOT_A_FIELD = 'it is missing as a whole; without --field it is created again';

/**
 * The plan. Both states hold the records of the affected collections, and of those that they hang from or refer to
 * (`kindsToRead`).
 * @throws TidemarkError `not_found` when neither state holds a collection or a record: a plan of nothing proves nothing
 */
export function planRestore(input: PlanInput): Plan {
  requireSomething(input);
  const matching = matchStates(input);
  const drafts = new Map<string, Draft>();
  const left = new Map<string, { kind: Kind; count: number; reason: string; names: string[] }>();
  const planning: Planning = {
    input,
    matching,
    references: referencesOf(input, matching),
    drafts,
    leave: (kind, reason, name) => {
      const entry = left.get(`${kind} ${reason}`) ?? { kind, count: 0, reason, names: [] };
      entry.count += 1;
      if (entry.names.length < NAMES_SHOWN) entry.names.push(name);
      left.set(`${kind} ${reason}`, entry);
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
    adopted: toldAdoptions(planning, steps),
    left: [...left.values()] satisfies readonly LeftAlone[],
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
  const { isAbout = () => true, isFieldAbout } = planning.input;
  const pairs = match.pairs.filter(({ desired, live }) => isAbout(desired) || isAbout(live));
  const missing = match.missing.filter(isAbout);
  const { never } = definition.restore;
  const leaving = never ?? (isFieldAbout === undefined ? null : NOT_A_FIELD);
  if (leaving !== null) {
    for (const { id, body } of missing)
      planning.leave(definition.kind, leaving, recordName(definition, body, id));
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
    for (const record of desired.filter(isAbout)) {
      const draft = draftOf(planning, definition, record, null, draftKey(record, 'create'));
      const called = `live has ${candidates} called ${JSON.stringify(name)}`;
      const reason =
        goneSince === undefined
          ? `which one it is cannot be told: ${called}${rivals}`
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
      hint: 'widen the filters; `tidemark doctor` tells whether the service answers and what the key reaches',
    },
  );
}

function countsOf(steps: readonly PlanStep[]): Omit<Plan['summary'], 'unchanged'> {
  const counts = { create: 0, update: 0, act: 0, remove: 0, blocked: 0, manual: 0 };
  for (const { action } of steps) counts[action] += 1;
  return counts;
}
