/** The row of the newest run is deleted, or given to another source or number: the run before it must not pass for the newest. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ORGANIZATION, only, Story } from './restore-story.ts';

const ALTERATIONS = [
  'DELETE FROM runs WHERE run = 2',
  `DELETE FROM runs WHERE run = 2; DELETE FROM row_seals WHERE "set" = 'runs' AND member = '[2]'`,
  'UPDATE runs SET source = 9 WHERE run = 2',
  'UPDATE runs SET run = 0 WHERE run = 2',
  `UPDATE runs SET outcome = 'failed' WHERE run = 2`,
  `UPDATE runs SET outcome = 'running' WHERE run = 2`,
  'UPDATE runs SET root = NULL WHERE run = 2',
  'UPDATE runs SET requests = requests + 1 WHERE run = 2',
];

function others(id: string): string[][] {
  return [
    ['drift', '--json'],
    ['diff', 'run:1', 'latest'],
    ['diff', 'latest', 'live'],
    ['diff', 'run:-1', 'live'],
    ['restore', 'latest'],
    ['show', 'roles', id],
    ['blame', 'roles', id],
    ['export'],
    ['snapshots', 'pin', 'b'],
  ];
}

/** A baseline, and a second run that found drift. */
async function drifted(): Promise<{ story: Story; id: string }> {
  const story = await Story.start(only('organizations', 'roles'));
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  const { id } = await story.named('roles', 'Growth');
  await story.call('PATCH', `${ORGANIZATION}roles/${String(id)}/`, { name: 'Analysts' });
  await story.run('sync', '--quiet');
  await story.expectRun(2, 'drift');
  return { story, id: String(id) };
}

it('whatever compares, exports or plans with the newest run refuses a mirror in which an earlier one passes for it', async () => {
  const { story, id } = await drifted();
  const whole = readFileSync(story.file('mirror.db'));
  for (const sql of ALTERATIONS) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    for (const args of [['drift'], ['log', 'roles', id], ...(sql === ALTERATIONS[0] ? others(id) : [])]) {
      const { stderr } = await story.expectRun(1, ...args);
      expect(stderr, `${sql}: ${args.join(' ')}`).toMatch(/run 2/);
    }
    const { stdout } = await story.run('status');
    expect(stdout, sql).toContain('run 2');
    // Its root hash is no part of the row's seal.
    if (sql.includes('root')) continue;
    const { stderr } = await story.expectRun(1, 'runs', 'show', '2');
    expect(stderr, sql).toMatch(
      /run 2 (?:was deleted by another program|is not as it was written|is gone|says that)/,
    );
    expect(stdout, sql).not.toMatch(/Drift +(none|no)/i);
  }
});

it('status and health say so without a baseline too', async () => {
  const story = await Story.start(only('organizations', 'roles'));
  await story.expectRun(0, 'sync', '--quiet');
  expect((await story.run('status')).stdout).not.toContain('is damaged');
  story.alter('DELETE FROM runs WHERE run = 2');
  expect((await story.run('status')).stdout).toContain('is damaged: the row of run 2 is gone');
  expect((await story.expectRun(1, 'doctor')).stdout).toContain('is damaged: the row of run 2 is gone');
});

it('the next sync takes no number again, and what shows the alteration stays', async () => {
  const { story } = await drifted();
  const whole = readFileSync(story.file('mirror.db'));
  for (const sql of ALTERATIONS) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    await story.expectRun(0, 'sync', '--quiet');
    // Without its seal, or its root hash, only the chain of all runs shows it then.
    const code = /row_seals|root = NULL/.test(sql) ? 0 : 1;
    const { stdout } = await story.expectRun(code, 'runs', '--json');
    const { runs } = JSON.parse(stdout) as { runs: readonly { run: number }[] };
    expect(runs[0]?.run, sql).toBe(3);
    // Before the last check of the mirror says so.
    if (code === 1) expect((await story.expectRun(1, 'status')).stdout, sql).toMatch(/is damaged: .*run 2/);
    expect((await story.expectRun(1, 'verify')).stdout, sql).toMatch(/run 2/);
    // Refused, or what run 2 changed is drift of run 3.
    expect([1, 2], sql).toContain((await story.run('drift')).code);
  }
});
