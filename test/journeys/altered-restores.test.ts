/** Restores whose rows another program altered or deleted: what lists them says so, and nothing is undone by what is left. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ORGANIZATION, only, Story } from './restore-story.ts';

/** A restore with two steps. */
async function restored(): Promise<Story> {
  const story = await Story.start(only('organizations', 'batch_exports'));
  const settings = {
    model: 'events',
    interval: 'day',
    paused: true,
    destination: { type: 'NoOp', config: {} },
  };
  const made = [];
  for (const name of ['Gone A', 'Gone B'])
    made.push(await story.call('POST', `${ORGANIZATION}batch_exports/`, { name, ...settings }));
  await story.expectRun(0, 'sync', '--quiet');
  for (const { id } of made) await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
  await story.expectRun(0, 'sync', '--quiet');
  return story;
}

it('a restore whose plan was edited is listed and shown, with a warning, and not undone', async () => {
  const story = await restored();
  story.alter(`UPDATE restores SET plan = replace(plan, 'Gone A', 'Gone X')`);
  const line = 'restore 1 is not as it was recorded';
  for (const command of [['restores'], ['restores', 'show', '1']]) {
    const { stdout, stderr } = await story.expectRun(1, ...command);
    expect(stderr).toContain(line);
    expect(stdout).toContain(command.length === 1 ? 'complete' : 'Gone X');
    const shown = JSON.parse((await story.expectRun(1, ...command, '--json')).stdout) as {
      warnings: string[];
    };
    expect(shown.warnings).toEqual([expect.stringContaining(line)]);
  }
  const { stderr } = await story.expectRun(1, 'undo', '1');
  expect(stderr).toContain('its plan does not match its hash');
});

it('a restore that somebody else is said to have begun is not undone with --apply, also where nothing is left to send', async () => {
  const story = await restored();
  for (const { id, name } of await story.list('batch_exports'))
    if (String(name).startsWith('Gone'))
      await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
  await story.expectRun(0, 'undo', '1', '--apply', '--yes');
  story.alter(`UPDATE restores SET started_by = 'eve'`);
  const { stderr } = await story.expectRun(1, 'undo', '1', '--apply', '--yes');
  expect(stderr).toContain('restore 1 is not as it was recorded');
});

it('where a restore is gone or altered, who made a change is not known: what names it says so', async () => {
  const story = await restored();
  const whole = readFileSync(story.file('mirror.db'));
  expect((await story.expectRun(0, 'log', 'batch_exports', 'Gone A')).stdout).toContain('restore 1');
  for (const sql of [
    'DELETE FROM restores; DELETE FROM restore_steps',
    'DELETE FROM restore_steps',
    `UPDATE restores SET started_at = 'x'`,
    `UPDATE restores SET source = 'other'`,
  ]) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    for (const command of [
      ['log', 'batch_exports', 'Gone A'],
      ['blame', 'batch_exports', 'Gone A'],
      ['changes', '--since', 'run:1'],
      ['runs', 'show', '3'],
    ]) {
      const { stderr } = await story.expectRun(1, ...command);
      expect(stderr, `${sql}: ${command.join(' ')}`).toContain('restore 1');
    }
  }
});

it('a restore of which rows are gone or altered is not undone by what is left, and is not called unknown', async () => {
  const story = await restored();
  await story.expectRun(2, 'undo', '1');
  const whole = readFileSync(story.file('mirror.db'));
  const cases: [string, string][] = [
    ['DELETE FROM restore_steps WHERE step = 2', 'step 2'],
    ['DELETE FROM restore_steps', 'step 1'],
    ['DELETE FROM restores; DELETE FROM restore_steps', 'restore 1 is gone'],
    [`UPDATE restores SET source = 'other'`, 'restore 1 is not as it was recorded'],
  ];
  for (const [sql, said] of cases) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    for (const more of [[], ['--apply', '--yes']]) {
      const { stdout, stderr } = await story.expectRun(1, 'undo', '1', ...more);
      expect(stderr, sql).toContain(said);
      expect(`${stdout}${stderr}`, sql).not.toContain('there is no restore');
    }
  }
  writeFileSync(story.file('mirror.db'), whole);
  story.alter(`UPDATE restore_steps SET outcome = 'failed'`);
  expect((await story.run('undo', '1')).code).not.toBe(0);
});

it('an undo that another program made one of itself keeps no command from its end', async () => {
  const story = await restored();
  await story.applied(0, 'undo', '1', '--apply');
  await story.expectRun(0, 'sync', '--quiet');
  story.alter(`UPDATE restores SET undoes = 2 WHERE restore = 2`);
  await story.expectRun(0, 'status');
  await story.run('doctor');
  expect((await story.expectRun(1, 'restores')).stderr).toContain('restore 2 is not as it was recorded');
});

it.each([
  ['with a hole in the log', `"about" = 'restores'`, /^the audit log was (cut|altered): (entry|run) \d+ /],
  [
    'at the end of the log',
    `entry >= (SELECT min(entry) FROM audit_log WHERE about = 'restores')`,
    /^the audit log was cut: run \d has the hash of entry \d+ of the audit log, which is gone$/,
  ],
])('restores that are gone with their entries are missed, %s', async (_, entries, line) => {
  const story = await restored();
  await story.applied(0, 'undo', '1', '--apply');
  await story.expectRun(0, 'snapshots', 'pin', 'after');
  await story.expectRun(0, 'sync', '--quiet');
  const commands = [
    ['restores'],
    ['changes'],
    ['runs', 'show', '3'],
    ...['show', 'log', 'blame'].map((command) => [command, 'batch_exports', 'Gone A']),
  ];
  for (const command of commands) await story.expectRun(0, ...command);
  story.alter(`DELETE FROM audit_log WHERE ${entries}; DELETE FROM restores; DELETE FROM restore_steps`);
  for (const command of commands) {
    const { stderr } = await story.expectRun(1, ...command);
    expect(stderr.match(/the audit log was/g), command.join(' ')).toHaveLength(1);
    const { stdout } = await story.expectRun(1, ...command, '--json', '--quiet');
    const { warnings } = JSON.parse(stdout) as { readonly warnings: readonly string[] };
    expect(warnings, command.join(' ')).toEqual([expect.stringMatching(line)]);
  }
  for (const number of ['latest', '1'])
    expect((await story.expectRun(1, 'restores', 'show', number)).stderr).toMatch(
      /there is no restore.*, but the audit log was/,
    );
});
