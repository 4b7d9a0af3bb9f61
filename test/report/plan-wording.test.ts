/** What an operator reads of a plan and of a report: what is sent, what it costs, what to do about what failed. */
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { secretLines, planReport } from '../../src/report/plan-report.ts';
import type { RestoreReport } from '../../src/restore/apply/report.ts';
import { isExecutable, type Plan } from '../../src/restore/plan/plan.ts';
import { organization, planOf, posthog, record, withBody } from '../restore/states.ts';
import { renderText } from '../../src/report/render-text.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { resultReport } from '../../src/report/restore-report.ts';

const options = { definitions: posthog };
const text = { ...options, colors: createColors(false), width: 100 };

const renderPlanText = (plan: Plan, options: typeof text): string =>
  renderText(planReport(plan, options), options);
const renderPlanMarkdown = (...given: Parameters<typeof planReport>): string =>
  renderMarkdown(planReport(...given));
const renderPlanHtml = (...given: Parameters<typeof planReport>): string => renderHtml(planReport(...given));
const renderRestoreText = (
  report: RestoreReport,
  options: Parameters<typeof resultReport>[1] & typeof text,
): string => renderText(resultReport(report, options), options);
const role = (id: string, name: string) => record('roles', id, { id, name });
const component = (id: number, more: object = {}) =>
  record('pipeline_destinations', String(id), {
    ...{ id, plugin_type: 'source', name: `component ${id}`, organization_id: 'org-1', tag: 'v1' },
    ...more,
  });

describe('requests in a plan', () => {
  const plan = planOf(
    [
      organization,
      component(1, { description: 'fences ``` and <b> \u202e' }),
      role('r1', 'Ops'),
      component(3),
    ],
    [withBody(organization, { enforce_2fa: false }), component(1), role('r9', 'Ops')],
  );

  it('stand whole in Markdown, folded away, in a fence that nothing in them ends', () => {
    const shown = renderPlanMarkdown(plan, options);
    expect(shown).toContain('<details><summary>request body</summary>');
    expect(shown).toContain(
      '  ````json\n  {\n    "description": "fences ``` and <b> \\u{202e}"\n  }\n  ````',
    );
    expect(shown).toContain('- role Ops: r1 → r9, found by its name');
    expect(shown).not.toMatch(/\n\n\n/);
    const sent = plan.steps.filter(isExecutable);
    for (const [index] of sent.entries()) expect(shown).toContain(`- **${index + 1}** `);
  });

  it('and in HTML, escaped', () => {
    const shown = renderPlanHtml(plan, options);
    expect(shown).toContain('&quot;description&quot;: &quot;fences ``` and &lt;b&gt;');
    expect(shown).toContain('Found again under another id');
  });

  it('tell that the id of what is created again is the recorded one', () => {
    const creation = plan.steps.find(({ action }) => action === 'create');
    expect(renderPlanText(plan, text)).toContain(`recorded id ${creation?.id}`);
    expect(renderPlanMarkdown(plan, options)).toContain(`recorded id \`${creation?.id}\``);
  });
});

describe('what a plan costs', () => {
  const removing = (maxRemovals: number): Plan =>
    planOf(
      [withBody(organization, { enforce_2fa: false })],
      [organization, role('r1', 'One'), role('r2', 'Two')],
      { options: { prune: { maxRemovals } } },
    );

  it('tells removals apart, and that nothing is sent as long as they are held', () => {
    expect(renderPlanText(removing(2), text)).toContain(
      '9 requests, 6 of them for removals, no wait for a rate limit',
    );
    const held = removing(1);
    expect(held.refused).toMatchObject([{ guard: 'max_removals' }]);
    expect(held.cost).toEqual({ requests: 9, minutes: 0, removals: 6 });
    expect(renderPlanText(held, text)).toContain(
      '(nothing yet; once allowed: 9 requests, 6 of them for removals, no wait for a rate limit)',
    );
  });
});

