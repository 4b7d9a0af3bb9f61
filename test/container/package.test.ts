/** The npm package: packed as `npm publish` packs it, installed into an empty folder, and started from there. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
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
  const tidemark = (...args: string[]): ReturnType<typeof spawnSync> =>
    spawnSync('npx', ['--no-install', 'tidemark', ...args], { cwd: folder, env, encoding: 'utf8' });

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
    expect(statSync(join(scratch, `tidemark-${manifest.version}.tgz`)).size).toBeLessThan(2e6);
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

  it('builds nothing where it is installed', () => {
    const { status, stderr } = spawnSync('/bin/sh', ['-c', manifest.scripts['prepare'] ?? 'false'], {
      cwd: installed(),
      env,
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('starts every command', () => {
    const entry = installed('dist/main.js');
    const failed = COMMANDS.filter(
      ({ name }) =>
        spawnSync(process.execPath, [entry, ...name.split(' '), '--help'], { cwd: folder }).status,
    );
    expect(COMMANDS.length).toBeGreaterThan(20);
    expect(failed.map(({ name }) => name)).toEqual([]);
  });

  it('goes from init to a mirror in an empty folder', async () => {
    expect(tidemark('--version').stdout).toBe(`${manifest.version}\n`);
    const service = await FakeService.start();
    const init = tidemark('init', '--url', service.url, '--key-env', 'SVC_API_KEY', '--no-check');
    expect(init.status, String(init.stderr)).toBe(0);
    expect(readFileSync(join(folder, 'tidemark.yaml'), 'utf8')).toContain('${SVC_API_KEY}');
    // Beside the service, which this process is: it answers only while nothing here waits for a child.
    const synced = await promisify(execFile)('npx', ['--no-install', 'tidemark', 'sync'], {
      cwd: folder,
      env: { ...env, SVC_API_KEY: 'key', TIDEMARK_RATE_PER_MINUTE: '0', TIDEMARK_RATE_PER_HOUR: '0' },
    });
    expect(synced.stdout).toContain('complete');
    expect(readdirSync(join(folder, 'data'))).toContain('mirror.db');
  });
});

describe('a release', () => {
  const ready = { GITHUB_ACTIONS: 'true', GITHUB_REF_TYPE: 'tag', GITHUB_REF_NAME: `v${manifest.version}` };
  const notes = (found: string[]): string[] => found.filter((problem) => !problem.startsWith('CHANGELOG'));

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
