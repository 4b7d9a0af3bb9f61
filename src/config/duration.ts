/** Durations as people write them: `500ms`, `10s`, `5m`, `1h`, `24h`, `7d`. */

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

// Ten years: beyond it somebody mistook the unit, and sums with epoch milliseconds stay exact.
const LONGEST_MS = 3650 * UNIT_MS.d;

/** Milliseconds of a duration text; undefined when it is none or is longer than ten years. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text);
  if (match === null) return undefined;
  const ms = Math.round(Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]);
  return ms <= LONGEST_MS ? ms : undefined;
}
