/** What another program puts in the way of the next write, or takes from under a baseline, is damage and is called so. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { Story } from './restore-story.ts';

function alter(story: Story, sql: string): void {
  const file = new Database(story.file('mirror.db'));
  file.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
  file.close();
}

it('a baseline whose run is gone is damage, no unknown reference', async () => {
  const story = await Story.start();
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  await story.expectRun(0, 'sync', '--quiet');
  alter(story, 'DELETE FROM runs WHERE run = 1');
  for (const command of [['drift'], ['diff', 'snapshot:a', 'latest']])
    expect((await story.expectRun(1, ...command)).stderr).toContain('is damaged: the row of run 1 is gone');
});

it('a pin that the audit log cannot have is refused', async () => {
  const story = await Story.start();
  alter(story, 'CREATE TRIGGER planted BEFORE INSERT ON audit_log BEGIN SELECT RAISE(IGNORE); END');
  const { stderr } = await story.expectRun(1, 'snapshots', 'pin', 'a', '--as', 'ann');
  expect(stderr).toMatch(/audit log|planted/);
  alter(story, 'DROP TRIGGER planted');
  expect((await story.expectRun(0, 'snapshots', '--json')).stdout).not.toContain('"a"');
});

it('numbers that are spent by another program are named by verify, and not called a full disk', async () => {
  const story = await Story.start();
  alter(story, 'UPDATE sqlite_sequence SET seq = 9223372036854775807');
  const { stdout, stderr } = await story.expectRun(1, 'verify');
  expect(stdout).toContain('altered its last number in sqlite_sequence');
  expect(`${stdout}${stderr}`).not.toContain('disk');
  const sync = await story.expectRun(1, 'sync', '--quiet');
  expect(sync.stderr).toContain('altered its last number in sqlite_sequence');
});
