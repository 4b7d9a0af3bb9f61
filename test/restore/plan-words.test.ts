/** What a plan says of each step: once, in words of the service's things, and only what is true of it. */
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { lines, NOW, ORG, organization, planOf, posthog, record, stateOf, withBody } from './states.ts';
import { renderText } from '../../src/report/render-text.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { planReport } from '../../src/report/plan-report.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';

const text = { definitions: posthog, colors: createColors(false), width: 100 };

const renderPlanText = (plan: Plan, options: typeof text): string =>
  renderText(planReport(plan, options), options);
const renderPlanMarkdown = (...given: Parameters<typeof planReport>): string =>
  renderMarkdown(planReport(...given));
const project = record('projects', '7', { id: 7, name: 'Web', organization: ORG });
const exported = (config: object, more: object = {}) =>
  record('batch_exports', 'b1', {
    ...{ id: 'b1', name: 'Nightly', model: 'events', interval: 'hour', paused: false, team_id: 7 },
    ...{ destination: { type: 'S3', config } },
    ...more,
  });

describe('an export of which a part can only be taken away by hand', () => {
  const wanted = exported({ bucket_name: 'b', prefix: 'p' }, { interval: 'day' });
  const there = exported({ bucket_name: 'x', prefix: 'p', region: 'eu' });
  const plan = planOf([organization, project, wanted], [organization, project, there]);

  it('stands as a step for what is sent and as blocked for that part, nothing of it in both', () => {
    expect(plan.steps.map(({ action, fields }) => [action, fields.map(({ path }) => path).sort()])).toEqual([
      ['update', ['/destination/config/bucket_name', '/interval']],
      ['blocked', ['/destination/config/region']],
    ]);
  });

  it('has one number in text, Markdown and JSON: what is sent from 1 without gaps, then what is not', () => {
    expect(plan.steps.map(({ n, action }) => [n, action])).toEqual([
      [1, 'update'],
      [2, 'blocked'],
    ]);
    expect(renderPlanText(plan, text)).toContain('\n   1 ~ update batch export Nightly\n');
    expect(renderPlanMarkdown(plan, text)).toContain('- **1** `~` update batch export `Nightly`');
  });
});

describe('a record that waits for another that is blocked', () => {
  it('is blocked once, with what it waits for by its own word', () => {
    const running = exported(
      { bucket_name: 'b' },
      { paused: false, destination: { type: 'S3', config: {} } },
    );
    const run = record(
      'role_memberships',
      'm1',
      { id: 'm1', user: { uuid: 'u1', email: 'a@b' } },
      {
        organization_id: ORG,
        role_id: 'r1',
      },
    );
    const role = record('roles', 'r1', { id: 'r1', name: 'Ops' });
    const member = record('members', 'u1', { id: 'x', user: { uuid: 'u1', email: 'a@b' }, level: 1 });
    const plan = planOf(
      [organization, role, member, run, project, running],
      stateOf([organization, member], { unread: ['roles', 'projects'] }),
      { secrets: { find: () => new Secret('x') } },
    );
    const said = lines(plan);
    expect(said.filter((line) => line.includes('batch_exports'))).toHaveLength(1);
    expect(said).toContain('blocked role_memberships: it needs role Ops, which is blocked');
    expect(said.join('\n')).not.toMatch(/it needs [a-z]+_/);
  });
});

describe('a desired state that is too old', () => {
  it('tells its age in minutes where hours would be none', () => {
    const at = (minutes: number) => new Date(NOW - minutes * 60_000).toISOString();
    const reason = (minutes: number): string | undefined =>
      planOf(stateOf([organization], { at: at(minutes) }), [organization], {
        options: { maxAgeMs: 1000 },
      }).refused[0]?.reason;
    expect(reason(0.5)).toContain('is less than a minute old');
    expect(reason(17)).toContain('is 17 min old');
    expect(reason(300)).toContain('is 5 h old');
  });
});

describe('a project that was private, where no request says so', () => {
  const privateProject = record('projects', '7', { id: 7, name: 'Web', access_control: true });

  it('is created with a step for a person, since the new one may be open', () => {
    const { steps } = planOf([organization, privateProject], [organization], { definitions: posthog });
    const reason =
      'turn on access_control in the service, where it is off: it was on, and no request takes it';
    expect(steps).toMatchObject([
      { action: 'create', kind: 'projects' },
      { action: 'manual', obstacle: 'needs_person', reason, fields: [{ path: '/access_control', to: true }] },
    ]);
    expect(steps[0]?.reason ?? '').not.toContain('access_control');
  });

  it('has no such step where it was open', () => {
    const open = withBody(privateProject, { access_control: false });
    const { steps } = planOf([organization, open], [organization], { definitions: posthog });
    expect(steps.map(({ action }) => action)).toEqual(['create']);
  });
});
