import { describe, expect, it } from 'vitest';
import { planDocument, planHash, readPlan } from '../../src/restore/plan/plan.ts';
import { organization, planOf, record, withBody } from './states.ts';

const big = record(
  'pipeline_destinations',
  '12',
  '{"id":12,"name":"GeoIP","organization_id":"org-1","config_schema":{"n":12345678901234567890,"d":1.10}}',
);
const plan = planOf([organization, big], [organization, withBody(big, { config_schema: null, name: 'x' })]);
const text = JSON.stringify(planDocument(plan), null, 2);

describe('a saved plan', () => {
  it('comes back whole, digits included, however it is laid out', () => {
    expect(JSON.stringify(planDocument(readPlan(text)))).toBe(JSON.stringify(planDocument(plan)));
    expect(text).toContain('12345678901234567890');
  });

  it.each([
    ['a value', text.replace('"GeoIP"', '"Mine"')],
    ['a digit', text.replace('12345678901234567890', '12345678901234567891')],
    ['a path', text.replaceAll('pipeline_destinations/12/', 'pipeline_destinations/13/')],
    ['an action', text.replace('"update"', '"remove"')],
  ])('with %s changed is refused', (_what, changed) => {
    expect(changed).not.toBe(text);
    expect(() => readPlan(changed)).toThrow(expect.objectContaining({ code: 'unsafe_plan' }));
  });

  it.each([
    ["tidemark restore run:3 --id 103 --id 'Slack: #releases' --field 'it'\\''s'", true],
    ['tidemark restore', true],
    ['tidemark restore run:3; rm -rf ~', false],
    ['tidemark restore $(id)', false],
    ["tidemark restore 'a' `id`", false],
    ["tidemark restore 'a\nb'", false],
    ['curl https://example.org | sh', false],
    [7, false],
  ])('shows the command %j only where it plans a restore and nothing else', (command, isShown) => {
    const document = { ...planDocument(plan), command } as object;
    expect(readPlan(JSON.stringify(document)).command).toBe(isShown ? command : undefined);
  });

  it('that guards refuse cannot be talked out of it, nor into other ids or another source', () => {
    const refusal = { guard: 'empty_desired', kind: null, reason: 'r', hint: 'h' } as const;
    const adoption = {
      kind: 'domains',
      scope: {},
      name: 'n',
      desired_scope: {},
      desired_id: '1',
      live_id: '2',
    } as const;
    const whole = {
      ...plan,
      to: { ref: 'live', source: 'eu' },
      refused: [refusal],
      adopted: [{ ...adoption, by: 'id_map' as const }],
    };
    const document = planDocument({ ...whole, hash: planHash(whole) });
    expect(readPlan(JSON.stringify(document)).refused).toEqual([refusal]);
    for (const edit of [
      { refused: [] },
      { refused: undefined },
      { adopted: [] },
      { to: { ref: 'live', source: 'us' } },
      { from: { ref: 'run:1' } },
      { summary: { ...plan.summary, update: 0 } },
    ]) {
      const changed = JSON.stringify({ ...document, ...edit });
      expect(() => readPlan(changed), changed).toThrow(expect.objectContaining({ code: 'unsafe_plan' }));
    }
  });

  it.each(['', '{}', '[]', '{"schema":"tidemark.diff/1"}', '{"schema":"tidemark.plan/1","plan":"x"}'])(
    '%j is none',
    (other) => expect(() => readPlan(other)).toThrow(expect.objectContaining({ code: 'usage' })),
  );

  it('tells summary, schema and request as scripts expect them', () => {
    expect(planDocument(plan)).toMatchObject({
      schema: 'tidemark.plan/1',
      plan: plan.hash,
      from: { ref: 'test' },
      to: { ref: 'test' },
      summary: { create: 0, update: 1, act: 0, remove: 0, blocked: 0, manual: 0, unchanged: 1 },
      steps: [
        {
          n: 1,
          action: 'update',
          kind: 'pipeline_destinations',
          scope: { organization_id: 'org-1' },
          id: '12',
          name: 'GeoIP',
          reason: null,
          request: { method: 'PATCH', path: '/api/organizations/org-1/pipeline_destinations/12/' },
        },
      ],
    });
  });
});
