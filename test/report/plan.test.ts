import type { RestoreReport } from '../../src/restore/apply/report.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { maskedPlan, maskedRestore } from '../../src/report/plan-mask.ts';
import { lackingHtml } from '../../src/daemon/dashboard/plan-parts.ts';
import { planSummary, secretLines, planReport } from '../../src/report/plan-report.ts';
import { planOf, organization, record, stateOf, svc, withBody } from '../restore/states.ts';
import { renderText } from '../../src/report/render-text.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { resultReport } from '../../src/report/restore-report.ts';

const HOSTILE = '<script>alert(1)</script>\u001b[31m\u202eevil `@everyone` |';
const INVITE_ID = 'b7c0ffee-1111-4222-8333-444455556666';
const TOKEN = 'tok_3f9a8c1e77';
const options = { definitions: svc };
const text: typeof options & Parameters<typeof renderText>[1] = {
  ...options,
  colors: createColors(false),
  width: 100,
};

const renderPlanText = (plan: Plan, options: typeof text): string =>
  renderText(planReport(plan, options), options);
const renderPlanMarkdown = (...given: Parameters<typeof planReport>): string =>
  renderMarkdown(planReport(...given));
const renderPlanHtml = (...given: Parameters<typeof planReport>): string => renderHtml(planReport(...given));
const renderRestoreText = (
  report: RestoreReport,
  options: Parameters<typeof resultReport>[1] & typeof text,
): string => renderText(resultReport(report, options), options);

const exported = (id: string, name: string, more: object = {}) =>
  record('batch_exports', id, {
    id,
    team_id: 1,
    name,
    model: 'events',
    interval: 'hour',
    paused: false,
    destination: { type: 'NoOp', config: {} },
    ...more,
  });
const project = record('projects', '1', '{"id":1,"name":"Web"}');
const s3 = { destination: { type: 'S3', config: { bucket_name: 'b' } } };
const invite = record('invites', INVITE_ID, { id: INVITE_ID, target_email: 'a@b.example', level: 1 });
const role = record('roles', 'r1', { id: 'r1', name: 'Readers' });

/** Something of everything: created, changed, paused, removed, blocked, left. */
const plan: Plan = planOf(
  stateOf([
    organization,
    project,
    exported('e1', HOSTILE),
    exported('e2', 'Nightly', s3),
    exported('e3', 'Changed', { interval: 'day' }),
    role,
  ]),
  stateOf([
    withBody(organization, { enforce_2fa: false }),
    project,
    exported('e3', 'Changed', { interval: 'hour', paused: true }),
    invite,
    withBody(role, { name: 'Writers' }),
  ]),
  { definitions: svc, options: { prune: { maxRemovals: 1 } } },
);

