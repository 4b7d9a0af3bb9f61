import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService } from './service.ts';

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
    ['an unknown format', ['export', '--format', 'jsno'], 'json'],
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

  it('--json gives failures as JSON', async () => {
    const ended = await tidemark(['status', '--json'], { env: environment('http://127.0.0.1:9', scratch()) });
    expect(JSON.parse(ended.stderr)).toMatchObject({ schema: 'tidemark.error/1', code: 'mirror_missing' });
  });

  it('--log-level debug shows where it came from', async () => {
    const ended = await tidemark(['status', '--log-level', 'debug'], {
      env: environment('http://127.0.0.1:9', scratch()),
    });
    expect(ended.stderr).toMatch(/\n\s+at /);
  });
});

describe('help', () => {
  it.each([[[]], [['--help']], [['sync', '--help']], [['runs', 'show', '--help']]])('%j', async (args) => {
    const ended = await tidemark(args);
    expect(ended.stdout + ended.stderr).toContain('Usage: tidemark');
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
    const file = new Database(join(directory, 'mirror.db'));
    file.exec('DELETE FROM runs');
    file.close();
    const ended = await tidemark(['verify'], { env });
    expectClear(ended, 1);
    expect(ended.stdout).toContain('sealed row is gone');
  });
});
