import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService } from './service.ts';
import { alterFile } from '../tools/alter.ts';

/** A failure as a user wants it: few lines, no stack, the right exit code. */
function expectClear(ended: { code: number | null; stdout: string; stderr: string }, code: number): void {
  expect(ended.code, ended.stdout + ended.stderr).toBe(code);
  const said = ended.stderr + ended.stdout;
  expect(said).not.toMatch(/\n\s+at .*\(?.*:\d+:\d+\)?/);
  expect(said.trim()).not.toBe('');
}

describe('wrong input', () => {
  it('no configuration at all: 4, and what to set', async () => {
    const ended = await tidemark(['sync'], { cwd: scratch() });
    expectClear(ended, 4);
    expect(ended.stderr).toMatch(/TIDEMARK_BASE_URL/);
    expect(ended.stderr).toMatch(/TIDEMARK_API_KEY/);
  });

  it('bad YAML: 4, every mistake at once with its line', async () => {
    const directory = scratch();
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      'sources:\n  - name: production\n    baseUrl: ftp://x\n    apiKey: ${NO_SUCH_VARIABLE}\n    rate: { perMinute: fast }\n    pagesize: 3\nmirorr: x\n',
    );
    const ended = await tidemark(['config', 'check'], { cwd: directory });
    expectClear(ended, 4);
    for (const part of [
      /:3\b.*baseUrl/,
      /:4\b.*NO_SUCH_VARIABLE/,
      /:5\b.*perMinute.*number/,
      /:6\b.*pagesize.*pageSize/,
      /:7\b.*mirorr.*mirror/,
    ]) {
      expect(ended.stderr).toMatch(part);
    }
  });

  it('YAML that is no YAML: 4 with the line', async () => {
    const directory = scratch();
    writeFileSync(join(directory, 'tidemark.yaml'), 'sources:\n  - name: [unclosed\n');
    const ended = await tidemark(['sync'], { cwd: directory });
    expectClear(ended, 4);
    expect(ended.stderr).toMatch(/tidemark\.yaml:\d/);
  });

  it.each([
    ['an unknown command', ['snyc'], 'sync'],
    ['an unknown flag', ['sync', '--ful'], '--full'],
    ['an unknown kind', ['sync', '--kind', 'batch_export'], 'batch_exports'],
    ['an unknown format', ['export', '--format', 'jsno'], 'did you mean json?'],
    ['an unknown subcommand', ['runs', 'shw'], 'did you mean show?'],
    ['help for an unknown command', ['help', 'snyc'], 'did you mean sync?'],
    ['a misspelt flag that all commands have', ['sync', '--jsn'], 'did you mean --json?'],
    ['a kind like no other', ['export', '--kind', 'zzz'], 'tidemark catalog'],
    ['an argument where none belongs', ['status', 'now'], 'takes no argument, not now'],
  ])('%s: 4 with a suggestion', async (_name, args, suggestion) => {
    const ended = await tidemark(args, { env: environment('http://127.0.0.1:9', scratch()) });
    expectClear(ended, 4);
    expect(ended.stderr).toContain(suggestion);
  });

  it('an unreachable host: 1, naming it', async () => {
    const ended = await tidemark(['sync'], {
      env: environment('http://127.0.0.1:9', scratch(), { TIDEMARK_RETRY_ATTEMPTS: '2' }),
    });
    expectClear(ended, 1);
    expect(ended.stdout + ended.stderr).toContain('127.0.0.1:9');
  });

  it('a mirror that does not exist: says to sync first', async () => {
    const ended = await tidemark(['status'], { env: environment('http://127.0.0.1:9', scratch()) });
    expectClear(ended, 1);
    expect(ended.stderr).toContain('tidemark sync');
  });

  it('a foreign file: one line, and the file is as it was', async () => {
    const directory = scratch();
    const service = await FakeService.start();
    writeFileSync(
      join(directory, 'mirror.db'),
      "this is not a database, but somebody else's notes\n".repeat(100),
    );
    const ended = await tidemark(['sync'], { env: environment(service.url, directory) });
    expectClear(ended, 1);
    expect(ended.stderr).toContain('mirror.db');
    expect(service.seen).toEqual([]);
  });

  it('a directory where the mirror should be, and one that cannot be written: one line each', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    mkdirSync(join(directory, 'mirror.db'));
    expectClear(await tidemark(['sync'], { env: environment(service.url, directory) }), 1);
    writeFileSync(join(directory, 'file'), '');
    expectClear(await tidemark(['sync'], { env: environment(service.url, join(directory, 'file')) }), 1);
    if (process.getuid?.() === 0) return; // root writes everywhere
    chmodSync(directory, 0o500);
    expectClear(await tidemark(['sync'], { env: environment(service.url, join(directory, 'sub')) }), 1);
  });

  it.each([
    ['no mirror', ['status', '--json'], 'mirror_missing', 1],
    ['an unknown command', ['--json', 'snyc'], 'usage', 4],
    ['an unknown flag before it', ['sync', '--ful', '--json'], 'usage', 4],
    ['an unknown kind', ['export', '--kind', 'roless', '--json'], 'usage', 4],
    ['a family without a command', ['config', '--json'], 'usage', 4],
    ['a source that is not configured', ['config', 'check', '--json', '--source', 'x'], 'usage', 4],
    ['a configuration that is not there', ['sync', '--json', '--config', 'none.yaml'], 'config_missing', 4],
  ])('--json gives %s as one document on stdout', async (_name, args, code, exit) => {
    const ended = await tidemark(args, { env: environment('http://127.0.0.1:9', scratch()) });
    expect(ended.code).toBe(exit);
    expect(JSON.parse(ended.stdout)).toMatchObject({ schema: 'tidemark.error/1', code, exit_code: exit });
    // Usage and configuration are the caller's to read from the document; why a command failed stands on stderr too.
    expect(ended.stderr).toMatch(exit === 4 ? /^$/ : /^tidemark: there is no mirror/);
  });

  it('--log-level debug shows where it came from', async () => {
    const ended = await tidemark(['status', '--log-level', 'debug'], {
      env: environment('http://127.0.0.1:9', scratch()),
    });
    expect(ended.stderr).toMatch(/\n\s+at /);
  });
});

describe('help', () => {
  it.each([
    [[], 4],
    [['config'], 4],
    [['--help'], 0],
    [['help', 'sync'], 0],
    [['sync', '--help'], 0],
    [['runs', 'show', '--help'], 0],
  ] as const)('%j ends with %i', async (args, code) => {
    const ended = await tidemark(args);
    expect(ended.code).toBe(code);
    // Asked for, it is the result; else it tells what is missing.
    expect(code === 0 ? ended.stdout : ended.stderr).toContain('Usage: tidemark');
  });

  it('--version', async () => {
    expect((await tidemark(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('verify', () => {
  it('finds a history whose runs were deleted', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    alterFile(join(directory, 'mirror.db'), 'DELETE FROM runs');
    const ended = await tidemark(['verify'], { env });
    expectClear(ended, 1);
    expect(ended.stdout).toContain('but its row is gone');
  });
});
