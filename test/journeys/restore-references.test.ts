/** What names a record that was created again, compared: the new id means the same record. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

interface DiffJson {
  readonly summary: Readonly<Record<string, number>>;
  readonly changes: readonly { readonly kind: string; readonly fields: readonly { path: string }[] }[];
}

async function changed(story: Story, code: number, ...args: string[]): Promise<string[]> {
  const { stdout } = await story.expectRun(code, 'diff', 'run:2', ...args, '--json');
  return (JSON.parse(stdout) as DiffJson).changes.map(
    ({ kind, fields }) => `${kind} ${fields.map(({ path }) => path).join(' ')}`,
  );
}

describe('references to a record that was created again', () => {
  it('are not a change, live and in the mirror, with and without --managed-only', async () => {
    const story = await Story.start();
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
      projects: { fields: { name: { type: 'string', writable: true } } },
      batch_exports: { fields: { team_id: { createOnly: true } } },
    });
    story.supplySecrets('s3cr3t');
    const project = await story.call('POST', `${ORGANIZATION}projects/`, { name: 'Lost and found' });
    const old = Number(project['id']);
    const invite = { target_email: 'back@example.com', level: 1 };
    const access = [{ id: old, level: 'member' }];
    const path = `${ORGANIZATION}invites/`;
    const { id } = await story.call('POST', path, { ...invite, private_project_access: access });
    const settings = { model: 'events', interval: 'day', paused: true };
    const destination = { type: 'NoOp', config: {} };
    await story.call('POST', `${ORGANIZATION}batch_exports/`, {
      name: 'Follows',
      team_id: old,
      destination,
      ...settings,
    });
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('DELETE', `${path}${String(id)}/`);
    const exported = await story.named('batch_exports', 'Follows');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(exported['id'])}/`);
    await story.call('DELETE', `${ORGANIZATION}projects/${old}/`);
    // The settings that no line of configuration names are reported as blocked, though the service's own are the same.
    const { summary } = await story.applied(3, 'restore', 'run:2', '--apply');
    expect(summary).toMatchObject({ applied: 3, failed: 0, blocked: 1 });
    const again = await story.named('projects', 'Lost and found');
    const now = Number(again['id']);
    expect(now).not.toBe(old);
    const back = (await story.list('invites')).find((each) => each['target_email'] === 'back@example.com');
    expect(back?.['private_project_access']).toEqual([{ id: now, level: 'member' }]);
    expect(await changed(story, 0, 'live', '--managed-only')).toEqual([]);
    await story.expectRun(0, 'sync', '--quiet');
    expect(await changed(story, 0, 'latest', '--managed-only')).toEqual([]);
    const all = await changed(story, 2, 'latest');
    expect(all.filter((line) => /team_id|private_project_access/.test(line))).toEqual([]);
    // One that leads elsewhere is a change as before.
    const other = (await story.list('projects')).find((each) => each['id'] !== now);
    const elsewhere = [{ id: other?.['id'], level: 'member' }];
    await story.call('DELETE', `${path}${String(back?.['id'])}/`);
    await story.call('POST', path, { ...invite, private_project_access: elsewhere });
    expect((await changed(story, 2, 'live', '--kind', 'invites', '--managed-only')).length).toBeGreaterThan(
      0,
    );
    // The project is named by the id that it had as by the one that it has.
    for (const id of [old, now]) {
      for (const named of ['--id', '--project']) {
        const found = await changed(story, 2, 'live', '--kind', 'projects', named, String(id));
        expect(found, `${named} ${id}`).toEqual([expect.stringMatching(/^projects .*\/id/)]);
        expect(
          await changed(story, 0, 'live', '--kind', 'projects', '--managed-only', named, String(id)),
        ).toEqual([]);
      }
    }
  });

  it('and that others still name by its old id, in a state from after it: the plan is empty, as the comparison is', async () => {
    const story = await Story.start();
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
      projects: { fields: { name: { type: 'string', writable: true } } },
      batch_exports: { fields: { team_id: { createOnly: true } } },
    });
    const { id: old } = await story.call('POST', `${ORGANIZATION}projects/`, { name: 'Lost and found' });
    const access = [{ id: old ?? null, level: 'member' }];
    const invite = { target_email: 'back@example.com', level: 1, private_project_access: access };
    await story.call('POST', `${ORGANIZATION}invites/`, invite);
    const export_ = { name: 'Follows', team_id: old ?? null, model: 'events', interval: 'day', paused: true };
    const destination = { type: 'NoOp', config: {} };
    await story.call('POST', `${ORGANIZATION}batch_exports/`, { ...export_, destination });
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('DELETE', `${ORGANIZATION}projects/${String(old)}/`);
    const only = ['--kind', 'projects', '--kind', 'batch_exports'];
    const { stdout } = await story.run('restore', 'run:2', ...only, '--apply', '--yes');
    const { id: now } = await story.named('projects', 'Lost and found');
    expect(now).not.toBe(old);
    const still = `it still names project ${String(old)}, which is gone`;
    expect(stdout.split('restore 1 of default')[1]).toContain(still);
    // Which the service still holds, whether or not the projects are read for it.
    for (const kind of ['invites', 'batch_exports']) {
      expect(await changed(story, 2, 'live', '--kind', kind), kind).toHaveLength(1);
      await story.expectRun(2, 'diff', 'live', 'run:2', '--kind', kind);
    }
    await story.expectRun(0, 'sync', '--quiet');
    expect((await story.named('batch_exports', 'Follows'))['team_id']).toBe(old);
    expect((await story.list('invites')).map((each) => each['private_project_access'])).toContainEqual(
      access,
    );
    await story.expectRun(0, 'diff', 'latest', 'live', '--managed-only');
    const plan = await story.plan(0, 'latest');
    expect(plan).toMatchObject({ steps: [], left: [] });
    const pruned = await story.plan(0, 'latest', '--kind', 'invites', '--prune', '--max-removals', '5');
    expect(pruned.steps).toEqual([]);
  });
});
