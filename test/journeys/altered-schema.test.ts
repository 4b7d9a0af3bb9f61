/** A view or table that another program put in the place of one that the program reads: no command believes it. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { only, Story } from './restore-story.ts';

/** Leaves out what changed after the first run. */
const BLIND = `DROP VIEW all_revisions; CREATE VIEW all_revisions AS
  SELECT run, collection, record, change, ordinal, previous, hash FROM records WHERE run = 1`;

const REPLACED = 'is damaged: another program altered it: view all_revisions is not as it should be';

const RESTORED = 'view all_revisions was not as it should be, and was created again';

/** A baseline, and a run after it in which something changed. */
async function changed(): Promise<Story> {
  const story = await Story.start(only('organizations', 'members'));
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  return story;
}

it('is no state without changes for what reads: each command refuses it, and says what to do', async () => {
  const story = await changed();
  story.alter(BLIND);
  for (const command of [
    ['drift'],
    ['diff', 'run:1', 'run:-1'],
    ['changes'],
    ['status'],
    ['runs'],
    ['log', 'members', 'x'],
    ['export', '--output', 'out'],
    ['audit'],
    ['forget', '--keep-last', '1', '--dry-run'],
  ]) {
    const { stderr } = await story.expectRun(1, ...command);
    expect(stderr, command.join(' ')).toContain(REPLACED);
    expect(stderr, command.join(' ')).toContain('`tidemark sync`, creates it again; then `tidemark verify`');
  }
  const doctor = await story.run('doctor');
  expect(doctor.code).not.toBe(0);
  expect(`${doctor.stdout}${doctor.stderr}`).toContain('view all_revisions is not as it should be');
});

it('is named by verify, with nothing else, and created again by the next command that writes', async () => {
  const story = await changed();
  story.alter(BLIND);
  const { stdout, stderr } = await story.expectRun(1, 'verify');
  expect(stdout).toContain('view all_revisions is not as it should be');
  expect(stdout).toContain('1 problem found');
  expect(stdout).toContain('match their hashes; the views are created again when this result');
  // That it was verified is recorded: verify writes.
  expect(stderr).toContain(RESTORED);
  await story.expectRun(0, 'verify', '--quiet');
  story.alter(BLIND);
  expect((await story.expectRun(0, 'sync', '--quiet')).stderr).toContain(RESTORED);
  await story.expectRun(0, 'verify', '--quiet');
});

it('does not mislead a forget', async () => {
  const story = await changed();
  const whole = await changed();
  story.alter(BLIND);
  const options = ['forget', '--keep-last', '1', '--quiet'];
  const { stderr } = await story.expectRun(0, ...options);
  expect(stderr).toContain(RESTORED);
  await whole.expectRun(0, ...options);
  const revisions = (of: Story): unknown => {
    const file = new Database(of.file('mirror.db'), { readonly: true });
    const found = file.prepare('SELECT count(*) FROM all_revisions').pluck().get();
    file.close();
    return found;
  };
  expect(revisions(story)).toBe(revisions(whole));
  await story.expectRun(0, 'verify', '--quiet');
});

it.each([
  ['removed_records', 'DROP VIEW removed_records; CREATE VIEW removed_records AS SELECT 1'],
  ['removed_records', 'DROP VIEW removed_records'],
])('is found for %s', async (name, sql) => {
  const story = await Story.start(only('organizations', 'members'));
  story.alter(sql);
  expect((await story.expectRun(1, 'runs')).stderr).toContain(`view ${name} is`);
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--as', 'ann');
  await story.expectRun(0, 'runs');
  await story.expectRun(0, 'verify', '--quiet');
});

it.each([
  [
    'a table',
    'ALTER TABLE revisions RENAME TO x; CREATE VIEW revisions AS SELECT * FROM x WHERE 0',
    'table revisions is missing',
  ],
  [
    'a view',
    'DROP VIEW all_revisions; CREATE TABLE all_revisions AS SELECT * FROM records WHERE 0',
    'view all_revisions is missing',
  ],
])('is trusted by nobody where it is a table or was %s', async (_what, sql, message) => {
  const story = await changed();
  story.alter(sql);
  for (const command of [
    ['drift'],
    ['status'],
    ['sync', '--quiet'],
    ['forget', '--keep-last', '1'],
    ['snapshots', 'pin', 'b', '--as', 'ann'],
  ]) {
    const { stderr } = await story.expectRun(1, ...command);
    expect(stderr, command.join(' ')).toContain(message);
    expect(stderr, command.join(' ')).toContain('restore a copy of the file');
  }
  expect((await story.expectRun(1, 'verify')).stdout).toContain(message);
});

it('an index that is gone hinders no reader, and is created again by the next command that writes', async () => {
  const story = await Story.start(only('organizations', 'members'));
  story.alter('DROP INDEX collections_key');
  await story.expectRun(0, 'runs');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'verify', '--quiet');
});

it('what another program only added hinders nobody', async () => {
  const story = await Story.start(only('organizations', 'members'));
  story.alter(
    'CREATE TABLE notes (text); CREATE VIEW mine AS SELECT * FROM runs; CREATE INDEX added ON runs (source)',
  );
  const { stderr } = await story.expectRun(0, 'drift', '--from', 'run:1');
  expect(stderr).not.toContain('another program');
  expect((await story.expectRun(0, 'sync', '--quiet')).stderr).not.toContain('another program');
  expect((await story.expectRun(1, 'verify')).stdout).toContain('view mine does not belong there');
});
