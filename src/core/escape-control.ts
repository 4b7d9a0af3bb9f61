/**
 * Makes control characters visible: a record's name or value can hold escape sequences that repaint a terminal, marks
 * that reverse the reading direction, or invisible characters.
 */

/**
 * Control characters (C0 with tab and line breaks, DEL, C1), line and paragraph separators, bidirectional marks and
 * isolates, invisible fillers and tags, noncharacters that XML refuses, lone surrogates. The joiners U+200C and U+200D
 * stay: emoji and several scripts need them.
 */
const ABOVE_C0 = String.raw`\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\u{e0000}-\u{e007f}\p{Surrogate}`;
const ACTIVE = new RegExp(String.raw`[\u0000-\u001f${ABOVE_C0}]`, 'gu');
/** In JSON text: C0 is there as an escape already, or between the values. */
const ACTIVE_IN_JSON = new RegExp(`[${ABOVE_C0}]`, 'gu');

const SHORT: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** The text with every active character written out: `\n`, `\t`, `\r`, else its code point as `\u{202e}`. */
export function escapeControlCharacters(text: string): string {
  return text.replace(
    ACTIVE,
    (character) =>
      SHORT[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}}`,
  );
}

/**
 * JSON text with the same values in which nothing acts on a terminal: active characters as the escapes that JSON has for
 * them. Line breaks and indentation stay. Takes any text of one JSON value a line or over lines, and YAML whose strings
 * with such characters are in double quotes.
 */
export function escapeForTerminal(json: string): string {
  return json.replace(ACTIVE_IN_JSON, (character) =>
    Array.from({ length: character.length }, (_unit, at) => escape(character, at)).join(''),
  );
}

/** Lines for a terminal: as `escapeControlCharacters`, but the ends of lines stay. */
export function escapeInLines(text: string): string {
  return text.replace(/[^\r\n]+|\r(?!\n)/g, escapeControlCharacters);
}

/** True for text with a character that `escapeForTerminal` writes out. */
export function isActive(text: string): boolean {
  return text.search(ACTIVE_IN_JSON) >= 0;
}

function escape(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
}
