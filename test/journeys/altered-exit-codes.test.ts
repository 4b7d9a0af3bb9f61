/** docs/security.md, What each command checks: each command of that table with rows that another program altered. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const ALTERATIONS = {
  run: `UPDATE runs SET "trigger" = 'command of eve@x' WHERE run = 4`,
  restore: `UPDATE restores SET started_by = 'nobody'`,
  'entry of a restore': `UPDATE audit_log SET via = 'eve@there' WHERE action = 'restore'`,
  snapshot: `UPDATE snapshots SET pinned_by = 'nobody'`,
  acceptance: `UPDATE acceptances SET accepted_by = 'nobody'`,
  record: `UPDATE records SET body = replace(body, '"Kept"', '"Kepd"') WHERE body LIKE '%"Kept"%'`,
  version: `UPDATE revisions SET run = 99 WHERE run = 2 AND record IN (SELECT record FROM records WHERE body LIKE '%"Kept"%')`,
} as const;
type Alteration = keyof typeof ALTERATIONS;

const ALL = Object.keys(ALTERATIONS) as Alteration[];
const ENTRY = 'entry of a restore';
const KEPT = ['batch_exports', 'KEPT'];

/** By the command in the table: how it is run, and what it is to find. */
const CASES: Readonly<Record<string, readonly [readonly string[], readonly Alteration[]]>> = {
  verify: [['verify'], ALL],
  audit: [['audit'], [ENTRY]],
  runs: [['runs'], ['run']],
  'runs show': [
    ['runs', 'show', '4'],
    ['run', 'restore', ENTRY, 'record', 'version'],
  ],
  restores: [['restores'], ['restore', ENTRY]],
  'restores show': [
    ['restores', 'show', '1'],
    ['restore', ENTRY],
  ],
  undo: [
    ['undo', '1'],
    ['restore', ENTRY],
  ],
  'undo --apply': [['undo', '1', '--apply', '--yes'], ['restore']],
  snapshots: [['snapshots'], ['snapshot', ENTRY]],
  'snapshots baseline': [
    ['snapshots', 'baseline'],
    ['snapshot', ENTRY],
  ],
  'drift accepted': [
    ['drift', 'accepted'],
    ['acceptance', ENTRY],
  ],
  'drift with an altered acceptance': [['drift'], ['acceptance']],
  drift: [['drift'], ['snapshot', ENTRY, 'record', 'version']],
  show: [
    ['show', ...KEPT],
    ['run', 'record', 'version'],
  ],
  log: [
    ['log', ...KEPT],
    ['run', 'restore', ENTRY, 'record', 'version'],
  ],
  blame: [
    ['blame', ...KEPT],
    ['run', 'restore', ENTRY, 'record', 'version'],
  ],
  changes: [['changes'], ['run', 'restore', ENTRY, 'record', 'version']],
  export: [
    ['export', '--kind', 'batch_exports'],
    ['record', 'version'],
  ],
  'export --history': [
    ['export', '--history', '--kind', 'batch_exports'],
    ['run', 'record', 'version'],
  ],
  diff: [
    ['diff', 'run:2', 'latest'],
    ['record', 'version'],
  ],
  restore: [
    ['restore', 'run:2'],
    ['record', 'version'],
  ],
  forget: [
    ['forget', '--keep-last', '1'],
    ['run', ENTRY, 'version'],
  ],
  doctor: [['doctor'], ['run', 'restore', 'acceptance', 'snapshot', ENTRY]],
  status: [['status'], ALL.filter((each) => each !== 'restore')],
};

/** A record that no run changed since it was created, by the commands that read it or not (the text below the table). */
const ALTER_STILL = `UPDATE records SET body = replace(body, '"Still"', '"Stil"') WHERE body LIKE '%"Still"%'`;
const STILL = ['batch_exports', 'STILL'];
const UNCHANGED: Readonly<Record<'seen' | 'unseen', readonly (readonly string[])[]>> = {
  seen: [
    ['verify'],
    ...['show', 'log', 'blame'].map((command) => [command, ...STILL]),
    ['export'],
    ['restore', 'run:2'],
    ['diff', 'latest', 'live'],
    ['diff', 'file:whole.json', 'latest'],
    ['drift', '--live'],
  ],
  unseen: [['diff', 'run:2', 'latest'], ['drift'], ['status']],
};

