import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isJsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { damage, keyUserOf } from '../../src/restore/drill/start.ts';
import { ANNA, member, organization, OWNER, seeded } from './drill-rig.ts';
import { state } from './random-states.ts';
import { posthog } from './states.ts';

const place = ({ kind, scope, id }: ParsedRecord): string => JSON.stringify([kind, scope, id]);

describe('damage', () => {
  it("counts what it did, keeps organizations and the key's user, and leaves no reference behind", () => {
    fc.assert(
      fc.property(state, fc.integer({ min: 1, max: 100 }), fc.nat(1000), (records, percent, seed) => {
        const damaged = damage(records, {
          percent,
          random: seeded(seed),
          definitions: posthog,
          keyUser: 'o1-u0',
        });
        const before = new Map(records.map((each) => [place(each), each]));
        const altered = damaged.records.filter((each) => before.get(place(each))?.body !== each.body);
        expect(damaged.removed).toBe(records.length - damaged.records.length);
        expect(damaged.altered).toBe(altered.length);
        expect(damaged.removed + damaged.altered).toBeGreaterThan(0);
        const left = new Set(damaged.records.map(place));
        for (const each of records) {
          const isKept = each.kind === 'organizations' || (each.kind === 'members' && each.id === 'o1-u0');
          if (isKept) expect(left).toContain(place(each));
        }
        const ids = new Set(damaged.records.map(({ kind, id }) => `${kind} ${id}`));
        for (const { kind, scope, body } of damaged.records) {
          if (scope.role_id !== undefined) expect(ids).toContain(`roles ${scope.role_id}`);
          if (kind === 'batch_exports' && isJsonObject(body))
            expect(ids).toContain(`projects ${String(body['team_id'] as number)}`);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('is the same for the same chance', () => {
    const of = (seed: number): unknown =>
      damage(organization(), { percent: 50, random: seeded(seed), definitions: posthog, keyUser: OWNER });
    expect(of(5)).toEqual(of(5));
    expect(of(5)).not.toEqual(of(6));
  });
});

describe("the key's user", () => {
  it.each([
    ['fits the level that the service says', [], null, OWNER],
    ['is the one that the configuration names by address', [], 'anna@harbor.example', ANNA],
    ['is the one that it names by uuid', [], ANNA, ANNA],
    [
      'is the longest-standing one of several',
      [member('aaaaaaaa-0000-4000-8000-000000000009', 'z@harbor.example', 15, '2020-01-01T00:00:00Z')],
      null,
      'aaaaaaaa-0000-4000-8000-000000000009',
    ],
  ])('%s', (_name, more, configured, uuid) => {
    const found = keyUserOf([...organization(), ...more], configured);
    expect(found.uuid).toBe(uuid);
    expect(found.user['uuid']).toBe(uuid);
    expect(found.assumption).toContain('@harbor.example');
  });

  it('is a stand-in where nobody is recorded, and that is said', () => {
    const found = keyUserOf([], null);
    expect(found.assumption).toContain('placeholder user');
    expect(found.uuid).toMatch(/^[0-9a-f-]{36}$/);
  });
});
