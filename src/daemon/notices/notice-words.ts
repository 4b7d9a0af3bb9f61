/** Short forms in notices: the one who is told has a telephone, not a terminal. */
import { grouped } from '../../core/grouped.ts';
import type { Kind, Scope } from '../../catalog/definition.ts';
import { SCOPE_KEYS } from '../../catalog/definition.ts';

/** `1 record`, `1,200 records`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${grouped(value)} ${value === 1 ? one : many}`;
}

/** `roles (organization 0190…)`, or the kind alone at the root. */
export function collectionName(kind: Kind, scope: Scope): string {
  const where = SCOPE_KEYS.flatMap((key) => {
    const value = scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')} ${value}`];
  }).join(', ');
  return where === '' ? kind : `${kind} (${where})`;
}

/** What a notice is about, before its colon. */
export function subjectName(source: string): string {
  return source === '' ? 'mirror' : source;
}

/** `45 min`, `26 h`. */
export function span(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
