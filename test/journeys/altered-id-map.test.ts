/** A row that says which record is which since a restore created it again, and that another program altered, added or removed. */
import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { ORGANIZATION, only, Story } from './restore-story.ts';

const LINE = 'the earlier id of a record';

it('an altered id mapping is refused by comparisons, named by commands that show history, and found by verify', async () => {
  const story = await Story.start(only('organizations', 'batch_exports'));
  const id = await story.createExport('Gone');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${id}/`);
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
  await story.expectRun(0, 'sync', '--quiet');
  const path = story.file('mirror.db');
  const whole = readFileSync(path);
  const commands = [
    ['diff', 'run:2', 'latest'],
    ['diff', 'run:2', 'latest', '--json'],
    ['drift', '--json'],
    ['restore', 'run:2'],
    ['changes', '--json'],
    ['runs', 'show', '3'],
    ['log', 'batch_exports', 'Gone'],
    ['show', 'batch_exports', 'Gone'],
    ['verify'],
  ];
  for (const command of commands) {
    const { code, stderr } = await story.run(...command);
    expect(code, command.join(' ')).not.toBe(1);
    expect(stderr).not.toContain(LINE);
  }
  for (const [sql, what] of [
    ['DELETE FROM id_map', 'is gone: its hash is left'],
    [`UPDATE id_map SET old_id = 'other'`, 'is not as it was written by its restore'],
    [`UPDATE id_map SET source = 'defaultx'`, 'is gone: its hash is left'],
    [
      `INSERT INTO id_map SELECT source, kind, old_scope, 'a', new_scope, 'b', restore, at FROM id_map`,
      'was inserted by another program: it has no hash',
    ],
  ] as const) {
    writeFileSync(path, whole);
    const file = new Database(path);
    expect(file.prepare(sql).run().changes, sql).toBe(1);
    file.close();
    for (const command of commands) {
      const { code, stdout, stderr } = await story.run(...command);
      expect(code, `${sql}: ${command.join(' ')}`).toBe(1);
      expect(stderr + stdout, `${sql}: ${command.join(' ')}`).toContain(LINE);
      expect(stderr + stdout).toContain(what);
    }
    expect((await story.run('status')).stdout.replaceAll(/\s+/g, ' '), sql).toContain(`${LINE} ${what}`);
  }
});
