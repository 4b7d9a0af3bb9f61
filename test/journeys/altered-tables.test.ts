/** What another program puts in the way of the next write, or takes from under a baseline, is damage and is called so. */
import { expect, it } from 'vitest';
import { Story } from './restore-story.ts';

it('a baseline whose run is gone is damage, no unknown reference', async () => {
  const story = await Story.start();
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  await story.expectRun(0, 'sync', '--quiet');
  story.alter('DELETE FROM runs WHERE run = 1');
  const { stderr } = await story.expectRun(1, 'drift');
  expect(stderr).toContain('rests on a log that may have been cut: the row of run 1 is gone');
  const compared = await story.expectRun(1, 'diff', 'snapshot:a', 'latest');
  expect(compared.stderr).toContain('is damaged: the row of run 1 is gone');
});

it.each([
  ['audit_log', 'BEFORE INSERT ON audit_log BEGIN SELECT RAISE(IGNORE); END'],
  ['snapshots', `AFTER INSERT ON snapshots BEGIN UPDATE snapshots SET pinned_by = 'eve'; END`],
  ['runs', `AFTER UPDATE ON runs BEGIN UPDATE runs SET removed = 0 WHERE run = new.run; END`],
])('nothing is written where another program put a trigger on %s', async (_table, trigger) => {
  const story = await Story.start();
  story.alter(`CREATE TRIGGER planted ${trigger}`);
  for (const command of [
    ['snapshots', 'pin', 'a', '--as', 'ann'],
    ['sync', '--quiet'],
    ['forget', '--keep-last', '1'],
  ]) {
    const { stderr } = await story.expectRun(1, ...command);
    expect(stderr, command.join(' ')).toContain('another program added the trigger "planted"');
  }
  expect((await story.expectRun(1, 'verify')).stdout).toContain('planted');
  // What only reads fires none, and says what to do.
  const status = await story.expectRun(1, 'status');
  expect(status.stdout).toContain('another program added the trigger "planted"');
  expect(status.stdout).toContain('DROP TRIGGER "planted";');
  const doctor = await story.run('doctor');
  expect(doctor.code).not.toBe(0);
  expect(doctor.stdout).not.toContain('sound (quick check)');
  expect(`${doctor.stdout}${doctor.stderr}`).toContain('DROP TRIGGER "planted";');
  story.alter('DROP TRIGGER planted');
  expect((await story.expectRun(0, 'snapshots', '--json')).stdout).not.toContain('"a"');
  await story.expectRun(0, 'sync', '--quiet');
});

it('verify says how a view that was replaced, and an index or trigger that was added, go', async () => {
  const story = await Story.start();
  story.alter('DROP VIEW members');
  story.alter('CREATE VIEW members AS SELECT 1 AS id');
  const replaced = await story.expectRun(1, 'verify');
  expect(replaced.stdout).toContain(
    'records and history match their hashes; the views are created again when this result is recorded, or else by the next command that writes, such as `tidemark sync`',
  );
  expect(replaced.stderr).toContain('another program changed the schema of');
  expect(`${replaced.stdout}${replaced.stderr}`).not.toContain('without history');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'verify', '--quiet');
  story.alter('CREATE INDEX added ON runs (source)');
  story.alter('CREATE TRIGGER planted AFTER INSERT ON runs BEGIN SELECT 1; END');
  const { stdout } = await story.expectRun(1, 'verify');
  expect(stdout).toContain('`DROP INDEX "added"`');
  expect(stdout).toContain('`DROP TRIGGER "planted"`');
});

it('numbers that are spent by another program are named by verify, and not called a full disk', async () => {
  const story = await Story.start();
  story.alter('UPDATE sqlite_sequence SET seq = 9223372036854775807');
  const { stdout, stderr } = await story.expectRun(1, 'verify');
  expect(stdout).toContain('altered its last number in sqlite_sequence');
  expect(`${stdout}${stderr}`).not.toContain('disk');
  const sync = await story.expectRun(1, 'sync', '--quiet');
  expect(sync.stderr).toContain('altered its last number in sqlite_sequence');
});
