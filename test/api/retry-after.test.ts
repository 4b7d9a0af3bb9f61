import { describe, expect, it } from 'vitest';
import { parseHttpDate, parseRetryAfter, retryAfterFromDetail } from '../../src/api/retry.ts';

const NOW = Date.UTC(2026, 2, 1, 12, 0, 0);

describe('Retry-After', () => {
  it.each([
    ['whole seconds', '62', 62_000],
    ['none', '0', 0],
    ['space around', ' 5 ', 5_000],
    ['a fraction', '1.5', 1_500],
    ['an IMF date', 'Sun, 01 Mar 2026 12:01:02 GMT', 62_000],
    ['an RFC 850 date', 'Sunday, 01-Mar-26 12:01:02 GMT', 62_000],
    ['an asctime date', 'Sun Mar  1 12:01:02 2026', 62_000],
    ['a date gone by', 'Sun, 01 Mar 2026 11:00:00 GMT', 0],
  ])('reads %s', (_name, value, ms) => {
    expect(parseRetryAfter(value, undefined, NOW)).toBe(ms);
  });

  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['negative', '-1'],
    ['rubbish', 'soon'],
    ['a bad month', 'Sun, 01 Foo 2026 12:01:02 GMT'],
    ['exponents', '1e3'],
  ])('takes nothing from %s', (_name, value) => {
    expect(parseRetryAfter(value, undefined, NOW)).toBeUndefined();
  });

  it("reads a date against the service's clock", () => {
    const theirs = 'Sun, 01 Mar 2026 15:00:00 GMT';
    expect(parseRetryAfter('Sun, 01 Mar 2026 15:00:30 GMT', theirs, NOW)).toBe(30_000);
  });

  it('puts a two-digit year in the nearer century', () => {
    expect(parseHttpDate('Sunday, 06-Nov-94 08:49:37 GMT', NOW)).toBe(Date.UTC(1994, 10, 6, 8, 49, 37));
    expect(parseHttpDate('Sunday, 06-Nov-27 08:49:37 GMT', NOW)).toBe(Date.UTC(2027, 10, 6, 8, 49, 37));
  });

  it('finds the wait in the text of a throttled answer', () => {
    expect(retryAfterFromDetail('Request was throttled. Expected available in 62 seconds.')).toBe(62_000);
    expect(retryAfterFromDetail('Expected available in 1 second.')).toBe(1_000);
    expect(retryAfterFromDetail('Request was throttled.')).toBeUndefined();
  });
});
