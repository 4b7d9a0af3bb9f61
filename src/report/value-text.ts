/** Values, names and changes of fields as one line for people. */
import { type Named, whoText } from '../core/actor.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { FieldChange } from '../diff/compare.ts';
import { elementSegment } from '../diff/elements.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';

/** An absent value: differs from null, and from strings, which are quoted. */
const ABSENT = '(absent)';

/** Compact JSON with control characters escaped; numbers digit by digit as received. @internal */
export function valueText(value: JsonValue | undefined): string {
  return value === undefined ? ABSENT : escapeControlCharacters(JSON.stringify(value));
}

/** A value longer than this many times the limit is cut before control characters are escaped. */
const CUT_FIRST = 4;

/**
 * As `folded(valueText(value), limit)`, but only reads what is shown: the beginning and the end, even of a megabyte. The
 * length of the gap is given in characters of the JSON.
 */
export function foldedValue(value: JsonValue | undefined, limit: number): string {
  return value === undefined ? ABSENT : foldedText(JSON.stringify(value), limit);
}

function foldedText(text: string, limit: number): string {
  if (text.length <= CUT_FIRST * limit) return folded(escapeControlCharacters(text), limit);
  const { head, tail } = sharesOf(text.length, limit);
  const start = fitting(Array.from(text.slice(0, head)), head);
  const end = fitting(Array.from(text.slice(text.length - tail)).reverse(), tail);
  const left = text.length - start.taken - end.taken;
  return `${start.parts.join('')}${gapText(left)}${end.parts.reverse().join('')}`;
}

/** `foldedPair` of two values; cuts long ones first, too. */
export function foldedValues(
  from: JsonValue | undefined,
  to: JsonValue | undefined,
  limit: number,
): [string, string] {
  const [before, after] = [from, to].map((value) =>
    value === undefined ? ABSENT : JSON.stringify(value),
  ) as [string, string];
  if (before.length <= CUT_FIRST * limit && after.length <= CUT_FIRST * limit)
    return foldedPair(escapeControlCharacters(before), escapeControlCharacters(after), limit);
  const [start, end] = foldedPair(before, after, limit).map(escapeControlCharacters) as [string, string];
  // Escaped characters are longer.
  return foldedPair(start, end, 2 * limit + GROWTH);
}

/**
 * The elements that only one of two long arrays has, e.g. `- 4 of 9: "a", …`, folded to `limit` characters, empty without any;
 * and the number of elements of each. Null if an element is an object or an array, if both arrays fit the limit, or if they
 * have no elements in common, or have them in another order.
 */
export function elementLines(
  from: JsonValue | undefined,
  to: JsonValue | undefined,
  limit: number,
): Readonly<Record<'removed' | 'added' | 'before' | 'after', string>> | null {
  if (!Array.isArray(from) || !Array.isArray(to)) return null;
  if ([...from, ...to].some((each) => isJsonObject(each) || Array.isArray(each))) return null;
  const [before, after] = [textsOf(from), textsOf(to)];
  if (Math.max(before.join().length, after.join().length) <= limit) return null;
  const [lost, gained] = [withoutThose(before, after), withoutThose(after, before)];
  if (lost.common.length === 0 || lost.common.some((each, index) => each !== gained.common[index]))
    return null;
  const line = (sign: string, { own }: typeof lost, all: number): string =>
    own.length === 0
      ? ''
      : `${sign} ${formatInteger(own.length)} of ${formatInteger(all)}: ${foldedText(own.join(', '), limit)}`;
  return {
    removed: line('-', lost, from.length),
    added: line('+', gained, to.length),
    before: plural(from.length, 'element'),
    after: plural(to.length, 'element'),
  };
}

function textsOf(values: readonly JsonValue[]): string[] {
  return values.map((each) => JSON.stringify(each));
}

/** Splits the values into those that the others lack, each as often as they lack it, and those in common. */
function withoutThose(
  values: readonly string[],
  others: readonly string[],
): { readonly own: string[]; readonly common: string[] } {
  const left = new Map<string, number>();
  for (const other of others) left.set(other, (left.get(other) ?? 0) + 1);
  const [own, common]: [string[], string[]] = [[], []];
  for (const value of values) {
    const count = left.get(value) ?? 0;
    left.set(value, count - 1);
    (count > 0 ? common : own).push(value);
  }
  return { own, common };
}

const GROWTH = 400; // characters that the marks of gaps may add to a pair

/** As many characters, escaped, as fit; never half of one. `taken` counts UTF-16 units of the text. */
function fitting(characters: readonly string[], room: number): { parts: string[]; taken: number } {
  const parts: string[] = [];
  let taken = 0;
  let length = 0;
  for (const character of characters) {
    // The cut may have halved the outermost pair.
    if (/^[\ud800-\udfff]$/.test(character)) break;
    const part = escapeControlCharacters(character);
    if (length + part.length > room) break;
    parts.push(part);
    taken += character.length;
    length += part.length;
  }
  return { parts, taken };
}

/** At most about `limit` characters of a text: its beginning and its end, with the length of the gap between them. */
export function folded(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const { head, tail } = sharesOf(text.length, limit);
  // Not through the middle of a surrogate pair.
  const start = text.slice(0, head).replace(/[\ud800-\udbff]$/, '');
  const end = text.slice(text.length - tail).replace(/^[\udc00-\udfff]/, '');
  return `${start}${gapText(text.length - start.length - end.length)}${end}`;
}

