import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { recentRequests } from '../../src/wire-client.ts';
import { loadConfig } from '../../src/config/load.ts';
import { mirrorConfigs } from '../../src/config/mirrors.ts';
import { commandLine, type Ended } from './command-line.ts';
import { scratch } from './harness.ts';
import { FakeService, ORG } from './service.ts';

const KEY = 'test-key-of-some-length';

/** Two sources of one service with one key, and a third, each with a mirror of its own. */
async function world() {
  const [shared, other] = [await FakeService.start(), await FakeService.start()];
  shared.set('roles', [{ id: 'r1', name: 'Readers' }]);
  other.set('roles', [
    { id: 'r9', name: 'Others', big: 1 },
    '{"id":"r10","name":"Exact","n":12345678901234567890}',
  ]);
  const directory = scratch();
  const rest = 'kinds: { include: [organizations, roles] }, retry: { attempts: 1 }';
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ./data/{source}.db
sources:
  - { name: acme, baseUrl: "${shared.url}", apiKey: "\${KEY}", ${rest} }
  - { name: beta, baseUrl: "${shared.url}", apiKey: "\${KEY}", ${rest} }
  - { name: core, baseUrl: "${other.url}", apiKey: "\${KEY}", ${rest} }
schedules: { sync: { sources: [acme, core] } }
`,
    { mode: 0o600 },
  );
  const env = { KEY };
  const run = async (code: number, ...args: string[]): Promise<Ended> => {
    const ended = await commandLine(args, { env, cwd: directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  const json = async (code: number, ...args: string[]): Promise<Record<string, unknown>> =>
    JSON.parse((await run(code, ...args, '--json')).stdout) as Record<string, unknown>;
  const loaded = loadConfig({ env, cwd: directory });
  return { shared, other, directory, run, json, configs: mirrorConfigs(loaded) };
}

const sourcesIn = (list: unknown): unknown[] => (list as { source: unknown }[]).map(({ source }) => source);

describe('sources with mirrors of their own', () => {
  it('are one command, one document and one exit code', async () => {
    const { run, json, other, configs, directory } = await world();
    const synced = await json(0, 'sync');
    expect(synced['schema']).toBe('tidemark.sync/1');
    expect(sourcesIn(synced['runs'])).toEqual(['acme', 'beta', 'core']);
    const some = await run(0, 'sync', '--source', 'acme', '--source', 'core');
    expect(some.stdout).not.toContain('beta');

    const status = await run(0, 'status');
    expect(status.stdout).toMatch(/^3 sources with mirrors of their own: /);
    expect(status.stdout.match(/^(acme|beta|core) .*$/gm)).toHaveLength(3);
    await run(0, 'verify', '--source', 'beta');
    const document = await json(0, 'status');
    expect(sourcesIn(document['sources'])).toEqual(['acme', 'beta', 'core']);
    expect(document['verified']).toBeNull();
    const states: Record<string, string> = { acme: 'not_yet', beta: 'yes', core: 'not_yet' };
    expect(document['mirrors']).toEqual(
      configs.map(({ mirror, sources: [{ name } = { name: '' }] }) => ({
        ...{ source: name, mirror },
        verified: expect.objectContaining({ state: states[name] }) as unknown,
      })),
    );

    expect(sourcesIn((await json(0, 'runs'))['runs'])).toEqual(['acme', 'acme', 'beta', 'core', 'core']);
    const exported = await run(0, 'export', '--kind', 'roles');
    expect(exported.stdout).toContain('"source":"core"');
    const whole = await run(0, 'export', '--kind', 'roles', '--json');
    // As received, also where documents are joined.
    expect(whole.stdout).toContain('12345678901234567890');
    await run(0, 'export', '--format', 'yaml', '--output', 'tree');
    expect(readFileSync(join(directory, `tree/core/organizations/${ORG}.yaml`), 'utf8')).toContain('Harbor');

    // A record is looked for in all of them.
    expect((await json(0, 'show', 'roles', 'r9'))['source']).toBe('core');
    await run(4, 'show', 'roles', 'r77');
    await run(0, 'snapshots', 'pin', 'base');
    await run(0, 'snapshots', 'baseline', 'base');
    other.set('roles', [{ id: 'r9', name: 'Renamed' }]);
    await run(0, 'sync', '--source', 'core');
    const drift = await json(2, 'drift');
    expect(drift['schema']).toBe('tidemark.reports/1');
    expect(sourcesIn(drift['documents'])).toEqual(['acme', 'beta', 'core']);
    expect((await run(0, 'verify', '--json')).stdout.trim().split('\n')).toHaveLength(3);
    expect((await json(0, 'changes'))['summary']).toMatchObject({ changed: 1, removed: 1 });
    expect((await run(0, 'changes', '--id', 'r9')).stderr).not.toContain('no record');
    await run(4, 'changes', '--id', 'r77');

    // A history is one file: the same command would not help.
    const history = await run(4, 'export', '--history', '--output', 'h.parquet');
    expect(history.stderr).toContain('name it with --source: acme');

    // What is about one source has to name it.
    expect((await run(4, 'restore')).stderr).toContain('name one with --source');
    // What asks for a source names those that there are.
    for (const [code, ...args] of [
      [4, 'restore'],
      [4, 'undo', '1'],
      [4, 'verify', '--root', 'a'.repeat(64)],
      [4, 'runs', 'show', '77'],
      [4, 'drift', 'accept', 'roles', 'nobody', '--reason', 'x'],
    ] as const)
      expect((await run(code, ...args)).stderr, args.join(' ')).toMatch(/there are (\w+, )*\w+ and \w+/);
    expect((await run(4, 'diff', '--output', 'x.txt')).stderr).toContain('--output holds one source');
    await run(0, 'diff', 'run:1', 'latest', '--output', 'x.txt', '--source', 'acme');
    // An export in a file is of one source as well; in a directory, each has its own.
    for (const [file, ...more] of [
      ['x.parquet', '--kind', 'roles'],
      ['x.csv', '--kind', 'roles'],
      ['x.json'],
      ['x.ndjson'],
    ] as const) {
      const refused = await run(4, 'export', '--output', file, ...more);
      expect([refused.stdout, refused.stderr]).toEqual([
        '',
        `tidemark: ${file} names one file, and each source has a mirror of its own\n` +
          '  → name a directory, in which each source has one of its own, or one source with --source: acme, beta, core\n',
      ]);
      expect(existsSync(join(directory, file))).toBe(false);
      await run(0, 'export', '--output', file, ...more, '--source', 'acme');
      expect(statSync(join(directory, file)).isFile()).toBe(true);
    }
    expect((await run(4, 'export', '--output', 'x.xlsx')).stderr).toContain('there is no export as .xlsx');
    mkdirSync(join(directory, 'tree.json'));
    await run(0, 'export', '--format', 'yaml', '--output', 'tree.json');
    expect(readdirSync(join(directory, 'tree.json'))).toEqual(['acme', 'beta', 'core']);
  });

  it('say once of a target that is away that it is so, for all of them', async () => {
    const { run, directory } = await world();
    appendFileSync(join(directory, 'tidemark.yaml'), 'backup: { targets: [./stores, ./gone] }\n');
    mkdirSync(join(directory, 'stores'));
    await run(0, 'sync');
    for (const command of ['create', 'verify']) {
      const { stderr } = await run(3, 'backup', command);
      expect(stderr.match(/does not exist/g), stderr).toHaveLength(1);
      expect(stderr).toMatch(/^(tidemark: )?all 3 sources: .*gone/m);
    }
  });

  it('verify a backup that is named once, and say whose it is', async () => {
    const { run, json, directory } = await world();
    appendFileSync(join(directory, 'tidemark.yaml'), 'backup: { targets: [./stores] }\n');
    mkdirSync(join(directory, 'stores'));
    await run(0, 'sync');
    await run(0, 'backup', 'create');
    const place = join('stores', 'core');
    const [name = ''] = readdirSync(join(directory, place)).filter((each) => each.endsWith('.zst'));
    // One document: `json` would not parse several.
    for (const named of [place, join(place, name)]) {
      const document = await json(0, 'backup', 'verify', named);
      expect(document).toMatchObject({ is_opened: true, backup: { file: name } });
      expect(sourcesIn((document['backup'] as { sources: unknown }).sources)).toEqual(['core']);
      const { stdout } = await run(0, 'backup', 'verify', named);
      expect(stdout).toMatch(/^tidemark-\S+: verified .*\nsources in it: core\n/);
      expect(stdout).not.toMatch(/^(acme|beta):/m);
      const refused = await run(4, 'backup', 'verify', named, '--source', 'acme');
      expect(refused.stderr).toContain(`${name} is a backup of core, not of acme`);
      await run(0, 'backup', 'verify', named, '--source', 'core');
    }
    // Those of one second have one name.
    const names = ['acme', 'beta', 'core'].flatMap((source) =>
      readdirSync(join(directory, 'stores', source)).filter((each) => each === name),
    );
    const byName = await run(names.length === 1 ? 0 : 4, 'backup', 'verify', name);
    if (names.length > 1) expect(byName.stderr).toContain(`backups of several mirrors are named ${name}`);
    expect((await run(0, 'backup', 'verify', name, '--source', 'core')).stdout).toContain('in it: core\n');
    const latest = (await run(0, 'backup', 'verify', '--json')).stdout.trim().split('\n');
    expect(latest).toHaveLength(3);
  });

  it('get a baseline with one command, which can be repeated, and say which cannot have it', async () => {
    const { run, json, other, configs } = await world();
    await run(0, 'sync', '--source', 'acme', '--source', 'core', '--quiet');
    const first = await run(3, 'snapshots', 'pin', 'good', '--baseline');
    expect(first.stdout).toBe('good is the baseline of 2 of 3 sources: 2 set now, 0 already set\n');
    expect(first.stderr).toMatch(/^tidemark: not possible: 1 source\n {2}there is no mirror yet: beta\n$/);
    other.set('roles', [{ id: 'r9', name: 'Renamed' }]);
    await run(0, 'sync', '--quiet');
    // What has the name keeps it: a repetition moves nothing.
    expect(await json(0, 'snapshots', 'pin', 'good', '--baseline')).toEqual({
      ...{ schema: 'tidemark.baselines/1', name: 'good', set: 1, already: 2, asked: 0, waiting: 0 },
      not_possible: 0,
      sources: [
        { source: 'acme', outcome: 'already', run: 1, reason: null },
        { source: 'beta', outcome: 'set', run: 1, reason: null },
        { source: 'core', outcome: 'already', run: 1, reason: null },
      ],
    });
    await run(2, 'drift');
    // It moves to a new name, of all or of some.
    const moved = await run(
      0,
      'snapshots',
      'pin',
      'better',
      '--baseline',
      '--source',
      'core',
      '--source',
      'acme',
    );
    expect(moved.stdout).toBe('better is the baseline of 2 of 2 sources: 2 set now, 0 already set\n');
    await run(0, 'drift');
    const one = await run(0, 'snapshots', 'pin', 'good', '--baseline', '--source', 'core');
    expect(one.stdout).toBe('drift is measured from good (run 1), no longer better\n');
    expect((await run(0, 'snapshots', 'pin', 'good', '--baseline', '--source', 'core')).stdout).toBe(
      'drift is measured from good (run 1) already\n',
    );
    // A state that is named has to be that of the snapshot, and of all sources.
    expect((await run(1, 'snapshots', 'pin', 'good', 'run:2', '--baseline')).stderr).toContain(
      'not possible: 3 sources\n  "good" is pinned to run 1 already: acme, core\n  there is no run 2 (run:2): beta\n',
    );
    expect((await run(4, 'snapshots', 'pin', 'a b', '--baseline')).stderr).toContain(
      'not a valid snapshot name',
    );
    for (const { mirror } of configs) rmSync(mirror);
    expect((await run(1, 'snapshots', 'pin', 'good', '--baseline')).stderr).toContain(
      'not possible: 3 sources',
    );
  });

  it('have snapshots whose names are proposed, whichever mirror has them', async () => {
    const { run } = await world();
    await run(0, 'sync', '--quiet');
    await run(0, 'snapshots', 'pin', 'good', 'run:1', '--source', 'beta');
    const { stderr } = await run(4, 'restore', 'good');
    expect(stderr).toContain('did you mean snapshot:good?');
    expect(stderr).toContain('write snapshot:good\n');
  });

  it('go on where one of them fails, and say which', async () => {
    const { run, json, other, configs } = await world();
    await run(0, 'sync', '--quiet');
    other.quirks.push((_request, response) => {
      response.destroy();
      return true;
    });
    const failed = await run(3, 'sync');
    expect(failed.stdout).toContain('of beta: complete');
    expect(failed.stderr).toContain('core');
    // What is to be done runs as it is printed.
    const { sources } = await json(3, 'status');
    const [core] = (sources as { source: string; next_steps: string[] }[]).filter(
      ({ source }) => source === 'core',
    );
    const steps = [...(core?.next_steps.join(' ') ?? '').matchAll(/`tidemark ([^`]*)`/g)].map(
      ([, command]) => command,
    );
    expect(steps).toEqual(['sync --source core', 'runs show 2 --source core']);
    await run(0, 'runs', 'show', '2', '--source', 'core');
    // In health's words.
    const degraded = await run(3, 'status');
    expect(degraded.stdout).toMatch(/^3 sources with mirrors of their own: 1 degraded, 2 [^,]*\.\n/);
    rmSync(configs[1]?.mirror ?? '');
    const runs = await json(3, 'runs');
    expect(runs['errors']).toMatchObject([{ source: 'beta', code: 'mirror_missing' }]);
    const status = await run(3, 'status');
    expect(status.stdout).toMatch(/^3 sources with mirrors of their own: 1 failing, 1 degraded, 1 /);
    expect(status.stdout.match(/^(acme|beta|core)/gm)).toEqual(['beta', 'core', 'acme']);
    expect(status.stderr).toContain('beta: there is no mirror');
  });

  it('are compared with each other by names, each read from its own mirror', async () => {
    const { run, json, shared, other, directory } = await world();
    shared.set('roles', [{ id: 'r1', name: 'Readers', description: 'one' }]);
    other.set('roles', [{ id: 'r9', name: 'Readers', description: 'two' }]);
    await run(0, 'sync', '--quiet');
    const differing = await json(2, 'diff', '--source', 'acme', '--to-source', 'core');
    const changes = differing['changes'] as { kind: string; change: string; fields: unknown }[];
    expect(changes.filter(({ kind }) => kind === 'roles')).toMatchObject([
      { change: 'changed', fields: [{ path: '/description', from: 'one', to: 'two' }] },
    ]);
    expect((await run(0, 'diff', '--source', 'acme', '--to-source', 'beta')).stdout).not.toContain('Readers');
    const live = await json(2, 'diff', 'latest', 'live', '--source', 'core', '--to-source', 'acme');
    expect(live).toMatchObject({ from: { ref: 'latest' }, to: { ref: 'live' } });
    const file = join(directory, 'tidemark.yaml');
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replaceAll('retry: { attempts: 1 }', 'retry: { attempts: 1 }, redact: true'));
    const refused = await run(4, 'diff', '--source', 'acme', '--to-source', 'core');
    expect(refused.stderr).toContain('acme and core store fingerprints of secrets');
  });

  it('with one key at one address share its limits', async () => {
    const { run, configs } = await world();
    await run(0, 'sync', '--quiet');
    const [acme, beta, core] = configs.map(({ sources: [source], rateLogBeside }) =>
      source === undefined ? [] : recentRequests(source, rateLogBeside),
    );
    expect(acme).toEqual(beta);
    expect(acme?.length).toBe(2 * (core?.length ?? 0));
  });
});
