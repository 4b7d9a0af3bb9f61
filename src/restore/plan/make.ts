/** Makes a plan: what it depends on is read, planned from, and the desired records of its steps are checked. */
import { scopeKeyNaming } from '../../catalog/lineage.ts';
import { createdBelow } from '../../sync/removals.ts';
import { type GatherOptions, type Gathered, readPlanInput } from './gather.ts';
import type { Plan } from './plan.ts';
import { planRestore } from './planner.ts';

/**
 * Only records that a step is about are checked: a plan says nothing else of the others.
 * @throws TidemarkError `mirror_corrupt` for a desired record that does not match its hash; what `readPlanInput` throws
 */
export async function makePlan(options: GatherOptions): Promise<Gathered & { readonly plan: Plan }> {
  try {
    const gathered = await readPlanInput(options);
    const plan = planRestore(gathered.input);
    options.desired.requireIntact?.(
      plan.steps.flatMap(({ desired, name }) => {
        if (desired === null) return [];
        const { kind, scope, id } = desired;
        return [{ kind, scope, id, name }];
      }),
    );
    const unselected = unselectedBelow(options, plan, gathered.input);
    return { ...gathered, plan: unselected.length === 0 ? plan : { ...plan, unselected } };
  } catch (error) {
    // An altered body may not even be JSON any more: reading every record says whose it is.
    if (error instanceof SyntaxError) Iterator.from(options.desired.checked().records({})).forEach(() => {});
    throw error;
  }
}

/** What was lost along with what the plan creates, where the filters leave it out. */
function unselectedBelow(
  { request: { filter }, desired, definitions }: GatherOptions,
  { steps }: Plan,
  { isInScope = () => true }: Gathered['input'],
): NonNullable<Plan['unselected']> {
  if (filter.kinds === undefined && filter.ids === undefined) return [];
  const created = steps.flatMap(({ kind, action, desired: record }) =>
    action === 'create' && record !== null ? [{ kind, id: record.id }] : [],
  );
  const kinds = [...new Set(created.flatMap(({ kind }) => createdBelow(kind)))].filter(
    (kind) => definitions(kind).isUnionOfFamily !== true,
  );
  if (kinds.length === 0) return [];
  const parents = new Set(created.map(({ kind, id }) => `${scopeKeyNaming(kind) ?? ''} ${id}`));
  const lost = Iterator.from(desired.records({ kinds })).filter(
    (record) =>
      Object.entries(record.scope).some(([key, id]) => parents.has(`${key} ${id}`)) &&
      !isInScope({ ...record, body: null }),
  );
  return [...Map.groupBy(lost, ({ kind }) => kind)].map(([kind, own]) => ({ kind, count: own.length }));
}
