/**
 * JSON whose values are written as received. `JSON.parse` loses integers beyond 2^53 and the text of decimals (`1.10`); here such a
 * number is kept as a raw JSON value (`JSON.rawJSON`), which `JSON.stringify` writes back digit by digit.
 */
import { broken, decodeKey, skipSpace, skipString, skipValue } from './json-scan.ts';

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
 * `JSON.parse` for what a service sent: its error is for messages, the log and the mirror, so it does not quote the text,
 * as that of the runtime does: a record may hold a secret.
 * @throws SyntaxError with what is wrong and, where the runtime says so, the position
 */
export function parseReceived(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Without the cause: it quotes the text, and causes are logged.
    throw new SyntaxError(mistakeIn(error.message));
  }
}

/** The message of `JSON.parse` without the part of the text that it quotes. */
function mistakeIn(message: string): string {
  return message.endsWith('is not valid JSON') ? 'unexpected token' : message;
}

/**
 * Parses JSON without losing a digit: numbers whose text is not what JavaScript would print come back as `RawNumber`.
 * @throws SyntaxError as `parseReceived` does, and for numbers below some thousand levels
 */
export function parseLossless(text: string): JsonValue {
  const value = parseReceived(text) as JsonValue;
  // Whether a record holds a number shows sooner in its members than in its text.
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

/** As `JSON.stringify`, but with U+FFFD in place of half a surrogate pair, with which DuckDB reads no JSON, and of U+0000, which ends a text. */
export function encodableJson(value: object | JsonValue): string {
  const text = JSON.stringify(value);
  // Of a pair JSON has the character, not the two codes.
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

/** These members without the undefined ones, to be spread: in documents an optional member is left out, never undefined. */
export function withoutUndefined<T extends object>(
  members: T,
): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/**
 * The id at the end of a path of member names, as `scanRecord` finds it in the text: strings decoded, numbers digit by
 * digit. Undefined if there is none.
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

// Replaces values inside JSON text and leaves everything else unchanged, character by character.

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Says for the value at a place what is there instead, as JSON text; null to keep it, and to be asked for what is
 * inside it. `path` is the walker's own array: copy what is kept. `text` cuts the value out.
 */
type Replacement = (path: readonly string[], text: () => string) => string | null;

/**
 * The text with what the replacement names; the same string where it names nothing. The text as a whole is not asked
 * about. Works without recursion, so that deep nesting cannot exhaust the stack.
 * @param renaming the same for the name at the end of a path; `path` has names as they are in the text
 * @throws SyntaxError when the text is not JSON
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
    // Behind a value: on to the next one, or out of what it ends.
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

/** Up to this number, a plain insertion is several times faster than the engine's sort, and allocates nothing. */
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

/** An object's own names, sorted by their code units. */
export function sortedKeys(value: object): string[] {
  return sortNames(Object.keys(value));
}
