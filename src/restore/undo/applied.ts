/** What a restore applied, and what its undos and theirs made of it, under the ids that its records have by now. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow, IdMapping } from '../../mirror/restores.ts';
import { type Inverse, type PlannedRequest, type PlanStep, readPlan } from '../plan/plan.ts';
import { idLookup, recordKeyText } from '../records.ts';

/** A step that was applied, with the record that it was about. */
export interface AppliedStep {
  readonly row: RestoreStepRow;
  readonly name: string;
  readonly inverse: Inverse | null;
  readonly request: PlannedRequest;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}

export interface AppliedSteps {
  readonly row: RestoreRow;
  readonly steps: readonly AppliedStep[];
  /** Creations with unknown id: the service returned none, and the record was not found. */
  readonly unknown: readonly { readonly kind: Kind; readonly name: string }[];
}

/** @throws TidemarkError `reference_unknown`; `usage` while the answer to one of its writes is not known */
export function appliedSteps(mirror: Mirror, restore: number): AppliedSteps {
  const row = mirror.restores.get(restore);
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', `there is no restore ${restore}`, {
      hint: '`tidemark restores list` lists them',
    });
  }
  const rows = new Map(mirror.restores.steps(restore).map((step) => [step.n, step]));
  if ([...rows.values()].some(({ outcome }) => outcome === 'sent')) {
    throw new TidemarkError('usage', `what restore ${restore} did is not fully known: a response was lost`, {
      hint: `\`tidemark restore --resume ${restore}\` looks it up; then undo it`,
    });
  }
  const steps: AppliedStep[] = [];
  const unknown: { kind: Kind; name: string }[] = [];
  for (const step of readPlan(row.plan).steps) {
    const journaled = rows.get(step.n);
    if (journaled?.outcome !== 'applied' || step.request === null) continue;
    const applied = appliedStep(step, step.request, journaled, rows);
    if (applied === null) unknown.push({ kind: step.request.kind, name: step.name });
    else steps.push(applied);
  }
  return { row, steps, unknown };
}

/** Null where the record's id is not known. */
function appliedStep(
  { scope, name }: PlanStep,
  request: PlannedRequest,
  row: RestoreStepRow,
  rows: ReadonlyMap<number, RestoreStepRow>,
): AppliedStep | null {
  const values: Record<string, string | undefined> = {};
  for (const each of request.parameters) {
    values[each.name] = 'value' in each ? each.value : (rows.get(each.step)?.newId ?? undefined);
  }
  const within = Object.fromEntries(
    Object.keys(scope).map((key) => [key, values[key] ?? scope[key as keyof Scope]]),
  );
  const own = request.parameters.map((each) => each.name).find((key) => !Object.hasOwn(scope, key));
  const id = request.role === 'create' ? row.newId : own === undefined ? undefined : values[own];
  if (id === null || id === undefined) return null;
  const inverse = row.inverse as unknown as Inverse | null;
  return { row, name, inverse, request, kind: request.kind, scope: within, id };
}

interface Place {
  readonly scope: Scope;
  readonly id: string;
}

type Key = Pick<AppliedStep, 'kind' | 'scope' | 'id'>;

export interface UndoChain {
  /** The undos of the restore, their undos and so on, oldest first, of those that applied something. */
  readonly links: readonly { readonly restore: number; readonly takesBack: boolean }[];
  /** Where a record of the restore is after what the chain made of it: first its own place, the latest one last. */
  places(record: Key): readonly Place[];
  /** Digest of a record at its latest place, as the restore and its chain left it; null where that was not read. */
  digest(record: Key): string | null;
  /** The undo of the record's change, if it is still in effect; undefined if the change was made again. */
  takenBackBy(record: Key): number | undefined;
  /** The id that any restore, of the chain or not, has made or found the record under since. */
  idSince(record: Key): string | undefined;
}

/**
 * @param before only restores before this one: an undo that is gone on with is not part of what it was planned from
 * @throws TidemarkError `usage` while the answer to one of the chain's writes is not known
 */
export function undoChain(mirror: Mirror, row: RestoreRow, before = Number.POSITIVE_INFINITY): UndoChain {
  const depths = new Map([[row.restore, 0]]);
  for (const { restore, undoes } of mirror.restores.list({ source: row.source }).toReversed()) {
    const depth = undoes === null || restore >= before ? undefined : depths.get(undoes);
    if (depth !== undefined) depths.set(restore, depth + 1);
  }
  const steps = [...depths].map(([restore, depth]) => ({
    restore,
    takesBack: depth % 2 === 1,
    steps: appliedSteps(mirror, restore).steps,
  }));
  const mappings = mirror.restores.idMap(row.source).filter(({ restore }) => restore < before);
  const next = recreated(steps, mappings);
  const digests = new Map<string, string | null>();
  const last = new Map<string, { readonly restore: number; readonly takesBack: boolean }>();
  for (const { steps: applied, ...link } of steps) {
    for (const each of applied) {
      digests.set(keyOf(each), each.row.digest);
      last.set(keyOf(each), link);
    }
  }
  const places = ({ kind, scope, id }: Key): Place[] => {
    const found: Place[] = [{ scope, id }];
    const passed = new Set<string>();
    for (let at: Place | undefined = found[0]; at !== undefined;) {
      const key = keyOf({ kind, ...at });
      passed.add(key);
      const to = next.get(key);
      at = to === undefined || passed.has(keyOf({ kind, ...to })) ? undefined : to;
      if (at !== undefined) found.push(at);
    }
    return found;
  };
  const latest = (record: Key): string => keyOf({ kind: record.kind, ...(places(record).at(-1) ?? record) });
  const lookup = idLookup(mappings);
  return {
    links: steps
      .filter(({ restore, steps: applied }) => restore !== row.restore && applied.length > 0)
      .map(({ restore, takesBack }) => ({ restore, takesBack })),
    places,
    digest: (record) => digests.get(latest(record)) ?? null,
    takenBackBy: (record) => {
      const link = last.get(latest(record));
      return link?.takesBack === true ? link.restore : undefined;
    },
    idSince: ({ kind, id }) => lookup(kind, id),
  };
}

/** What the chain's own creations continue. What a restore merely found under another id is not what it made. */
function recreated(
  chain: readonly { readonly restore: number; readonly steps: readonly AppliedStep[] }[],
  mappings: readonly IdMapping[],
): ReadonlyMap<string, Place> {
  const made = new Set(
    chain.flatMap(({ restore, steps }) =>
      steps.filter(({ request }) => request.role === 'create').map((each) => `${restore} ${keyOf(each)}`),
    ),
  );
  return new Map(
    mappings
      .filter(({ restore, kind, newScope, newId }) =>
        made.has(`${restore} ${keyOf({ kind, scope: newScope, id: newId })}`),
      )
      .map(({ kind, oldScope, oldId, newScope, newId }) => [
        keyOf({ kind, scope: oldScope, id: oldId }),
        { scope: newScope, id: newId },
      ]),
  );
}

function keyOf({ kind, scope, id }: Key): string {
  return recordKeyText(kind, scope, id);
}
