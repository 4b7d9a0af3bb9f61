/** Makes the plan that brings live to desired (design.md, Restore). Pure: equal input gives an equal plan. */
import { CATALOG, scopeKey } from '../../catalog/catalog.ts';
import type { Scope, ScopeKey, KindRate } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { MASK, withoutUrlSecrets } from '../../catalog/masks.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { idText } from '../../diff/match-records.ts';
import { topMember } from '../places.ts';
import { naturalKeyDigest, stepKey } from '../records.ts';
import { withHiddenNames } from '../secrets.ts';
import { AcceptedDrift, acceptedWarnings } from './accepted.ts';
import { planChange, nameReplacements } from './changes.ts';
import { awaitedInvitations, planCreation } from './creations.ts';
import { refusalsOf, keepLastHolders } from './guards.ts';
import { matchStates, type KindMatch } from './matching.ts';
import { ordered, orderNames, finishedSteps } from './order.ts';
import {
  type AddUntouched,
  type Draft,
  planHash,
  type PlanInput,
  type PlanOptions,
  type UntouchedRecords,
  type Plan,
  type PlanStep,
  type Adoption,
  isExecutable,
} from './plan.ts';
import { referencesOf } from './references.ts';
import { NOT_PRUNED, planDependentRemovals, planRemovals } from './removals.ts';
import { bySendableKey } from './settings.ts';
import { blocked, draftOf, type Planning } from './steps.ts';

const NAMES_SHOWN = 10;

const NOT_A_FIELD = 'it is missing as a whole; without --field it is created again';

/**
 * The plan. Both states have the records of the affected collections, of their parents, and of those that they refer to
 * (`kindsToRead`).
 * @throws TidemarkError `not_found` when neither state has a collection or a record, so that "nothing to do" would mean nothing
 */
export function planRestore(input: PlanInput): Plan {
  requireSomething(input);
  const matching = matchStates(input);
  const drafts = new Map<string, Draft>();
  const untouched = new Map<string, UntouchedRecords & { count: number; names: string[] }>();
  const addUntouched: AddUntouched = (kind, reason, name, why = {}) => {
    const key = `${kind} ${reason} ${why.accepted?.accepted_at ?? ''}`;
    const entry = untouched.get(key) ?? { kind, count: 0, reason, names: [], ...why };
    entry.count += 1;
    if (entry.names.length < NAMES_SHOWN) entry.names.push(name);
    untouched.set(key, entry);
  };
  const planning: Planning = {
    input,
    matching,
    references: referencesOf(input, matching),
    accepted: new AcceptedDrift(input, matching, addUntouched),
    drafts,
    unsendableByKind: new Map(),
    put: (step) => void drafts.set(step.key, step),
    addUntouched,
  };
  let unchanged = 0;
  for (const { kind } of CATALOG) {
    const match = matching.kinds.get(kind);
    if (match !== undefined) unchanged += planKind(planning, match);
  }
  planRemovals(planning, awaitedInvitations(planning));
  keepLastHolders(planning);
  planDependentRemovals(planning);
  orderNames(planning);
  nameReplacements(planning, (kind) => untouched.get(`${kind} ${NOT_PRUNED} `)?.count ?? 0);
  const steps = finishedSteps(ordered(planning)).map((step) =>
    withHiddenNames(planning.accepted.marked(step)),
  );
  const lacking = lackingOf(steps, input.definitions);
  const warnings = [
    ...acceptedWarnings(steps, input.options.keepsAccepted === null),
    ...(input.contradictions ?? []).map((line) => `not counted as accepted: ${line}`),
    ...listedOnlyWarnings(steps, input.definitions),
  ];
  const notKnown = (input.skipped ?? []).reduce((sum, { records = 0 }) => sum + records, 0);
  const plan = {
    from: input.desired.reference,
    to: input.live.reference,
    steps,
    adopted: listedAdoptions(planning, steps),
    left: [...untouched.values()].map(({ reason, accepted, ignored, ...rest }) => ({
      ...rest,
      reason: withoutUrlSecrets(reason, MASK),
      ...(accepted === undefined ? {} : { accepted: withShownPath(accepted) }),
      ...(ignored === undefined ? {} : { ignored: withShownPath(ignored) }),
    })),
    refused: refusalsOf(input, matching, steps),
    ...(input.skipped === undefined || input.skipped.length === 0 ? {} : { skipped: input.skipped }),
    ...(lacking.length === 0 ? {} : { lacking }),
    ...(warnings.length === 0 ? {} : { warnings }),
    summary: { ...countsOf(steps), unchanged, ...(notKnown === 0 ? {} : { not_known: notKnown }) },
    cost: costOf(steps, input.options.rate),
  };
  return { ...plan, hash: planHash(plan) };
}

