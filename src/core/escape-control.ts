/**
 * Makes control characters visible: a name or value of a record can have escape sequences that repaint a terminal,
 * marks that reverse the reading direction, or invisible characters.
 */

/**
 * Control characters (C0 with tab and line breaks, DEL, C1), line and paragraph separators, bidirectional marks and
 * isolates, invisible fillers and tags, noncharacters that XML refuses, lone surrogates. The joiners U+200C and U+200D
 * stay: emoji and several scripts need them.
 */
const ABOVE_C0 = String.raw`\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\u{e0000}-\u{e007f}\p{Surrogate}`;
const ACTIVE = new RegExp(String.raw`[\u0000-\u001f${ABOVE_C0}]`, 'gu');
/** For JSON text, in which C0 characters are already escaped or are between the values. */
const ACTIVE_IN_JSON = new RegExp(`[${ABOVE_C0}]`, 'gu');

const SHORT: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** The text with every active character escaped as `\n`, `\t`, `\r`, or its code point (`\u{202e}`). */
export function escapeControlCharacters(text: string): string {
  return text.replace(
    ACTIVE,
    (character) =>
      SHORT[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}}`,
  );
}

/**
 * JSON text with the same values and with active characters escaped, so that nothing acts on a terminal. Line breaks
 * and indentation stay. Accepts JSON values on one line or several, and YAML with such strings in double quotes.
 */
export function escapeForTerminal(json: string): string {
  return json.replace(ACTIVE_IN_JSON, (character) =>
    Array.from({ length: character.length }, (_unit, at) => escape(character, at)).join(''),
  );
}

/** Like `escapeControlCharacters`, but line breaks stay. */
export function escapeInLines(text: string): string {
  return text.replace(/[^\r\n]+|\r(?!\n)/g, escapeControlCharacters);
}

/** True for text with a character that `escapeForTerminal` escapes. */
export function isActive(text: string): boolean {
  return text.search(ACTIVE_IN_JSON) >= 0;
}

function escape(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
}
