/** Short forms for people: numbers, durations, ages, scopes, how runs ended. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { SCOPE_KEYS } from '../catalog/definition.ts';
import { grouped } from '../core/grouped.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** 12345 → `12,345`. */
export function count(value: number): string {
  return grouped(value);
}

/** `1 record`, `2 records`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Milliseconds → `0.4 s`, `12 s`, `3 min`, `5 h`, `4 d`. */
export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  const minutes = seconds / 60;
  if (minutes < 120) return `${minutes.toFixed(0)} min`;
  const hours = minutes / 60;
  return hours < 48 ? `${hours.toFixed(0)} h` : `${(hours / 24).toFixed(0)} d`;
}

/** How long ago an ISO 8601 time was: `just now`, `3 min ago`. */
export function age(at: string | null, nowMs: number): string {
  if (at === null) return 'never';
  const ms = nowMs - Date.parse(at);
  // A clock that stepped back makes the past the future.
  if (ms < -10_000) return `${duration(-ms)} ahead of this clock`;
  return ms < 10_000 ? 'just now' : `${duration(ms)} ago`;
}

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

/** How a run that published nothing ended, after `run 3 `. */
export function runFailure({ outcome, error, finishedAt }: RunRow): string {
  if (finishedAt === null) return 'has not ended: it still runs, or its process died';
  return error === null ? `ended as ${outcome}` : `${outcome}: ${error}`;
}
