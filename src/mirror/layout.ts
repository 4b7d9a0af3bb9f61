/** Whether two JSON texts say the same and differ in layout only. */
import { type JsonValue, isJsonObject, isRawNumber, parseLossless } from '../core/json.ts';

/** True when the texts differ by white space, key order or string escapes only; `1.0` and `1` are different texts. */
export function differsInLayoutOnly(one: string, other: string): boolean {
  return isIdentical(parseLossless(one), parseLossless(other));
}

function isIdentical(one: JsonValue, other: JsonValue): boolean {
  if (isRawNumber(one)) return isRawNumber(other) && one.rawJSON === other.rawJSON;
  if (Array.isArray(one)) {
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((value, index) => isIdentical(value, other[index] as JsonValue))
    );
  }
  if (isJsonObject(one)) {
    if (!isJsonObject(other)) return false;
    const keys = Object.keys(one);
    return (
      keys.length === Object.keys(other).length &&
      keys.every(
        (key) => Object.hasOwn(other, key) && isIdentical(one[key] as JsonValue, other[key] as JsonValue),
      )
    );
  }
  return Object.is(one, other);
}
