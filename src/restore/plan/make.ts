/** Makes a plan: reads its input, plans, and checks the desired records of its steps. */
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { scopeKeyNaming } from '../../catalog/lineage.ts';
import { parseLossless } from '../../core/json.ts';
import { recordName } from '../../diff/change.ts';
import { createdBelow } from '../../sync/removals.ts';
import { type GatherOptions, type Gathered, readPlanInput } from './gather.ts';
import { recordsNamedBy } from './dependents.ts';
import type { Plan, Referring } from './plan.ts';
import { planRestore } from './planner.ts';

/**
 * Makes a plan. Only the desired records of its steps are checked against their hashes.
 * @throws TidemarkError `mirror_corrupt` for a desired record that does not match its hash; what `readPlanInput` throws
 */
export async function makePlan(options: GatherOptions): Promise<Gathered & { readonly plan: Plan }> {
  try {
    const gathered = await readPlanInput(options);
    const plan = planRestore(gathered.input);
    options.desired.requireIntact?.(
      plan.steps.flatMap(({ desired, name }) => (desired === null ? [] : [{ ...desired, name }])),
    );
    const { kinds, ids } = options.request.filter;
    if (kinds === undefined && ids === undefined) return { ...gathered, plan };
    const unselected = unselectedBelow(options, plan, gathered.input);
    const referring = unselectedReferring(options, plan, gathered.input);
    return {
      ...gathered,
      plan: {
        ...plan,
        ...(unselected.length === 0 ? {} : { unselected }),
        ...(referring.length === 0 ? {} : { referring }),
      },
    };
  } catch (error) {
    // An altered body may no longer be JSON: reading every record reports which one it is.
    if (error instanceof SyntaxError) Iterator.from(options.desired.checked().records({})).forEach(() => {});
    throw error;
  }
}

/** The desired records below those that the plan creates that the filters leave out: they were lost together. */
function unselectedBelow(
  { desired, definitions }: GatherOptions,
  { steps }: Plan,
  { isInScope = () => true }: Gathered['input'],
): NonNullable<Plan['unselected']> {
  const created = createdBy(steps);
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

/** The number of names listed for each kind. */
const NAMES_SHOWN = 3;

/**
 * The desired records that refer to a record that the plan creates and that the filters leave out: the service gives the created record
 * another id, so they would refer to one that is gone. Records below a created one are counted by `unselectedBelow`.
 */
function unselectedReferring(
  { desired, definitions }: GatherOptions,
  { steps }: Plan,
  { isInScope = () => true }: Gathered['input'],
): Referring[] {
  const created = new Map(createdBy(steps).map(({ kind, id }) => [`${kind} ${id}`, scopeKeyNaming(kind)]));
  const createdKinds = new Set(steps.flatMap(({ kind, action }) => (action === 'create' ? [kind] : [])));
  const kinds = KINDS.filter((kind) => {
    const { references, restore, isUnionOfFamily } = definitions(kind);
    if (restore.never !== null || isUnionOfFamily === true) return false;
    return [...references, ...restore.derived].some((reference) => createdKinds.has(reference.kind));
  });
  if (kinds.length === 0) return [];
  const found = new Map<Kind, { count: number; names: string[] }>();
  for (const { kind, scope, id, body: text } of desired.records({ kinds })) {
    const body = parseLossless(text);
    const record = { kind, scope, id, body };
    if (isInScope(record)) continue;
    const named = recordsNamedBy(definitions(kind), record).filter((each) =>
      created.has(`${each.kind} ${each.id}`),
    );
    const isBelow = named.some((each) => {
      const key = created.get(`${each.kind} ${each.id}`);
      return key !== undefined && scope[key] === each.id;
    });
    if (named.length === 0 || isBelow) continue;
    const own = found.get(kind) ?? { count: 0, names: [] };
    own.count += 1;
    if (own.names.length < NAMES_SHOWN) own.names.push(recordName(definitions(kind), body, id));
    found.set(kind, own);
  }
  return [...found].map(([kind, own]) => ({ kind, ...own }));
}

function createdBy(steps: Plan['steps']): { readonly kind: Kind; readonly id: string }[] {
  return steps.flatMap(({ kind, action, desired }) =>
    action === 'create' && desired !== null ? [{ kind, id: desired.id }] : [],
  );
}
