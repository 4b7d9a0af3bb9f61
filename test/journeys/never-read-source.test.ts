/** A mirror of three sources: what was never read of one of them is neither denied nor called complete. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandLine, type Ended } from './command-line.ts';
import { world } from './comparison.ts';
import { forbidden } from './service.ts';

const OWN = './{source}.db';

interface Sources {
  readonly directory: string;
  readonly run: (...args: string[]) => Promise<Ended>;
}

/** `a` is complete, the configuration of `b` excludes domains, and `c` was never synced. */
async function threeSources(mirror = './mirror.db'): Promise<Sources> {
  const { directory, env, service } = await world();
  const source = (name: string, more = ''): string =>
    `  - { name: ${name}, baseUrl: ${service.url}, apiKey: '${env['TIDEMARK_API_KEY']}'${more} }\n`;
  const ofB = ', kinds: { exclude: [domains] }';
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${mirror}\nsources:\n${source('a')}${source('b', ofB)}${source('c')}`,
  );
  const run = async (...args: string[]): Promise<Ended> =>
    await commandLine(args, { env: {}, cwd: directory });
  for (const name of ['a', 'b']) expect((await run('sync', '--quiet', '--source', name)).code).toBe(0);
  const pinned = await run('snapshots', 'pin', 'good', '--baseline');
  expect(pinned.code).toBe(mirror === OWN ? 3 : 0);
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
      [0, /domains of b are not known: .*; domains of c are not known/, command, 'domains', 'd1'],
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
    ...[[], ['--kind', 'members']].map((kinds): Case => [
      3,
      /^tidemark: nothing of [^:]*members[^:]* of b: the mirror had not read (it|them) by run 1$/m,
      ...['export', '--at', 'run:1', '--source', 'a', '--source', 'b', '--quiet', ...kinds],
    ]),
    [1, /Drift +Unknown +nothing of c was read yet/, 'status', '--source', 'c'],
    [0, 'no run of c yet: run `tidemark sync --source c`', 'runs'],
    [0, 'tidemark: no run of c yet: run `tidemark sync --source c`', 'runs', '--json'],
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

it('with a mirror for each source, each line says of which, and an export of the others is not called empty', async () => {
  const { run } = await threeSources(OWN);
  const ofC = /^tidemark: c: there is no mirror at /m;
  const ofB = /^tidemark: b: nothing of domains: the configuration excludes the kind$/m;
  const cases: readonly Case[] = [
    ...['ndjson', 'json', 'yaml'].flatMap((format): Case[] => [
      [3, ofC, 'export', '--kind', 'members', '--format', format],
      [3, ofB, 'export', '--kind', 'domains', '--format', format],
    ]),
    [3, ofB, 'export', '--kind', 'domains', '--output', 'tree'],
    [3, /^tidemark: b: changes may be missing/m, 'export', '--history', '--kind', 'domains'],
    [3, /^tidemark: b: changes may be missing/m, 'changes', '--kind', 'domains'],
    [3, ofC, 'changes'],
    ...['show', 'log', 'blame'].flatMap((command): Case[] => [
      [3, ofC, command, 'domains', 'd1'],
      [3, /^tidemark: b: the mirror has not read any domains/m, command, 'domains', 'd1'],
    ]),
    [4, '--format csv holds one source', 'export', '--kind', 'members', '--format', 'csv'],
  ];
  for (const [code, said, ...args] of cases) {
    const ended = await run(...args);
    expect(ended.stderr, args.join(' ')).toMatch(said);
    expect(ended.code, `${args.join(' ')}\n${ended.stderr}`).toBe(code);
    if (!args.includes('tree')) expect(ended.stderr, args.join(' ')).not.toContain('the export is empty');
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
  expect([found.code, found.stdout.trim().split('\n').length]).toEqual([3, 1]);
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

/** `a` is complete, the configuration of `b` excludes domains, and the key of `d` may not read them. */
async function oneDenied(mirror: string): Promise<Sources> {
  const { directory, service } = await world();
  service.quirks.push(
    ({ path, headers }, response) =>
      path.endsWith('/domains/') &&
      headers.authorization === 'Bearer key-of-d' &&
      forbidden(response, 'organization:read'),
  );
  const source = (name: string, more = ''): string =>
    `  - { name: ${name}, baseUrl: ${service.url}, apiKey: key-of-${name}${more} }\n`;
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${mirror}\nsources:\n${source('a')}${source('b', ', kinds: { exclude: [domains] }')}${source('d')}`,
  );
  const run = async (...args: string[]): Promise<Ended> =>
    await commandLine(args, { env: {}, cwd: directory });
  expect((await run('sync', '--quiet')).code).toBe(3);
  return { directory, run };
}