/** A version that none of the runs in question made, moved behind them: a record less would be counted before it. */
const MOVE_VERSION = `UPDATE revisions SET run = 99 WHERE run = 2 AND record IN (SELECT record FROM records WHERE body LIKE '%"Other"%')`;
const COUNTING = [
  ['runs', 'show', '4'],
  ['diff', 'run:3', 'run:4'],
  ['diff', 'run:4', 'run:3'],
  ['diff', 'run:3', 'run:4', '--kind', 'batch_exports'],
  ['changes', '--kind', 'batch_exports'],
  ['export'],
  ['restore', 'run:3'],
  ['drift', '--from', 'run:3'],
];

/** What a version says of the one before it, which no root covers, and what reads it. */
const REDIRECTED: readonly (readonly [sql: string, commands: readonly (readonly string[])[]])[] = [
  [
    `UPDATE records SET previous = previous + 1 WHERE body LIKE '%"Kept"%'`,
    [['diff', 'run:3', 'latest'], ['changes'], ['verify']],
  ],
  [
    `UPDATE revisions SET previous = previous + 1 WHERE previous IS NOT NULL`,
    [
      ['diff', 'run:2', 'latest'],
      ['drift', '--from', 'run:2'],
      ['changes'],
      ['runs', 'show', '3'],
      ['verify'],
    ],
  ],
];

/** A run of a record that is a text, which is after all numbers: the run that it was lacks the record. */
const TEXT_AS_RUN = `UPDATE records SET run = '{' WHERE body LIKE '%"Still"%'`;

/** Changes the service, so that its unaltered mirror comes last. */
const SENDING = 'undo --apply';

/** The exit codes with a mirror that nobody altered, where they are not 0: a plan, a difference. */
const OF_WHOLE: Readonly<Record<string, number>> = { undo: 2, diff: 2, restore: 2 };

/** What `status` says of an alteration; it does not look at the rows of restores. */
const NAMED: Readonly<Partial<Record<Alteration, RegExp>>> = {
  run: /the row of run 4 is not as it was written when the run ended/,
  [ENTRY]: /rests on a log that was altered: entry \d+ of the audit log is not as it was written/,
  snapshot: /snapshot "base" is not as it was pinned/,
  acceptance: /the acceptance of \/paused of default .* is not as it was accepted/,
  version: /is damaged: run 99 made revisions, but its row is gone/,
  record: /is damaged: the stored content of 1 record does not match its hash: batch export "Kepd"/,
};

/** The exit code of each command, as the table has it. */
function documented(): Map<string, number> {
  const path = fileURLToPath(new URL('../../docs/security.md', import.meta.url));
  const [, section = ''] = readFileSync(path, 'utf8').split('### What each command checks\n');
  const [table = ''] = /(?:^\|.*\n)+/m.exec(section) ?? [];
  return new Map(
    table
      .split('\n')
      .slice(2, -1)
      .flatMap((row) => {
        const [, commands = '', , code = ''] = row.split('|');
        const more = commands
          .replaceAll(/`[^`]*`/g, '')
          .replaceAll(',', '')
          .trim();
        return [...commands.matchAll(/`([^`]+)`/g)].map(([, command = '']): [string, number] => [
          `${command}${more === '' ? '' : ` ${more}`}`,
          Number.parseInt(code, 10),
        ]);
      }),
  );
}

