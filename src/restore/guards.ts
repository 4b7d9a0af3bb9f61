/** Guards over the plan as a whole: what makes it unsafe to apply, whatever its single steps are (design.md, Restore). */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Matching } from './matching.ts';
import type { PlanStep, Refusal } from './plan.ts';
import type { PlanInput } from './plan.ts';

const SHARE_HINT = 'look at the plan; if it is what you want, raise the limit with --max-share';

export function refusalsOf(input: PlanInput, matching: Matching, steps: readonly PlanStep[]): Refusal[] {
  return [
    ...otherOrganization(input, matching),
    ...emptyDesired(input),
    ...staleDesired(input),
    ...tooManyRemovals(input, steps),
    ...CATALOG.flatMap(({ kind }) => tooLargeShare(input, matching, kind, steps)),
  ];
}

/** None of the desired organizations is live: this is another place than the one that was recorded. */
function otherOrganization(input: PlanInput, matching: Matching): Refusal[] {
  const match = matching.kinds.get('organizations');
  const desired = new Set(input.desired.records.map(({ scope }) => scope.organization_id));
  desired.delete(undefined);
  const recorded = (match?.pairs.length ?? 0) + (match?.missing.length ?? 0);
  const isKnown =
    recorded > 0
      ? (match?.pairs.length ?? 0) > 0
      : desired.size === 0 ||
        [...desired].some((id) => matching.liveId('organizations', id ?? '') !== undefined);
  if (isKnown || input.options.createOrganizations) return [];
  return [
    {
      guard: 'other_organization',
      kind: 'organizations',
      reason: 'none of the recorded organizations exists in this service: it seems to be a different account',
      hint: 'check --source and its key; to create lost organizations again, give --create-organizations',
    },
  ];
}

function emptyDesired({ desired, live }: PlanInput): Refusal[] {
  if (desired.records.length > 0 || live.records.length === 0) return [];
  return [
    {
      guard: 'empty_desired',
      kind: null,
      reason: `the desired state holds no record, and live holds ${live.records.length}`,
      hint: 'check FROM and the filters; `tidemark snapshots` lists the states that there are',
    },
  ];
}

function staleDesired({ desired, options, now }: PlanInput): Refusal[] {
  const { at } = desired.reference;
  if (options.maxAgeMs === null || at === undefined) return [];
  const ageMs = now - Date.parse(at);
  if (!(ageMs > options.maxAgeMs)) return [];
  return [
    {
      guard: 'stale_desired',
      kind: null,
      reason: `the desired state is ${ageText(ageMs)} old: what was configured since would be undone`,
      hint: 'name the state that you mean (run:N, snapshot:NAME or a time) to say that its age is meant',
    },
  ];
}

function ageText(ageMs: number): string {
  const minutes = Math.floor(ageMs / 60_000);
  if (minutes < 1) return 'less than a minute';
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function tooManyRemovals({ options }: PlanInput, steps: readonly PlanStep[]): Refusal[] {
  const removals = steps.filter(({ action }) => action === 'remove').length;
  if (options.prune === null || removals <= options.prune.maxRemovals) return [];
  return [
    {
      guard: 'max_removals',
      kind: null,
      reason: `${removals} records would be removed, and the most allowed is ${options.prune.maxRemovals}`,
      hint: `look at the removals in the plan; --max-removals ${removals} allows them`,
    },
  ];
}

function tooLargeShare(
  { options }: PlanInput,
  matching: Matching,
  kind: Kind,
  steps: readonly PlanStep[],
): Refusal[] {
  const match = matching.kinds.get(kind);
  const live = match?.live.length ?? 0;
  if (match === undefined || live < options.limits.minRecords) return [];
  const liveIds = new Set(match.live.map(({ id }) => id));
  const touched = (actions: readonly string[]): number =>
    new Set(
      steps
        .filter((step) => step.kind === kind && actions.includes(step.action))
        // An `act` on a record that is only now created changes nothing that was there.
        .filter(({ action, id }) => action !== 'act' || liveIds.has(id))
        .map(({ id, scope }) => JSON.stringify([scope, id])),
    ).size;
  const refusal = (guard: Refusal['guard'], count: number, what: string): Refusal[] =>
    count <= live * options.limits.maxShare
      ? []
      : [
          {
            guard,
            kind,
            reason: `${count} of ${live} ${match.definition.title.many} would be ${what}, and the most allowed is ${Math.round(options.limits.maxShare * 100)} %`,
            hint: SHARE_HINT,
          },
        ];
  return [
    ...refusal('share_of_updates', touched(['update', 'act']), 'changed'),
    ...refusal('share_of_removals', touched(['remove']), 'removed'),
  ];
}
