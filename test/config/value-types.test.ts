import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { cronMistake } from '../../src/config/cron.ts';
import { shown } from '../../src/config/mistakes.ts';
import { fromText, listenAddress, parseDuration, wholeNumber } from '../../src/config/schema.ts';

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['10s', 10_000],
    ['1.5h', 5_400_000],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['0s', 0],
  ])('%s', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it.each(['', '10', 's', '-1s', '1 h', '1H', '1w', '1h30m', '1e3s', 'Infinityd', '99999d', ' 1s'])(
    'not %j',
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );
});

describe('cron', () => {
  it.each([
    '* * * * *',
    '*/30 * * * *',
    '0 7 * * *',
    '0 0 7 * * *',
    '0,15,30-45/5 0-23 1,31 JAN-dec mon,Sun',
    ' 0  7 * * 7 ',
    '*/5 */2 */3 */4 */1',
  ])('%j is one', (expression) => {
    expect(cronMistake(expression)).toBeUndefined();
  });

  it.each([
    ['', '5 fields, or 6 with seconds first, got nothing'],
    ['* * * *', 'got 4'],
    ['* * * * * * *', 'got 7'],
    ['@daily', 'got 1'],
    ['60 * * * *', '0 to 59'],
    ['* 24 * * *', 'for the hour, got "24"'],
    ['* * 0 * *', 'day of month'],
    ['* * * 13 *', 'for the month'],
    ['* * * foo *', 'got "foo"'],
    ['* * * * 8', 'day of week'],
    ['*/0 * * * *', 'minute'],
    ['5-1 * * * *', 'minute'],
    ['1- * * * *', 'minute'],
    ['1,,2 * * * *', 'minute'],
    ['60 0 0 * * *', 'second'],
    ['*/5/5 * * * *', 'minute'],
  ])('%j is none', (expression, message) => {
    expect(cronMistake(expression)).toContain(message);
  });

  it('takes any text without throwing', () => {
    fc.assert(fc.property(fc.string(), (text) => void cronMistake(text)));
  });
});

describe('texts from the environment', () => {
  const flag = z.boolean();
  it.each([
    ['true', true],
    ['false', false],
    ['False', undefined],
    ['0', undefined],
    ['no', undefined],
    ['', undefined],
  ])('the flag %j', (text, value) => {
    expect(flag.safeParse(fromText(flag, text)).data).toBe(value);
  });

  it('whole numbers return as they were, everything else is refused', () => {
    const type = wholeNumber(-1000, 1000);
    fc.assert(
      fc.property(fc.integer({ min: -1000, max: 1000 }), (number) => {
        expect(type.parse(fromText(type, String(number)))).toBe(number);
      }),
    );
    for (const text of ['1e2', '0x1', '1_0', '1.', '.5', 'NaN', 'Infinity', '1001', '½', ' ']) {
      expect(type.safeParse(fromText(type, text)).success).toBe(false);
    }
  });
});

it.each([
  ['127.0.0.1:8787', { host: '127.0.0.1', port: 8787 }],
  ['[::]:0', { host: '::', port: 0 }],
  ['localhost:65535', { host: 'localhost', port: 65_535 }],
  ['8787', undefined],
  ['::1:80', undefined],
  ['host:', undefined],
  ['http://host:1', undefined],
])('listening on %s', (text, address) => {
  expect(listenAddress.safeParse(text).data).toEqual(address);
});

it('a value in a message is short, on one line and without a password', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(shown(text)).not.toMatch(/[\u0000-\u001f]/);
      expect(shown(text).length).toBeLessThan(400);
    }),
  );
  expect(shown('https://a:b@c/')).toBe('"https://…@c/"');
});