describe('a plan for people', () => {
  it('counts many records that are blocked for one reason in text, and lists them with -v', () => {
    const roles = (many: number) =>
      Array.from({ length: many }, (_each, n) =>
        record('roles', `x${n}`, { id: `x${n}`, name: `Role ${n}` }),
      );
    const blocked = (many: number): Plan =>
      planOf(stateOf([organization, ...roles(many)]), stateOf([organization]), { definitions: svc });
    expect(renderPlanText(blocked(5), text)).toContain('Role 4');
    const short = renderPlanText(blocked(6), text);
    expect(short).toContain('blocked (6)');
    expect(short).toContain('    6 of them (-v lists them)');
    expect(short).not.toContain('Role 4');
    expect(renderPlanText(blocked(6), { ...text, isVerbose: true })).toContain('Role 5');
    for (const render of [renderPlanMarkdown, renderPlanHtml])
      expect(render(blocked(6), options)).toContain('Role 5');
  });

  it('counts steps that are alike where it is asked about, but never removals', () => {
    const many = (count: number, more: object) =>
      Array.from({ length: count }, (_each, n) => String(n).padStart(3, '0')).map((n) =>
        exported(`e${n}`, `Export ${n}`, more),
      );
    const around = [organization, project];
    const prune = { definitions: svc, options: { prune: { maxRemovals: 100 } } };
    const shown = (desired: Parameters<typeof stateOf>[0], live: typeof desired, countsAlike = true) => {
      const own = planOf(stateOf([...around, ...desired]), stateOf([...around, ...live]), prune);
      return renderText(planReport(own, { ...text, countsAlike }), text);
    };
    const created = shown(many(50, {}), []);
    expect(created).toContain('steps (100)');
    expect(created).toContain('… and 30 more batch exports to create (-v lists them)');
    expect(created).toContain('… and 30 more batch exports to unpause (-v lists them)');
    expect(created).toContain('Export 019');
    expect(created).not.toContain('Export 020');
    expect(shown(many(50, {}), [], false)).toContain('Export 049');
    expect(shown(many(21, {}), [])).toContain('Export 020');
    // The same change is alike, another one is not.
    const changed = many(50, {}).map((each, n) => (n === 49 ? withBody(each, { interval: 'week' }) : each));
    const updated = shown(changed, many(50, { interval: 'day' }));
    expect(updated).toContain('… and 29 more batch exports to update (-v lists them)');
    expect(updated).toContain('Export 049');
    const removed = shown([], many(50, {}));
    expect(removed).toContain('Export 049');
    expect(removed).not.toContain('-v lists them');
  });

  const renderings = {
    text: renderPlanText(plan, text),
    markdown: renderPlanMarkdown(plan, { ...options, notes: ['a note'] }),
    html: renderPlanHtml(plan, { ...options, notes: ['a note'] }),
  };

  it.each(Object.entries(renderings))(
    'as %s has every step, every reason and what is sent',
    (_name, shown) => {
      expect(plan.steps.length).toBeGreaterThan(5);
      for (const { request } of plan.steps) {
        if (request !== null && request.kind !== 'invites')
          expect(shown).toContain(
            `${request.method} ${request.path.replace('{id of step 4}', '{id of step 3}')}`,
          );
      }
      expect(shown).toContain(planSummary(plan));
      expect(shown).toContain('/enforce_2fa');
      expect(shown).toMatch(/definitions:\s+roles:\s+fields:\s/);
      expect(shown).toContain('${NIGHTLY_AWS_ACCESS_KEY_ID}');
    },
  );

  it.each(Object.entries(renderings))('as %s neither acts nor tells a sign-up link', (_name, shown) => {
    expect(shown).not.toContain('\u001b');
    expect(shown).not.toContain('\u202e');
    expect(shown).not.toContain(INVITE_ID);
    expect(shown).toContain('a@b.example');
  });

  it('as HTML takes markup literally', () => {
    expect(renderings.html).not.toContain('<script>alert');
  });

  it('says what refuses it, what could not be read, and that there is nothing to do', () => {
    const refused: Plan = {
      ...plan,
      refused: [{ guard: 'max_removals', kind: null, reason: 'too much', hint: 'less' }],
      skipped: [{ kind: 'domains', scope: {}, reason: 'forbidden' }],
    };
    for (const shown of [
      renderPlanText(refused, text),
      renderPlanMarkdown(refused, options),
      renderPlanHtml(refused, options),
    ]) {
      expect(shown).toContain('too much');
      expect(shown).toContain('forbidden');
    }
    const nothing = planOf(stateOf([organization]), stateOf([organization]), { definitions: svc });
    expect(renderPlanText(nothing, text)).toContain('nothing to do; 1 unchanged');
  });

  it('shows the lines that supply missing secrets', () => {
    expect(secretLines(plan.steps, options)).toEqual([
      '    secrets:',
      '      batch_exports:',
      '        - match: {"name":"Nightly"}',
      '          values:',
      '            /destination/config/aws_access_key_id: ${NIGHTLY_AWS_ACCESS_KEY_ID}',
      '            /destination/config/aws_secret_access_key: ${NIGHTLY_AWS_SECRET_ACCESS_KEY}',
    ]);
  });
});

it('what a record is created without is said of the plan in a page as in a terminal', () => {
  const lacking = [{ kinds: ['pipeline_destinations'], reason: 'enter its settings' }] as const;
  const own = { ...plan, lacking };
  const said = 'created without the settings that the API does not offer: pipeline destinations';
  expect(renderPlanText(own, text)).toContain(said);
  expect(lackingHtml(own, svc)[0]?.text).toContain(`${said}: enter its settings`);
});

