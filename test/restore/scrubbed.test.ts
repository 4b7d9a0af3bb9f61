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

  it.each([
    ['it does not exist: its role e was removed', 'it does not exist: its role e was removed'],
    ["400: 'e' is not valid for token=e", "400: '[secret]' is not valid for token=[secret]"],
    ['rejected: e', 'rejected: [secret]'],
    ['rejected: "E", at 7', 'rejected: "[secret]", at 7'],
    ['step 17 of x7y has no answer', 'step 17 of x7y has no answer'],
    ['no: 4$ of 14$', 'no: [secret] of 14$'],
    ['user=root1 latest', 'user=[secret] latest'],
    ['sextest', 's[secret]'],
    ['too bad', 'too bad'],
  ])('of %j, values of few characters are hidden only where they stand for themselves', (text, kept) => {
    expect(scrubbed(text, ['e', '7', '4$', 'root1', 'extest', 'o b'])).toBe(kept);
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
