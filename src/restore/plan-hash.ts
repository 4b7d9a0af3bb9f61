/** The hash that pins a plan: equal exactly when the plans would do the same to the same. */
import { hash } from 'node:crypto';
import type { JsonValue } from '../core/json.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { Plan, PlanStep } from './plan.ts';

/**
 * SHA-256 (hex) of the canonical text of all that apply relies on and a person agrees to: the steps (requests,
 * preconditions with digests of the live records, digests of the desired bodies), what guards refuse, records found under
 * another id, what was not read, and the sources and states that are meant. When it was made and what it costs
 * takes no part.
 */
export function planHash(plan: Omit<Plan, 'hash'>): string {
  const { from, to, steps, adopted, refused, skipped = [], summary } = plan;
  const pinned = {
    from: { ref: from.ref, run: from.run ?? null, source: from.source ?? null },
    to: { ref: to.ref, source: to.source ?? null },
    ...{ steps, refused, skipped, summary },
    // They stand in the order of the records, which says nothing.
    adopted: adopted.map((each) => canonicalText(each as unknown as JsonValue)).sort(),
  };
  return digest(pinned);
}

/** What the hash was before it covered more than the steps: such a plan is told from one that was edited. */
export function hashOfSteps(steps: readonly PlanStep[]): string {
  return digest(steps);
}

function digest(value: object): string {
  // Plain JSON by construction: optional members are left out, never undefined (a saved plan is hashed again when read).
  return hash('sha256', canonicalText(value as JsonValue), 'hex');
}
