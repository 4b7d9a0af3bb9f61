/** A mirror of three sources: what was never read of one of them is neither denied nor called complete. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandLine, type Ended } from './command-line.ts';
import { world } from './comparison.ts';

interface Sources {
  readonly directory: string;
  readonly run: (...args: string[]) => Promise<Ended>;
}

/** `a` is complete, the configuration of `b` excludes domains, and `c` was never synced. */
async function threeSources(): Promise<Sources> {
  const { directory, env, service } = await world();
  const source = (name: string, more = ''): string =>
    `  - { name: ${name}, baseUrl: ${service.url}, apiKey: '${env['TIDEMARK_API_KEY']}'${more} }\n`;
  const ofB = ', kinds: { exclude: [domains] }';
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${env['TIDEMARK_MIRROR']}\nsources:\n${source('a')}${source('b', ofB)}${source('c')}`,
  );
  const run = async (...args: string[]): Promise<Ended> =>
    await commandLine(args, { env: {}, cwd: directory });
  for (const name of ['a', 'b']) expect((await run('sync', '--quiet', '--source', name)).code).toBe(0);
  expect((await run('snapshots', 'pin', 'good', '--baseline')).code).toBe(0);
  return { directory, run };
}

const NEVER = /nothing of (source )?c (was read|is in the mirror) yet/;
const NO_RUN = /no published run of source c yet[^]*`tidemark sync --source c`/;
const NOT_OF_B = 'nothing of domains of b: the configuration excludes the kind';

type Case = readonly [code: number, said: RegExp | string, ...args: string[]];

it('each command says what was never read', async () => {
  const { run } = await threeSources();
  const cases: readonly Case[] = [
    [3, NEVER, 'export'],
    ...['ndjson', 'json', 'yaml', 'csv'].flatMap((format): Case[] => [
      [3, NEVER, 'export', '--kind', 'members', '--format', format],
      [3, NOT_OF_B, 'export', '--kind', 'domains', '--format', format],
    ]),
    [3, NOT_OF_B, 'export', '--output', 'csv', '--format', 'csv', '--kind', 'domains'],
    [3, 'not read of b: domains: the configuration excludes', 'export', '--history', '--kind', 'domains'],
    [3, NEVER, 'export', '--history'],
    [1, NO_RUN, 'export', '--source', 'c'],
    [1, NO_RUN, 'export', '--source', 'c', '--history'],
    ...['show', 'log', 'blame'].flatMap((command): Case[] => [
      [3, NEVER, command, 'domains', 'd1', '--source', 'c'],
      [3, 'the configuration excludes the kind', command, 'domains', 'd1', '--source', 'b'],
      [4, /domains of b are not known: .*\n.*domains of c are not known/, command, 'domains', 'd9'],
    ]),
    [3, NEVER, 'changes'],
    [3, /not read: .*members.*: no run read it\n.*`tidemark sync`/, 'changes', '--source', 'c'],
    [3, 'not read of b: domains: the configuration excludes', 'changes', '--kind', 'domains'],
    [3, /Complete +Not all +nothing of c was read yet; \d+ records/, 'status'],
    [3, /Drift +None found +nothing of c was read yet/, 'status'],
    [
      3,
      'nothing of members, organizations, projects of b: the mirror had not read them by run 1',
      'export',
      '--at',
      'run:1',
      '--kind',
      'members',
      '--kind',
      'organizations',
      '--kind',
      'projects',
    ],
    [1, /Drift +Unknown +nothing of c was read yet/, 'status', '--source', 'c'],
    [0, 'no run of c yet: run `tidemark sync --source c`', 'runs'],
    [0, /^no run of c yet: run `tidemark sync --source c`$/m, 'runs', '--source', 'c'],
    [
      0,
      'run 2 is of source b: the state of a then, of its run 1, is taken',
      'export',
      '--source',
      'a',
      '--at',
      'run:2',
    ],
    [
      4,
      'run 1 is of source a, and the mirror held nothing of source b',
      'show',
      'members',
      'u1',
      '--source',
      'b',
      '--at',
      'run:1',
    ],
    [1, NO_RUN, 'diff', '--source', 'c'],
    [1, NO_RUN, 'diff', '--source', 'a', '--to-source', 'c'],
    [1, NO_RUN, 'drift', '--source', 'c'],
    ...[['drift'], ['diff', 'run:2', 'latest']].map((command): Case => [
      3,
      /→ leave the kind in \(kinds\.include.*then run `tidemark sync`/,
      ...[...command, '--kind', 'domains', '--source', 'b'],
    ]),
    [1, NO_RUN, 'restore', '--source', 'c'],
    [1, NO_RUN, 'drill', '--source', 'c'],
    [1, NO_RUN, 'snapshots', 'pin', 'own', '--source', 'c'],
  ];
  for (const [code, said, ...args] of cases) {
    const ended = await run(...args);
    const text = `${ended.stdout}${ended.stderr}`;
    expect(text, args.join(' ')).toMatch(said);
    expect(ended.code, `${args.join(' ')}\n${text}`).toBe(code);
    expect(text, args.join(' ')).not.toMatch(/run 2 complete|Nothing changed\.$/m);
  }
});

it('a JSON export names it for each source, and a comparison with the export does not take it for read', async () => {
  const { directory, run } = await threeSources();
  const { stdout } = await run('export', '--kind', 'domains', '--format', 'json');
  const unread = [
    { source: 'b', kinds: ['domains'] },
    { source: 'c', kinds: ['organizations', 'domains'] },
  ];
  expect(JSON.parse(stdout)).toMatchObject({ unread_by_source: unread });
  await run('export', '--kind', 'domains', '--format', 'json', '--output', 'tree');
  for (const name of ['.tidemark-export.json', 'domains.json'])
    expect(JSON.parse(readFileSync(join(directory, 'tree', name), 'utf8'))).toMatchObject({
      unread_by_source: unread,
    });
  const outcome = await run('export', '--kind', 'domains', '--format', 'json', '--output', 'tree', '--json');
  expect(JSON.parse(outcome.stdout)).toMatchObject({ files: 1, unread_by_source: unread });
  expect(JSON.parse((await run('export', '--source', 'a', '--format', 'json')).stdout)).not.toHaveProperty(
    'unread_by_source',
  );
  const found = await run('export', '--kind', 'domains', '--id', 'd1');
  expect([found.code, found.stdout.trim().split('\n').length]).toEqual([0, 1]);
  writeFileSync(join(directory, 'joint.json'), (await run('export', '--format', 'json')).stdout);
  await run('sync', '--quiet', '--source', 'c', '--kind', 'domains');
  const compared = await run('diff', 'file:joint.json', 'latest', '--source', 'c');
  expect(compared.stderr).toContain(
    'nothing was compared: organizations: the mirror had not read it by the run',
  );
  expect(compared.code).toBe(1);
});

it('a source of which only some kinds were read is not complete', async () => {
  const { run } = await threeSources();
  await run('sync', '--quiet', '--source', 'c', '--kind', 'domains');
  const one = await run('status', '--source', 'c');
  expect(one.stdout).toMatch(/Complete +Not all +14 kinds were never read; 3 records/);
  const all = await run('status');
  expect(all.stdout).toMatch(/Complete +Not all +14 kinds of c were never read; 13 records/);
  expect([one.code, all.code]).toEqual([3, 3]);
});