describe('a plan for machines', () => {
  it('holds no id that is a sign-up link, and is the same otherwise', () => {
    const masked = maskedPlan(plan, svc);
    expect(JSON.stringify(plan)).toContain(INVITE_ID);
    expect(JSON.stringify(masked)).not.toContain(INVITE_ID);
    const others = (steps: Plan['steps']) => steps.filter(({ kind }) => kind !== 'invites');
    expect(others(masked.steps)).toEqual(others(plan.steps));
    expect(masked.hash).toBe(plan.hash);
  });

  it('shows the parameters of a URL that are secrets nowhere, also in names of members', () => {
    const url = `https://h.example/x?X-Amz-Signature=${TOKEN}&page=2`;
    const config = { type: 'HTTP', config: { url, headers: { [url]: 'x' } } };
    const own = planOf(
      stateOf([organization, project, exported('e1', url, { destination: config })]),
      stateOf([organization, project]),
    );
    expect(JSON.stringify(own)).toContain(TOKEN);
    const shown = [
      renderPlanText(own, text),
      renderPlanMarkdown(own, options),
      renderPlanHtml(own, options),
      JSON.stringify(maskedPlan(own, svc)),
    ];
    for (const each of shown) {
      expect(each).not.toContain(TOKEN);
      expect(each).toContain('page=2');
    }
  });

  it('shows no credential that is the name of a member, nor in the path of a change', () => {
    const named = (value: string) =>
      exported('e1', 'n', {
        destination: { type: 'HTTP', config: { headers: { [`Bearer ${TOKEN}abcdef`]: value } } },
      });
    const own = planOf(
      stateOf([organization, project, named('x')]),
      stateOf([organization, project, named('y')]),
    );
    expect(JSON.stringify(own)).toContain(`/Bearer ${TOKEN}`);
    expect(JSON.stringify(maskedPlan(own, svc))).not.toContain(TOKEN);
    expect(renderPlanText(own, text)).not.toContain(TOKEN);
  });

  it('numbers places that differ in a secret only, as drift does', () => {
    const named = (value: string) =>
      exported('e1', 'n', {
        destination: {
          type: 'HTTP',
          config: { headers: { [`https://h/?token=${TOKEN}`]: value, 'https://h/?token=2nd': value } },
        },
      });
    const own = planOf(
      stateOf([organization, project, named('x')]),
      stateOf([organization, project, named('y')]),
    );
    const paths = maskedPlan(own, svc).steps.flatMap(({ fields }) => fields.map(({ path }) => path));
    const place = '/destination/config/headers/https:~1~1h~1?token=[secret]';
    expect(paths).toEqual([place, `${place} (2)`]);
    expect(renderPlanText(own, text)).toContain(`${place} (2)`);
  });
});

const step = {
  action: 'update',
  kind: 'organizations',
  id: 'org-1',
  name: HOSTILE,
  outcome: 'applied',
  status: 200,
  new_id: null,
  verified: true,
  differences: [],
  error: null,
  reason: null,
  scope: {},
} as const;
const report: RestoreReport = {
  schema: 'tidemark.restore/1',
  plan: '',
  started_at: '',
  by: 'ann@here',
  finished_at: null,
  restore: 7,
  source: 'production',
  undoes: null,
  outcome: 'partial',
  steps: [
    { ...step, n: 1 },
    { ...step, n: 2, verified: false, differences: [{ path: '/name', from: 'kept', to: 'sent' }] },
    { ...step, n: 3, verified: null },
    {
      ...step,
      n: 4,
      outcome: 'failed',
      status: 400,
      error: { code: 'rejected', message: 'no such value', hint: 'choose another' },
    },
    {
      ...step,
      n: 5,
      outcome: 'skipped',
      status: null,
      error: { code: 'rejected', message: 'its parent failed' },
    },
    { ...step, n: 6, outcome: 'sent', status: null },
    { ...step, n: 7, outcome: 'planned', status: null },
    { ...step, n: 8, action: 'create', kind: 'roles', id: 'old', new_id: 'new' },
    { ...step, n: 9, action: 'create', kind: 'invites', id: INVITE_ID, new_id: TOKEN, name: 'a@b.example' },
    { ...step, n: 10, action: 'act' },
  ],
  summary: { applied: 6, unverified: 2, failed: 1, skipped: 1, blocked: 0, manual: 0, open: 2 },
};

