/** Equality and canonical text of JSON values, independent of key order and number notation. */
import { hash } from 'node:crypto';
import { type JsonValue, isJsonObject, isRawNumber, type RawNumber, sortedKeys } from '../core/json.ts';

/**
 * True if both are the same value: numbers by exact decimal value, strings by code units, objects by key in any order, arrays
 * element by element. Null, empty and absent are three values. Works without recursion.
 */
export function equalValues(a: JsonValue, b: JsonValue): boolean {
  // Pairs still to be compared, flat: left, right, left, right …
  const pending: JsonValue[] = [a, b];
  for (;;) {
    const right = pending.pop();
    const left = pending.pop();
    if (left === undefined || right === undefined) return true;
    if (left === right) continue;
    if (Array.isArray(left)) {
      if (!Array.isArray(right) || left.length !== right.length) return false;
      for (let i = left.length - 1; i >= 0; i -= 1) {
        const leftElement = left[i];
        const rightElement = right[i];
        if (leftElement === undefined || rightElement === undefined) return false;
        pending.push(leftElement, rightElement);
      }
    } else if (isJsonObject(left)) {
      if (!isJsonObject(right)) return false;
      const keys = Object.keys(left);
      if (keys.length !== Object.keys(right).length) return false;
      for (const key of keys) {
        const leftMember = left[key];
        const rightMember = Object.hasOwn(right, key) ? right[key] : undefined;
        if (leftMember === undefined || rightMember === undefined) return false;
        pending.push(leftMember, rightMember);
      }
    } else if (!isNumber(left) || !isNumber(right) || !equalNumbers(left, right)) {
      // Equal strings, booleans and nulls were identical above.
      return false;
    }
  }
}

/** `equalValues` for values that may be absent. */
export function equalOptional(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  return a === undefined || b === undefined ? a === b : equalValues(a, b);
}

type JsonNumber = Extract<JsonValue, number | { readonly rawJSON: string }>;

function isNumber(value: JsonValue): value is JsonNumber {
  return typeof value === 'number' || isRawNumber(value);
}

type Piece = { readonly text: string } | { readonly value: JsonValue };

/** More than the depth of any real record. Deeper values are written without recursion, so that they cannot exhaust the stack. */
const MOST_RECURSION = 64;

/** Written member names: the same few hundred in every record. */
const writtenNames = new Map<string, string>();
const MOST_NAMES = 4096;

/**
 * The value as JSON with sorted keys (by code units) and canonical numbers: two texts are equal exactly if the values are, at any
 * depth. Lone surrogates stay distinct (`JSON.stringify` escapes them).
 */
export function canonicalText(value: JsonValue): string {
  return written(value, 0);
}

function written(value: JsonValue | undefined, depth: number): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return JSON.stringify(value);
  if (depth > MOST_RECURSION) return writtenFlat(value);
  if (Array.isArray(value)) {
    if (depth < PLAIN_DEPTH && isPlain(value, depth)) return JSON.stringify(value);
    let out = '[';
    for (let i = 0; i < value.length; i += 1) out += (i > 0 ? ',' : '') + written(value[i], depth + 1);
    return `${out}]`;
  }
  if (!isJsonObject(value)) return scalarText(value);
  let out = '{';
  for (const key of sortedKeys(value)) {
    out += (out === '{' ? '' : ',') + nameText(key) + written(value[key], depth + 1);
  }
  return `${out}}`;
}

/** `isPlain` searches each of these levels once more; lists in records are not deeper. */
const PLAIN_DEPTH = 3;

/** True for a list (of lists) of values that JSON writes in only one way: no numbers and no objects. */
function isPlain(list: readonly JsonValue[], depth: number): boolean {
  for (const element of list) {
    if (typeof element === 'string' || typeof element === 'boolean' || element === null) continue;
    if (!Array.isArray(element) || depth > MOST_RECURSION || !isPlain(element, depth + 1)) return false;
  }
  return true;
}

function nameText(name: string): string {
  const known = writtenNames.get(name);
  if (known !== undefined) return known;
  const text = `${JSON.stringify(name)}:`;
  if (writtenNames.size < MOST_NAMES) writtenNames.set(name, text);
  return text;
}

function writtenFlat(value: JsonValue): string {
  let out = '';
  const stack: Piece[] = [{ value }];
  for (let piece = stack.pop(); piece !== undefined; piece = stack.pop()) {
    if ('text' in piece) {
      out += piece.text;
    } else if (Array.isArray(piece.value)) {
      const elements = piece.value;
      out += '[';
      stack.push({ text: ']' });
      for (let i = elements.length - 1; i >= 0; i -= 1) {
        const element = elements[i];
        if (element !== undefined) stack.push({ value: element });
        if (i > 0) stack.push({ text: ',' });
      }
    } else if (isJsonObject(piece.value)) {
      const members = piece.value;
      const keys = sortedKeys(members);
      out += '{';
      stack.push({ text: '}' });
      for (let i = keys.length - 1; i >= 0; i -= 1) {
        const key = keys[i] ?? '';
        const member = members[key];
        if (member !== undefined) stack.push({ value: member });
        stack.push({ text: `${i > 0 ? ',' : ''}${nameText(key)}` });
      }
    } else {
      out += scalarText(piece.value);
    }
  }
  return out;
}

function scalarText(value: JsonValue): string {
  if (typeof value === 'number' || isRawNumber(value)) return canonicalNumber(numberText(value));
  return JSON.stringify(value);
}

/** SHA-256 (hex) of a value's canonical text; an absent value has a digest of its own. */
export function valueDigest(value: JsonValue | undefined): string {
  // No JSON text begins like this, so absent equals no value, null included.
  return hash('sha256', value === undefined ? '(absent)' : canonicalText(value), 'hex');
}

// Numbers are compared by exact decimal value: `1.10` is `1.1`, `1e2` is `100`, and no digit beyond 2^53 is lost.

/** A JSON number's text: as received if that was kept, else as JavaScript prints it. */
export function numberText(value: number | RawNumber): string {
  return typeof value === 'number' ? String(value) : value.rawJSON;
}

/** True if both numbers have the same decimal value; `-0` is `0`. */
function equalNumbers(a: number | RawNumber, b: number | RawNumber): boolean {
  if (typeof a === 'number' && typeof b === 'number') return a === b;
  const textA = numberText(a);
  const textB = numberText(b);
  return textA === textB || canonicalNumber(textA) === canonicalNumber(textB);
}

/**
 * The unique text of a decimal value: sign, digits without zeros at either end, `e`, power of ten. `0` for every zero.
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
  // A BigInt, because the exponent in the text may exceed every double.
  const power = BigInt(match[4] ?? '0') - BigInt(fraction.length) + BigInt(digits.length - end);
  return `${match[1] ?? ''}${digits.slice(start, end)}e${power}`;
}
