/** The last entries of the audit log, cut off before any run had their hash: only the rows that they were about show it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ORGANIZATION, only, Story } from './restore-story.ts';

const CUT = 'DELETE FROM audit_log WHERE entry = (SELECT max(entry) FROM audit_log)';

it('is seen by audit, in every format', async () => {
  const story = await Story.start(only('organizations', 'roles'));
  await story.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  const [role] = await story.list('roles');
  await story.call('PATCH', `${ORGANIZATION}roles/${String(role?.['id'])}/`, { name: 'Night shift' });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'roles', 'Night shift', '--reason', 'renamed');
  await story.expectRun(0, 'drift');
  const whole = readFileSync(story.file('mirror.db'));
  for (const [last, what, line, drift] of [
    [['snapshots', 'pin', 'later'], CUT, 'snapshot "later" was inserted by another program', 1],
    [['snapshots', 'unpin', 'base', '--force'], CUT, 'snapshot "base" is gone, though entry', 1],
    [['drift', 'unaccept', 'roles', 'Night shift'], CUT, ' of default (roles) is gone, though entry', 2],
    [['verify'], CUT, ' of default (roles) was inserted by another program', 2],
  ] as const) {
    writeFileSync(story.file('mirror.db'), whole);
    expect((await story.run(...last)).code, last.join(' ')).toBe(0);
    await story.expectRun(0, 'audit');
    story.alter(what);
    for (const more of [[], ['--json'], ['--format', 'csv'], ['--action', 'forget']])
      expect((await story.expectRun(1, 'audit', ...more)).stderr, last.join(' ')).toContain(line);
    expect((await story.expectRun(1, 'verify')).stdout, last.join(' ')).toContain(
      'if the end of the audit log was cut, these rows may be as people left them: compare first with `tidemark verify --root HASH`',
    );
    const { head, warnings } = JSON.parse((await story.run('audit', '--json')).stdout) as {
      readonly head: unknown;
      readonly warnings: readonly string[];
    };
    expect([head, warnings[0]]).toEqual([null, expect.stringContaining(line)]);
    // The entries that are gone may have withdrawn an acceptance, or chosen another baseline.
    const compared = await story.expectRun(drift, 'drift');
    if (drift === 1) expect(compared.stderr).toMatch(/snapshot "(base|later)"/);
  }
}, 60_000);

/** The rows of the runs that sealed the entry say that the log ended before it. */
const HIDE = `DELETE FROM snapshots WHERE name = 'q4'; DELETE FROM audit_log WHERE member = '["q4"]';
  UPDATE runs SET (last_entry, last_entry_hash) = (SELECT entry, hash FROM audit_log ORDER BY entry DESC LIMIT 1) WHERE run = 2`;

it('is not believed of the row of a run that was altered, by no command that reads the log', async () => {
  const story = await Story.start(only('organizations', 'roles'));
  await story.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  await story.expectRun(0, 'snapshots', 'pin', 'q4');
  await story.expectRun(0, 'sync', '--quiet');
  story.alter(HIDE);
  const shows = [['audit'], ['runs'], ['restores'], ['snapshots'], ['drift', 'accepted']];
  for (const command of [
    ...shows,
    ['snapshots', 'baseline'],
    ['drift'],
    ['changes'],
    ['doctor'],
    ['status'],
  ]) {
    const { stdout, stderr } = await story.expectRun(1, ...command, '--json');
    expect(stdout + stderr, command.join(' ')).toContain(
      'the root hash of run 2 does not match what is stored of the run',
    );
  }
}, 120_000);
