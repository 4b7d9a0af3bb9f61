/** A value that must not be shown: it prints, logs and serializes as `[secret]`, and only `reveal()` returns it. */
import { inspect } from 'node:util';

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value. To be called only where it is sent. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return '[secret]';
  }

  toJSON(): string {
    return '[secret]';
  }

  [inspect.custom](): string {
    return '[secret]';
  }
}

/** Text that does not match has no encoded secrets, for which the search takes seven times as long. */
const MAY_BE_ENCODED = /[\\%&]|(?<![\w+/-])[\w+/-]{16}/;

/** Finds any of many secrets in a text with one search, also if they are escaped as in JSON, URLs or HTML, or in base64. */
export class SecretSearch {
  readonly #plain: RegExp;
  readonly #encoded: RegExp;

  /** @param secrets at least one, none of them empty */
  constructor(secrets: readonly Secret[]) {
    // One secret may be part of another.
    const longestFirst = secrets
      .map((secret) => secret.reveal())
      .sort((one, other) => other.length - one.length);
    this.#plain = new RegExp(longestFirst.map(literal).join('|'), 'g');
    const forms = longestFirst.flatMap((text) => [
      Array.from(text, (character) => (/\w/.test(character) ? character : escapedForms(character))).join(''),
      ...base64Cores(Buffer.from(text)).map((core) => Array.from(core, base64Character).join('')),
    ]);
    this.#encoded = new RegExp(forms.join('|'), 'gu');
  }

  /** The text with each secret replaced by the mask. */
  masked(text: string, mask: string): string {
    const clean = text.replace(this.#plain, () => mask);
    return MAY_BE_ENCODED.test(clean) ? clean.replace(this.#encoded, () => mask) : clean;
  }

  /** True if the text has any of the secrets. */
  isIn(text: string): boolean {
    return this.masked(text, '') !== text;
  }
}

const searches = new WeakMap<readonly Secret[], SecretSearch | null>();

/** The search for those of the secrets that are long enough, cached for each list; null if there are none. */
export function searchFor(secrets: readonly Secret[]): SecretSearch | null {
  const known = searches.get(secrets);
  if (known !== undefined) return known;
  const long = secrets.filter(isLong);
  const search = long.length === 0 ? null : new SecretSearch(long);
  searches.set(secrets, search);
  return search;
}

/** True for a secret that is too long to occur in other texts by chance. */
export function isLong(secret: Secret): boolean {
  return secret.reveal().length >= 8;
}

/** True for a text with one of these secrets, in any form that a search finds. */
export function holdsSecret(text: string, secrets: readonly Secret[]): boolean {
  return searchFor(secrets)?.isIn(text) ?? false;
}

/** The base64 of a text at each of its three possible offsets in a larger one, without characters that depend on the latter. */
export function base64Cores(bytes: Buffer): string[] {
  return [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const isLastShared = (before + bytes.length) % 3 !== 0;
    return encoded.slice(before === 0 ? 0 : before + 1, isLastShared ? -1 : undefined);
  });
}

export function base64Character(character: string): string {
  if (character === '+' || character === '-') return '[+-]';
  if (character === '/' || character === '_') return '[/_]';
  return character;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  "'": 'apos',
};

/** The pattern of a character in upper or lower case, percent-encoded, or escaped as in JSON, JavaScript or HTML. */
export function escapedForms(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const percent = [...Buffer.from(character)].map((byte) => `%(?:25)?${anyCase(hex(byte, 2))}`).join('');
  const inScript = character
    .split('')
    .map((unit) => String.raw`\\{1,4}u${anyCase(hex(unit.charCodeAt(0), 4))}`);
  return `(?:${[
    anyCase(character),
    percent,
    inScript.join(''),
    String.raw`\\{1,4}u\{0{0,8}${anyCase(hex(code, 1))}\}`,
    String.raw`\\{1,4}x${anyCase(hex(code, 2))}`,
    ...(ENTITIES[character] === undefined ? [] : [`&${ENTITIES[character]};`]),
    `&#0{0,8}${code};?`,
    `&#[xX]0{0,8}${anyCase(hex(code, 1))};?`,
    // JSON may escape a slash, and quotes and backslashes are escaped by a backslash.
    ...(/["'/\\]/.test(character) ? [String.raw`\\{1,4}` + literal(character)] : []),
    ...(character === '\n' ? [String.raw`(?:\\{1,4}r)?\\{1,4}n`] : []),
  ].join('|')})`;
}

export function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** The pattern of a text in upper or lower case: URL parsers, for example, convert hosts to lower case. */
export function anyCase(text: string): string {
  return Array.from(text)
    .map((each) => {
      const [lower, upper] = [each.toLowerCase(), each.toUpperCase()];
      return lower === upper || lower.length !== 1 || upper.length !== 1
        ? literal(each)
        : `[${lower}${upper}]`;
    })
    .join('');
}

function literal(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}/]/g, String.raw`\$&`);
}