describe.each([
  ['one mirror', './mirror.db'],
  ['a mirror for each source', OWN],
])('%s', (_name, mirror) => {
  it('each command names the sources that could not know of the record that another one has', async () => {
    const { run } = await oneDenied(mirror);
    const domain = ['--kind', 'domains', '--id'];
    for (const args of [
      ...['d1', 'one.example'].flatMap((id) => [
        ['changes', ...domain, id],
        ['export', ...domain, id],
        ['export', '--history', ...domain, id],
      ]),
      ['changes', '--id', 'd1'],
      ['export', '--id', 'd1', '--quiet'],
      ['export', ...domain, 'd1', '--json'],
      ['export', '--kind', 'domains'],
    ]) {
      const { code, stdout, stderr } = await run(...args);
      expect(code, `${args.join(' ')}\n${stderr}`).toBe(3);
      expect(stdout, args.join(' ')).toMatch(
        args[0] === 'changes' ? /run 1 was the first sync of a/ : /"d1"/,
      );
      expect(stderr, args.join(' ')).toMatch(/\bb: .*(domains|excludes)|domains of b|of b: domains/);
      expect(stderr, args.join(' ')).toMatch(/\bd: .*domains|domains of d|of d: domains/);
      expect(stderr, args.join(' ')).not.toContain('the export is empty');
    }
    for (const command of ['changes', 'export']) {
      const { code, stderr } = await run(command, ...domain, 'd1', '--source', 'd');
      expect([code, stderr]).toEqual([3, expect.stringMatching(/the list of domains of .* was never read/)]);
      expect((await run(command, '--kind', 'members', '--id', 'u1')).code).toBe(0);
    }
  });

  it('the JSON of several sources says what each could not read, and so does a comparison with it', async () => {
    const { directory, run } = await oneDenied(mirror);
    const both = ['--json', '--source', 'a', '--source', 'd'];
    const exported = await run('export', ...both);
    const document = JSON.parse(exported.stdout) as Record<string, unknown>;
    expect(document).toMatchObject({
      stale: [{ source: 'd', kind: 'domains', last_complete: null }],
      unread_by_source: [{ source: 'd', kinds: ['domains'] }],
    });
    expect([document['run'] ?? null, document['at'] ?? null]).toEqual([null, null]);
    expect(document).not.toHaveProperty('unread');
    const changed = await run('changes', ...both);
    expect(changed.code).toBe(3);
    expect(JSON.parse(changed.stdout)).toMatchObject({
      not_read: [{ source: 'd', lists: [{ kind: 'domains' }] }],
      skipped: [{ source: 'd', kind: 'domains' }],
      stale: [],
    });
    writeFileSync(join(directory, 'both.json'), exported.stdout);
    writeFileSync(
      join(directory, 'null.json'),
      JSON.stringify({ ...document, stale: null, unread_by_source: null }),
    );
    for (const [source, code] of [
      ['a', 0],
      ['d', 3],
    ] as const)
      for (const command of [
        ['diff', 'file:both.json', 'latest'],
        ['restore', 'file:both.json'],
      ]) {
        const ended = await run(...command, '--source', source);
        expect(ended.code, `${command.join(' ')}\n${ended.stderr}`).toBe(code);
      }
    for (const command of [
      ['diff', 'file:null.json', 'latest'],
      ['restore', 'file:null.json'],
    ]) {
      const { code, stderr } = await run(...command, '--source', 'd');
      expect([code, stderr]).toEqual([4, expect.stringContaining('stale, unread_by_source are null')]);
    }
  });
});
