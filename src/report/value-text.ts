/** A value of a change as one line for people. */
import type { JsonValue } from '../core/json.ts';
import { neutralise } from './neutralise.ts';

/** How an absent value reads: unlike null and unlike every text, which stands in quotes. */
export const ABSENT = '(absent)';

/** Compact JSON with every active character written out; numbers digit by digit as received. */
export function valueText(value: JsonValue | undefined): string {
  return value === undefined ? ABSENT : neutralise(JSON.stringify(value));
}

/** At most about `limit` characters of a text, its beginning and end, saying how many are left out between. */
export function folded(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const gap = ` … ${(text.length - limit).toLocaleString('en')} more characters … `;
  const kept = Math.max(limit - gap.length, 16);
  const head = Math.ceil(kept * 0.7);
  // Not through the middle of a surrogate pair, which would leave half a character on either side.
  const start = text.slice(0, head).replace(/[\ud800-\udbff]$/, '');
  const end = text.slice(text.length - (kept - head)).replace(/^[\udc00-\udfff]/, '');
  const left = text.length - start.length - end.length;
  return `${start} … ${left.toLocaleString('en')} more characters … ${end}`;
}

/** Characters of what both sides share that stay visible beside the difference. */
const CONTEXT = 24;

/**
 * Two texts folded so that the place where they differ stays visible: what both begin and end with is left out first,
 * saying how much that is. Texts within the limit stay as they are.
 */
export function foldedPair(from: string, to: string, limit: number): [string, string] {
  if (from.length <= limit && to.length <= limit) return [from, to];
  const shortest = Math.min(from.length, to.length);
  let head = 0;
  while (head < shortest && from[head] === to[head]) head += 1;
  let tail = 0;
  while (tail < shortest - head && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail += 1;
  const cutStart = Math.max(head - CONTEXT, 0);
  const cutEnd = Math.max(tail - CONTEXT, 0);
  const fold = (text: string): string => {
    const start =
      cutStart > CONTEXT ? `… ${cutStart.toLocaleString('en')} equal characters … ` : text.slice(0, cutStart);
    const end =
      cutEnd > CONTEXT
        ? ` … ${cutEnd.toLocaleString('en')} equal characters …`
        : text.slice(text.length - cutEnd);
    const middle = text.slice(cutStart, text.length - cutEnd);
    // A surrogate pair that the cut halves would show as two broken characters.
    const whole = middle.replace(/^[\udc00-\udfff]/, '').replace(/[\ud800-\udbff]$/, '');
    return `${start}${folded(whole, limit)}${end}`;
  };
  return [fold(from), fold(to)];
}