const step = {
  action: 'update',
  kind: 'roles',
  id: 'r1',
  name: 'Ops',
  scope: {},
  outcome: 'failed',
  status: 400,
  new_id: null,
  verified: null,
  differences: [],
  reason: null,
} as const;
const report = (steps: RestoreReport['steps']): RestoreReport => ({
  ...{ schema: 'tidemark.restore/1', plan: '', started_at: '', by: 'ann@here', finished_at: null },
  ...{ restore: 3, source: 'default', undoes: null, outcome: 'partial', steps },
  summary: {
    ...{ applied: 1, unverified: 0, failed: 1, skipped: 0, blocked: 0, manual: 0, open: 0 },
  },
});

describe('what failed', () => {
  const refused = {
    code: 'rejected',
    message: 'the service refused the request (400): taken (field: name)',
    hint: 'correct it',
  } as const;
  const busy = { code: 'server_error', message: 'the service failed (503)' } as const;

  it('is reported with what to do, once for all that it is the same for', () => {
    const shown = renderRestoreText(
      report([
        { ...step, n: 1, error: refused },
        { ...step, n: 2, name: 'Dev', error: refused },
      ]),
      text,
    );
    expect(shown).toContain(
      '   1 update role Ops\n      the service refused the request (400): taken (field: name)',
    );
    expect(shown.match(/→ correct it/g)).toHaveLength(1);
    // The same request would be refused again.
    expect(shown).not.toContain('--resume');
  });

  it('is tried again by --resume where that can help', () => {
    expect(renderRestoreText(report([{ ...step, n: 1, error: busy }]), text)).toContain(
      'retry what failed: `tidemark restore --resume 3`',
    );
  });

  it.each([
    ['was refused', { error: refused }, true],
    ['is not as sent', { outcome: 'applied', verified: false, error: null }, true],
    ['may be tried again', { error: busy }, false],
  ] as const)('names the command that makes a new plan where a step %s', (_name, end, isNamed) => {
    const plan = { steps: [], from: { ref: 'latest', run: 4 }, to: { ref: 'live', source: 'default' } };
    const one = report([{ ...step, n: 1, ...end }]);
    const command = 'filters again): `tidemark restore run:4 --source default`';
    expect(renderRestoreText(one, { ...text, plan }).includes(command)).toBe(isNamed);
    const undo = renderRestoreText({ ...one, undoes: 2 }, { ...text, plan });
    expect(undo.includes('to plan what is missing: `tidemark undo 2`')).toBe(isNamed);
    for (const over of [{ outcome: 'interrupted' }, { undone_by: 5 }] as const)
      expect(renderRestoreText({ ...one, ...over }, { ...text, plan })).not.toContain('to plan');
  });

  it.each([
    [null, 'then restore again'],
    [2, 'then undo 2 again'],
  ])('names what to do again once the configuration allows it (undoes %s)', (undoes, again) => {
    const allowing = 'to allow it: definitions: { roles: { fields: { name: { writable: true } } } }';
    const blocked = { n: 1, kind: 'roles', needs: [], reason: `not writable; ${allowing}` };
    const plan = {
      steps: [blocked],
      from: { ref: 'latest', run: 4 },
      to: { ref: 'live', source: 'default' },
    };
    const one = { ...report([{ ...step, n: 1, outcome: 'blocked', error: null }]), undoes };
    expect(renderRestoreText(one, { ...text, plan: plan as unknown as Plan })).toContain(again);
  });

  it('names the way to go on once, where steps failed and others were not reached', () => {
    const steps = [
      { ...step, n: 1, error: busy },
      { ...step, n: 2, outcome: 'planned', status: null, error: null },
    ] as const;
    const whole = { ...report(steps), summary: { ...report(steps).summary, failed: 1, open: 1 } };
    expect(renderRestoreText(whole, text).match(/--resume 3/g)).toHaveLength(1);
  });

  it('is warned of where the step was applied, once for all that it is the same for', () => {
    const warned = (n: number, warning: string) =>
      ({
        ...step,
        n,
        name: `R${n}`,
        outcome: 'applied',
        status: 201,
        verified: true,
        error: null,
        warning,
      }) as const;
    const steps = [
      ...Array.from({ length: 12 }, (_, at) => warned(at + 1, 'it was sent 2 times')),
      warned(13, 'both'),
    ];
    const shown = renderRestoreText(report(steps), text);
    const names = 'R1, R2, R3, R4, R5, R6, R7, R8, R9, R10';
    expect(shown).toContain(
      `check these\n  12 roles (${names} and 2 more): it was sent 2 times\n  1 role (R13): both`,
    );
    const whole = renderRestoreText(report(steps), { ...text, isVerbose: true });
    expect(whole).toContain(`${names}, R11, R12): it was`);
    expect(renderRestoreText(report(steps), { ...text, isWhole: true }).match(/it was sent/g)).toHaveLength(
      1,
    );
  });
});

