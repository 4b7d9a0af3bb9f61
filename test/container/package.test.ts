/** The npm package: packed as `npm publish` packs it, installed into an empty folder, and started from there. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { FakeService } from '../journeys/service.ts';
import { releaseProblems } from '../tools/check-release.ts';

const checkout = resolve(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
  version: string;
  files: string[];
  dependencies: Record<string, string>;
  scripts: Record<string, string>;
};
// The program's Node comes first, as it would with Node 24 installed; no script of a package runs.
const env = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
  npm_config_prefer_offline: 'true',
  npm_config_ignore_scripts: 'true',
  npm_config_loglevel: 'error',
};

describe('the package', () => {
  let scratch: string;
  let folder: string;
  const installed = (...path: string[]): string => join(folder, 'node_modules/tidemark', ...path);
  /** What `npx tidemark` starts in the folder. */
  const command = (): string => join(folder, 'node_modules/.bin/tidemark');

  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), 'tidemark-package-'));
    const source = join(scratch, 'source');
    for (const name of manifest.files.filter((each) => !each.startsWith('!') && each !== 'dist'))
      cpSync(join(checkout, name), join(source, name), { recursive: true });
    cpSync(join(checkout, 'package.json'), join(source, 'package.json'));
    cpSync(dirname(inject('program')), join(source, 'dist'), { recursive: true });
    execFileSync('npm', ['pack', '--pack-destination', scratch], { cwd: source, env, stdio: 'pipe' });
    folder = join(scratch, 'empty');
    mkdirSync(folder);
    const tarball = join(scratch, `tidemark-${manifest.version}.tgz`);
    execFileSync('npm', ['install', tarball], { cwd: folder, env, stdio: 'pipe' });
  });

  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  it('is small, and brings nothing that the bundle holds already', () => {
    expect(Object.keys(manifest.dependencies)).toEqual(['better-sqlite3']);
    expect(readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual([
      'better-sqlite3',
      'node-addon-api',
      'tidemark',
    ]);
    expect(statSync(join(scratch, `tidemark-${manifest.version}.tgz`)).size).toBeLessThan(2.4e6);
    const files = readdirSync(installed(), { recursive: true, encoding: 'utf8' });
    expect(files.filter((path) => /\.(map|png)$|^(src|test|bench)\b|_snapshot\.json$/.test(path))).toEqual(
      [],
    );
    expect(files).toEqual(expect.arrayContaining(['dist/man/tidemark.1', 'deploy/compose.yaml', 'LICENSE']));
  });

  it('carries the licenses of what is in the bundle', () => {
    const text = readFileSync(installed('dist/THIRD-PARTY-LICENSES.txt'), 'utf8');
    for (const name of ['undici', 'hono', '@aws-sdk/client-s3', 'zod'])
      expect(text).toMatch(new RegExp(`^${name} \\d`, 'm'));
  });

  it('holds each library once, but for two that @noble/post-quantum asks for in its own version', () => {
    const text = readFileSync(installed('dist/THIRD-PARTY-LICENSES.txt'), 'utf8');
    const names = [...text.matchAll(/^((?:@[\w.-]+\/)?[\w.-]+) \d+\.\d+\.\d+\S* \(/gm)].map(
      ([, name]) => name,
    );
    expect(names.length).toBeGreaterThan(50);
    expect(names.filter((name, index) => names.indexOf(name) !== index).sort()).toEqual([
      '@noble/curves',
      '@noble/hashes',
    ]);
  });

  it('is installed without a warning: nothing of it runs before it is started', () => {
    const prefix = join(scratch, 'prefix');
    const tarball = join(scratch, `tidemark-${manifest.version}.tgz`);
    const plain = { ...env, npm_config_ignore_scripts: 'false', npm_config_loglevel: 'warn' };
    const given = { cwd: scratch, env: plain, encoding: 'utf8' } as const;
    const told = spawnSync('npm', ['install', '--global', '--prefix', prefix, tarball], given);
    expect(told).toMatchObject({ status: 0, stderr: '' });
    const { status, stdout } = spawnSync(join(prefix, 'bin/tidemark'), ['--version'], given);
    expect({ status, stdout }).toEqual({ status: 0, stdout: `${manifest.version}\n` });
    // What npm runs in a checkout does nothing in a folder without the sources, as in a container's first step.
    const own = spawnSync('/bin/sh', ['-c', manifest.scripts['dependencies'] ?? 'false'], {
      ...given,
      cwd: installed(),
    });
    expect(own).toMatchObject({ status: 0, stderr: '' });
  });

  it('has every file that its documentation links to, but the sources', () => {
    const links = readdirSync(installed('docs')).flatMap((page) =>
      [...readFileSync(installed('docs', page), 'utf8').matchAll(/\]\(((?!https?:|images\/)[^)#\s]+)/g)].map(
        ([, path = '']) => path,
      ),
    );
    expect(links.length).toBeGreaterThan(10);
    const missing = links.filter((path) => !existsSync(installed('docs', path)));
    expect([...new Set(missing)].sort()).toEqual(['../src/ARCHITECTURE.md', 'adding-a-kind.md']);
  });

  it('has all that its commands load, and starts', () => {
    const chunks = readdirSync(installed('dist/chunks')).filter((name) => name.endsWith('.js'));
    expect(chunks.length).toBeGreaterThan(20);
    const script = `for (const name of ${JSON.stringify(chunks)}) await import(${JSON.stringify(`${installed('dist/chunks')}/`)} + name);`;
    const start = (...args: string[]): ReturnType<typeof spawnSync> =>
      spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    expect(start('--input-type=module', '--eval', script)).toMatchObject({ status: 0, stderr: '' });
    const help = start(installed('dist/main.js'), '--help');
    expect(help.status).toBe(0);
    for (const { name } of COMMANDS.filter(({ isHidden }) => isHidden !== true))
      expect(String(help.stdout)).toContain(name);
  });

  it('goes from init to a mirror in an empty folder', async () => {
    const given = { cwd: folder, env, encoding: 'utf8' } as const;
    const told = spawnSync('npx', ['--no-install', 'tidemark', '--version'], given);
    expect(told.stdout).toBe(`${manifest.version}\n`);
    const service = await FakeService.start();
    const answers = ['--url', service.url, '--key-env', 'SVC_API_KEY', '--no-check'];
    const init = spawnSync(command(), ['init', ...answers], given);
    expect(init.status, init.stderr).toBe(0);
    expect(readFileSync(join(folder, 'tidemark.yaml'), 'utf8')).toContain('${SVC_API_KEY}');
    // Beside the service, which this process is: it answers only while nothing here waits for a child.
    const synced = await promisify(execFile)(command(), ['sync'], {
      cwd: folder,
      env: { ...env, SVC_API_KEY: 'key', TIDEMARK_RATE_PER_MINUTE: '0', TIDEMARK_RATE_PER_HOUR: '0' },
    });
    expect(synced.stdout).toContain('complete');
    expect(readdirSync(join(folder, 'data'))).toContain('mirror.db');
  });

  it('action.yml: passes without drift, fails with it, and leaves reports', async () => {
    const service = await FakeService.start();
    service.set('domains', [{ id: '1', domain: 'old.example' }]);
    const job = join(scratch, 'job');
    mkdirSync(job);
    writeFileSync(
      join(job, 'tidemark.yaml'),
      `sources: [{ name: production, baseUrl: ${service.url}, apiKey: '\${SVC_API_KEY}', rate: { perMinute: 0, perHour: 0 } }]`,
    );
    const tarball = join(scratch, `tidemark-${manifest.version}.tgz`);
    const given = { version: tarball };
    writeFileSync(join(job, 'path'), '');
    const first = await runAction(job, given, { SVC_API_KEY: 'key' }, ['Install', 'Sync']);
    expect(first.code, first.text).toBe(0);
    const mirror = join(job, 'runner/tidemark-mirror/mirror.db');
    const args = [
      'export',
      '--format',
      'yaml',
      '--output',
      join(job, 'approved'),
      '--config',
      join(job, 'tidemark.yaml'),
    ];
    const exported = spawnSync(command(), args, {
      cwd: folder,
      env: { ...env, TIDEMARK_MIRROR: mirror, SVC_API_KEY: 'key' },
      encoding: 'utf8',
    });
    expect(exported.status, exported.stderr).toBe(0);

    // The mirror is as fresh as the sync of the first run left it.
    expect(await runAction(job, given, { SVC_API_KEY: 'key' }, ['Compare'])).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^exit-code=0$/m) as string,
    });
    service.set('domains', [{ id: '1', domain: 'new.example' }]);
    const drifted = await runAction(job, given, { SVC_API_KEY: 'key' });
    expect(drifted).toMatchObject({ code: 2 });
    expect(drifted.output).toMatch(/^exit-code=2$/m);
    expect(drifted.text).toContain('new.example');
    expect(drifted.summary).toContain('new.example');
    expect(readFileSync(join(job, 'runner/drift.sarif'), 'utf8')).toContain('"2.1.0"');
    expect(readFileSync(join(job, 'runner/drift.xml'), 'utf8')).toContain('<testsuites');
    // No key: the sync says so, and nothing is compared.
    expect(await runAction(job, given, {})).toMatchObject({ code: 4, output: '' });
  });

  it.each([
    ['true', 0, 0],
    ['true', 2, 2],
    ['false', 2, 0],
    ['false', 3, 3],
  ])(
    'action.yml: with fail %s, a comparison that ends with %i makes the job end with %i',
    async (fail, ended, code) => {
      const job = mkdtempSync(join(scratch, 'job-'));
      // In place of the program, whose codes the test above has.
      const programs = join(job, 'bin');
      mkdirSync(programs);
      writeFileSync(join(programs, 'tidemark'), `#!/bin/sh\nexit ${ended}\n`, { mode: 0o755 });
      writeFileSync(join(job, 'path'), programs);
      expect(await runAction(job, { fail }, {}, ['Compare'])).toMatchObject({
        code,
        output: expect.stringMatching(new RegExp(`^exit-code=${ended}$`, 'm')) as string,
      });
    },
  );

  interface Action {
    inputs: Record<string, { default?: string }>;
    runs: { steps: { name?: string; run?: string; shell?: string; env?: Record<string, string> }[] };
  }

  /** Runs these shell steps of action.yml in `job` as a runner does, until one fails; what was installed there stays. */
  async function runAction(
    job: string,
    given: Record<string, string>,
    secrets: NodeJS.ProcessEnv,
    names: readonly string[] = ['Sync', 'Compare'],
  ): Promise<{ code: number; text: string; output: string; summary: string }> {
    const { inputs, runs } = parse(readFileSync(join(checkout, 'action.yml'), 'utf8')) as Action;
    const temp = join(job, 'runner');
    const files = {
      GITHUB_PATH: join(job, 'path'),
      GITHUB_OUTPUT: join(job, 'output'),
      GITHUB_STEP_SUMMARY: join(job, 'summary'),
    };
    mkdirSync(join(temp, 'tidemark-mirror'), { recursive: true });
    for (const file of [files.GITHUB_OUTPUT, files.GITHUB_STEP_SUMMARY]) writeFileSync(file, '');
    const expand = (text: string): string =>
      text.replace(/\$\{\{ (?:inputs\.(\w+)|runner\.temp) \}\}/g, (_all, input: string | undefined) =>
        input === undefined ? temp : (given[input] ?? inputs[input]?.default ?? ''),
      );
    let text = '';
    let code = 0;
    for (const { name = '', run, env: own = {} } of runs.steps) {
      if (run === undefined || !names.includes(name)) continue;
      expect(run, 'inputs are no part of the text that a shell reads').not.toContain('${{');
      const path = readFileSync(files.GITHUB_PATH, 'utf8').trim().split('\n').reverse();
      const step = {
        ...env,
        ...secrets,
        ...files,
        RUNNER_TEMP: temp,
        ...Object.fromEntries(Object.entries(own).map(([key, value]) => [key, expand(value)])),
        PATH: [...path, env.PATH].join(delimiter),
      };
      const args = ['--noprofile', '--norc', '-e', '-o', 'pipefail', '-c', run];
      const ended = await new Promise<{ code: number; text: string }>((end) => {
        execFile('bash', args, { cwd: job, env: step }, (error, stdout, stderr) => {
          end({ code: error === null ? 0 : Number(error.code), text: stdout + stderr });
        });
      });
      text += ended.text;
      ({ code } = ended);
      if (code !== 0) break;
    }
    const [output, summary] = [files.GITHUB_OUTPUT, files.GITHUB_STEP_SUMMARY].map((file) =>
      readFileSync(file, 'utf8'),
    );
    return { code, text, output: output ?? '', summary: summary ?? '' };
  }
});

