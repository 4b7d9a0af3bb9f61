/**
 * JSON whose values are written as received. `JSON.parse` loses integers beyond 2^53 and the text of decimals (`1.10`).
 * Here such a number is kept as a raw JSON value (`JSON.rawJSON`), which `JSON.stringify` writes digit by digit.
 */
import { broken, decodeKey, skipSpace, skipString, skipValue } from './json-scan.ts';

/** A number whose text would not survive as a double. It stringifies to exactly that text. */
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
 * Matches every number that may not survive: with 16 characters or more, a trailing zero after the point, an exponent,
 * so small that JavaScript prints an exponent, or minus zero; also if the number is the entire text. It also matches
 * inside strings, which does no harm: examining every value takes ten times as long as parsing, and few records need
 * it.
 */
const DELICATE =
  /[[:,\s]-?(?:\d[\d.]{15}|(?:\d+\.\d*0|0\.0{5}\d*|\d+(?:\.\d+)?[eE][-+]?\d+)\s*[,\]}])|[[:,\s]-0\s*[,\]}]|^\s*[-\d]/;

/**
 * `JSON.parse` for text from a service. The error is shown in messages, the log and the mirror, so unlike that of the
 * runtime it does not quote the text, which may have a secret.
 * @throws SyntaxError with the mistake and, if the runtime gives it, the position
 */
export function parseReceived(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Without the cause, because causes are logged and this one quotes the text.
    throw new SyntaxError(mistakeIn(error.message));
  }
}

/** The message of `JSON.parse` without the part of the text that it quotes. */
function mistakeIn(message: string): string {
  return message.endsWith('is not valid JSON') ? 'unexpected token' : message;
}

/**
 * Parses JSON without losing a digit: numbers whose text differs from what JavaScript would print become `RawNumber`.
 * @throws SyntaxError like `parseReceived`, and for numbers below some thousand levels
 */
export function parseLossless(text: string): JsonValue {
  const value = parseReceived(text) as JsonValue;
  // It is faster to look for a number in the members of a record than in its text.
  if (!holdsNumber(value, 0) || !DELICATE.test(text)) return value;
  try {
    return sourceAwareJson.parse(text, (_key, value, context) => {
      if (typeof value !== 'number' || context.source === undefined) return value;
      return String(value) === context.source ? value : sourceAwareJson.rawJSON(context.source);
    }) as JsonValue;
  } catch (error) {
    // The reviver recurses. Text that nests too deep is invalid, not a failure of this machine.
    if (error instanceof RangeError)
      throw new SyntaxError('JSON nests too deep to be read', { cause: error });
    throw error;
  }
}

/** Deeper than records nest. Anything deeper counts as having a number, so that the search does not overflow the stack. */
const MOST_DEPTH = 16;

/** True if there is a number anywhere in the value. */
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

/** `JSON.stringify` with U+FFFD in place of lone surrogates, which DuckDB does not accept, and U+0000, which ends a text. */
export function encodableJson(value: object | JsonValue): string {
  const text = JSON.stringify(value);
  // A surrogate pair is in the JSON as a character, not as two escapes.
  return /\\u(?:d|0000)/.test(text)
    ? text.replaceAll(/\\(?:(ud[89a-f][0-9a-f]{2}|u0000)|.)/g, (escape, half?: string) =>
        half === undefined ? escape : '\ufffd',
      )
    : text;
}

/** True for a number that `parseLossless` kept as text. */
export function isRawNumber(value: unknown): value is RawNumber {
  return sourceAwareJson.isRawJSON(value);
}

