/** A stored body that is not what was stored: nothing that shows, hands on or rehearses it believes it. */
import Database from 'better-sqlite3';
import { existsSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { KITTIWAKE_ID, TERN_ID } from '../../src/server/seed/demo.ts';
import { Story } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';
import { alterRow } from '../tools/alter.ts';

const ALTER = `UPDATE records SET body = replace(body, ?, ?) WHERE remote_id = ? AND body LIKE '%"created_at"%'`;

function alter(story: Story, ...values: readonly string[]): void {
  alterRow(story.file('mirror.db'), ALTER, ...values);
}

const REFUSED = 'the stored content of 1 record does not match its hash: role';

/** A role as of run 1 and, renamed, of run 2; then the newest body is altered, and with it what the delta to it makes. */
async function damaged(): Promise<{ story: Story; id: string; other: string }> {
  const story = await Story.start();
  const [role, another] = await story.list('roles');
  const [id, other] = [String(role?.['id']), String(another?.['id'])];
  await story.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  await story.call('PATCH', `/api/organizations/${KITTIWAKE_ID}/roles/${id}/`, { name: 'Night' });
  await story.expectRun(0, 'sync', '--quiet');
  alter(story, '"Night"', '"xNight"', id);
  return { story, id, other };
}

it('is refused wherever it would be shown, handed on or rehearsed', async () => {
  const { story, id } = await damaged();
  const commands = [
    ['show', 'roles', id],
    ['show', 'roles', id, '--at', 'run:1'],
    ['log', 'roles', id],
    ['log', 'roles', 'xNight'],
    ['show', 'roles', 'Night'],
    ['log', 'roles', id, '--limit', '1', '--json'],
    ['blame', 'roles', id],
    ['blame', 'roles', id, '--at', 'run:1', '--deep', '--json'],
    ['diff', 'run:1', 'latest'],
    ['diff', 'latest', 'live'],
    ['diff', 'latest', 'live', '--kind', 'roles', '--json'],
    ['drift'],
    ['drift', '--live'],
    ['changes'],
    ['drill', '--kind', 'roles'],
    ...['ndjson', 'json', 'yaml'].map((format) => ['export', '--format', format]),
    ...['csv', 'parquet'].map((format) => ['export', '--kind', 'roles', '--format', format]),
    ['export', '--at', 'run:2', '--kind', 'roles'],
    ['export', '--history', '--kind', 'roles'],
    ['export', '--format', 'csv', '--output', 'tables'],
    ['export', '--format', 'terraform-imports', '--output', 'imports.tf'],
  ];
  for (const command of commands) {
    const { code, stdout, stderr } = await story.run(...command);
    const what = command.join(' ');
    expect(`${stderr}${stdout}`, what).toContain(REFUSED);
    expect(stderr, what).toContain('`tidemark verify` says what is damaged; restore a copy of the file');
    expect(code, what).toBe(1);
  }
  expect(existsSync(story.file('imports.tf'))).toBe(false);
});

it('is found by verify, which names the configuration that it was given in what to do about it', async () => {
  const { story } = await damaged();
  writeFileSync(
    story.file('other.yaml'),
    `mirror: ${story.file('mirror.db')}\nbackup: { targets: [${story.file('.')}] }\n`,
  );
  const { stdout, stderr } = await story.expectRun(1, 'verify', '--config', 'other.yaml');
  const advice = /→ restore a backup \(`tidemark backup restore latest --to \S+ --config other\.yaml`\)/;
  expect(stderr).toMatch(advice);
  expect(stdout).toMatch(advice);
});

it('is said where no record has a name, beside the one that may be meant', async () => {
  const { story, other } = await damaged();
  for (const command of ['show', 'log', 'blame']) {
    const { stderr } = await story.expectRun(4, command, 'roles', 'Zugvogel');
    expect(stderr).toContain('has no role with the id or name "Zugvogel"');
    expect(stderr).toContain(REFUSED);
    expect(stderr).toContain('`tidemark verify` says what is damaged; restore a copy of the file');
  }
  const near = await story.expectRun(4, 'show', 'roles', `${other.slice(0, -1)}0`);
  expect(near.stderr).toContain(`did you mean "${other}"?`);
});

it('is not believed as the name of an organization or project', async () => {
  const story = await Story.start({}, smallDemo);
  const { name } = await story.call('GET', `/api/organizations/${TERN_ID}/`);
  alter(story, JSON.stringify(name), '"Raven"', TERN_ID);
  const refused = 'the stored content of 1 record does not match its hash: organization';
  for (const command of [
    ['export'],
    ['restore', 'run:1'],
    ['diff', 'run:1', 'live'],
    ['show', 'roles', 'x'],
  ]) {
    for (const asked of ['Raven', ...(command[0] === 'export' ? [String(name)] : [])]) {
      const { stderr } = await story.expectRun(1, ...command, '--organization', asked);
      expect(stderr, command.join(' ')).toContain(refused);
      expect(stderr, command.join(' ')).toContain('`tidemark verify` says what is damaged');
    }
  }
});

it('is refused by log and blame also where only an older version is altered, which show does not read', async () => {
  const { story, other: id } = await damaged();
  const run = 1;
  await story.call('PATCH', `/api/organizations/${KITTIWAKE_ID}/roles/${id}/`, { name: 'Second' });
  await story.expectRun(0, 'sync', '--quiet');
  const mirror = new Database(story.file('mirror.db'));
  const body = Buffer.from(JSON.stringify({ id, name: 'Never so' }));
  const { changes } = mirror
    .prepare(
      `UPDATE revisions SET encoding = 3, body = ? WHERE run = ? AND record = (SELECT record FROM records WHERE remote_id = ?)`,
    )
    .run(body, run, id);
  mirror.close();
  expect(changes).toBe(1);
  for (const command of ['log', 'blame']) {
    const { stdout, stderr } = await story.expectRun(1, command, 'roles', id);
    expect(stderr).toContain('does not match its hash: role "Never so"');
    expect(stdout).toBe('');
  }
  await story.expectRun(1, 'show', 'roles', id, '--at', `run:${run}`);
  expect((await story.expectRun(0, 'show', 'roles', id)).stdout).toContain('name: Second');
});

it('outweighs in a status a verification that was made before: what needs a person, and drift unknown, not none', async () => {
  const { story, id } = await damaged();
  alter(story, '"xNight"', '"Night"', id);
  await story.expectRun(0, 'verify');
  expect((await story.run('status')).stdout).toMatch(/^ +Verified +Yes /m);
  alter(story, '"Night"', '"xNight"', id);
  const text = await story.expectRun(1, 'status');
  expect(text.stdout).toMatch(/^One thing needs you\.\n/);
  expect(text.stdout).toMatch(/^ +Verified +No +found damaged now; tidemark verify names what is damaged$/m);
  expect(text.stdout.split('Needs attention:')[1]).toMatch(
    new RegExp(`^\n  \\S+ is damaged: ${REFUSED}.*\n    → \`tidemark verify\` names .*restore a copy`),
  );
  expect(text.stdout.replaceAll(/\s+/g, ' ')).toMatch(
    new RegExp(`Drift Unknown \\S+ is damaged: ${REFUSED}`),
  );
  const doctor = await story.expectRun(1, 'doctor');
  expect(doctor.stdout).toMatch(new RegExp(`is damaged: ${REFUSED}`));
  expect(doctor.stdout).not.toContain('sound (quick check)');
  const json = await story.run('status', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({
    sources: [
      { drift: { open: null, severities: null, unknown: expect.stringContaining(REFUSED) as string } },
    ],
  });
  // Once it is verified again, its problems are what is shown.
  await story.expectRun(1, 'verify');
  expect((await story.run('status')).stdout).toMatch(/^ +Verified +\d+ problems? +found /m);
});

it('stands in the way of nothing else', async () => {
  const { story, other } = await damaged();
  for (const command of [
    ['diff', 'run:1', 'latest', '--kind', 'batch_exports'],
    ['diff', 'latest', 'live', '--kind', 'roles', '--id', other],
    ['export', '--kind', 'domains'],
    ['export', '--kind', 'roles', '--at', 'run:1', '--id', other],
    ['log', 'roles', other],
    ['sync', '--quiet'],
  ])
    await story.expectRun(0, ...command);
});

/** A baseline, then a role renamed; then the role's row is deleted. */
async function deleted(): Promise<{ story: Story; id: string; removed: string }> {
  const story = await Story.start({}, smallDemo);
  const [role] = await story.list('roles');
  const id = String(role?.['id']);
  const roles = `/api/organizations/${KITTIWAKE_ID}/roles/`;
  const gone = await story.call('POST', roles, { name: 'Gone' });
  const removed = String((gone as { id?: unknown }).id);
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${roles}${removed}/`);
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:1', '--baseline');
  await story.call('PATCH', `${roles}${id}/`, { name: 'Night' });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(2, 'drift', '--kind', 'roles');
  const mirror = new Database(story.file('mirror.db'));
  mirror.prepare('DELETE FROM records WHERE remote_id = ?').run(id);
  mirror.close();
  return { story, id, removed };
}

it.each([
  [
    'what the latest run saw',
    `UPDATE field_shapes SET records = records - 1 WHERE kind = 'roles' AND records > 0`,
    0,
  ],
  // Nothing proves the other kinds any more.
  ['the counts of fields', `UPDATE sweeps SET unchanged = 0, changed = 0, added = 0`, 1],
] as const)(
  'so it is where the count of its collection was lowered with it, by %s',
  async (_what, hidden, other) => {
    const { story, id } = await deleted();
    const mirror = new Database(story.file('mirror.db'));
    mirror
      .prepare(`UPDATE collections SET records = records - 1 WHERE kind = 'roles' AND scope LIKE ?`)
      .run(`%${KITTIWAKE_ID}%`);
    mirror.exec(hidden);
    mirror.close();
    for (const command of [
      ['drift'],
      ['drift', '--live', '--kind', 'roles'],
      ['diff', 'run:1', 'latest'],
      ['changes'],
      ['export', '--kind', 'roles'],
      ['export', '--at', 'run:1', '--kind', 'roles'],
      ['restore', 'run:1', '--kind', 'roles'],
      ['log', 'roles', id],
    ]) {
      const { code, stdout, stderr } = await story.run(...command);
      expect(stderr + stdout, command.join(' ')).toMatch(
        /is damaged: \d+ records? of roles are counted, \d+ could be/,
      );
      expect(code, command.join(' ')).toBe(1);
    }
    await story.expectRun(other, 'drift', '--kind', 'domains');
  },
);

it('a record that was deleted is damage, not the absence of a difference', async () => {
  const { story, id, removed } = await deleted();
  const [project] = await story.list('projects');
  for (const command of [
    ['drift'],
    ['drift', '--kind', 'roles', '--json'],
    ['drift', '--kind', 'roles', '--severity', 'critical'],
    ['drift', '--live', '--kind', 'roles'],
    ['diff', 'run:1', 'latest'],
    ['diff', 'latest', 'live', '--kind', 'roles'],
    ['changes'],
    ['changes', '--kind', 'roles', '--json'],
    ['changes', '--organization', KITTIWAKE_ID],
    ['runs', 'show', '2'],
    ['runs', 'show', '2', '--json'],
    ['export', '--kind', 'roles'],
    ['restore', 'run:1', '--kind', 'roles'],
    ['show', 'roles', id],
    ['log', 'roles', 'Night'],
    ['blame', 'roles', id, '--json'],
    // It may have been created again: under its name only the removed one is left.
    ['show', 'roles', removed],
    ['log', 'roles', 'Gone'],
  ]) {
    const { code, stdout, stderr } = await story.run(...command);
    const what = command.join(' ');
    expect(`${stderr}${stdout}`, what).toMatch(
      /is damaged: \d+ records? (of roles )?are counted, \d+ could be read/,
    );
    expect(code, what).toBe(1);
  }
  for (const command of [
    ['diff', 'run:1', 'latest', '--kind', 'domains'],
    ['changes', '--kind', 'domains'],
    ['changes', '--organization', TERN_ID],
    ['changes', '--project', String(project?.['id'])],
  ])
    expect((await story.expectRun(0, ...command)).stderr).not.toContain('verification');
  // It is among what the first run changed.
  expect((await story.expectRun(1, 'runs', 'show', '1')).stderr).toContain('the changes of run 1');
  await story.expectRun(1, 'verify');
  const warned = /^tidemark: the last verification \(.*\) found \d+ problems? in .*mirror\.db: /m;
  for (const [code, ...command] of [
    [1, 'drift'],
    [0, 'drift', '--kind', 'domains', '--json'],
    [0, 'diff', 'run:1', 'latest', '--kind', 'domains', '--json'],
    [0, 'changes', '--kind', 'domains', '--json'],
    // What run 1 sealed of all kinds is in doubt, and an export is of all that it sealed.
    [1, 'export', '--kind', 'domains'],
  ] as const) {
    const { stdout, stderr } = await story.expectRun(code, ...command);
    expect(stderr, command.join(' ')).toMatch(warned);
    expect(stdout, command.join(' ')).not.toContain('the last verification');
  }
  const { code, stderr } = await story.run('sync', '--quiet');
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(/another program changed [^ ]+: it had (\d+) records of roles, and has \d+;/),
  ]);
});
