/** What an export says of records that are not as of its run, or that one source does not have. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { world } from './comparison.ts';
import { forbidden } from './service.ts';

it('a list whose removals are held was read completely, and the export says what it still has of it', async () => {
  const { service, expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  service.set('domains', []);
  await expectRun(3, 'sync', '--quiet');
  const { stdout, stderr } = await expectRun(0, 'export', '--kind', 'domains');
  expect(stdout.trim().split('\n')).toHaveLength(2);
  expect(stderr).toMatch(
    /removals of 1 collection are held: records that the service did not list are exported as well\n {2}domains/,
  );
  expect(stderr).not.toContain('could not be read completely');
});

it('a JSON export and a directory name what the configuration leaves out by now', async () => {
  const { env, directory, expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  const own = { cwd: directory, env: { ...env, TIDEMARK_KINDS_EXCLUDE: 'domains' } };
  expect((await commandLine(['sync', '--quiet'], own)).code).toBe(0);
  const { stdout } = await commandLine(['export', '--format', 'json'], own);
  const left = { kind: 'domains', reason: 'the configuration excludes the kind', records: 2, run: 1 };
  const document = JSON.parse(stdout) as Record<string, unknown>;
  expect(document).toMatchObject({ not_read: [left] });
  expect(document).not.toHaveProperty('stale');
  writeFileSync(join(directory, 'now.json'), stdout);
  const members = await commandLine(['export', '--format', 'json', '--kind', 'members'], own);
  expect(JSON.parse(members.stdout)).not.toHaveProperty('not_read');
  await commandLine(['export', '--format', 'csv', '--output', 'tables'], own);
  const manifest = readFileSync(join(directory, 'tables', '.tidemark-export.json'), 'utf8');
  expect(JSON.parse(manifest)).toMatchObject({ not_read: [left] });
  expect((await commandLine(['diff', 'file:now.json', 'latest'], own)).code).toBe(0);
});

it('an export of two sources names the kind that the configuration excludes for one of them', async () => {
  const { env, directory, service } = await world();
  const source = (name: string, more = ''): string =>
    `  - { name: ${name}, baseUrl: ${service.url}, apiKey: '${env['TIDEMARK_API_KEY']}'${more} }\n`;
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${env['TIDEMARK_MIRROR']}\nsources:\n${source('a')}${source('b', ', kinds: { exclude: [domains] }')}`,
  );
  const asked = { env: {}, cwd: directory };
  expect((await commandLine(['sync', '--quiet'], asked)).code).toBe(0);
  const said = 'nothing of domains of b: the configuration excludes the kind';
  for (const args of [[], ['--kind', 'domains']])
    expect((await commandLine(['export', ...args], asked)).stderr, args.join(' ')).toContain(said);
  for (const args of [
    ['--source', 'a'],
    ['--kind', 'members'],
  ])
    expect((await commandLine(['export', ...args], asked)).stderr).not.toContain('excludes');
  const own = await commandLine(['export', '--source', 'b', '--kind', 'domains'], asked);
  expect(own.stderr).toContain('nothing of domains: the configuration excludes the kind');
  const two = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
  writeFileSync(join(directory, 'tidemark.yaml'), `${two}${source('c')}`);
  const history = await commandLine(['export', '--history'], asked);
  expect(history.code).toBe(3);
  for (const line of [said, 'nothing of c is in the mirror yet: run `tidemark sync`'])
    expect(history.stderr).toContain(line);
  const named = await commandLine(['export', '--history', '--kind', 'members'], asked);
  expect(named.code).toBe(3);
  expect(named.stderr).toContain('not read of c: members: no run read it');
});

it('an --output of `-` is stdout, and no file of that name', async () => {
  const { service, expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  service.set('domains', []);
  await expectRun(0, 'sync', '--quiet', '--accept-removals', '2');
  for (const [code, ...args] of [
    [2, 'diff', 'run:1', 'latest', '--format', 'markdown'],
    [0, 'changes', '--format', 'csv'],
    [0, 'export', '--kind', 'members', '--format', 'csv'],
    [0, 'audit', '--format', 'csv'],
  ] as const) {
    const { stdout } = await expectRun(code, ...args, '--output', '-');
    expect(stdout, args.join(' ')).toBe((await expectRun(code, ...args)).stdout);
    expect(stdout).not.toBe('');
  }
  expect((await expectRun(4, 'export', '--kind', 'members', '--output', 'm.xlsx')).stderr).toMatch(
    /there is no export as \.xlsx[^]*\.parquet/,
  );
  const { stderr } = await expectRun(4, 'restore', 'run:1', '--out', '-');
  expect(stderr).toContain('it names a file or directory, and stdout is neither');
});

it('of a kind whose list was never read, is empty, says why and exits with 3, also as a history', async () => {
  const { service, expectRun } = await world();
  service.quirks.push(
    ({ path }, response) => path.endsWith('/domains/') && forbidden(response, 'organization:read'),
  );
  await expectRun(3, 'sync', '--quiet');
  for (const history of [[], ['--history']]) {
    const { stdout, stderr } = await expectRun(3, 'export', '--kind', 'domains', ...history);
    expect(stdout).toBe('');
    expect(stderr).toContain('domains');
    expect(stderr).toContain('denied');
  }
  await expectRun(0, 'export', '--kind', 'members');
  await expectRun(0, 'export', '--kind', 'roles');
});

it('an export that lacks a list, or has it as last read, exits with 3 and says so, also with --quiet', async () => {
  const { env, directory, service, expectRun } = await world();
  let denied = '/domains/';
  service.quirks.push(
    ({ path }, response) => path.endsWith(denied) && forbidden(response, 'organization:read'),
  );
  await expectRun(3, 'sync', '--quiet');
  const never =
    /^tidemark: 1 collection could not be read completely [^\n]*\n {2}domains [^\n]*: denied; never read/;
  for (const args of [[], ['--format', 'json'], ['--format', 'csv', '--output', 'tables']])
    expect((await expectRun(3, 'export', '--quiet', ...args)).stderr, args.join(' ')).toMatch(never);
  await expectRun(0, 'export', '--kind', 'members', '--quiet');
  // The record was found, and by its id in no other list that could not be read.
  await expectRun(0, 'export', '--kind', 'members', '--id', 'u1');
  denied = '/members/';
  await expectRun(3, 'sync', '--quiet');
  const { stdout, stderr } = await expectRun(3, 'export', '--kind', 'members', '--quiet');
  expect(stdout.trim().split('\n')).toHaveLength(2);
  expect(stderr).toContain('denied; last read completely');
  await expectRun(3, 'export', '--at', 'run:1', '--kind', 'domains');
  // What the configuration leaves out from a run on is no longer to be read.
  const own = { cwd: directory, env: { ...env, TIDEMARK_KINDS_EXCLUDE: 'members' } };
  expect((await commandLine(['sync', '--quiet'], own)).code).toBe(0);
  const left = await commandLine(['export'], own);
  expect(left.code).toBe(0);
  expect(left.stderr).not.toContain('could not be read');
});

it('a period since the time at which a run ended, to the second or the millisecond, begins after that run, and one until then includes it', async () => {
  const { expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  const { runs } = JSON.parse((await expectRun(0, 'runs', '--json')).stdout) as {
    runs: { finished_at: string }[];
  };
  const exact = runs[0]?.finished_at ?? '';
  const second = `${exact.slice(0, 19)}Z`;
  const numbers = async (since: string, ...more: string[]): Promise<unknown> => {
    const { stdout } = await expectRun(0, 'changes', '--since', since, ...more, '--json');
    return (JSON.parse(stdout) as { runs: { run: number }[] }).runs.map(({ run }) => run);
  };
  for (const time of [second, exact]) {
    expect(await numbers(time)).toEqual([]);
    expect(await numbers('7d', '--until', time)).toEqual([1]);
    expect((await expectRun(0, 'export', '--history', '--since', time)).stdout).toBe('');
    // The state at that time is that of the run.
    expect((await expectRun(0, 'diff', time, 'run:1')).stdout).toContain('No differences');
  }
  const minute = `${second.slice(0, 16)}Z`;
  expect(await numbers(minute)).toEqual([1]);
});
