/** The hash that pins a plan: equal exactly when the plans would do the same to the same. */
import { hash } from 'node:crypto';
import type { JsonValue } from '../core/json.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { PlanStep } from './plan.ts';

/**
 * SHA-256 (hex) of the steps' canonical text: requests, preconditions (with digests of the live records) and digests of
 * the desired bodies stand in them. When it was made, under which references and what it costs takes no part.
 */
export function planHash(steps: readonly PlanStep[]): string {
  // Plain JSON by construction: optional members are left out, never undefined (a saved plan is hashed again when read).
  return hash('sha256', canonicalText(steps as unknown as JsonValue), 'hex');
}
