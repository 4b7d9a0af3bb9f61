import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import {
  acceptCommand,
  AcceptedRemovals,
  confirmationCutoff,
  isTooMany,
  removalLimit,
} from '../../src/sync/removals.ts';

const limits = { maxRecords: 10, maxShare: 0.1, confirmAfterMs: 3_600_000 };

describe('removals', () => {
  it.each([
    [5, 1, false],
    [5, 5, true], // empties the collection
    [1, 1, true],
    [50, 10, false],
    [50, 11, true],
    [1000, 100, false],
    [1000, 101, true],
    [0, 0, false],
  ])('of %i records, %i absent alarm: %s', (known, absent, expected) => {
    expect(isTooMany(limits, known, absent)).toBe(expected);
  });

  it('are accepted without --kind where records are below: it would leave their lists unread', () => {
    const held = [
      { kind: 'projects', scope: {}, accepted: 1, below: 364 },
      { kind: 'invites', scope: {}, accepted: 12, below: 0 },
    ] as const;
    const of = (kind: Kind) => acceptCommand(held, { kind, source: 'alpha', kinds: null });
    expect(of('projects')).toBe(
      '`tidemark sync --accept-removals 377 --source alpha` removes all that is held now',
    );
    expect(of('invites')).toBe(
      '`tidemark sync --accept-removals 12 --kind invites --source alpha` removes them now',
    );
  });

  it('limit is the larger of the two', () => {
    fc.assert(
      fc.property(fc.nat(), (known) => {
        const limit = removalLimit(limits, known);
        expect(limit).toBeGreaterThanOrEqual(10);
        expect(limit).toBeLessThanOrEqual(Math.max(10, known / 10));
      }),
    );
  });

  it('are confirmed by the same finding after confirmAfter, whichever way the clock stepped', () => {
    const at = '2026-03-01T12:00:00.000Z';
    const t = Date.parse(at);
    const isConfirmed = (now: number): boolean => at <= confirmationCutoff(limits, now);
    expect(isConfirmed(t + 3_599_999)).toBe(false);
    expect(isConfirmed(t + 3_600_000)).toBe(true);
    expect(isConfirmed(t - 1)).toBe(false);
  });

  it('accepted are a ceiling over all collections', () => {
    const accepted = new AcceptedRemovals(12, null);
    const take = (kind: Kind, records: number, below = 0): boolean =>
      accepted.take({ kind, scope: {}, accepted: records, below });
    expect(take('roles', 10, 3)).toBe(false);
    expect(take('roles', 8, 2)).toBe(true);
    expect(take('members', 3)).toBe(false);
    expect(take('domains', 2)).toBe(true);
    expect(take('invites', 1)).toBe(false);
    // What was accepted of them.
    expect(accepted.collections.map(({ kind }) => kind)).toEqual(['roles', 'domains']);
  });

  it('accepted of a component count once, whichever of its two lists comes first', () => {
    const one = {
      kind: 'pipeline_destinations',
      scope: {},
      accepted: 3,
      below: 0,
      ids: ['a', 'b', 'c'],
    } as const;
    const all = { kind: 'plugins', scope: {}, accepted: 4, below: 0, ids: ['a', 'b', 'c', 'd'] } as const;
    for (const lists of [
      [one, all],
      [all, one],
    ]) {
      const accepted = new AcceptedRemovals(4, null);
      expect(lists.map((each) => accepted.take(each))).toEqual([true, true]);
      expect(accepted.take({ ...one, scope: { organization_id: 'other' } })).toBe(false);
      const counts = accepted.collections.map(({ kind, accepted: records }) => [kind, records]);
      expect(Object.fromEntries(counts)).toEqual({ pipeline_destinations: 3, plugins: 1 });
    }
  });

  it('accepted of some kinds are none of the lists that lead to them', () => {
    const accepted = new AcceptedRemovals(12, ['role_memberships']);
    expect(accepted.take({ kind: 'roles', scope: {}, accepted: 1, below: 3 })).toBe(false);
    expect(accepted.take({ kind: 'role_memberships', scope: {}, accepted: 12, below: 0 })).toBe(true);
  });
});