function withShownPath<T extends { readonly path: string }>(place: T): T {
  return { ...place, path: withoutUrlSecrets(place.path, MASK) };
}

/** Plans the desired records of one kind; returns how many are unchanged. */
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
  if (leaving === null) {
    for (const desired of missing)
      if (!planning.accepted.leavesRecord(definition, desired, null))
        planCreation(planning, definition, desired);
  }
  for (const { name, desired, live, goneSince, unsent } of match.ambiguous) {
    const candidates = live.map((each) => `${each.id}${unsentText(each, unsent)}`).join(' and ');
    const rivals = desired.length > 1 ? `, and ${desired.length} desired records have this name` : '';
    for (const record of desired.filter(isInScope)) {
      if (unsent !== undefined && planning.accepted.leavesRecord(definition, record, null)) continue;
      const draft = draftOf(planning, definition, record, null, stepKey(record, 'create'));
      const called = `live has ${candidates} called ${JSON.stringify(name)}`;
      const reason =
        unsent !== undefined
          ? `${called}, which the desired state does not have: it may be this one, created again by hand, as no request takes ` +
            `${unsent.map(topMember).join(', ')}; rename or delete that one to create this one, or accept both with ` +
            '`tidemark drift accept` and add --keep-accepted to leave them'
          : goneSince === undefined
            ? `ambiguous: ${called}${rivals}`
            : `run ${goneSince} found it gone, and ${called} beside it: if created again, it would exist twice; ` +
              'accept its removal (`tidemark sync --accept-removals N`) if that one is it, or name a state from before that run';
      planning.put(blocked(draft, 'ambiguous', reason));
    }
  }
  return unchanged;
}

/** The values of a live record in fields that no request sets, e.g. ` (team_id 1)`. */
function unsentText({ body }: ParsedRecord, unsent: readonly string[] = []): string {
  const values = unsent.map((pointer) => {
    const value = resolvePointer(body, pointer) ?? null;
    return `${topMember(pointer)} ${idText(value)}`;
  });
  return values.length === 0 ? '' : ` (${values.join(', ')})`;
}

function requireSomething({ desired, live }: PlanInput): void {
  const sides = [desired, live];
  if (sides.some(({ records, collections }) => records.length > 0 || collections.length > 0)) return;
  throw new TidemarkError(
    'not_found',
    'nothing was compared: no record in either state matches the filters',
    {
      hint: 'widen the filters; `tidemark doctor` shows whether the service answers and what the key can read',
    },
  );
}

function lackingOf(
  steps: readonly PlanStep[],
  definitions: PlanInput['definitions'],
): { kinds: Kind[]; reason: string }[] {
  const created = new Set(steps.filter(({ action }) => action === 'create').map(({ kind }) => kind));
  const byReason = Map.groupBy(created, (kind) => definitions(kind).restore.lacks);
  return [...byReason].flatMap(([reason, kinds]) => (reason === null ? [] : [{ kinds, reason }]));
}

/**
 * A line for each kind whose created records were only looked for in a list, because the API has no request by id. Not for records of
 * a new parent, which has no others yet.
 */
function listedOnlyWarnings(steps: readonly PlanStep[], definitions: PlanInput['definitions']): string[] {
  const created = new Set(
    steps.flatMap(({ action, request }) =>
      action !== 'create' || request === null || request.parameters.some((each) => 'step' in each)
        ? []
        : [request.kind],
    ),
  );
  return [...created]
    .map(definitions)
    .filter((definition) => definition.operation('retrieve') === undefined)
    .map(
      ({ title }) =>
        `${title.many} cannot be requested by id: one that the list of the service leaves out would be created a second time`,
    );
}

