import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { DrillDocument, DrillTask } from '../../src/diff/drill-document.ts';
import { percent } from '../../src/core/wording.ts';
import { drillReport, renderDrillJson } from '../../src/report/drill-report.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { renderText } from '../../src/report/render-text.ts';
import { runbookReport } from '../../src/report/runbook.ts';
import { HOSTILE, INVITE_ID, SECRET } from './sample.ts';

const ORG = '01890000-aaaa-7000-8000-000000000001';
const within = { organization_id: ORG };
const counts = (records: number, comes_back: number, rest: object = {}) => ({
  records,
  comes_back,
  needs_secret: 0,
  needs_person: 0,
  cannot: 0,
  unknown: 0,
  ...rest,
});

const task = (more: Partial<DrillTask>): DrillTask => ({
  verdict: 'needs_person',
  kind: 'members',
  scope: within,
  id: 'u1',
  name: 'anna@harbor.example',
  reason: 'invite the person',
  fields: [{ path: '/level', to: 8 }],
  needs: [],
  waits: false,
  ...more,
});

const document: DrillDocument = {
  schema: 'tidemark.drill/1',
  source: 'production',
  from: { ref: 'latest', run: 41, at: '2026-03-01T07:00:00.000Z' },
  outcome: 'short',
  score: 0.9999,
  kinds: [
    {
      kind: 'members',
      ...counts(3, 2, { needs_person: 1 }),
      score: 0.6666,
      restored: true,
      reasons: [{ verdict: 'needs_person', reason: 'invite the person', records: 1 }],
      fields: [
        { path: '/id', ...counts(3, 0, { needs_person: 1, cannot: 2 }) },
        { path: '/level', ...counts(3, 2, { needs_person: 1 }) },
      ],
    },
    {
      kind: 'batch_exports',
      ...counts(2, 1, { needs_secret: 1 }),
      score: 0.5,
      restored: true,
      reasons: [{ verdict: 'needs_secret', reason: 'a secret is not shown', records: 1 }],
      fields: [],
    },
    {
      kind: 'session_recordings',
      ...counts(9000, 0, { cannot: 9000 }),
      score: 0,
      restored: false,
      reasons: [{ verdict: 'cannot', reason: 'they are what users did', records: 9000 }],
      fields: [],
    },
  ],
  remaining: [
    {
      kind: 'invites',
      scope: within,
      id: INVITE_ID,
      name: INVITE_ID,
      change: 'removed',
      fields: [{ path: '/target_email', from: 'x@y.example' }],
    },
    {
      kind: 'batch_exports',
      scope: within,
      id: 'b1',
      name: HOSTILE,
      change: 'removed',
      fields: [{ path: '/destination', from: { type: 'HTTP', config: { token: SECRET } } }],
    },
  ],
  seconds: 1.25,
  start: 'empty',
  damage: null,
  assumptions: ['the key belongs to somebody'],
  skipped: [{ kind: 'roles', scope: within, reason: 'denied' }],
  tasks: [
    task({}),
    task({
      verdict: 'needs_secret',
      kind: 'batch_exports',
      id: 'b1',
      name: HOSTILE,
      reason: 'the service does not show it',
      fields: [{ path: '/destination', to: { type: 'HTTP', config: { token: SECRET } } }],
      needs: [
        ['/destination/config/token'],
        ['/destination/config/password', '/destination/config/private_key'],
      ],
    }),
    task({ kind: 'invites', id: INVITE_ID, name: INVITE_ID, reason: 'it had expired', fields: [] }),
    task({ kind: 'role_memberships', id: 'rm1', name: 'anna@harbor.example', waits: true, fields: [] }),
  ],
  passes: 2,
  applied: 12,
};

const options = { definitions: definitionOf, colors: createColors(false), width: 100 };
const renderRunbook = (...given: Parameters<typeof runbookReport>): string =>
  renderMarkdown(runbookReport(...given), { level: 1 });
const renderDrillHtml = (...given: Parameters<typeof drillReport>): string =>
  renderHtml(drillReport(...given));
const renderings: readonly (readonly [string, string])[] = [
  ['text', renderText(drillReport(document, options), options)],
  ['json', renderDrillJson(document, options)],
  ['html', renderDrillHtml(document, options)],
  ['runbook', renderRunbook(document, options)],
];