describe('lines of configuration for secrets', () => {
  it('name a record once, by its id where its name does not, and each value by a variable of its own', () => {
    const needs = [{ any_of: ['/config_schema/token'] }];
    const kind = 'pipeline_destinations';
    const lines = secretLines(
      [
        { kind, id: '7', name: 'Hook', needs },
        { kind, id: '7', name: 'Hook', needs: [...needs, { any_of: ['/url', '/dsn'] }] },
        { kind, id: '8', name: '8', needs },
        { kind, id: '9', name: 'Twin', needs },
        { kind, id: '10', name: 'Twin', needs },
      ],
      options,
    );
    expect(lines).toEqual([
      '    secrets:',
      '      pipeline_destinations:',
      '        - match: {"name":"Hook"}',
      '          values:',
      '            /config_schema/token: ${HOOK_TOKEN}',
      '            /url: ${HOOK_URL}',
      '            # or /dsn',
      '        - match: {"id":"8"}',
      '          values:',
      '            /config_schema/token: ${SECRET_8_TOKEN}',
      '        - match: {"id":"9"} # Twin',
      '          values:',
      '            /config_schema/token: ${TWIN_TOKEN_9}',
      '        - match: {"id":"10"} # Twin',
      '          values:',
      '            /config_schema/token: ${TWIN_TOKEN_10}',
    ]);
  });

  it('take no variable that another record or the configuration has, and the same one in every plan', () => {
    const kind = 'batch_exports';
    const needs = [{ any_of: ['/destination/config/password'] }];
    const named = (id: string, name: string) => ({ kind, id, name, needs }) as const;
    const records = [
      named('0190-aaaa1111', 'Ledger → Postgres'),
      named('0190-bbbb2222', 'Ledger (Postgres)'),
      named('0190-cccc3333', '月次 → BigQuery'),
      named('0190-dddd4444', 'Nightly'),
      named('0190-eeee5555', 'Événements'),
      named('0190-ffff6666', 'AWS'),
    ];
    const given = { secrets: [kind], definitions: [] };
    const present = { variables: ['NIGHTLY_PASSWORD', 'SVC_API_KEY'], given };
    const linesOf = (some: typeof records) => secretLines(some, { ...options, present });
    const variablesOf = (some: typeof records) =>
      linesOf(some)
        .join('')
        .match(/(?<=\$\{)\w+/g);
    expect(variablesOf(records)).toEqual([
      'LEDGER_POSTGRES_PASSWORD_AAAA1111',
      'LEDGER_POSTGRES_PASSWORD_BBBB2222',
      'BIGQUERY_PASSWORD_CCCC3333',
      'NIGHTLY_PASSWORD_DDDD4444',
      'EVENEMENTS_PASSWORD',
      'AWS_PASSWORD_FFFF6666',
    ]);
    expect(variablesOf(records.toReversed())).toEqual(variablesOf(records)?.toReversed());
    expect(linesOf(records).slice(0, 3)).toEqual([
      '    # secrets: is there already; add below it:',
      '      # batch_exports: is there already; add below it:',
      '        - match: {"name":"Ledger → Postgres"}',
    ]);
  });
});
