/** What may stand where the cursor is: from the table, the configuration and the mirror; and silence about all else. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { completionOf } from '../../src/cli/completion/completion-of.ts';
import { unquoted } from '../../src/cli/completion/completion-of.ts';
import { namedCommands } from '../../src/cli/command-row.ts';
import { commandLine } from '../journeys/command-line.ts';
import { scratch, tidemark } from '../journeys/harness.ts';
import { ORG, open, sync } from '../mirror/fixture.ts';

const nowhere = { env: {}, cwd: '/nonexistent', isQuoted: false, isLate: () => false };

async function values(words: readonly string[], more: Partial<Parameters<typeof completionOf>[0]> = {}) {
  const { candidates } = await completionOf({ ...nowhere, ...more, words }, COMMANDS);
  return candidates.map(({ value }) => value);
}

describe('from the table', () => {
  const visible = COMMANDS.filter(({ isHidden }) => isHidden !== true).map(({ name }) => name);

  it.each<[string, string[], string[]]>([
    ['commands', [''], [...visible, 'help']],
    ['one command', ['statu'], ['status']],
    ['commands of a family', ['config', ''], ['check', 'schema', 'help']],
    ['the commands that help is about', ['help', 'dri'], ['drift', 'drill']],
    ['commands of a command', ['drift', 'acc'], ['accept', 'accepted']],
    ['nothing behind an argument that is none', ['status', ''], []],
    ['options', ['sync', '--f'], ['--full']],
    ['options of the program', ['--vers'], ['--version']],
    ['options of every command', ['catalog', '--js'], ['--json']],
    ['an option that may be given again', ['sync', '--kind', 'roles', '--ki'], ['--kind']],
    ['none that may not', ['sync', '--full', '--fu'], []],
    ['options between arguments', ['drift', 'accept', 'roles', '--rea'], ['--reason']],
    ['none after --', ['show', '--', '--at'], []],
    ['kinds of an argument', ['show', 'rol'], ['roles', 'role_memberships']],
    ['kinds of an option', ['diff', '--kind', 'dom'], ['domains']],
    ['kinds after =', ['diff', '--kind=dom'], ['--kind=domains']],
    ['choices', ['diff', '--format', 's'], ['sarif']],
    ['choices after =', ['diff', '--format=s'], ['--format=sarif']],
    ['choices of an argument', ['completion', ''], ['bash', 'zsh', 'fish']],
    ['references', ['diff', ''], ['latest', 'live', 'baseline', 'file:']],
    ['references that a plan can start from', ['restore', 'l'], ['latest']],
    ['references that the mirror holds', ['show', 'roles', 'r1', '--at', ''], ['latest', 'baseline']],
    ['both of two', ['diff', 'latest', 'li'], ['live']],
    ['no third', ['diff', 'latest', 'live', ''], []],
    ['an option value that may be left out', ['restore', '--resume', '--ap'], ['--apply']],
    ['nothing that only the user knows', ['snapshots', 'pin', ''], []],
    [
      'permissions',
      ['sandbox', '--permission', 'batch_export:'],
      ['batch_export:read', 'batch_export:write'],
    ],
    ['profiles', ['init', '--profile', 'p'], ['posthog']],
    ['an option that there is not', ['sync', '--nothing=x'], []],
    ['after an option that there is not', ['sync', '--nothing', '--ful'], ['--full']],
  ])('%s', async (_what, words, expected) => {
    expect(new Set(await values(words))).toEqual(new Set(expected));
  });

  it('every kind, with its title', async () => {
    const { candidates } = await completionOf({ ...nowhere, words: ['log', ''] }, COMMANDS);
    expect(candidates.map(({ value }) => value).toSorted()).toEqual([...KINDS].toSorted());
    expect(candidates).toContainEqual({ value: 'batch_exports', description: 'batch exports' });
  });

  it.each<[string[], unknown]>([
    [['apply', ''], { what: 'files', before: '' }],
    [['--config', 'x'], { what: 'files', before: '' }],
    [['diff', '--output=rep'], { what: 'files', before: '--output=' }],
    [['export', '--output', ''], { what: 'files', before: '' }],
    [['demo', '--output', ''], { what: 'directories', before: '' }],
    [['diff', 'file:ba'], { what: 'files', before: 'file:' }],
    [['drift', '--from=file:ba'], { what: 'files', before: '--from=file:' }],
    [['show', 'roles', 'r1', '--at', 'file:x'], null],
    [['sync', ''], null],
  ])('%j takes paths: %j', async (words, paths) => {
    const found = await completionOf({ ...nowhere, words }, COMMANDS);
    expect(found.paths).toEqual(paths);
  });

  it('every command and option of the table, wherever it stands', async () => {
    for (const { name, row } of namedCommands(COMMANDS)) {
      const path = name.split(' ').slice(1);
      expect(await values(path), name).toContain(path.at(-1));
      for (const { flags } of row.options ?? []) {
        const flag = flags.split(' ')[0] ?? '';
        expect(await values([...path, flag]), name).toContain(flag);
      }
    }
  });

  it('never fails, whatever stands on the line', async () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom('--', '-', '--kind', '--kind=', 'drift', 'accept', '--resume', 'help', "'", '"', '\\'),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(word, { maxLength: 6 }), fc.boolean(), async (words, isQuoted) => {
        const { candidates } = await completionOf({ ...nowhere, words, isQuoted }, COMMANDS);
        const typed = isQuoted ? unquoted(words.at(-1) ?? '') : (words.at(-1) ?? '');
        return candidates.every(({ value }) => value.startsWith(typed));
      }),
    );
  });
});

describe('what a word means without its quotes', () => {
  it.each([
    ['plain', 'plain'],
    ['"two words"', 'two words'],
    ["'it is'", 'it is'],
    ['two\\ words', 'two words'],
    ['"open', 'open'],
    ["'a\\b'", 'a\\b'],
    ['"a\\b\\"c"', 'a\\b"c'],
    ['a"b c"d', 'ab cd'],
    ['$(rm -rf ~)', '$(rm -rf ~)'],
    ['end\\', 'end'],
  ])('%s', (typed, meant) => {
    expect(unquoted(typed)).toBe(meant);
  });
});

/** Two runs, two snapshots, and a configuration of two sources beside them. */
async function machine() {
  const mirror = open();
  for (const name of ['One', 'Two']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
  mirror.snapshots.pin('approved', 1);
  mirror.snapshots.pin('before-migration', 2);
  mirror.snapshots.setBaseline('approved');
  mirror.close();
  const directory = scratch();
  const lines = [
    `mirror: ${mirror.path}`,
    'sources:',
    '  - { name: production, baseUrl: "https://svc.example.com", apiKey: "${NOT_SET}" }',
    '  - { name: staging, baseUrl: "https://staging.example.com" }',
    'schedules: { sync: { cron: "0 * * * *" }, drill: { cron: "off" } }',
    'notices: [{ name: ops, type: slack, url: "${SLACK_URL}" }]',
  ];
  writeFileSync(join(directory, 'tidemark.yaml'), `${lines.join('\n')}\n`);
  return { directory, mirror: mirror.path };
}

describe('from this machine', () => {
  it('knows runs, snapshots, sources and schedules, without a key', async () => {
    const { directory } = await machine();
    const at = { cwd: directory };
    expect(await values(['diff', 'run:'], at)).toEqual(['run:2', 'run:1']);
    expect(await values(['diff', 'snapshot:'], at)).toEqual([
      'snapshot:approved',
      'snapshot:before-migration',
    ]);
    expect(await values(['diff', 'latest', 'snap'], at)).toHaveLength(2);
    expect(await values(['drift', '--from=run:2'], at)).toEqual(['--from=run:2']);
    expect(await values(['runs', 'show', ''], at)).toEqual(['2', '1']);
    expect(await values(['snapshots', 'unpin', 'a'], at)).toEqual(['approved']);
    expect(await values(['snapshots', 'pin', ''], at)).toEqual([]);
    expect(await values(['--source', ''], at)).toEqual(['production', 'staging']);
    expect(await values(['diff', '--source', 'staging', '--to-source', 'p'], at)).toEqual(['production']);
    expect(await values(['--source', 'staging', 'runs', 'show', ''], at)).toEqual([]);
    expect(await values(['undo', ''], at)).toEqual([]);
    const { candidates } = await completionOf({ ...nowhere, ...at, words: ['diff', 'snapshot:a'] }, COMMANDS);
    expect(candidates).toEqual([{ value: 'snapshot:approved', description: 'run 1, the baseline' }]);
  });

  it('takes --config from the line, with ~ and quotes', async () => {
    const { directory } = await machine();
    for (const config of [join(directory, 'tidemark.yaml'), '~/tidemark.yaml', '"~/tidemark.yaml"']) {
      const more = { env: { HOME: directory }, isQuoted: true };
      expect(await values(['--config', config, '--source', ''], more)).toEqual(['production', 'staging']);
      expect(await values([`--config=${config}`, 'runs', 'show', ''], more)).toHaveLength(2);
    }
  });

  it('reads nothing more when it is late', async () => {
    const { directory } = await machine();
    expect(await values(['diff', 'run:'], { cwd: directory, isLate: () => true })).toEqual([]);
  });

  it('leaves a mirror as it is: one that is older is not upgraded', async () => {
    const { directory, mirror } = await machine();
    const { default: Database } = await import('better-sqlite3');
    const database = new Database(mirror);
    database.pragma('user_version = 0');
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    const before = readFileSync(mirror);
    expect(await values(['diff', 'run:'], { cwd: directory })).toEqual([]);
    expect(readFileSync(mirror).equals(before)).toBe(true);
  });
});

describe('silence', () => {
  it.each<[string, (directory: string) => void]>([
    ['no configuration', () => undefined],
    ['one that is broken', (directory) => writeFileSync(join(directory, 'tidemark.yaml'), 'sources: [')],
    [
      'a mirror that is none',
      (directory) => writeFileSync(join(directory, 'data', 'mirror.db'), 'not a database'),
    ],
    ['a mirror that is a directory', (directory) => mkdirSync(join(directory, 'data', 'mirror.db'))],
  ])('%s', async (_what, spoil) => {
    const directory = scratch();
    mkdirSync(join(directory, 'data'));
    spoil(directory);
    const found = await commandLine(['__complete', '--', 'runs', 'show', ''], { env: {}, cwd: directory });
    expect(found).toEqual({ code: 0, stdout: '', stderr: '' });
    const references = await commandLine(['__complete', '--', 'diff', 'la'], { env: {}, cwd: directory });
    expect(references.stdout).toBe('latest\tas of the latest run\n');
  });

  it('makes no mirror', async () => {
    const directory = scratch();
    await commandLine(['__complete', '--', 'runs', 'show', ''], { env: {}, cwd: directory });
    expect(statSync(join(directory, 'data'), { throwIfNoEntry: false })).toBeUndefined();
  });
});

it('answers the scripts with a line for each, and where paths may stand', async () => {
  const directory = scratch();
  const run = (...args: string[]) => commandLine(['__complete', ...args], { env: {}, cwd: directory });
  expect((await run('--shell', 'bash', '--', 'completion', 'z')).stdout).toBe('zsh\t\n');
  expect((await run('--', 'diff', '--output=')).stdout).toBe(':files\t--output=\n');
  expect((await run('--shell', 'bash', '--', 'diff', '"li')).stdout).toBe('live\tthe service now\n');
  expect((await run('--', '--json', '--kind', '--help', '')).code).toBe(0);
  expect((await run('--shell', 'zsh', '--', '--vers')).stdout).toBe('--version\tprint the version\n');
});

it('prints a script for each shell, and knows no other', async () => {
  for (const shell of ['bash', 'zsh', 'fish'])
    expect((await commandLine(['completion', shell], { env: {}, cwd: '/' })).stdout).toContain('__complete');
  const { code, stderr } = await tidemark(['completion', 'bsh']);
  expect(code).toBe(4);
  expect(stderr).toContain('bsh is not one of bash, zsh, fish; did you mean bash?');
});
