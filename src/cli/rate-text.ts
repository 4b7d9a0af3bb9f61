/** The limits of a source in words. */
import type { RateLimits } from '../config/config.ts';
import { count } from '../core/wording.ts';

/** E.g. `480 a minute and 4,800 an hour, session_recordings 240 a minute and 1,200 an hour`; null without any limit. */
export function limitsText({ kinds = [], ...rate }: RateLimits): string | null {
  const texts = [
    windowsText(rate),
    ...kinds.map((each) => `${each.kinds[0]} ${windowsText(each) ?? ''}`),
  ].filter((text) => text !== null);
  return texts.length === 0 ? null : texts.join(', ');
}

/** `480 a minute and 4,800 an hour`; null where neither is limited. */
export function windowsText({
  perMinute,
  perHour,
}: Pick<RateLimits, 'perMinute' | 'perHour'>): string | null {
  const windows = [
    ...(perMinute === 0 ? [] : [`${count(perMinute)} a minute`]),
    ...(perHour === 0 ? [] : [`${count(perHour)} an hour`]),
  ];
  return windows.length === 0 ? null : windows.join(' and ');
}
