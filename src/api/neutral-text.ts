/**
 * Makes text from the service safe for a message: one short line without control characters, the key, or any other
 * secret that is recognizable as one.
 */
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import { anyCase, base64Character, base64Cores, escapedForms, hex, type Secret } from '../core/secret.ts';

/** Turns any text into one line of at most 200 characters. */
export type NeutralText = (text: string) => string;

const MAX_LENGTH = 200;
/** Only this much of a response is processed, even if it is huge: enough for the 200 characters of the result. */
const MAX_INPUT = 4096;
/** Shorter secrets occur by chance in base64 and hexadecimal text. */
const MIN_ENCODED_LENGTH = 6;

/** Terminal escape sequences: CSI with its parameters, OSC and similar ones up to their end, and two-character ones. */
const ESCAPE_SEQUENCES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/gu;
/** White space, and control, format (zero-width, bidirectional), lone surrogate, line-separating and invisible characters. */
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\s]+/gu;
const MARKS = /[\p{M}\u2800]+/gu;
/** HTML and XML tags. */
const TAGS = /<[^<>]{0,200}>/gu;

/**
 * Some servers echo the Authorization header in their error pages, so the key is replaced in every form that
 * `keyPattern` matches. The text is cleaned first, because that joins what control characters separated. Apart from the
 * transport, this is the only place that reveals the key.
 */
export function neutralText(apiKey: Secret): NeutralText {
  let pattern: RegExp | null | undefined;
  return (text) => {
    const key = apiKey.reveal();
    pattern ??= keyPattern(key);
    const input = text.slice(0, MAX_INPUT);
    const line = masked(input, pattern).trim();
    // Cutting the input may have cut the key, and no pattern matches the rest of it.
    const uncut =
      text.length <= MAX_INPUT
        ? line
        : withoutCutAddress(line).slice(0, Math.max(0, line.length - longestForm(key)));
    const whole = withoutUrlSecrets(uncut, MASK);
    return whole.length <= MAX_LENGTH ? whole : `${whole.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
  };
}

/** Removes a URL at the cut end of the input: the part that shows that it has a password may be missing. */
function withoutCutAddress(line: string): string {
  const last = line.lastIndexOf(' ') + 1;
  return line.includes('://', last) ? line.slice(0, last) : line;
}

/**
 * The ways in which a reader may interpret the text; the secret is searched for in each: without escape sequences; with
 * them, because a lone escape character in the key swallows the key's next character; as UTF-8, since headers arrive as
 * Latin-1; without HTML; with compatibility characters, such as full-width letters, replaced by plain ones; and without
 * combining marks and the blank Braille pattern, which are nearly invisible.
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
 * Matches a secret in cleaned text, in upper or lower case: as it is; with any of its characters percent-encoded (once
 * or twice) or escaped as in JSON, JavaScript or HTML; in base64 of either alphabet, at any position of the encoded
 * text (`Bearer KEY`) and together with the rest of it; in hexadecimal digits, also separated (`70-68`, `=70=68`,
 * `0x70, 0x68`). Each form also with single spaces between the characters, which is what cleaning leaves of other
 * separators. Every repetition is bounded and no two alternatives match the same text, so that matching takes linear
 * time. Null for an empty secret.
 */
function keyPattern(secret: string): RegExp | null {
  if (secret === '') return null;
  // In a short secret, such as a user name, a space between the letters is more likely one between words.
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

/** The base64 text after the secret. The text before it is not matched: that would be tried from each of its characters. */
const BASE64_REST = '[A-Za-z0-9+/_=-]*';

/** The length of the longest form of the secret, so that no part of one is ever shown. */
function longestForm(secret: string): number {
  return secret.length * '&#x00041;'.length;
}
