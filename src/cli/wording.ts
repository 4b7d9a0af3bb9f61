/** Short forms for people: numbers, durations, ages, scopes. */
import type { Scope } from '../catalog/definition.ts';
import { SCOPE_KEYS } from '../catalog/definition.ts';

/** 12345 → `12,345`. */
export function count(value: number): string {
  return value.toLocaleString('en-US');
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

/** How long ago an ISO 8601 time was. */
export function age(at: string | null, nowMs: number): string {
  if (at === null) return 'never';
  const ms = nowMs - Date.parse(at);
  return ms < 0 ? `in ${duration(-ms)}` : `${duration(ms)} ago`;
}

/** `organization 0190…, role 7`, or nothing for the root. */
export function scopeText(scope: Scope): string {
  return SCOPE_KEYS.flatMap((key) => {
    const value = scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')} ${value}`];
  }).join(', ');
}
