import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { neutralText } from '../../src/api/neutral-text.ts';
import { Secret } from '../../src/core/secret.ts';

const KEY = 'phx_SECRET0123456789/+abcXYZ';
const neutral = neutralText(new Secret(KEY));

it('masks what shows as a secret of another system, also where the text is cut', () => {
  expect(neutral('no answer of postgres://u:CANpw@db/x')).toBe('no answer of postgres://u:[secret]@db/x');
  expect(neutral(`  https://u:CANpw${'x'.repeat(5000)}@h/`)).toBe('');
  expect(neutral(`no https://u:CANpw@h/ ${'x'.repeat(5000)}`)).toMatch(/^no https:\/\/u:\[secret\]@h\/ x+…$/);
  expect(neutral(`${'x'.repeat(190)} https://u:CANpw@h/`)).not.toContain('CAN');
});

/** Of every code unit, and of none that stands between them. */
const each = (form: (character: string) => string): string => KEY.split('').map(form).join('');
const hex = (character: string, digits: number): string =>
  character.charCodeAt(0).toString(16).padStart(digits, '0');
const base64 = (text: string): string => Buffer.from(text).toString('base64');

const FORMS: readonly (readonly [string, string])[] = [
  ['as it is', KEY],
  ['in lower case', KEY.toLowerCase()],
  ['with one escape sequence inside', `${KEY.slice(0, 8)}\u001b[0m${KEY.slice(8)}`],
  ['with an escape sequence after each character', each((c) => `${c}\u001b[1;31m`)],
  ['with 8-bit escape sequences', each((c) => `${c}\u009b0m`)],
  ['with a terminal title inside', `${KEY.slice(0, 8)}\u001b]0;title\u0007${KEY.slice(8)}`],
  ['with a string ended by ST', `${KEY.slice(0, 8)}\u001bPx\u001b\\${KEY.slice(8)}`],
  ['with a character set chosen inside', `${KEY.slice(0, 8)}\u001b(B${KEY.slice(8)}`],
  ['with NUL and backspace', each((c) => `${c}\u0000\b`)],
  ['with zero-width and bidirectional marks', each((c) => `${c}\u200b\u202e\u2066\ufeff`)],
  ['with soft hyphens', each((c) => `${c}\u00ad`)],
  ['with an escape character alone inside', `${KEY.slice(0, 8)}\u001b${KEY.slice(8)}`],
  ['wrapped over lines', `${KEY.slice(0, 9)}\r\n  ${KEY.slice(9)}`],
  ['percent-encoded', encodeURIComponent(KEY)],
  ['wholly percent-encoded, upper case', each((c) => `%${hex(c, 2).toUpperCase()}`)],
  ['wholly percent-encoded, lower case', each((c) => `%${hex(c, 2)}`)],
  ['percent-encoded twice', each((c) => `%25${hex(c, 2)}`)],
  ['in part percent-encoded', KEY.replaceAll('S', '%53').replaceAll('x', '%78')],
  ['as JSON escapes', each((c) => `\\u${hex(c, 4)}`)],
  ['as JSON escapes within JSON', each((c) => `\\\\u${hex(c, 4)}`)],
  ['with the slash escaped', KEY.replace('/', '\\/')],
  ['as script escapes', each((c) => `\\x${hex(c, 2)}`)],
  ['as code points', each((c) => `\\u{${hex(c, 1)}}`)],
  ['as decimal entities', each((c) => `&#${c.charCodeAt(0)};`)],
  ['as padded entities', each((c) => `&#000${c.charCodeAt(0)};`)],
  ['as hexadecimal entities', each((c) => `&#x${hex(c, 2)};`)],
  ['in base64', base64(KEY)],
  ['in base64 behind Bearer', base64(`Bearer ${KEY}`)],
  ['in base64 at another place', base64(`to ${KEY} and on`)],
  ['in base64 at the third place', base64(`Key: ${KEY}!`)],
  ['in base64 for URLs', Buffer.from(`Bearer ${KEY}`).toString('base64url')],
  ['in base64 over lines', base64(`Bearer ${KEY}`).replaceAll(/(.{10})/g, '$1\r\n')],
  ['in hexadecimal', Buffer.from(KEY).toString('hex')],
  ['in hexadecimal with colons', each((c) => `${hex(c, 2)}:`)],
  ['in hexadecimal with dashes', each((c) => `${hex(c, 2)}-`)],
  ['in hexadecimal in labels of a host', each((c) => `${hex(c, 2)}.`)],
  ['as hexadecimal literals', each((c) => `0x${hex(c, 2)}, `)],
  ['quoted-printable', each((c) => `=${hex(c, 2).toUpperCase()}`)],
  ['percent-encoded with spaces', each((c) => `% ${hex(c, 2)}`)],
  ['with variation selectors', each((c) => `${c}\ufe0f`)],
  ['with one variation selector', `${KEY.slice(0, 8)}\ufe0f${KEY.slice(8)}`],
  ['with supplementary variation selectors', each((c) => `${c}\u{e0100}`)],
  ['with combining grapheme joiners', each((c) => `${c}\u034f`)],
  ['with combining marks', each((c) => `${c}\u0301`)],
  ['with an enclosing mark', `${KEY.slice(0, 8)}\u20dd${KEY.slice(8)}`],
  ['with blank Braille patterns', each((c) => `${c}\u2800`)],
  ['with Hangul fillers', each((c) => `${c}\u3164`)],
  ['with elements of HTML', each((c) => `${c}<b></b>`)],
  ['in full-width letters', each((c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0))],
  [
    'with zero-width characters that were read as Latin-1',
    Buffer.from(each((c) => `${c}\u200b`)).toString('latin1'),
  ],
];