/** How many characters of the beginning and the end of a text of that length are shown. */
function sharesOf(length: number, limit: number): { head: number; tail: number } {
  // The mark of the gap needs room too, which makes the gap longer.
  const kept = Math.max(limit - gapText(length - limit + gapText(length).length).length, 16);
  const head = Math.ceil(kept * 0.7);
  return { head, tail: kept - head };
}

function gapText(left: number): string {
  return ` … ${formatInteger(left)} more characters … `;
}

/** Common characters that stay visible beside the difference. */
const CONTEXT = 24;

/**
 * Two texts folded so that their difference stays visible: their common beginning and end are left out first, with their
 * lengths. Texts within the limit are unchanged.
 */
export function foldedPair(from: string, to: string, limit: number): [string, string] {
  if (from.length <= limit && to.length <= limit) return [from, to];
  const { head, tail } = sharedEnds(from, to);
  const cutStart = Math.max(head - CONTEXT, 0);
  const cutEnd = Math.max(tail - CONTEXT, 0);
  const fold = (text: string): string => {
    const start =
      cutStart > CONTEXT ? `… ${formatInteger(cutStart)} equal characters … ` : text.slice(0, cutStart);
    const end =
      cutEnd > CONTEXT ? ` … ${formatInteger(cutEnd)} equal characters …` : text.slice(text.length - cutEnd);
    const middle = text.slice(cutStart, text.length - cutEnd);
    // A surrogate pair that the cut halves would show as two broken characters.
    const whole = middle.replace(/^[\udc00-\udfff]/, '').replace(/[\ud800-\udbff]$/, '');
    return `${start}${folded(whole, limit)}${end}`;
  };
  return [fold(from), fold(to)];
}

/** The lengths of the common beginning and the common end, without overlap. */
export function sharedEnds(from: string, to: string): { readonly head: number; readonly tail: number } {
  const shortest = Math.min(from.length, to.length);
  let head = 0;
  while (head < shortest && from[head] === to[head]) head += 1;
  let tail = 0;
  while (tail < shortest - head && from.at(-1 - tail) === to.at(-1 - tail)) tail += 1;
  // Not through a surrogate pair: half a character would be escaped.
  if (isHigh(from, head - 1)) head -= 1;
  if (tail > 0 && isLow(from, from.length - tail)) tail -= 1;
  return { head, tail };
}

function isHigh(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLow(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xdc00 && unit <= 0xdfff;
}

const BODY_LIMIT = 4000; // characters of a request body

/** A request body as JSON over several lines. */
export function bodyLines(body: JsonObject): string[] {
  const lines = JSON.stringify(body, null, 2).split('\n').map(escapeControlCharacters);
  return folded(lines.join('\n'), BODY_LIMIT).split('\n');
}

const NAME_LIMIT = 200; // characters of a name, an id or a pointer, which may be of any length

/** A name or id on one line; in quotes if it begins or ends with a space, which would be invisible. */
export function nameText(name: string): string {
  return /^\s|\s$/.test(name) ? quotedName(name) : folded(escapeControlCharacters(name), NAME_LIMIT);
}

/** The same, always in quotes. */
export function quotedName(name: string): string {
  return `"${folded(escapeControlCharacters(name), NAME_LIMIT)}"`;
}

/** Who did something and, in brackets, how they were identified, if that is more: anybody may use a name. */
export function byText({ by, via }: Named): string {
  return whoText({ by: nameText(by), via: via === undefined || via === null ? null : nameText(via) });
}

/** The pointer of a change on one line; elements with an id are named by it, not by their index. */
export function pathText({ path, place = path }: Pick<FieldChange, 'path' | 'place'>): string {
  return path === '' ? '(record)' : nameText(place);
}

/** E.g. `/paused: false → true`; each side folded to `limit` characters. */
export function fieldLine(field: FieldChange, limit: number): string {
  if (isMaskedChange(field)) return `${pathText(field)}: ${MASKED_CHANGE}`;
  const moves = movedText(field);
  if (moves !== null) return `${pathText(field)}: ${moves}`;
  const own = elementLines(field.from, field.to, limit);
  if (own !== null)
    return `${pathText(field)}: ${[own.removed, own.added].filter((each) => each !== '').join('; ')}`;
  const [from, to] = foldedValues(field.from, field.to, limit);
  return `${pathText(field)}: ${from} → ${to}`;
}

const MOVES_SHOWN = 10;

/**
 * The moved elements of an array, so that readers need not compare two arrays: `[id=1] moved 0 → 3, [id=4] moved 2 → 0`, with
 * the indexes in FROM and TO. Null for any other change, and if the array itself is masked. The ids are those of the shown
 * value, so they are masked if they are secret.
 */
export function movedText(field: FieldChange): string | null {
  const { moved = [], to } = field;
  if (moved.length === 0 || !Array.isArray(to) || isMaskedChange(field)) return null;
  const moves = moved
    .slice(0, MOVES_SHOWN)
    .map((each) => `${nameText(elementSegment(to[each.to]))} moved ${each.from} → ${each.to}`);
  const more = moved.length - moves.length;
  return `${moves.join(', ')}${more > 0 ? `, and ${plural(more, 'more move')}` : ''}`;
}
