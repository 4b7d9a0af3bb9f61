import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { differencesFrom, unsentDifferences } from '../../src/restore/apply/differences.ts';
import type { PlanStep } from '../../src/restore/plan/plan.ts';

const domains = definitionOf('domains');

function step(action: 'create' | 'update', fields: Readonly<Record<string, JsonValue>>): PlanStep {
  const request = { kind: 'domains', role: action, fills: [] };
  const changes = Object.entries(fields).map(([name, to]) => ({ path: `/${name}`, to }));
  return { action, kind: 'domains', fields: changes, request } as unknown as PlanStep;
}

describe('a created record that lacks what was null', () => {
  const desired = { domain: 'a.example', saml_acs_url: null };

  it('is as it was, whether the null was sent or not', () => {
    const live = { id: 'd1', domain: 'a.example' };
    expect(differencesFrom(domains, step('create', desired), desired, live)).toEqual([]);
    const sent = { domain: 'a.example' };
    expect(unsentDifferences(domains, step('create', desired), sent, live)).toEqual([]);
  });

  it('differs where it holds another value, or lacks one that was not null', () => {
    const live = { id: 'd1', domain: 'a.example', saml_acs_url: 'X' };
    const differs = [{ path: '/saml_acs_url', from: 'X', to: null }];
    expect(differencesFrom(domains, step('create', desired), desired, live)).toEqual(differs);
    expect(unsentDifferences(domains, step('create', desired), { domain: 'a.example' }, live)).toEqual(
      differs,
    );
    const given = { domain: 'a.example', saml_acs_url: 'Y' };
    const without = { id: 'd1', domain: 'a.example' };
    expect(differencesFrom(domains, step('create', given), given, without)).toEqual([
      { path: '/saml_acs_url', to: 'Y' },
    ]);
  });

  it('of an update, the key that is missing is a difference', () => {
    const live = { id: 'd1', domain: 'a.example' };
    expect(differencesFrom(domains, step('update', desired), desired, live)).toEqual([
      { path: '/saml_acs_url', to: null },
    ]);
  });
});
