/** What a restore created again, told by what changed and by a record's history: one record that goes on. */
import { describe, expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

interface Again {
  readonly was: string;
  readonly restore: number;
}
interface Change {
  readonly kind: string;
  readonly id: string;
  readonly name: string;
  readonly change: string;
  readonly fields: readonly { readonly path: string }[];
  readonly created_again?: Again;
}
interface Compared {
  readonly changes: readonly Change[];
  readonly summary: { readonly added: number; readonly removed: number; readonly changed: number };
}

const json = async <T>(story: Story, code: number, ...args: string[]): Promise<T> =>
  JSON.parse((await story.expectRun(code, ...args, '--json')).stdout) as T;

const withoutAgain = ({ kind, id, name, change, fields }: Change): object => ({
  kind,
  id,
  name,
  change,
  fields,
});

/** A project, an export of it and an invite to it: seen by run 2, gone and created again before run 3 looks. */
async function restored(): Promise<{ story: Story; project: [string, string]; exported: [string, string] }> {
  const story = await Story.start();
  story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
    projects: { fields: { name: { type: 'string', writable: true } } },
    batch_exports: { fields: { team_id: { createOnly: true } } },
  });
  story.supplySecrets('s3cr3t');
  const project = Number((await story.call('POST', `${ORGANIZATION}projects/`, { name: 'Lost' }))['id']);
  const { id: invite } = await story.call('POST', `${ORGANIZATION}invites/`, {
    target_email: 'back@example.com',
    level: 1,
    private_project_access: [{ id: project, level: 'member' }],
  });
  const { id } = await story.call('POST', `${ORGANIZATION}batch_exports/`, {
    name: 'Follows',
    team_id: project,
    destination: { type: 'NoOp', config: {} },
    model: 'events',
    interval: 'day',
    paused: true,
  });
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${ORGANIZATION}invites/${String(invite)}/`);
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
  await story.call('DELETE', `${ORGANIZATION}projects/${project}/`);
  // What of the project may not be written is reported as blocked.
  await story.applied(3, 'restore', 'run:2', '--apply');
  const now = await story.named('projects', 'Lost');
  const again = await story.named('batch_exports', 'Follows');
  return {
    story,
    project: [String(project), String(now['id'])],
    exported: [String(id), String(again['id'])],
  };
}

describe('records that a restore created again', () => {
  it('are one change each, with the counts of the diff of the two runs, and go on in log and blame', async () => {
    const { story, project, exported } = await restored();
    const synced = await story.expectRun(0, 'sync');
    expect(synced.stdout).toMatch(
      /^\d of the added and \d of the removed are the same records, under a new id since restore 1: .*projects \(1\)/m,
    );

    const diff = await json<Compared>(story, 2, 'diff', 'run:2', 'run:3');
    const shown = await json<{ summary: object; changes: Compared }>(story, 0, 'runs', 'show', '3');
    expect(diff.summary).toMatchObject({ added: 0, removed: 0 });
    expect(shown.summary).toEqual({
      added: 0,
      removed: 0,
      changed: diff.summary.changed,
    });
    expect(shown.changes.changes.map(withoutAgain)).toEqual(diff.changes.map(withoutAgain));
    const found = shown.changes.changes.find(({ kind }) => kind === 'projects');
    expect(found).toMatchObject({ id: project[1], created_again: { was: project[0], restore: 1 } });
    const invite = shown.changes.changes.find(({ kind }) => kind === 'invites');
    expect(invite?.created_again?.was).toMatch(/^\[secret:/);

    const changes = await json<{ summary: object; runs: { run: number; changes: Change[] }[] }>(
      story,
      0,
      ...['changes', '--since', 'run:2'],
    );
    expect(changes.summary).toEqual(shown.summary);
    for (const id of project) {
      const asked = await json<{ runs: { changes: Change[] }[] }>(
        story,
        0,
        ...['changes', '--since', 'run:2', '--kind', 'projects', '--id', id],
      );
      expect(asked.runs[0]?.changes.map(({ change }) => change)).toEqual(['changed']);
    }
    const line = `created again by restore 1 (${commandActor().by}; id ${project[0]} → ${project[1]})`;
    for (const args of [
      ['changes', '--since', 'run:2'],
      ['runs', 'show', '3'],
    ])
      expect((await story.expectRun(0, ...args)).stdout).toContain(line);
    expect((await story.expectRun(0, 'changes', '--since', 'run:2', '--format', 'html')).stdout).toContain(
      line,
    );

    for (const id of exported) {
      const log = await json<{ revisions: { run: number; change: string; created_again?: Again }[] }>(
        story,
        0,
        ...['log', 'batch_exports', id],
      );
      expect(log.revisions.map(({ run, change }) => `${run} ${change}`)).toEqual(['3 changed', '2 added']);
      expect(log.revisions[0]?.created_again).toEqual({
        was: exported[0],
        id: exported[1],
        restore: 1,
        ...commandActor(),
      });
      const text = (await story.expectRun(0, 'log', 'batch_exports', id)).stdout;
      expect(text).not.toMatch(/removed|returned|still away/);
      expect(text).toContain(
        `created again by restore 1 (${commandActor().by}; id ${exported[0]} → ${exported[1]})`,
      );
      expect(text).toContain(
        id === exported[0] ? `continues as  ${exported[1]}` : `id before  ${exported[0]}`,
      );
      // The project that it is of is the same one.
      expect(text).not.toContain('/team_id');
      const blame = await json<{ fields: { path: string; since: { run: number } }[] }>(
        story,
        0,
        ...['blame', 'batch_exports', id],
      );
      const since = new Map(blame.fields.map(({ path, since: { run } }) => [path, run]));
      expect([since.get('/name'), since.get('/interval'), since.get('/paused'), since.get('/id')]).toEqual([
        2, 2, 2, 3,
      ]);
    }
    const history = (await story.expectRun(0, 'export', '--history', '--kind', 'batch_exports')).stdout
      .trim()
      .split('\n')
      .map((each) => JSON.parse(each) as { id: string; change: string; changes: unknown[] | null })
      .filter(({ id }) => exported.includes(id));
    expect(history.map(({ id, change }) => [id, change])).toEqual(
      expect.arrayContaining([
        [exported[1], 'recreated'],
        [exported[0], 'removed'],
      ]),
    );
    const again = history.find(({ change }) => change === 'recreated')?.changes;
    // As the log: the new id, and not the project that it is of.
    expect(again).toContainEqual({ path: '/id', from: exported[0], to: exported[1] });
    expect(JSON.stringify(again)).not.toContain('/team_id');
  });

  it('are not a loss that a restore of the latest run points to', async () => {
    const { story } = await restored();
    await story.expectRun(0, 'sync', '--quiet');
    const args = ['restore', 'latest', '--kind', 'batch_exports', '--kind', 'invites'];
    const { stdout, stderr } = await story.expectRun(0, ...args);
    expect(stdout + stderr).not.toContain('already holds what is live');
  });

  it('came, and are reported as created again, where a run saw them away', async () => {
    const story = await Story.start();
    const path = `${ORGANIZATION}batch_exports/`;
    const settings = {
      model: 'events',
      interval: 'day',
      paused: true,
      destination: { type: 'NoOp', config: {} },
    };
    const { id } = await story.call('POST', path, { name: 'Gone', ...settings });
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('DELETE', `${path}${String(id)}/`);
    await story.expectRun(0, 'sync', '--quiet');
    await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
    const synced = await story.expectRun(0, 'sync');
    expect(synced.stdout).not.toContain('created again');
    const again = await story.named('batch_exports', 'Gone');
    for (const asked of [String(id), String(again['id']), 'Gone', 'gon']) {
      const changed = await json<{ summary: object; runs: { run: number; changes: Change[] | null }[] }>(
        story,
        0,
        ...['changes', '--since', 'run:1', '--id', asked],
      );
      expect(
        changed.runs.flatMap(({ run, changes }) =>
          (changes ?? []).map((each) => [run, each.change, each.id]),
        ),
        asked,
      ).toEqual([
        [2, 'added', id],
        [3, 'removed', id],
        [4, 'added', again['id']],
      ]);
      const { stdout } = await story.expectRun(0, 'export', '--history', '--id', asked);
      const revisions = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { run: number; id: string; change: string });
      expect(
        revisions.map((each) => [each.run, each.change, each.id]),
        asked,
      ).toEqual([
        [2, 'added', id],
        [3, 'removed', id],
        [4, 'recreated', again['id']],
      ]);
    }
    // The record that is gone names what it continues as, but not as of a run that did not know that yet.
    const own = { was: String(id), restore: 1, by: commandActor().by, id: String(again['id']) };
    const shown = async (...args: string[]): Promise<object> =>
      await json<object>(story, 0, 'show', 'batch_exports', ...args);
    expect(await shown(String(id))).toMatchObject({ state: 'removed', created_again: [own] });
    expect(await shown(String(id), '--at', 'run:3')).toMatchObject({ state: 'removed', created_again: [] });
    expect(await shown(String(again['id']))).toMatchObject({ state: 'present', created_again: [own] });
    const then = (await story.expectRun(0, 'show', 'batch_exports', String(id))).stdout;
    expect(then).toMatch(new RegExp(`continues as +${own.id}, created again by restore 1`));
    expect(then).toMatch(/^batch export Gone: removed, as of run 4/);
    // Its id is new, the record is older.
    expect((await story.expectRun(0, 'show', 'batch_exports', own.id)).stdout).toMatch(
      /^ *first seen +run \d+, \S+, under this id$/m,
    );
    expect(then).not.toContain('under this id');
    expect((await story.expectRun(0, 'show', 'batch_exports', own.id)).stdout).toMatch(
      new RegExp(`id before +${own.was}, created again by restore 1`),
    );
    // As of a run that knew only the earlier id, the record is shown under that, whichever it was asked for by.
    const former = `under its former id ${own.was}: the record got the id ${own.id} later`;
    for (const asked of ['Gone', own.id]) {
      const early = await story.expectRun(0, 'show', 'batch_exports', asked, '--at', 'run:2', '--json');
      expect(JSON.parse(early.stdout)).toMatchObject({ id: own.was, name: 'Gone', state: 'present', run: 2 });
      expect(early.stderr).toContain(former);
      const exported = await story.expectRun(0, 'export', '--at', 'run:2', '--id', asked);
      expect(JSON.parse(exported.stdout)).toMatchObject({ id: own.was });
      expect(exported.stderr).toContain(former);
    }
    expect((await story.expectRun(0, 'show', 'batch_exports', own.id, '--at', 'run:3')).stdout).toMatch(
      /^batch export Gone: removed, as of run 3/,
    );
    expect((await story.expectRun(0, 'show', 'batch_exports', own.id, '--at', 'run:1')).stdout).toContain(
      'did not exist yet',
    );
    await story.expectRun(4, 'export', '--at', 'run:1', '--id', own.id);
    const { stdout } = await story.expectRun(0, 'log', 'batch_exports', 'Gone');
    expect(stdout).toMatch(/returned, created again by restore 1 \(\S+@\S+; id .*\) seen by run 4/);
    expect(stdout).toMatch(/removed by run 3/);
    const changes = await story.expectRun(0, 'changes', '--since', 'run:2');
    expect(changes.stdout).toMatch(/Gone added, created again by restore 1/);
    expect(changes.stdout).toMatch(/Gone removed/);
    // Retention leaves nothing of the removed record but that this one continues it.
    await story.expectRun(0, 'forget', '--keep-last', '1');
    await story.expectRun(4, 'show', 'batch_exports', String(id));
    await story.expectRun(3, 'changes', '--id', String(id));
  });
});