describe('a release', () => {
  const ready = { GITHUB_ACTIONS: 'true', GITHUB_REF_TYPE: 'tag', GITHUB_REF_NAME: `v${manifest.version}` };
  const notes = (found: string[]): string[] => found.filter((problem) => !problem.startsWith('CHANGELOG'));

  it('action.yml asks for a version: its own one is a default only once the registry has it', () => {
    const { inputs } = parse(readFileSync(join(checkout, 'action.yml'), 'utf8')) as {
      inputs: { version: { required?: boolean; default?: string } };
    };
    expect(inputs.version).toMatchObject({ required: true });
    expect(inputs.version).not.toHaveProperty('default');
  });

  it('action.yml saves the mirror before drift fails the job, and needs no saved one', () => {
    const { runs } = parse(readFileSync(join(checkout, 'action.yml'), 'utf8')) as {
      runs: { steps: { name?: string; uses?: string; with?: Record<string, string> }[] };
    };
    const at = (is: (step: { name?: string; uses?: string }) => boolean): number => runs.steps.findIndex(is);
    const [restore, save] = ['restore', 'save'].map((part) =>
      at(({ uses = '' }) => uses.startsWith(`actions/cache/${part}@`)),
    ) as [number, number];
    const [sync, compare] = ['Sync', 'Compare'].map((each) => at(({ name }) => name === each)) as [
      number,
      number,
    ];
    expect(restore).toBeGreaterThan(-1);
    expect([restore, sync, save, compare]).toEqual([restore, sync, save, compare].toSorted((a, b) => a - b));
    // The action of both halves in one saves nothing where the job fails.
    expect(at(({ uses = '' }) => uses.startsWith('actions/cache@'))).toBe(-1);
    const { key, path } = runs.steps[save]?.with ?? {};
    expect(runs.steps[restore]?.with).toMatchObject({ key, path });
    expect(runs.steps[restore]?.with).not.toHaveProperty('fail-on-cache-miss');
  });

  it('is made by the workflow, of a tag with the version', () => {
    expect(notes(releaseProblems(ready))).toEqual([]);
    expect(notes(releaseProblems({}))).toHaveLength(2);
    expect(notes(releaseProblems({ ...ready, GITHUB_REF_NAME: 'v9.9.9' }))).toHaveLength(1);
    expect(notes(releaseProblems({ ...ready, GITHUB_REF_TYPE: 'branch' }))).toHaveLength(1);
  });

  it('is not published by accident', () => {
    expect(manifest.scripts['prepublishOnly']).toBe('node test/tools/check-release.ts');
    const { status, stderr } = spawnSync(process.execPath, [join(checkout, 'test/tools/check-release.ts')], {
      env: {},
      encoding: 'utf8',
    });
    expect({ status, stderr }).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('workflow') as string,
    });
  });
});