it('give the exit codes that the documentation has', async () => {
  const codes = documented();
  expect([...codes.keys()].toSorted()).toEqual(Object.keys(CASES).toSorted());
  const story = await Story.start();
  const [kept, other, still] = [
    await story.createExport('Kept'),
    await story.createExport('Other'),
    await story.createExport('Still'),
  ];
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:2', '--baseline');
  for (const id of [kept, other])
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', other, '--reason', 'agreed');
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports', '--id', kept);
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift');
  const whole = readFileSync(story.file('mirror.db'));
  const found: string[] = [];
  const ids: Readonly<Record<string, string>> = { KEPT: kept, STILL: still };
  const run = (args: readonly string[]) => story.run(...args.map((arg) => ids[arg] ?? arg));
  const wholeCode = async (command: string): Promise<number | null> => {
    writeFileSync(story.file('mirror.db'), whole);
    return (await run(CASES[command]?.[0] ?? [])).code;
  };
  for (const [command, [args, alterations]] of Object.entries(CASES)) {
    if (command !== SENDING) expect(await wholeCode(command), command).toBe(OF_WHOLE[command] ?? 0);
    for (const alteration of alterations) {
      writeFileSync(story.file('mirror.db'), whole);
      const file = new Database(story.file('mirror.db'));
      const { changes } = file.prepare(ALTERATIONS[alteration]).run();
      file.close();
      expect(changes, alteration).toBeGreaterThan(0);
      const { code, stdout, stderr } = await run(args);
      if (code !== codes.get(command))
        found.push(`${command}, ${alteration}: ${code}\n${stderr}${stdout}`.slice(0, 600));
      const named = command === 'status' ? NAMED[alteration] : undefined;
      if (named !== undefined) expect(stdout.split('Needs attention:')[1], alteration).toMatch(named);
    }
  }
  await wholeCode('runs');
  writeFileSync(story.file('whole.json'), (await run(['export', '--format', 'json'])).stdout);
  for (const [how, commands] of Object.entries(UNCHANGED)) {
    for (const args of commands) {
      writeFileSync(story.file('mirror.db'), whole);
      const before = await run(args);
      const file = new Database(story.file('mirror.db'));
      expect(file.prepare(ALTER_STILL).run().changes).toBe(1);
      file.close();
      const { code, stdout, stderr } = await run(args);
      if (code !== (how === 'seen' ? 1 : before.code) || before.code === 1)
        found.push(`${args.join(' ')}, ${how}: ${code}\n${stderr}${stdout}`.slice(0, 600));
    }
  }
  for (const args of COUNTING) {
    writeFileSync(story.file('mirror.db'), whole);
    expect((await run(args)).code, args.join(' ')).not.toBe(1);
    const file = new Database(story.file('mirror.db'));
    expect(file.prepare(MOVE_VERSION).run().changes).toBe(1);
    file.close();
    const { code, stdout, stderr } = await run(args);
    if (code !== 1 || !/run 99 made revisions|of run 2, .* do not match its root hash/.test(stderr + stdout))
      found.push(`${args.join(' ')}, version moved: ${code}\n${stderr}${stdout}`.slice(0, 600));
  }
  for (const [sql, commands] of REDIRECTED)
    for (const args of commands) {
      await wholeCode('runs');
      const file = new Database(story.file('mirror.db'));
      expect(file.prepare(sql).run().changes, sql).toBeGreaterThan(0);
      file.close();
      const { code, stdout, stderr } = await run(args);
      if (code !== 1) found.push(`${args.join(' ')}, ${sql}: ${code}\n${stderr}${stdout}`.slice(0, 600));
    }
  await wholeCode('runs');
  const damaged = new Database(story.file('mirror.db'));
  expect(damaged.prepare(TEXT_AS_RUN).run().changes).toBe(1);
  damaged.close();
  for (const args of [['runs', 'show', '2'], ['runs', 'show', '2', '--json'], ['changes'], ['verify']])
    if ((await run(args)).code !== 1) found.push(`${args.join(' ')}, a text as the run`);
  expect((await run(['runs', 'show', '2'])).stderr).toContain('altered: the changes of run 2');
  expect(await wholeCode(SENDING), SENDING).toBe(0);
  expect(found).toEqual([]);
}, 300_000);
