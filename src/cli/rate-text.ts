/** The limits of a source in words. */
import type { Kind } from '../catalog/kinds.ts';
import type { KindRateLimits, RateLimits } from '../config/config.ts';
import { formatInteger } from '../core/wording.ts';

/** E.g. `480 a minute and 4,800 an hour, session_recordings 240 a minute and 1,200 an hour`; null if nothing is limited. */
export function limitsText({ kinds = [], ...rate }: RateLimits): string | null {
  const texts = [
    windowsText(rate),
    ...kinds.map((each) => `${each.kinds[0]} ${windowsText(each) ?? ''}`),
  ].filter((text) => text !== null);
  return texts.length === 0 ? null : texts.join(', ');
}

/** The limits of kinds that are lower than that of the source, each with those of its kinds that are synced. */
export function effectiveKindLimits(
  { perMinute, perHour, kinds = [] }: RateLimits,
  synced: ReadonlySet<Kind>,
): readonly KindRateLimits[] {
  const isLower = (own: number, whole: number): boolean => own !== 0 && (whole === 0 || own < whole);
  return kinds.flatMap((each) => {
    const [first, ...others] = each.kinds.filter((kind) => synced.has(kind));
    if (first === undefined) return [];
    const isFelt = isLower(each.perMinute, perMinute) || isLower(each.perHour, perHour);
    return isFelt ? [{ ...each, kinds: [first, ...others] as const }] : [];
  });
}

/** `480 a minute and 4,800 an hour`; null if neither is limited. */
export function windowsText({
  perMinute,
  perHour,
}: Pick<RateLimits, 'perMinute' | 'perHour'>): string | null {
  const windows = [
    ...(perMinute === 0 ? [] : [`${formatInteger(perMinute)} a minute`]),
    ...(perHour === 0 ? [] : [`${formatInteger(perHour)} an hour`]),
  ];
  return windows.length === 0 ? null : windows.join(' and ');
}
