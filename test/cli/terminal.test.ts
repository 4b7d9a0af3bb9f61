import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { comparisonNotes } from '../../src/cli/run-comparison.ts';
import { runCommandLine } from '../../src/cli/program.ts';
import { textWidth } from '../../src/core/wrap.ts';
import { definitionOf, scopeText } from '../../src/catalog/catalog.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { commandLine } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

/** A terminal that keeps what it shows. */
class Terminal extends Writable {
  readonly isTTY = true;
  readonly columns = 80;
  text = '';

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

const ID = '0190bbbb-0000-7000-8000-000000000001';

async function mirrored() {
  const service = await FakeService.start();
  service.set('domains', [{ id: ID, domain: 'harbor.example', is_verified: true }]);
  const directory = scratch();
  const env = { ...environment(service.url, directory), NO_COLOR: '1', CI: '1' };
  const shown = async (...args: string[]): Promise<string> => (await both(...args)).stdout;
  const both = async (...args: string[]): Promise<{ stdout: string; stderr: string }> => {
    const [stdout, stderr] = [new Terminal(), new Terminal()];
    await runCommandLine(args, {
      ...{ env, cwd: directory, stdin: { isTTY: false }, stdout, stderr, pid: process.pid },
      ...{ signal: new AbortController().signal, execPath: process.execPath, entry: '' },
    });
    return { stdout: stdout.text, stderr: stderr.text };
  };
  return { service, env, directory, shown, both };
}

describe('a terminal of 80 columns', () => {
  it('is enough for every table', { timeout: 30_000 }, async () => {
    const { shown, env, directory } = await mirrored();
    const first = await shown('sync');
    await shown('snapshots', 'pin', 'start', 'run:1');
    await shown('snapshots', 'baseline', 'start');
    const tables: Record<string, string> = {
      sync: first,
      status: await shown('status', '-v'),
      runs: await shown('runs'),
      'runs show': await shown('runs', 'show', '1'),
      snapshots: await shown('snapshots'),
      blame: await shown('blame', 'domains', ID),
      catalog: await shown('catalog'),
      forget: await shown('forget', '--keep-last', '1', '--dry-run'),
    };
    for (const [command, text] of Object.entries(tables)) {
      const lines = text.split('\n');
      const head = lines.findIndex((line) => /^ *(kind|run|snapshot|field|kept) {2,}\S/.test(line));
      expect(head, `${command}\n${text}`).toBeGreaterThanOrEqual(0);
      const end = lines.indexOf('', head);
      for (const line of lines.slice(head, end === -1 ? undefined : end))
        expect(textWidth(line), `${command}: ${line}`).toBeLessThanOrEqual(80);
    }
    expect(tables['runs show']).toMatch(/^domains +complete .*\n {2}scope: organization Harbor$/m);
    // What no terminal reads has a line for each row, as scripts expect.
    const piped = await commandLine(['runs', 'show', '1'], { env, cwd: directory });
    expect(piped.stdout).toMatch(/^domains +organization \S+ +complete +1 +1 /m);
    expect(tables.runs).toMatch(
      /^ +1 +\d{4}-\d\d-\d\d \d\d:\d\d +\S+ s +complete( +\d+){4}\n\(no room for: source, by\)$/m,
    );
    expect((await commandLine(['runs'], { env, cwd: directory })).stdout).toMatch(
      /^ +1 +default +\d{4}-\d\d-\d\dT\S+ .* command of \S+$/m,
    );
  });

  it('shows the age of each backup; what the file name has goes first', { timeout: 30_000 }, async () => {
    const { shown, both, env, directory } = await mirrored();
    await shown('sync');
    const target = join(directory, 'backups');
    mkdirSync(target);
    Object.assign(env, { TIDEMARK_BACKUP_TARGETS: target });
    const made = await both('backup', 'create');
    expect(made.stdout, made.stderr).toContain('verified: ');
    const list = await shown('backup', 'list');
    expect(list).toMatch(/^file +made +run +size +state\ntidemark-\S+ +just now +1 +\S+ MB +complete\n/m);
    expect(list).toContain('(no room for: encrypted)');
    expect((await commandLine(['backup', 'list'], { env, cwd: directory })).stdout).toMatch(
      /^file +made +run +size +encrypted +state$/m,
    );
  });

  it('keeps an id beside its label where a short record takes two lines', { timeout: 30_000 }, async () => {
    const { service, shown, env, directory } = await mirrored();
    service.set('domains', [{ id: ID, domain: 'a-long-name-of-a-harbor-in-the-north.example' }]);
    await shown('sync');
    await shown('snapshots', 'pin', 'start', 'run:1');
    await shown('snapshots', 'baseline', 'start');
    service.set('domains', []);
    await shown('sync', '--accept-removals', '5');
    for (const command of ['drift', 'changes']) {
      expect(await shown(command), command).toMatch(new RegExp(`removed.*\n {6}id ${ID}`));
      const piped = await commandLine([command], { env, cwd: directory });
      expect(piped.stdout, command).toMatch(new RegExp(`removed.* id ${ID}`));
    }
  });
});

it('gets no control character in CSV, which a file keeps', async () => {
  const { service, shown, env, directory } = await mirrored();
  await shown('sync');
  const domain = 'a\u001b[31m\r\u202eb';
  service.set('domains', [{ id: ID, domain }]);
  await shown('sync');
  const since = ['changes', '--since', 'run:1', '--format', 'csv'];
  for (const args of [since, ['export', '--kind', 'domains', '--format', 'csv']]) {
    expect(await shown(...args)).toMatch(/a\\u\{001b\}\[31m\\r\\u\{202e\}b.*\r\n$/);
    expect((await commandLine(args, { env, cwd: directory })).stdout).toContain(domain);
  }
});

describe('text on a terminal of 80 columns', () => {
  it('is broken between words, on stdout and stderr', async () => {
    const { service, shown, both } = await mirrored();
    await shown('sync');
    await shown('snapshots', 'pin', 'start', 'run:1');
    await shown('snapshots', 'baseline', 'start');
    service.set('domains', [
      { id: ID, domain: 'harbor.example', is_verified: false, note: 'all of these words '.repeat(12).trim() },
    ]);
    await shown('sync');
    for (const args of [
      ['diff', 'run:1', 'run:2'],
      ['drift'],
      ['drift', 'accept', 'domains', 'nothing-of-the-kind', '--reason', 'none'],
      ['restore', 'run:1'],
      ['restore', 'run:1', '--apply'],
      ['log', 'domains', ID],
      ['show', 'domains', ID],
      ['show', 'domains', 'nobody'],
      ['blame', 'domains', ID],
      ['changes', '--since', 'run:1'],
      ['runs', 'show', '2'],
      ['doctor'],
      ['doctor', '--help'],
      ['estimate'],
      ['verify'],
      ['config', 'check'],
      ['snapshots'],
      ['diff', 'run:99'],
      ['status'],
    ]) {
      const { stdout, stderr } = await both(...args);
      for (const line of `${stdout}${stderr}`.split('\n'))
        if (line.trim().includes(' '))
          expect(textWidth(line), `${args.join(' ')}: ${line}`).toBeLessThanOrEqual(80);
    }
  });
});

describe('words of commands', () => {
  it('`runs --limit 0` is a mistake, not an empty mirror', async () => {
    const { env, directory } = await mirrored();
    const { code, stderr } = await commandLine(['runs', '--limit', '0'], { env, cwd: directory });
    expect(code).toBe(4);
    expect(stderr).toContain('--limit 0 is not valid: expected at least 1');
  });

  it('a failed sync says its problems once where one terminal shows both outputs', async () => {
    const { service, both, env, directory } = await mirrored();
    service.quirks.push((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end('{"detail":"Invalid API key."}');
      return true;
    });
    const { stdout, stderr } = await both('sync');
    const words = `${stdout}${stderr}`.replaceAll(/\s+/g, ' ');
    expect(words.match(/the key was refused/g), words).toHaveLength(1);
    expect(stderr).toMatch(/^tidemark: run 1 of default failed\n *→ what was not read/);
    // What cron mails has them on stderr as well.
    const piped = await commandLine(['sync'], { env, cwd: directory });
    expect(piped.stdout).toContain('the key was refused');
    expect(piped.stderr).toContain('the key was refused');

    // Likewise what status says of it, and the age behind a message that ends in a period has no second one.
    const state = await both('status');
    expect(state.stderr).toBe('tidemark: no run of default was published yet\n');
    expect(state.stdout.replaceAll(/\s+/g, ' ')).toContain('Invalid API key, just now');
    expect((await commandLine(['status'], { env, cwd: directory })).stderr).toContain(
      '→ check the key of this source (`tidemark doctor` tries it)',
    );
    const looked = await both('doctor');
    expect(looked.stdout).toMatch(/organizations +DENIED .* the key was refused\n/);
    expect(looked.stdout).not.toMatch(/needs organization|\d organizations?,/);
    expect(`${looked.stdout}${looked.stderr}`.match(/check apiKey of the source/g)).toHaveLength(1);
  });

  it('a key that is refused everywhere is said once', async () => {
    const { service, env, directory } = await mirrored();
    service.quirks.push(({ path }, response) => {
      if (path === '/api/organizations/') return false;
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end('{"detail":"Invalid API key."}');
      return true;
    });
    const { stdout } = await commandLine(['sync'], { env, cwd: directory });
    expect(stdout.match(/denied: the key was refused/g)).toHaveLength(1);
    expect(stdout).toMatch(/^\d+ collections of \d+ kinds: denied: the key was refused/m);
  });

  it('help of `diff` says what several sources give', async () => {
    const { stdout } = await commandLine(['diff', '--help'], { env: {}, cwd: scratch() });
    expect(stdout).toMatch(/tidemark\.reports\/1[\s{]+documents, errors/);
  });

  it('a count that holds for each of several collections says so', () => {
    const left = (project: string): object => ({
      kind: 'recording_sharing',
      scope: { project_id: project },
      reason: '20 recording sharings: not looked at',
    });
    const document = { left_out: [left('1'), left('2')] } as unknown as DiffDocument;
    expect(comparisonNotes(document, definitionOf, scopeText)).toEqual([
      'left out: recording sharings (project 1; project 2): each 20 recording sharings: not looked at',
    ]);
  });
});