it('says what its numbers count', () => {
  expect(renderings[0]?.[1]).toContain('12 steps applied in 2 passes (a record may take several, or none)');
});

describe.each(renderings)('%s', (name, text) => {
  it('holds no secret, and no id that is one', () => {
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain(INVITE_ID);
  });

  it('lets nothing that a record holds act', () => {
    // JSON is data, and escapes what a terminal would act on by itself.
    expect(text).not.toMatch(name === 'json' ? /\u001b/ : /[\u001b\u202e]/u);
    if (name === 'html') expect(text).not.toContain('<script>alert');
  });

  it('ends with one line end', () => {
    expect(text.endsWith('\n')).toBe(true);
    expect(text.endsWith('\n\n')).toBe(false);
  });
});

describe('the runbook', () => {
  it('never shows a secret, even where the others would', () => {
    expect(renderRunbook(document, { ...options, showsSecrets: true })).not.toContain(SECRET);
  });

  it('goes from what must stand before to the proof, with the values', () => {
    const text = renderRunbook(document, options);
    const headings = [...text.matchAll(/^#+ (.*)$/gm)].map((match) => match[1]);
    expect(headings).toEqual([
      'Restore runbook of production',
      'Before',
      'Restore',
      `Organization ${ORG}`,
      'Members \\(1\\)'.replaceAll('\\', ''),
      'Invites \\(1\\)'.replaceAll('\\', ''),
      'Then restore again',
      'What does not come back',
      'What is new afterwards',
      'Prove it',
    ]);
    expect(text).toContain('/destination/config/token: ${');
    expect(text).toContain('# or /destination/config/private_key');
    expect(text).toContain('  - `/level`: `8`');
    expect(text).toContain('tidemark restore run:41 --source production --apply');
  });
});

describe('the text', () => {
  it('counts kinds that are never restored apart from the score', () => {
    const [, text] = renderings[0] ?? ['', ''];
    expect(text).toContain(
      '3 of 5 records (99.9 %) come back; 1 needs a secret, 1 needs manual work; the snapshot lacks 1',
    );
    expect(text).toMatch(/^session recordings +9,000 .* –$/m);
    expect(text).toMatch(/^everything that a restore writes +5 +3 /m);
    expect(text).toContain('members: /id');
  });

  it.each([
    [1, '100 %'],
    [0.9999, '99.9 %'],
    [0.287, '28.7 %'],
    [0.5, '50 %'],
    [0, '0 %'],
  ])('writes %f as %s', (score, expected) => {
    expect(percent(score)).toBe(expected);
  });
});

describe('the page', () => {
  it('keeps tables and lists outside the parts that the filter hides', () => {
    const html = renderDrillHtml(document, options);
    for (const [section] of html.matchAll(/<section>[\s\S]*?<\/section>/g)) {
      expect(section).toContain('class="record"');
    }
    expect(html).toContain('id="members"');
  });
});

it('the page has one bar of all verdicts, with the numbers in words', () => {
  const html = renderHtml(drillReport(document, { definitions: definitionOf }));
  expect(html).toContain('<svg class="stacked" role="img" aria-label="Records by verdict: ');
  expect(html.match(/<svg class="stacked"/g)).toHaveLength(1);
  expect(html).not.toMatch(/ style="/);
});

it('a runbook names the variables of the configuration that are not set, and proposes none for them', () => {
  const [password] = [['/destination/config/password', '/destination/config/private_key']];
  const tasks = document.tasks.map((each) =>
    each.kind === 'batch_exports'
      ? { ...each, unset: [{ any_of: password, reason: '${EXPORT_PASSWORD} is not set' }] }
      : each,
  );
  const shown = renderRunbook({ ...document, tasks }, options);
  expect(shown).toContain(
    'Set these variables and supply these files; the configuration already names them:',
  );
  expect(shown).toMatch(/EXPORT.?_PASSWORD\}? is not set: `\/destination\/config\/password or/);
  expect(shown).toContain('/destination/config/token: ${');
  expect(shown).not.toContain('/destination/config/password: ${');
});
