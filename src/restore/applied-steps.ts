/** What a restore applied, from its journal: each step with the record that it was about, under the ids it has by now. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../mirror/restores.ts';
import type { Inverse, PlannedRequest, PlanStep } from './plan.ts';
import { readPlan } from './plan.ts';

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
