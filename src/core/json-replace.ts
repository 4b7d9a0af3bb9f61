/** Replaces values inside JSON text and leaves everything else as it stands, character by character. */
import { broken, decodeKey, skipSpace, skipString, skipValue } from './json-scan.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Says for the value at a place what stands there instead, as JSON text; null to keep it, and to be asked for what is
 * inside it. `path` is the walker's own array: copy what is kept. `text` cuts the value out.
 */
type Replacement = (path: readonly string[], text: () => string) => string | null;

/**
 * The text with what the replacement names; the same string where it names nothing. The text as a whole is not asked
 * about. Works without recursion, so that deep nesting cannot exhaust the stack.
 * @throws SyntaxError when the text is no JSON
 */
export function replaceValues(text: string, replacement: Replacement): string {
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
