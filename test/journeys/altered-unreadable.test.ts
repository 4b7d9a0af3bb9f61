/** Values that another program made unreadable in one row: the lists are shown even so, with a warning. */
import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const LIST: readonly string[] = ['restores'];
const SHOWN: readonly string[] = ['restores', 'show', '1'];
const UNDO: readonly string[] = ['undo', '1'];

/** The alteration, the commands that show the rest with exit code 1, what each prints of it, and those that refuse. */
const CASES: readonly (readonly [
  sql: string,
  shown: readonly (readonly [command: readonly string[], text: string])[],
  refused: readonly (readonly string[])[],
])[] = [
  ...[`''`, `'{'`, `replace(plan, '{', '[')`, `x'00ff'`].map(
    (plan) =>
      [
        `UPDATE restores SET plan = ${plan}`,
        [
          [LIST, 'complete'],
          [SHOWN, 'its plan is not readable'],
          [SHOWN, 'tidemark restore run:N'],
          [['changes'], 'Gone A'],
          [['runs', 'show', '3'], 'Gone A'],
        ],
        [UNDO],
      ] as const,
  ),
  ...['inverse', 'differences'].map(
    (column) =>
      [
        `UPDATE restore_steps SET ${column} = '{' WHERE step = 1`,
        [
          [LIST, 'complete'],
          [SHOWN, 'Gone B'],
        ],
        column === 'inverse' ? [UNDO] : [],
      ] as const,
  ),
  [`UPDATE restores SET plan = '{', outcome = 'interrupted'`, [], [['restore', '--resume', '1']]],
  [
    `UPDATE restores SET approved = '{'`,
    [
      [LIST, 'complete'],
      [SHOWN, 'Gone B'],
    ],
    [],
  ],
  [
    `UPDATE restores SET started_at = 'noon'`,
    [
      [LIST, 'noon'],
      [SHOWN, 'Gone B'],
    ],
    [],
  ],
  ...['noon', ''].map(
    (time) =>
      [
        `UPDATE runs SET started_at = '${time}' WHERE run = 3`,
        [
          [['runs'], 'complete'],
          [['runs', 'show', '3'], 'complete'],
        ],
        [],
      ] as const,
  ),
  [`UPDATE acceptances SET accepted_at = 'noon'`, [[['drift', 'accepted'], 'noon']], []],
  [`UPDATE acceptances SET until = 'noon'`, [[['drift', 'accepted'], 'noon']], []],
  ...[
    ...[`kind = 'nothing'`, `kind = x'00ff'`, `scope = '{'`, `scope = 'null'`, `scope = '[]'`],
    ...[`remote_id = CAST(remote_id AS BLOB)`, `reason = x'00ff'`, `until = x'00ff'`],
    ...[
      `scope = '{"organization_id":7}'`,
      `scope = replace(scope, ':', ': ')`,
      `path = 'paused'`,
      `path = x'00ff'`,
    ],
  ].map(
    (value) =>
      [
        `UPDATE acceptances SET ${value} WHERE reason = 'agreed'`,
        [[['drift', 'accepted'], 'also agreed']],
        [],
      ] as const,
  ),
  ...['source', 'started_by'].map(
    (column) =>
      [
        `UPDATE restores SET ${column} = x'00ff'`,
        [
          [LIST, 'complete'],
          [['runs', 'show', '3'], 'complete'],
        ],
        [],
      ] as const,
  ),
  [`UPDATE runs SET "trigger" = x'00ff' WHERE run = 3`, [[['runs'], 'complete']], []],
  [`UPDATE row_seals SET member = '{' WHERE member = '[3]'`, [[['runs'], 'complete']], []],
  [`UPDATE snapshots SET pinned_by = x'00ff'`, [[['snapshots'], 'base']], []],
  ...[`run = x'00ff'`, `run = 'noon'`, `name = x'00ff'`].map(
    (value) =>
      [
        `UPDATE snapshots SET ${value}`,
        [
          [['snapshots'], 'baseline'],
          [['snapshots', 'baseline'], 'baseline'],
        ],
        [],
      ] as const,
  ),
  [`UPDATE snapshots SET pinned_at = 'noon'`, [[['snapshots'], 'noon']], []],
  ...[`"row" = '{'`, `"row" = '7'`, `member = '{'`, `at = 'noon'`].map(
    (value) => [`UPDATE audit_log SET ${value} WHERE entry = 5`, [[['audit'], 'ALTERED']], []] as const,
  ),
];

