/** The plan that takes a restore back: the inverse of what it applied, kept when it was applied. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { SecretLookup } from './configured-secrets.ts';
import type { Plan } from './plan.ts';
import type { PlanOptions, PlanState } from './plan-input.ts';

export interface UndoOptions {
  /** The records as they are, of `undoKinds`. */
  readonly live: PlanState;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly secrets: SecretLookup;
  /** Take back what was changed since, too. */
  readonly forceChanged: boolean;
  readonly rate: PlanOptions['rate'];
}

/**
 * The kinds to read before a restore is undone; empty where it applied nothing.
 * @throws TidemarkError `reference_unknown`
 */
export function undoKinds(mirror: Mirror, restore: number, definitions: UndoOptions['definitions']): Kind[] {
  throw new TidemarkError('internal', `not built yet: ${mirror.path} ${restore} ${typeof definitions}`);
}

/**
 * The inverse of every applied step in reverse order, for `applyPlan` with `undoes: restore`. A record that is not as
 * the restore left it is blocked (`changed_since`) unless `forceChanged`.
 * @throws TidemarkError `reference_unknown`; `usage` while the restore is unfinished in flight (`sent` steps)
 */
export function planUndo(mirror: Mirror, restore: number, options: UndoOptions): Plan {
  throw new TidemarkError('internal', `not built yet: ${mirror.path} ${restore} ${options.forceChanged}`);
}