function countsOf(steps: readonly PlanStep[]): Omit<Plan['summary'], 'unchanged'> {
  const counts = { create: 0, update: 0, act: 0, remove: 0, blocked: 0, manual: 0 };
  for (const { action } of steps) counts[action] += 1;
  return counts;
}

/**
 * The records found under another id that the plan lists: those in scope, and those that its steps rely on. These are the parents of
 * steps, and namesakes of created records (for a record without a name: all without one), which apply must not mistake for records
 * created by hand in the meantime.
 */
function listedAdoptions({ input, matching }: Planning, steps: readonly PlanStep[]): Adoption[] {
  const { isInScope } = input;
  // A record that is removed does not continue another one.
  const leaving = new Set(
    steps.flatMap(({ action, kind, id }) => (action === 'remove' ? `${kind} ${id}` : [])),
  );
  const all = matching.adopted.filter(({ adoption: { kind, live_id: id } }) => !leaving.has(`${kind} ${id}`));
  if (isInScope === undefined) return all.map(({ adoption }) => adoption);
  const parents = new Set(
    steps.flatMap(({ scope }) =>
      (Object.entries(scope) as [ScopeKey, string][]).map(([key, id]) => `${SCOPE_KIND[key]} ${id}`),
    ),
  );
  // Apply recognizes a record without a name, and so without a digest, by its content: any other nameless one may have the same.
  const nameOf = (kind: Kind, scope: Scope, digest: string | null): string =>
    `${kind} ${scopeKey(scope)} ${digest ?? 'without a name'}`;
  const created = new Set(
    steps.flatMap(({ kind, scope, precondition, request }) => {
      if (precondition?.state !== 'absent') return [];
      const byName = bySendableKey(input.definitions(kind));
      const isPart = request?.kind === kind && byName !== input.definitions(kind);
      const digest = isPart ? naturalKeyDigest(byName, request.body ?? {}) : precondition.digest;
      // Another kind's request may stand for the record: an invite for a member.
      return [kind, request?.kind ?? kind].map((each) => nameOf(each, scope, digest));
    }),
  );
  return all
    .filter(({ adoption: { kind, live_id: id }, desired, live }) => {
      if (isInScope(desired) || isInScope(live) || parents.has(`${kind} ${id}`)) return true;
      const byName = bySendableKey(input.definitions(kind));
      return created.has(nameOf(kind, live.scope, naturalKeyDigest(byName, live.body)));
    })
    .map(({ adoption }) => adoption);
}

/** Read the record again (for a creation: look up the old id), send, read back. All creations of a collection share one list of names. */
const REQUESTS_PER_STEP = 3;

/** The number of requests, and the minimum of minutes that the rate and those of single kinds allow: 0 for one burst. @internal */
export function costOf(
  steps: readonly Pick<PlanStep, 'action' | 'kind' | 'request'>[],
  rate: PlanOptions['rate'],
): Plan['cost'] {
  const requests = requestsOf(steps);
  const removals = requestsOf(steps.filter(({ action }) => action === 'remove'));
  // Requests with limits of their own are sent at the same time as the others.
  const ofKinds = (rate.kinds ?? []).map(({ kinds, ...limit }) =>
    minutesFor(requestsOf(steps.filter(({ kind, request }) => kinds.includes(request?.kind ?? kind))), limit),
  );
  const minutes = Math.max(minutesFor(requests, rate), ...ofKinds);
  return { requests, minutes, ...(removals === 0 ? {} : { removals }) };
}

function requestsOf(steps: readonly Pick<PlanStep, 'action'>[]): number {
  return steps.filter(isExecutable).length * REQUESTS_PER_STEP;
}

function minutesFor(requests: number, rate: KindRate): number {
  if (requests === 0) return 0;
  const hours = rate.perHour === 0 ? 0 : Math.floor((requests - 1) / rate.perHour);
  const rest = rate.perHour === 0 ? requests : requests - hours * rate.perHour;
  return hours * 60 + (rate.perMinute === 0 ? 0 : Math.floor((rest - 1) / rate.perMinute));
}