it('a value that cannot be read does not take away the list that it is in', async () => {
  const story = await Story.start();
  const [first, second, other, third] = [
    ...[await story.createExport('Gone A'), await story.createExport('Gone B')],
    ...[await story.createExport('Other'), await story.createExport('Third')],
  ] as const;
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:2', '--baseline');
  for (const id of [first, second]) await story.call('DELETE', `${ORGANIZATION}batch_exports/${id}/`);
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
  for (const id of [other, third])
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', other, '--reason', 'agreed');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', third, '--reason', 'also agreed');
  const whole = readFileSync(story.file('mirror.db'));
  const found: string[] = [];
  for (const [sql, shown, refused] of CASES) {
    writeFileSync(story.file('mirror.db'), whole);
    const file = new Database(story.file('mirror.db'));
    expect(file.prepare(sql).run().changes, sql).toBeGreaterThan(0);
    file.close();
    for (const [command, text] of shown) {
      const { code, stdout, stderr } = await story.run(...command);
      const isOffered =
        command === SHOWN && sql.includes('SET plan') && /tidemark undo|--resume/.test(stdout);
      if (
        code !== 1 ||
        !stdout.includes(text) ||
        isOffered ||
        /defect|file is not a plan|NaN|is not a function|\[object/.test(stderr)
      )
        found.push(`${sql}: ${command.join(' ')}: ${code}\n${stdout.slice(0, 300)}${stderr.slice(0, 600)}`);
      const json = await story.run(...command, '--json');
      if (
        json.code !== 1 ||
        !json.stdout.startsWith('{') ||
        !/"(?:warnings":\["|contradiction":")/.test(json.stdout) ||
        /\[object|"Buffer"/.test(json.stdout)
      )
        found.push(
          `${sql}: ${command.join(' ')} --json: ${json.code}\n${json.stdout.slice(0, 300)}${json.stderr.slice(0, 300)}`,
        );
    }
    // What drift is measured from cannot be read: the rest of the status is shown, and drift names the state that the log has.
    if (/snapshots SET (?:run|name)/.test(sql)) {
      for (const [code, ...command] of [
        [1, 'status'],
        [1, 'status', '--json'],
        [1, 'drift'],
        [1, 'drift', '--json'],
      ] as const) {
        const { stdout, stderr } = await story.expectRun(code, ...command);
        if (!/the baseline cannot be used/.test(stdout + stderr) || /\[object|Buffer/.test(stdout + stderr))
          found.push(`${sql}: ${command.join(' ')}\n${stdout}${stderr}`);
      }
    }
    for (const command of refused) {
      const { code, stderr } = await story.run(...command);
      if (code !== 1 || !stderr.includes('restore 1') || /defect/.test(stderr))
        found.push(`${sql}: ${command.join(' ')}: ${code}\n${stderr.slice(0, 600)}`);
    }
  }
  expect(found.join('\n\n')).toBe('');
}, 300_000);

/** Every row of a place that another program wrote: one in another notation would be a second one of the same place. */
it('an acceptance that another program inserted does not count, however its place is written', async () => {
  const story = await Story.start();
  const id = await story.createExport('Kept');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:2', '--baseline');
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', id, '--reason', 'agreed');
  const kept = new Database(story.file('mirror.db'), { readonly: true });
  const row = kept.prepare<[], Record<string, string>>('SELECT * FROM acceptances').get() ?? {};
  kept.close();
  await story.expectRun(0, 'drift', 'unaccept', 'batch_exports', id);
  await story.expectRun(2, 'drift');
  const whole = readFileSync(story.file('mirror.db'));
  for (const place of [{}, { scope: row['scope']?.replace(':', ': ') }, { remote_id: Buffer.from(id) }]) {
    writeFileSync(story.file('mirror.db'), whole);
    const file = new Database(story.file('mirror.db'));
    const values: unknown[] = Object.values({ ...row, ...place });
    file.prepare(`INSERT INTO acceptances VALUES (${values.map(() => '?').join(', ')})`).run(...values);
    file.close();
    await story.expectRun(2, 'drift');
    await story.expectRun(1, 'drift', 'accepted');
    await story.expectRun(1, 'doctor');
  }
});
