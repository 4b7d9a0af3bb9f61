import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { scrubbedOutcome } from '../../src/restore/secrets.ts';

const PEM = '-----BEGIN KEY-----\nMIIEvg/abc+def\n-----END KEY-----';

const scrubbed = (text: string, values: readonly string[]): string => {
  const error = new TidemarkError('rejected', text);
  return scrubbedOutcome({ outcome: 'refused', error }, values).error.message;
};

describe('what a service says', () => {
  it.each([
    ['invalid: hunter2 is no key', 'invalid: [secret] is no key'],
    ['invalid: HUNTER2', 'invalid: [secret]'],
    [`bad ${PEM.replaceAll('\n', ' ')}!`, 'bad [secret]!'],
    [`bad ${JSON.stringify(PEM)}!`, 'bad "[secret]"!'],
    ['bad -----BEGIN KEY----- MIIEv…', 'bad [secret]…'],
    ['no such bucket…', 'no such bucket…'],
    ['a.b costs $1', 'a.b costs $1'],
  ])('%j is kept as %j', (text, kept) => {
    expect(scrubbed(text, ['hunter2', PEM, '', '  ', 'a+b'])).toBe(kept);
  });

  it('loses the longer of two secrets as a whole', () => {
    expect(scrubbed('abc-def', ['abc', 'abc-def'])).toBe('[secret]');
  });

  it('is readable where secrets are letters of the mark', () => {
    expect(scrubbed('no: hunter2', ['hunter2', 'e', 't'])).toBe('no: [secret]');
  });

  it('keeps all else of an error, and an answer without one', () => {
    const error = new TidemarkError('rejected', 'no: hunter2', { status: 400, field: 'x', hint: 'look' });
    const clean = scrubbedOutcome({ outcome: 'refused', error }, ['hunter2']).error;
    expect(clean).toMatchObject({
      code: 'rejected',
      message: 'no: [secret]',
      status: 400,
      field: 'x',
      hint: 'look',
    });
    const done = { outcome: 'done', id: '1' };
    expect(scrubbedOutcome(done, ['hunter2'])).toBe(done);
  });
});
