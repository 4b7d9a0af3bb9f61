/** A retention policy in words. */
import type { RetentionPolicy } from './retention.ts';

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

/** `last 7, daily 30, within 12 h`. */
export function policyText(policy: RetentionPolicy): string {
  const { withinMs = 0, ...counts } = policy;
  const rules = Object.entries(counts).filter(([, count]) => count > 0);
  return [
    ...rules.map(([rule, count]) => `${rule} ${count}`),
    ...(withinMs > 0 ? [`within ${spanText(withinMs)}`] : []),
  ].join(', ');
}

function spanText(ms: number): string {
  const [unit, length] = UNITS.find(([, size]) => ms % size === 0) ?? ['ms', 1];
  return `${ms / length} ${unit}`;
}
