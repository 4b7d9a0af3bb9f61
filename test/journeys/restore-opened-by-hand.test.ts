/** Kinds of which the API does not document which fields are writable: what a line of configuration allows, and what it leaves out. */
import { describe, expect, it } from 'vitest';
import { type Body, type PlanJson, ORGANIZATION, Story } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';

interface Drill {
  readonly kinds: readonly {
    readonly kind: string;
    readonly comes_back: number;
    readonly fields: readonly { readonly path: string; readonly cannot: number; readonly unknown: number }[];
    readonly reasons: readonly { readonly reason: string }[];
  }[];
}

const LINE = /definitions: (\{.*\})$/;

/** The kind's line as the plan gives it: valid YAML in one line, which is JSON once its names are quoted. */
function lineOf({ steps }: PlanJson, kind: string): { text: string; names: string[] } {
  const reason = steps.find((step) => step.kind === kind && step.action === 'blocked')?.reason ?? '';
  const [, yaml = ''] = LINE.exec(reason) ?? [];
  const text = yaml.replaceAll(/([A-Za-z_]\w*)(?=[:,} ])/g, (word) =>
    word === 'true' ? word : JSON.stringify(word),
  );
  const parsed = JSON.parse(text) as Record<string, { fields: Record<string, unknown> }>;
  return { text, names: Object.keys(parsed[kind]?.fields ?? {}) };
}

async function withLost(kind: string): Promise<{ story: Story; lost: Body }> {
  const story = await Story.start({}, smallDemo);
  const lost = (await story.list(kind)).find(({ name }) => /Proto|Stripe/.test(String(name))) ?? {};
  await story.call('DELETE', `${ORGANIZATION}${kind}/${String(lost['id'])}/`);
  return { story, lost };
}

describe('a line that allows less than the record holds', () => {
  it('creates it, says what does not come back, in the plan, afterwards and in a drill', async () => {
    const { story, lost } = await withLost('projects');
    const name = String(lost['name']);
    const some = { projects: { fields: { name: { type: 'any', writable: true } } } };
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify(some);
    const plan = await story.plan(3, 'run:1', '--kind', 'projects');
    expect(plan.steps).toMatchObject([
      { action: 'create', name, request: { body: { name } }, assigned: ['api_token', 'secret_api_token'] },
      {
        action: 'blocked',
        name,
        reason: expect.stringContaining('so the service sets them') as unknown,
      },
    ]);
    const silent = plan.steps[1]?.fields.map(({ path }) => path) ?? [];
    expect(silent).toEqual(expect.arrayContaining(['/app_urls', '/timezone', '/week_start_day']));
    expect(silent).not.toEqual(expect.arrayContaining(['/name']));
    for (const given of ['/id', '/uuid', '/created_at', '/api_token', '/organization'])
      expect(silent).not.toContain(given);
    const shown = await story.expectRun(3, 'restore', 'run:1', '--kind', 'projects');
    expect(shown.stdout).toContain('+ /app_urls ["https://app-3.kittiwake.example"]');

    // What the service gives by itself is said once, in the configuration.
    const given = { ...some.projects.fields, app_urls: { type: 'any', volatile: true } };
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({ projects: { fields: given } });
    const [, fewer] = (await story.plan(3, 'run:1', '--kind', 'projects')).steps;
    expect(fewer?.fields.map(({ path }) => path)).toEqual(silent.filter((path) => path !== '/app_urls'));
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify(some);

    const report = await story.applied(3, 'restore', 'run:1', '--kind', 'projects', '--apply');
    expect(report.steps.map(({ outcome }) => outcome)).toEqual(['applied', 'blocked']);
    const { id: now } = await story.named('projects', name);
    const shows = `\`tidemark show projects ${String(now)} --show-secrets\``;
    expect(report.by_hand).toMatchObject([
      {
        id: String(now),
        reason: expect.stringMatching(
          // The sandbox makes no secret key with a project.
          /^give the new api_token to every client.*; the service returned no secret_api_token for it: /,
        ) as unknown,
      },
    ]);
    const { stdout: again1 } = await story.expectRun(0, 'restores', 'show', '1', '--json');
    expect((JSON.parse(again1) as typeof report).by_hand).toEqual(report.by_hand);
    expect(report.by_hand?.[0]?.reason).toContain(shows);
    const after = await story.plan(3, 'run:1', '--kind', 'projects');
    expect(after.steps).toMatchObject([{ action: 'blocked', name }]);
    expect(after.steps[0]?.fields.map(({ path }) => path)).toContain('/app_urls');

    const { stdout } = await story.expectRun(3, 'drill', '--kind', 'projects', '--json');
    const [row] = (JSON.parse(stdout) as Drill).kinds.filter(({ kind }) => kind === 'projects');
    expect(row?.comes_back).toBe(0);
    expect(row?.reasons[0]?.reason).toContain('definitions: { projects:');
    expect(row?.fields.find(({ path }) => path === '/app_urls')).toMatchObject({ cannot: 0, unknown: 4 });

    // Followed to the letter, everything is put back.
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
      projects: { fields: { ...some.projects.fields, ...fieldsOf(lineOf(after, 'projects').names) } },
    });
    await story.applied(0, 'restore', 'run:1', '--kind', 'projects', '--apply');
    await story.plan(0, 'run:1', '--kind', 'projects');
    const again = await story.named('projects', name);
    for (const field of ['app_urls', 'timezone', 'test_account_filters', 'week_start_day'])
      expect(again[field], field).toEqual(lost[field]);
  });
});

function fieldsOf(names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, { type: 'any', writable: true }]));
}

describe('the line for a kind that nothing is known of', () => {
  it('names what the record has and somebody may have set: followed, it comes back whole', async () => {
    const { story, lost } = await withLost('pipeline_import_apps');
    const kind = 'pipeline_import_apps';
    const blocked = await story.plan(3, 'run:1', '--kind', kind);
    const { text, names } = lineOf(blocked, kind);
    expect(names.slice(0, 2)).toEqual(['name', 'plugin_type']);
    expect(names).not.toContain('organization_id');
    story.env['TIDEMARK_DEFINITIONS'] = text;
    // Its settings are left to enter by hand.
    const report = await story.applied(3, 'restore', 'run:1', '--kind', kind, '--apply');
    expect(report.summary).toMatchObject({ applied: 1 });
    const back = await story.named(kind, String(lost['name']));
    for (const field of ['plugin_type', 'description', 'icon', 'config_schema'])
      expect(back[field], field).toEqual(lost[field]);
  });
});
