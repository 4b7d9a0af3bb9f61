/** A scope as text: parents and their ids. */
import { type Scope, SCOPE_KEYS } from './definition.ts';
import type { Kind } from './kinds.ts';

/** `organization 0190…, role 7`, or nothing for the root. */
export function scopeText(scope: Scope): string {
  return SCOPE_KEYS.flatMap((key) => {
    const value = scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')} ${value}`];
  }).join(', ');
}

/** `roles (organization 0190…)`, or the kind alone at the root. */
export function collectionText(kind: Kind, scope: Scope): string {
  const where = scopeText(scope);
  return where === '' ? kind : `${kind} (${where})`;
}
