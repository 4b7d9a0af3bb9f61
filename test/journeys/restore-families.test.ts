/** Kinds that show the same record: planned whichever of them is named, and one history under all of them. */
import { expect, it, describe } from 'vitest';
import { EMPTY_CONFIG } from '../config/empty-config.ts';
import { systemClock } from '../../src/core/clock.ts';
import { journalPage } from '../../src/daemon/dashboard/restores.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { type Body, type PlanJson, ORGANIZATION, Story } from './restore-story.ts';

interface DiffJson {
  readonly summary: Readonly<Record<string, number>>;
  readonly changes: readonly { readonly kind: string; readonly fields: readonly { path: string }[] }[];
}

async function lost(): Promise<{ story: Story; id: string; name: string }> {
  const story = await Story.start();
  const [component] = await story.list('pipeline_frontend_apps');
  const id = String(component?.['id']);
  await story.call('DELETE', `${ORGANIZATION}pipeline_frontend_apps/${id}/`);
  return { story, id, name: String(component?.['name']) };
}

async function differences(story: Story, code: number, ...args: string[]): Promise<DiffJson> {
  const { stdout } = await story.expectRun(code, 'diff', ...args, '--json');
  return JSON.parse(stdout) as DiffJson;
}

/** The dashboard's page of a restore. */
function journal(story: Story, restore: number): string {
  const mirror = openMirror(story.file('mirror.db'), { mode: 'read', command: 'test', clock: systemClock });
  try {
    const facts = { mirror, config: EMPTY_CONFIG, now: systemClock.now() };
    return journalPage(facts, String(restore)).body.text;
  } finally {
    mirror.close();
  }
}

function created(plan: PlanJson): string[] {
  return plan.steps.map(({ action, kind, id }) => `${action} ${kind} ${id}`);
}

