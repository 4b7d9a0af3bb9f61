import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import { EXIT, exitCodeFor } from '../../src/core/errors.ts';
import type { SweepOutcome } from '../../src/mirror/sweep-result.ts';
import { failureOf, isAllDenied } from '../../src/sync/outcome.ts';

const sweep = (kind: Kind, outcome: SweepOutcome) => ({ kind, outcome });

describe('a run in which everything was denied', () => {
  it.each([
    ['all that was asked, its parents read', ['domains'], ['complete', 'denied'], true],
    ['not all that was asked', ['organizations', 'domains'], ['complete', 'denied'], false],
    ['nothing named, a part of it', null, ['complete', 'denied'], false],
    ['what was asked was not reached', ['domains'], ['denied', 'skipped'], true],
    ['what was asked was not reached, for another reason', ['domains'], ['failed', 'skipped'], false],
    ['a parent, what was asked was read', ['domains'], ['denied', 'complete'], false],
    ['nothing was reached', ['domains'], ['skipped', 'skipped'], false],
  ] as const)('%s', (_name, asked, [organizations, domains], expected) => {
    const sweeps = [sweep('organizations', organizations), sweep('domains', domains)];
    expect(isAllDenied(sweeps, asked)).toBe(expected);
  });
});

it('held removals leave a command partial', () => {
  expect(exitCodeFor('removals_held')).toBe(EXIT.partial);
});

describe('why a run failed', () => {
  const told = { code: 'timeout', message: 'no answer', hint: null, permission: null } as const;

  it('is what the first sweep with an error ended with', () => {
    const sweeps = [
      { ...sweep('organizations', 'skipped'), error: null },
      { ...sweep('domains', 'failed'), error: told },
    ];
    expect(failureOf(sweeps)).toBe(told);
  });

  it('is said where no sweep says it', () => {
    const { code, message } = failureOf([{ ...sweep('domains', 'missing'), error: null }]);
    expect([code, message.includes('domains missing')]).toEqual(['internal', true]);
  });

  it('is said where there was no sweep at all', () => {
    const { code, message, hint } = failureOf([]);
    expect([code, message === '', hint?.includes('tidemark doctor')]).toEqual([
      'config_invalid',
      false,
      true,
    ]);
  });
});
