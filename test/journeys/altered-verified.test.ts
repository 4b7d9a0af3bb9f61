/** What `tidemark status` says of a mirror that was verified, and that another program altered since. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { alterFile } from '../tools/alter.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

interface StatusJson {
  readonly verified: {
    readonly state: string;
    readonly at: string | null;
    readonly problems: number | null;
    readonly found: readonly string[];
  };
}

/** SQL, and what is said of it. */
const ALTERED: readonly (readonly [sql: string, found: RegExp])[] = [
  [
    `UPDATE acceptances SET accepted_by = 'nobody'`,
    /the acceptance of \/paused .* is not as it was accepted/,
  ],
  [`DELETE FROM acceptances`, /the acceptance of \/paused .* is gone/],
  [
    `UPDATE snapshots SET pinned_by = 'nobody' WHERE name = 'other'`,
    /snapshot "other" is not as it was pinned/,
  ],
  [
    `UPDATE audit_log SET via = 'eve@there' WHERE action = 'unpin'`,
    /altered: entry \d+ of the audit log is not/,
  ],
  [`DELETE FROM audit_log WHERE action = 'unpin'`, /cut: entry \d+ of the audit log is gone/],
  [`UPDATE runs SET requests = 1 WHERE run = 1`, /the row of run 1 is not as it was written/],
];

/** The same without a baseline and an acceptance, where nothing else rests on the log. */
const ALTERED_LOG: typeof ALTERED = [
  [`UPDATE audit_log SET "by" = 'nobody' WHERE action = 'unpin'`, /the audit log was altered: entry 2 of/],
  [`DELETE FROM audit_log WHERE action = 'unpin'`, /the audit log was cut: run 2 has the hash of entry 2/],
];

async function expectSeen(story: Story, altered: typeof ALTERED): Promise<void> {
  await story.expectRun(0, 'verify');
  const { stdout } = await story.expectRun(0, 'status');
  expect(stdout).toMatch(/^ +Verified +Yes /m);
  const whole = await story.expectRun(0, 'status', '--json');
  expect((JSON.parse(whole.stdout) as StatusJson).verified).toMatchObject({
    ...{ state: 'yes', at: expect.any(String) as string, problems: 0, found: [] },
  });
  const file = readFileSync(story.file('mirror.db'));
  for (const [sql, found] of altered) {
    writeFileSync(story.file('mirror.db'), file);
    alterFile(story.file('mirror.db'), sql);
    const text = await story.expectRun(1, 'status');
    expect(text.stdout, sql).toMatch(/^ +Verified +No .*; tidemark verify names what /m);
    expect(text.stdout.split('Needs attention:')[1], sql).toMatch(found);
    expect(text.stderr, sql).toMatch(found);
    expect(text.stderr, sql).toContain('→ `tidemark verify` names ');
    const { verified } = JSON.parse((await story.expectRun(1, 'status', '--json')).stdout) as StatusJson;
    expect(verified, sql).toMatchObject({ state: 'no', problems: 1 });
    expect(verified.found.join('\n'), sql).toMatch(found);
    await story.expectRun(1, 'verify');
  }
}

it('is not called verified where an acceptance, a snapshot, the audit log or the row of a run was altered', async () => {
  const story = await Story.start();
  const id = await story.createExport('Kept');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:2', '--baseline');
  await story.expectRun(0, 'snapshots', 'pin', 'short', 'run:1');
  await story.expectRun(0, 'snapshots', 'unpin', 'short');
  await story.expectRun(0, 'snapshots', 'pin', 'other', 'run:2');
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', id, '--reason', 'agreed');
  await expectSeen(story, ALTERED);
}, 120_000);

it('is not called verified where only the audit log was altered, of which nothing else tells', async () => {
  const story = await Story.start();
  await story.expectRun(0, 'snapshots', 'pin', 'short', 'run:1');
  await story.expectRun(0, 'snapshots', 'unpin', 'short');
  await story.expectRun(0, 'sync', '--quiet');
  await expectSeen(story, ALTERED_LOG);
}, 120_000);