describe('a record that two kinds show', () => {
  it('is planned whichever of them is named, through the one that can write it', async () => {
    const { story, id } = await lost();
    const step = [`create pipeline_frontend_apps ${id}`];
    const scopes = [
      ['--kind', 'plugins'],
      ['--kind', 'plugins', '--id', id],
      ['--id', id],
    ];
    for (const scope of [...scopes, ['--kind', 'pipeline_frontend_apps'], []])
      expect(created(await story.plan(2, 'run:1', ...scope)), scope.join(' ')).toEqual(step);
    // Another kind of the family, that never showed it, is not about it.
    expect(created(await story.plan(0, 'run:1', '--kind', 'pipeline_destinations'))).toEqual([]);
    await story.applied(3, 'restore', 'run:1', '--kind', 'plugins', '--apply');
    expect(created(await story.plan(0, 'run:1', '--kind', 'plugins'))).toEqual([]);
  });

  it('is created without its settings, which the plan says once in every form', async () => {
    const { story } = await lost();
    const [other] = await story.list('pipeline_destinations');
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(other?.['id'])}/`);
    const reason =
      'the API offers only the form of its settings (config_schema): enter them by hand, and check that the component works';
    expect(await story.plan(2, 'run:1')).toMatchObject({
      lacking: [{ kinds: ['pipeline_destinations', 'pipeline_frontend_apps'], reason }],
    });
    const heading =
      'created without the settings that the API does not offer: pipeline destinations, frontend apps';
    for (const format of ['text', 'markdown', 'html']) {
      const { stdout } = await story.expectRun(2, 'restore', 'run:1', '--format', format);
      const plain = stdout.replaceAll('\\', '').replaceAll(/\s+/g, ' ');
      expect(plain.split(heading), format).toHaveLength(2);
      expect(plain.split('enter them by hand, and check'), format).toHaveLength(2);
    }
    // The result says what is left, now and later: the plan may be out of sight.
    // A script must not take it for done.
    const { stdout: result, stderr } = await story.expectRun(
      3,
      ...['restore', 'run:1', '--apply', '--yes', '--quiet'],
    );
    expect(stderr).toMatch(
      /restore 1 of \S+ is complete, but 2 records must be completed by hand\n {2}.*pipeline_\w+: 1 step to complete by hand: the API offers only/,
    );
    expect(result.split('applied and verified')[1]).toContain('2 to complete by hand');
    const { stdout: later } = await story.expectRun(0, 'restores', 'show', '1');
    for (const text of [result.split('applied and verified')[1], later]) {
      expect(text).toContain('still to do by hand');
      expect(text).toContain(`pipeline destination ${String(other?.['name'])} (`);
    }
    // The column of manual work.
    expect((await story.expectRun(0, 'restores')).stdout).toMatch(/ complete .* 2$/m);
    const { stdout: json } = await story.expectRun(0, 'restores', 'show', '1', '--json');
    const { by_hand: byHand } = JSON.parse(json) as { by_hand: Body[] };
    const now = await story.named('pipeline_destinations', String(other?.['name']));
    expect(byHand).toHaveLength(2);
    expect(byHand).toContainEqual(
      expect.objectContaining({ kind: 'pipeline_destinations', id: String(now['id']), reason }),
    );
    const page = journal(story, 1);
    expect(page).toContain('Still to do by hand');
    expect(page).toContain(`pipeline destination ${String(other?.['name'])} (${String(now['id'])}): `);
    // Neither where it is only changed, nor for another kind.
    const [there] = await story.list('pipeline_frontend_apps');
    await story.call('PATCH', `${ORGANIZATION}pipeline_frontend_apps/${String(there?.['id'])}/`, {
      description: 'altered',
    });
    expect(await story.plan(2, 'run:1')).not.toHaveProperty('lacking');
  });

  it('is one record under all of them after it was created again', async () => {
    const { story, id, name } = await lost();
    await story.expectRun(0, 'snapshots', 'pin', 'day-one');
    await story.expectRun(0, 'snapshots', 'baseline', 'day-one');
    await story.applied(3, 'restore', 'run:1', '--apply');
    const now = String((await story.named('plugins', name))['id']);
    expect(now).not.toBe(id);
    const none = { added: 0, removed: 0, changed: 0 };
    expect(await differences(story, 0, 'run:1', 'live', '--managed-only')).toMatchObject({ summary: none });
    expect(await differences(story, 2, 'run:1', 'live')).toMatchObject({
      summary: { ...none, changed: 1 },
      changes: [{ kind: 'pipeline_frontend_apps', fields: [{ path: '/id' }] }],
    });
    await story.expectRun(0, 'sync', '--quiet');
    expect(await differences(story, 0, 'run:1', 'latest', '--managed-only')).toMatchObject({ summary: none });
    await story.expectRun(0, 'drift', '--managed-only');
    // The id map explains the new id.
    await story.expectRun(0, 'drift');
    for (const kind of ['pipeline_frontend_apps', 'plugins']) {
      const { stdout } = await story.expectRun(0, 'log', kind, now, '--json');
      const { revisions } = JSON.parse(stdout) as { revisions: Body[] };
      expect(
        revisions.map(({ change }) => change),
        kind,
      ).toEqual(['changed', 'added']);
    }
    // The new id names it under every kind, and so does the old one.
    await story.call('PATCH', `${ORGANIZATION}pipeline_frontend_apps/${now}/`, { description: 'altered' });
    for (const each of [id, now])
      expect(created(await story.plan(2, 'run:1', '--kind', 'plugins', '--id', each))).toEqual([
        `update pipeline_frontend_apps ${now}`,
      ]);
  });

  it('says of a component created again which field no request takes', async () => {
    const story = await Story.start();
    const lost = (await story.list('pipeline_destinations')).filter(({ url }) => url !== null);
    expect(lost.length).toBeGreaterThan(0);
    for (const { id } of lost)
      await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(id)}/`);
    const words = 'no request takes url: the service chooses it';
    const { stdout } = await story.expectRun(3, 'restore', 'run:1', '--apply', '--yes', '--verbose');
    const [plan = '', result = ''] = stdout.split('applied and verified');
    expect(plan).toContain(words);
    expect(result).toContain(words);
    const shown = await story.expectRun(0, 'restores', 'show', '1', '--json');
    const { steps } = JSON.parse(shown.stdout) as { steps: { note?: string; reason: string | null }[] };
    expect(steps.map(({ reason }) => reason)).toEqual(lost.map(() => null));
    expect(steps.every(({ note }) => note?.includes(words) === true)).toBe(true);
    const { stdout: again } = await story.expectRun(0, 'restore', 'run:1');
    expect(again).toContain('nothing to do');
    expect(again).toContain(words);
  });

  it('lets what was replaced go from all of them at the next sync, however many that were', async () => {
    const story = await Story.start();
    const all = await story.list('pipeline_destinations');
    expect(all.length).toBeGreaterThan(10);
    for (const { id } of all)
      await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(id)}/`);
    await story.applied(3, 'restore', 'run:1', '--apply');
    const { stdout } = await story.expectRun(0, 'sync', '--json');
    const { runs } = JSON.parse(stdout) as { runs: { sweeps: { kind: string; removed: number }[] }[] };
    const removed = (kind: string): number =>
      (runs[0]?.sweeps ?? [])
        .filter((sweep) => sweep.kind === kind)
        .reduce((sum, each) => sum + each.removed, 0);
    expect([removed('pipeline_destinations'), removed('plugins')]).toEqual([all.length, all.length]);
  });

  it('is drilled under the kind that was named', async () => {
    const story = await Story.start();
    const { stdout } = await story.expectRun(3, 'drill', '--kind', 'plugins', '--json');
    const { kinds } = JSON.parse(stdout) as { kinds: (Body & { kind: string })[] };
    expect(kinds).toMatchObject([{ kind: 'plugins' }]);
    // Created again, but without their settings.
    expect(Number(kinds[0]?.['needs_person'])).toBeGreaterThan(0);
  });
});