/** True for a JSON object: not an array, null or `RawNumber`. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}

/** Sets an own property of any name, including `__proto__`. */
export function setOwn(target: JsonObject, key: string, value: JsonValue): void {
  // This is the only name whose assignment does something else. Defining a property takes ten times as long.
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** The own property of that name, or undefined; never one of the prototype. */
export function getOwn(target: JsonObject, key: string): JsonValue | undefined {
  return Object.hasOwn(target, key) ? target[key] : undefined;
}

/**
 * The id at the end of a path of member names, as `scanRecord` finds it in the text: strings decoded, numbers digit by
 * digit; undefined if there is none.
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

// Replaces values in JSON text and leaves everything else unchanged, character by character.

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Returns the JSON text that replaces the value at a path; null to keep the value and be called for the values inside
 * it. `path` is reused by the caller, so copy it to keep it. `text` returns the text of the value.
 */
type Replacement = (path: readonly string[], text: () => string) => string | null;

/**
 * The text with the replacements; the same string if there are none. `replacement` is not called for the outermost
 * value. Does not recurse, so that deep nesting cannot exhaust the stack.
 * @param renaming the same for the name at the end of a path; `path` has the names as in the text
 * @throws SyntaxError if the text is not JSON
 */
export function replaceValues(
  text: string,
  replacement: Replacement,
  renaming?: (path: readonly string[]) => string | null,
): string {
  let out = '';
  let copied = 0;
  const path: string[] = [];
  const frames: { readonly isArray: boolean; index: number }[] = [];
  let at = skipSpace(text, 0);

  const openMember = (): void => {
    const frame = frames.at(-1);
    if (frame === undefined || frame.isArray) {
      path[path.length - 1] = String(frame?.index ?? 0);
      return;
    }
    if (text.charCodeAt(at) !== QUOTE) throw broken(text, at);
    const end = skipString(text, at);
    path[path.length - 1] = decodeKey(text, at, end);
    const instead = renaming?.(path) ?? null;
    if (instead !== null) {
      out += text.slice(copied, at) + instead;
      copied = end;
    }
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COLON) throw broken(text, at);
    at = skipSpace(text, at + 1);
  };

  for (;;) {
    const start = at;
    const code = text.charCodeAt(start);
    const instead =
      path.length === 0 ? null : replacement(path, () => text.slice(start, skipValue(text, start)));
    const isArray = code === OPEN_BRACKET;
    if (instead !== null) {
      at = skipValue(text, start);
      out += text.slice(copied, start) + instead;
      copied = at;
    } else if (isArray || code === OPEN_BRACE) {
      at = skipSpace(text, start + 1);
      if (text.charCodeAt(at) !== (isArray ? CLOSE_BRACKET : CLOSE_BRACE)) {
        frames.push({ isArray, index: 0 });
        path.push('');
        openMember();
        continue;
      }
      at += 1;
    } else {
      at = skipValue(text, start);
    }
    // After a value: continue with the next one, or leave the array or object that ends here.
    for (;;) {
      at = skipSpace(text, at);
      const frame = frames.at(-1);
      if (frame === undefined) {
        if (at !== text.length) throw broken(text, at);
        return copied === 0 ? text : out + text.slice(copied);
      }
      const next = text.charCodeAt(at);
      at += 1;
      if (next === COMMA) {
        frame.index += 1;
        at = skipSpace(text, at);
        openMember();
        break;
      }
      if (next !== (frame.isArray ? CLOSE_BRACKET : CLOSE_BRACE)) throw broken(text, at - 1);
      frames.pop();
      path.pop();
    }
  }
}

/** Up to this number, insertion sort is several times faster than the engine's sort and allocates nothing. */
const FEW = 40;

/** Sorts names by their code units, in place. */
export function sortNames(names: string[]): string[] {
  if (names.length > FEW) return names.sort();
  for (let end = 1; end < names.length; end += 1) {
    const name = names[end] ?? '';
    let at = end;
    for (let before = names[at - 1]; before !== undefined && before > name; before = names[at - 1]) {
      names[at] = before;
      at -= 1;
    }
    names[at] = name;
  }
  return names;
}

/** The own names of an object, sorted by their code units. */
export function sortedKeys(value: object): string[] {
  return sortNames(Object.keys(value));
}
