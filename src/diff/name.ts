/** What to call a record when talking to people. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type JsonValue, isRawNumber, type RawNumber } from '../core/json.ts';
import { resolvePointer } from '../core/json-pointer.ts';

/** The first of the definition's `nameFrom` pointers that holds a non-empty text or a number; else the id. */
export function recordName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  for (const pointer of definition.nameFrom) {
    const value = resolvePointer(body, pointer);
    if (typeof value === 'string' && value !== '') return value;
    if (typeof value === 'number' || isRawNumber(value)) return numberText(value);
  }
  return id;
}

// Numbers by exact decimal value and not by text: `1.10` is `1.1`, `1e2` is `100`, and no digit beyond 2^53 is lost.

/** A JSON number's text: as received where that was kept, else as JavaScript prints it. */
export function numberText(value: number | RawNumber): string {
  return typeof value === 'number' ? String(value) : value.rawJSON;
}

/** True when both numbers are the same decimal value; `-0` is `0`. */
export function equalNumbers(a: number | RawNumber, b: number | RawNumber): boolean {
  if (typeof a === 'number' && typeof b === 'number') return a === b;
  const textA = numberText(a);
  const textB = numberText(b);
  return textA === textB || canonicalNumber(textA) === canonicalNumber(textB);
}

/**
 * The one text of a decimal value: sign, digits without zeros at either end, `e`, power of ten. `0` for every zero.
 * @throws RangeError when the text is not a JSON number
 */
export function canonicalNumber(text: string): string {
  const match = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(text);
  if (match === null) throw new RangeError('not a JSON number');
  const fraction = match[3] ?? '';
  const digits = `${match[2] ?? ''}${fraction}`;
  let start = 0;
  while (start < digits.length && digits[start] === '0') start += 1;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  // The exponent is a BigInt: a text may name a power of ten that no double holds.
  const power = BigInt(match[4] ?? '0') - BigInt(fraction.length) + BigInt(digits.length - end);
  return `${match[1] ?? ''}${digits.slice(start, end)}e${power}`;
}
