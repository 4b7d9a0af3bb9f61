/** Changes that a restore made by updates are attributed to it, and what somebody else changed meanwhile is not. */
import { expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

interface Change {
  readonly kind: string;
  readonly name: string;
  readonly changed_by?: object;
}

it('an update by a restore is marked in changes, log and blame, and another one is not', async () => {
  const story = await Story.start();
  story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
    roles: { fields: { name: { type: 'string', writable: true } } },
  });
  const [first, second] = await story.list('roles');
  const [role, other] = [String(first?.['id']), String(second?.['id'])];
  const rename = (id: string, name: string) => story.call('PATCH', `${ORGANIZATION}roles/${id}/`, { name });
  await rename(role, 'Contractors and friends');
  await rename(other, 'Others');
  await story.expectRun(0, 'sync', '--quiet');
  await story.applied(0, 'restore', 'run:1', '--kind', 'roles', '--apply');
  // The same field, changed once more before the next run looks.
  await rename(other, 'Others again');
  await story.expectRun(0, 'sync', '--quiet');

  const { by } = commandActor();
  const changedBy = { restore: 1, by, via: by, paths: ['/name'] };
  const json = async <T>(...args: string[]): Promise<T> =>
    JSON.parse((await story.expectRun(0, ...args, '--json')).stdout) as T;
  const { runs } = await json<{ runs: { changes: Change[] }[] }>('changes', '--since', 'run:2');
  const marks = runs.flatMap(({ changes }) => changes).map(({ name, changed_by: mark }) => [name, mark]);
  expect(new Map(marks as [string, object][])).toEqual(
    new Map<unknown, unknown>([
      [first?.['name'], changedBy],
      ['Others again', undefined],
    ]),
  );
  const log = await json<{ revisions: { run: number; changed_by?: object }[] }>('log', 'roles', role);
  expect(log.revisions.map(({ run, changed_by: mark }) => [run, mark])).toEqual([
    [3, changedBy],
    [2, undefined],
    [1, undefined],
  ]);
  const blame = await json<{ fields: { path: string; changed_by?: object }[] }>('blame', 'roles', role);
  expect(blame.fields.filter((field) => field.changed_by !== undefined)).toMatchObject([
    { path: '/name', changed_by: { restore: 1, by } },
  ]);

  const line = `changed by restore 1 (${by})`;
  for (const args of [
    ['changes', '--since', 'run:2'],
    ['changes', '--since', 'run:2', '--format', 'html'],
    ['runs', 'show', '3'],
    ['log', 'roles', role],
  ]) {
    const { stdout } = await story.expectRun(0, ...args);
    expect(stdout.split(line).length, args.join(' ')).toBe(2);
  }
  expect((await story.expectRun(0, 'blame', 'roles', role)).stdout).toContain(`restore 1 (${by})`);
  expect((await story.expectRun(0, 'log', 'roles', other)).stdout).not.toContain('by restore');
});

it('a restore that was undone before a run read it is named beside the changes', async () => {
  const story = await Story.start();
  const nightly = await story.createExport('nightly');
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${nightly}/`);
  await story.applied(0, 'restore', 'run:2', '--kind', 'batch_exports', '--apply');
  await story.applied(0, 'undo', '1', '--apply');
  await story.expectRun(0, 'sync', '--quiet');
  const { by } = commandActor();
  const period = ['changes', '--since', 'run:2'];
  const { restores } = JSON.parse((await story.expectRun(0, ...period, '--json')).stdout) as {
    restores: readonly object[];
  };
  expect(restores).toMatchObject([
    { restore: 1, source: 'default', undoes: null, outcome: 'complete', by, via: by },
    { restore: 2, source: 'default', undoes: 1, outcome: 'complete', by, via: by },
  ]);
  for (const format of ['text', 'html', 'markdown']) {
    const stdout = (await story.expectRun(0, ...period, '--format', format)).stdout.replaceAll('&#64;', '@');
    expect(stdout).toContain(`no change listed is of restore 1 by ${by}, begun `);
    expect(stdout).toContain(`no change listed is of restore 2, which undoes restore 1, by ${by}, begun `);
  }
  const before = await story.expectRun(0, 'changes', '--since', 'run:1', '--until', 'run:2');
  expect(before.stdout).not.toContain('no change listed');
  expect((await story.expectRun(0, ...period, '--kind', 'roles')).stdout).not.toContain('no change listed');
});
