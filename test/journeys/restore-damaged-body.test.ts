/** A stored body, or what a restore noted, that is not what was stored: nothing of it is sent. */
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';
import { alterRow } from '../tools/alter.ts';

/** By another program, or a bit that flipped. */
const ALTER_BODY = `UPDATE records SET body = replace(body, ?, ?) WHERE remote_id = ? AND body LIKE '%"destination"%'`;

it('a plan refuses a desired record that does not match its hash, and plans others', async () => {
  const story = await Story.start();
  const [one, other] = await story.list('batch_exports');
  const [id, name] = [String(one?.['id']), String(one?.['name'])];
  alterRow(story.file('mirror.db'), ALTER_BODY, `"${name}"`, `"x${name}"`, id);
  for (const more of [[], ['--out', 'plan.json'], ['--apply', '--yes']]) {
    const { stderr, stdout } = await story.expectRun(1, 'restore', '--kind', 'batch_exports', ...more);
    expect(stderr).toContain(
      `mirror.db is damaged: the stored content of 1 record does not match its hash: batch export "x${name}"`,
    );
    expect(stderr).toContain('`tidemark verify` says what is damaged; restore a copy of the file');
    expect(stdout).toBe('');
  }
  const { stdout } = await story.expectRun(1, 'restore', '--apply', '--yes', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ code: 'mirror_corrupt' });
  expect(story.writes()).toEqual([]);

  const path = `${ORGANIZATION}batch_exports/${String(other?.['id'])}/`;
  await story.call('PATCH', path, { name: 'changed' });
  await story.applied(0, 'restore', '--kind', 'batch_exports', '--id', String(other?.['id']), '--apply');
  expect(await story.call('GET', path)).toMatchObject({ name: other?.['name'] });
});

it('a plan names all of several, and says how many have the same name', async () => {
  const story = await Story.start();
  const names = (await story.list('batch_exports'))
    .slice(0, 2)
    .map((each) => [String(each['id']), String(each['name'])]);
  for (const [id = '', name = ''] of names)
    alterRow(story.file('mirror.db'), ALTER_BODY, `"${name}"`, `"x${name}"`, id);
  const { stderr } = await story.expectRun(1, 'restore', '--kind', 'batch_exports');
  const called = names.map(([, name = '']) => `batch export "x${name}"`);
  expect([
    `the stored content of 2 records does not match the stored hashes: ${called.join(', ')}\n`,
    `the stored content of 2 records does not match the stored hashes: ${called.toReversed().join(', ')}\n`,
  ]).toContain(/the stored content of 2 [^]*?\n/.exec(stderr)?.[0]);
});

it('also one of an earlier run, and a creation; show refuses the record', async () => {
  const story = await Story.start();
  const { id, name } = await story.named('roles', String((await story.list('roles'))[0]?.['name']));
  await story.call('PATCH', `${ORGANIZATION}roles/${String(id)}/`, { name: `${String(name)} 2` });
  await story.expectRun(0, 'sync', '--quiet');
  // The older body is a delta against the newer one.
  alterRow(
    story.file('mirror.db'),
    `UPDATE records SET body = replace(body, '"created_at":"20', '"created_at":"19') WHERE remote_id = ?`,
    id,
  );
  const { stderr } = await story.expectRun(1, 'restore', 'run:1', '--kind', 'roles');
  expect(stderr).toContain('does not match its hash: role');
  for (const at of ['latest', 'run:1']) {
    const shown = await story.expectRun(1, 'show', 'roles', String(id), '--at', at);
    expect(shown.stderr).toContain('the stored content of 1 record does not match its hash: role\n');
    expect(shown.stdout).toBe('');
  }
  await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
  const gone = await story.expectRun(1, 'restore', '--kind', 'roles', '--apply', '--yes');
  expect(gone.stderr).toContain('does not match its hash: role');
  expect(story.writes()).toEqual([]);
});

it('a stored body that is not even JSON is a damaged record, too', async () => {
  const story = await Story.start();
  const { id, name } = await story.named('roles', String((await story.list('roles'))[0]?.['name']));
  await story.call('PATCH', `${ORGANIZATION}roles/${String(id)}/`, { name: `${String(name)} 2` });
  await story.expectRun(0, 'sync', '--quiet');
  alterRow(
    story.file('mirror.db'),
    `UPDATE records SET body = replace(body, '"name":"', '"name": ') WHERE remote_id = ?`,
    id,
  );
  for (const at of ['latest', 'run:1']) {
    const { stderr } = await story.expectRun(1, 'restore', at, '--kind', 'roles');
    expect(stderr).toContain('mirror.db is damaged: ');
    expect(stderr).toContain('does not match its hash: role');
  }
  expect(story.writes()).toEqual([]);
});

it('undo refuses a plan or a journal that is not what was stored', async () => {
  const story = await Story.start();
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.applied(0, 'restore', '--apply');
  const sent = story.writes().length;
  const refused = async (words: string): Promise<void> => {
    const { stderr } = await story.expectRun(1, 'undo', '1');
    expect(stderr).toContain(`the record of restore 1 is damaged: ${words}`);
    expect(stderr).toContain('`tidemark verify` says what else is damaged; restore a copy of the file');
    const applied = await story.expectRun(1, 'undo', '1', '--apply', '--yes');
    expect(applied.stderr).toMatch(/restore 1 is (?:not as it was recorded|damaged)/);
    expect(story.writes()).toHaveLength(sent);
  };
  const change = `= replace(%, '"enforce_2fa":false', '"enforce_2fa":null') WHERE restore = 1`;
  alterRow(
    story.file('mirror.db'),
    `UPDATE restore_steps SET inverse ${change.replace('%', 'inverse')} AND step = 1`,
  );
  await refused('what step 1 overwrote is not as planned');
  alterRow(story.file('mirror.db'), `UPDATE restores SET plan ${change.replace('%', 'plan')}`);
  await refused('its plan does not match its hash');
});