/** What a reader of the line could make of it. */
function decodings(line: string): string[] {
  const one = [
    line,
    line.replaceAll(/\s/g, ''),
    line.normalize('NFKC').replaceAll(/<[^>]*>|[^\x21-\x7e]/g, ''),
    line.replaceAll(/%(?:25)?([0-9a-f]{2})/gi, (_m, code: string) => String.fromCharCode(parseInt(code, 16))),
    line.replaceAll(/\\+[ux]\{?([0-9a-f]+)\}?/gi, (_m, code: string) =>
      String.fromCharCode(parseInt(code, 16)),
    ),
    line.replaceAll(/&#(\d+);/g, (_m, code: string) => String.fromCharCode(Number(code))),
    line.replaceAll(/&#x([0-9a-f]+);/gi, (_m, code: string) => String.fromCharCode(parseInt(code, 16))),
  ];
  const runs = line.replaceAll(/0x|[\s:.,=%-]/g, '').match(/[A-Za-z0-9+/_=-]{6,}/g) ?? [];
  return [
    ...one,
    ...runs.flatMap((run) =>
      [0, 1, 2, 3].map((at) => Buffer.from(run.slice(at), 'base64').toString('latin1')),
    ),
    ...runs.map((run) => Buffer.from(run, 'hex').toString('latin1')),
  ];
}

describe('the key', () => {
  it.each(FORMS)('never stands in a line: %s', (_name, form) => {
    const line = neutral(`refused: key ${form} is unknown`);
    // Not even a third of it.
    for (let at = 0; at + 8 <= KEY.length; at += 1) {
      const part = KEY.slice(at, at + 8).toLowerCase();
      for (const text of decodings(line)) expect(text.toLowerCase()).not.toContain(part);
    }
    expect(line).toContain('[secret]');
    expect(line).toMatch(/^refused: key/);
  });

  it('is hidden where the answer is cut in the middle of it', () => {
    for (let before = 4096 - 60; before <= 4100; before += 1) {
      const line = neutral(`${'\u200b'.repeat(before)}${KEY} and more`);
      expect(line).not.toContain(KEY.slice(0, 8));
    }
  });

  it('in any mixture of forms and separators', () => {
    const character = fc.constantFrom(
      (c: string) => c,
      (c: string) => `%${hex(c, 2)}`,
      (c: string) => `\\u${hex(c, 4)}`,
      (c: string) => `&#${c.charCodeAt(0)};`,
      (c: string) => c.toUpperCase(),
    );
    const separator = fc.constantFrom('', '', '', '\u001b[0m', '\u200b', '\u0000', '\u001b]8;;x\u0007');
    fc.assert(
      fc.property(
        fc.array(fc.tuple(character, separator), { minLength: KEY.length, maxLength: KEY.length }),
        (parts) => {
          const form = parts.map(([encode, after], index) => encode(KEY[index]!) + after).join('');
          expect(neutral(`before ${form} after`)).toBe('before [secret] after');
        },
      ),
    );
  });
});

describe('other text', () => {
  it.each([
    ['not found', 'not found'],
    ['two\nlines\tand \u001b[31mred\u001b[0m', 'two lines and red'],
    ['phx_SECRET is a prefix', 'phx_SECRET is a prefix'],
    ['a'.repeat(300), `${'a'.repeat(199)}…`],
  ])('%j', (text, line) => {
    expect(neutral(text)).toBe(line);
  });

  it('stays as it is where there is no key', () => {
    expect(neutralText(new Secret(''))('plain')).toBe('plain');
  });

  it('costs no more the larger and the more repetitive it is', () => {
    const hostile = [
      'p',
      'p\u001b]\u0007',
      '70 68 78 ',
      '\\\\',
      '&#0000',
      'cGh4',
      '%70',
      '\u001b[',
      'phx_SECRET012345678',
      '\u200b',
    ].map((part) => part.repeat(40_000));
    hostile.push(`p${'\u001b]\u0007'.repeat(1200)}${'x'.repeat(400)}`);
    const digits = Buffer.from(`Bearer ${KEY}`).toString('hex').replaceAll(/(..)/g, '$1 ');
    hostile.push(digits.slice(0, -3).repeat(60));
    for (const text of hostile) expect(neutral(text).length).toBeLessThanOrEqual(200);
  });
});
