/** Makes text from the service safe for a message: one short line, no control characters, never the key, nor another secret that shows as one. */
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import { anyCase, base64Character, base64Cores, escapedForms, hex, type Secret } from '../core/secret.ts';

/** Turns any text into one line of at most 200 characters. */
export type NeutralText = (text: string) => string;

const MAX_LENGTH = 200;
/** Enough of an answer to cut 200 characters from, so that a huge body is not combed through. */
const MAX_INPUT = 4096;
/** Shorter secrets occur in base64 and in hexadecimal text by chance. */
const MIN_ENCODED_LENGTH = 6;

/** Escape sequences of terminals: CSI with its parameters, OSC and its like up to their end, and two-character ones. */
const ESCAPE_SEQUENCES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/gu;
/** White space, and control, format (zero-width, bidirectional), lone surrogate, line-separating and invisible characters. */
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\s]+/gu;
const MARKS = /[\p{M}\u2800]+/gu;
/** Elements of HTML and XML. */
const TAGS = /<[^<>]{0,200}>/gu;

/**
 * Some servers echo the Authorization header in their error pages, so the key is replaced in every form that
 * `keyPattern` knows. This is done on the cleaned text, because cleaning joins what control characters separated.
 * Besides the transport, this is the only place that reveals the key.
 */
export function neutralText(apiKey: Secret): NeutralText {
  let pattern: RegExp | null | undefined;
  return (text) => {
    const key = apiKey.reveal();
    pattern ??= keyPattern(key);
    const input = text.slice(0, MAX_INPUT);
    const line = masked(input, pattern).trim();
    // Where the input was cut, the key may have been, and what is left of it has no pattern.
    const uncut =
      text.length <= MAX_INPUT
        ? line
        : withoutCutAddress(line).slice(0, Math.max(0, line.length - longestForm(key)));
    const whole = withoutUrlSecrets(uncut, MASK);
    return whole.length <= MAX_LENGTH ? whole : `${whole.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
  };
}

/** An address that the end of the input cuts may lack what shows that it has a password. */
function withoutCutAddress(line: string): string {
  const last = line.lastIndexOf(' ') + 1;
  return line.includes('://', last) ? line.slice(0, last) : line;
}

/**
 * The ways in which a reader may interpret the text; the secret is searched in each. Without escape sequences; with
 * them, because a lone escape character in the key consumes the next character of the key; as UTF-8, since headers
 * arrive as Latin-1; without HTML; with compatibility characters, such as full-width letters, replaced by the plain
 * ones; and without combining marks and the blank Braille pattern, which are invisible or nearly so.
 */
const READINGS: readonly ((text: string) => string)[] = [
  cleaned,
  (text) => text.replaceAll(UNSHOWN, ' '),
  (text) => (/^[\0-\xff]*$/.test(text) ? cleaned(Buffer.from(text, 'latin1').toString()) : text),
  (text) => cleaned(text.replaceAll(TAGS, '')),
  (text) => cleaned(text.normalize('NFKC')),
  (text) => cleaned(text.normalize('NFKD').replaceAll(MARKS, '')),
];

function cleaned(text: string): string {
  return text.replaceAll(ESCAPE_SEQUENCES, '').replaceAll(UNSHOWN, ' ');
}

function masked(text: string, pattern: RegExp | null): string {
  if (pattern === null) return cleaned(text);
  let shown = text;
  for (const reading of READINGS) {
    const read = reading(shown);
    const hidden = read.replaceAll(pattern, MASK);
    if (hidden !== read) shown = hidden;
  }
  return cleaned(shown);
}

/**
 * Matches a secret in cleaned text as it is, in any case of letters, and with any of its characters percent-encoded (once or
 * twice), escaped as in JSON, JavaScript or HTML; in base64, both alphabets, wherever it is in the encoded text
 * (`Bearer KEY`), with the rest of that text; in hexadecimal digits, also separated (`70-68`, `=70=68`, `0x70, 0x68`); each also with single spaces between its characters,
 * which is what cleaning leaves of others. Every repetition is bounded and no two alternatives match the same text, so that
 * no input takes more than linear time. Null for an empty secret.
 */
function keyPattern(secret: string): RegExp | null {
  if (secret === '') return null;
  // White space between the letters of a short secret, such as a user's name, is a space between words.
  const between = secret.length < MIN_ENCODED_LENGTH ? '' : ' ?';
  const forms = [Array.from(secret).map(escapedForms).join(between)];
  if (secret.length >= MIN_ENCODED_LENGTH) {
    const bytes = Buffer.from(secret);
    for (const text of base64Cores(bytes))
      forms.push(Array.from(text).map(base64Character).join(between) + BASE64_REST);
    forms.push([...bytes].map((byte) => anyCase(hex(byte, 2))).join('[ :.,=%_-]{0,3}(?:0x)?'));
  }
  return new RegExp(forms.join('|'), 'gu');
}

/** Only what follows: a run before it would be tried from each of its characters. */
const BASE64_REST = '[A-Za-z0-9+/_=-]*';

/** As many characters as a form of the secret may take, so that a part of one is never shown. */
function longestForm(secret: string): number {
  return secret.length * '&#x00041;'.length;
}
