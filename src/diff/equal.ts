/** When two JSON values are the same value. */
import { type JsonValue, isJsonObject, isRawNumber } from '../core/json.ts';
import { equalNumbers } from './name.ts';

/**
 * True when both are the same value: numbers by exact decimal value, strings by code units, objects by key whatever the
 * order, arrays element by element. Null, empty and absent are three values. Works without recursion.
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

type JsonNumber = Extract<JsonValue, number | { readonly rawJSON: string }>;

function isNumber(value: JsonValue): value is JsonNumber {
  return typeof value === 'number' || isRawNumber(value);
}
