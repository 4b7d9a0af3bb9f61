/** Makes a plan: what it depends on is read, planned from, and the desired records of its steps are checked. */
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
    return { ...gathered, plan };
  } catch (error) {
    // An altered body may not even be JSON any more: reading every record says whose it is.
    if (error instanceof SyntaxError) Iterator.from(options.desired.checked().records({})).forEach(() => {});
    throw error;
  }
}