/** The step of a plan whose result this is. */
function planned({ n, action }: RestoreReport['steps'][number]): Plan['steps'][number] {
  const paused = plan.steps.find(({ request }) => request !== null);
  if (paused === undefined || paused.request === null) throw new Error('expected a step that is sent');
  return { ...paused, n, action, request: { ...paused.request, act: 'unpause' } };
}

describe('what became of a restore', () => {
  it('names what failed and why, what differs, new ids, and how it goes on', () => {
    const shown = renderRestoreText(report, {
      ...text,
      isWhole: true,
      plan: { steps: report.steps.map(planned) },
    });
    for (const part of [
      'restore 7',
      '4 applied and verified',
      '1 applied, but not as sent, 1 applied, but not read back',
      '1 sent without an answer, 1 not reached',
      'applied, but not read back (1)',
      'no such value',
      '→ choose another',
      '(HTTP 400)',
      '/name: sent "sent", the service keeps "kept"',
      'its parent failed',
      'old → new',
      'unpause organization',
      'tidemark restore --resume 7',
      'to undo it: `tidemark undo 7`, which first looks up what has no answer',
    ])
      expect(shown).toContain(part);
    expect(shown).not.toContain(INVITE_ID);
    expect(shown).not.toContain(TOKEN);
    expect(shown).not.toContain('\u001b');
  });

  it('lists no new id of a record that was not there when read back, and marks one that was not read', () => {
    const created = { ...step, action: 'create', kind: 'roles', id: 'old' } as const;
    const error = { code: 'not_found', message: 'it was not found when read back' } as const;
    const steps = [
      { ...created, n: 1, new_id: 'invented', verified: false, error },
      { ...created, n: 2, new_id: 'unread', verified: null },
    ] as const;
    const shown = renderRestoreText({ ...report, steps }, text);
    expect(shown).toContain('it was not found when read back');
    expect(shown).not.toContain('invented');
    expect(shown).toContain('old → unread (not read back)');
  });

  it('tells machines no sign-up link either', () => {
    const masked = JSON.stringify(maskedRestore(report, svc));
    expect(masked).not.toContain(INVITE_ID);
    expect(masked).not.toContain(TOKEN);
  });

  it('names commands that can be run as they are', () => {
    const answered = report.steps.filter(({ outcome }) => outcome !== 'sent');
    const applied = { ...report, steps: answered, summary: { ...report.summary, applied: 1 } };
    const toRun = (line: string): string => line.replaceAll(/(`tidemark [^`]*)`/g, '$1 --config other.yaml`');
    const shown = renderRestoreText(applied, { ...text, toRun });
    expect(shown).toContain('to undo it: `tidemark undo 7 --config other.yaml`');
    expect(shown).toContain('`tidemark sync --config other.yaml` brings the mirror up to date');
    expect(renderRestoreText({ ...applied, undone_by: 8 }, text)).not.toContain('to undo it');
    const inPart: RestoreReport = { ...applied, undone_by: 8, undone_in_part: true };
    expect(renderRestoreText(inPart, text)).toContain('to undo it: `tidemark undo 7`');
  });

  it('says nothing of the fields of what was created and then undone', () => {
    const note = 'not sent: /is_pending';
    const created = { ...step, n: 1, action: 'create', outcome: 'applied', verified: true, note } as const;
    const planned = { ...created, reason: note, needs: [] };
    const options = { ...text, plan: { steps: [planned] } } as unknown as Parameters<
      typeof renderRestoreText
    >[1];
    const applied = { ...report, steps: [created] } as RestoreReport;
    const remark = 'these fields may not be as recorded';
    expect(renderRestoreText(applied, options)).toContain(remark);
    expect(renderRestoreText({ ...applied, undone_by: 8, undone_in_part: true }, options)).toContain(remark);
    expect(renderRestoreText({ ...applied, undone_by: 8 }, options)).not.toContain(remark);
    const error = { code: 'not_found', message: 'it was not found when read back' } as const;
    const gone = { ...applied, steps: [{ ...created, verified: false, error }] } as RestoreReport;
    expect(renderRestoreText(gone, options)).not.toContain(remark);
  });

  it('of nothing sent says so', () => {
    const summary = { applied: 0, unverified: 0, failed: 0, skipped: 0, blocked: 0, manual: 0, open: 0 };
    const done: RestoreReport = { ...report, outcome: 'complete', steps: [], summary };
    expect(resultReport(done, options).summary).toBe('nothing to send');
  });
});
