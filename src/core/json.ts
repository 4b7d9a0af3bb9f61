/**
 * JSON that returns as it came. `JSON.parse` loses integers beyond 2^53 and the text of decimals (`1.10`); here such a
 * number is kept as a raw JSON value (`JSON.rawJSON`), which `JSON.stringify` writes back digit by digit.
 */

/** A number whose received text would not survive as a double: stringifies to exactly that text. */
export interface RawNumber {
  readonly rawJSON: string;
}

export type JsonValue = string | number | boolean | null | RawNumber | JsonValue[] | JsonObject;
/** Own keys only; `__proto__` is a key like any other. */
export interface JsonObject {
  [key: string]: JsonValue;
}

// TypeScript's library does not know these two yet (ECMAScript "JSON.parse source text access", in Node since 21).
const sourceAwareJson = JSON as unknown as {
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
  parse(
    text: string,
    reviver: (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
};

/**
 * Finds every number that may not survive: of 16 characters or more, with a last zero behind its point, so small that
 * JavaScript prints an exponent, with an exponent of its own, minus zero. A text that is one single number, too. What
 * looks like that inside a string is found as well and does no harm: looking at every value takes ten times as long as
 * parsing, and few records need it.
 */
const DELICATE =
  /[[:,\s]-?(?:\d[\d.]{15}|(?:\d+\.\d*0|0\.0{5}\d*|\d+(?:\.\d+)?[eE][-+]?\d+)\s*[,\]}])|[[:,\s]-0\s*[,\]}]|^\s*[-\d]/;

/**
 * Parses JSON without losing a digit: numbers whose text is not what JavaScript would print come back as `RawNumber`.
 * @throws SyntaxError as `JSON.parse` does, and for numbers below some thousand levels
 */
export function parseLossless(text: string): JsonValue {
  const value = JSON.parse(text) as JsonValue;
  // Most records that hold no number are told from the others sooner by their members than by their text.
  if (!holdsNumber(value, 0) || !DELICATE.test(text)) return value;
  try {
    return sourceAwareJson.parse(text, (_key, value, context) => {
      if (typeof value !== 'number' || context.source === undefined) return value;
      return String(value) === context.source ? value : sourceAwareJson.rawJSON(context.source);
    }) as JsonValue;
  } catch (error) {
    // The reviver recurses; that the text nests too deep is the text's fault, not the machine's.
    if (error instanceof RangeError)
      throw new SyntaxError('JSON nests too deep to be read', { cause: error });
    throw error;
  }
}

/** Deeper than records are: what nests deeper counts as holding one, so that the call stack is not what ends it. */
const MOST_DEPTH = 16;

/** True where a number is somewhere in the value. */
function holdsNumber(value: JsonValue, depth: number): boolean {
  if (typeof value === 'number') return true;
  if (typeof value !== 'object' || value === null) return false;
  if (depth > MOST_DEPTH) return true;
  if (Array.isArray(value)) {
    for (const element of value) if (holdsNumber(element, depth + 1)) return true;
    return false;
  }
  const members = value as JsonObject;
  for (const name in members) {
    const member = members[name];
    if (member !== undefined && holdsNumber(member, depth + 1)) return true;
  }
  return false;
}

/** True for a number that `parseLossless` kept as text. */
export function isRawNumber(value: unknown): value is RawNumber {
  return sourceAwareJson.isRawJSON(value);
}

/** True for a JSON object: not an array, not null, not a kept number. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}

/** Sets an own property whatever its name is (`__proto__` included). */
export function setOwn(target: JsonObject, key: string, value: JsonValue): void {
  // The only name whose assignment does something else; to define a property takes ten times as long.
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** The own property of that name, or undefined; never one of the prototype's. */
export function getOwn(target: JsonObject, key: string): JsonValue | undefined {
  return Object.hasOwn(target, key) ? target[key] : undefined;
}

/**
 * The id at the end of a path of member names, as `scanRecord` finds it in the text: strings decoded, numbers digit by
 * digit. Undefined where there is none.
 */
export function idAt(body: JsonValue, path: readonly string[]): string | undefined {
  let value: JsonValue | undefined = body;
  for (const name of path) {
    if (!isJsonObject(value)) return undefined;
    value = getOwn(value, name);
  }
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  return isRawNumber(value) ? value.rawJSON : undefined;
}
