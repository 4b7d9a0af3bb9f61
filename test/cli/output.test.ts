import { spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { environment, program, scratch, start, tidemark } from '../journeys/harness.ts';
import { FakeService, forbidden } from '../journeys/service.ts';
import { alterFile } from '../tools/alter.ts';

/** A shell line in which `tidemark` is the program. */
function shell(
  line: string,
  env: Record<string, string>,
): { code: number | null; stdout: string; stderr: string } {
  const script = `tidemark() { "${process.execPath}" "${program}" "$@"; }\n${line}`;
  // Without a terminal, bash would take itself for a remote shell and read its start files.
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], {
    env: { PATH: process.env['PATH'], ...env },
    encoding: 'utf8',
  });
  return { code: status, stdout, stderr };
}

describe('an output that takes nothing more', () => {
  it.skipIf(!existsSync('/dev/full'))('full: one line and 1, for results and failures', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    for (const command of ['export', 'catalog', 'snyc --json']) {
      const { code, stderr } = shell(`tidemark ${command} > /dev/full`, env);
      expect([code, stderr]).toEqual([1, 'tidemark: the output could not be written: the disk is full\n']);
    }
  });

  it('a reader that left: nothing said, 0', async () => {
    const service = await FakeService.start();
    service.set(
      'domains',
      Array.from({ length: 900 }, (_each, index) => ({ id: `d${index}`, domain: 'x'.repeat(400) })),
    );
    const env = environment(service.url, scratch());
    await tidemark(['sync'], { env });
    const { stdout, stderr } = shell('tidemark export | head -1 | wc -l; echo ${PIPESTATUS[0]}', env);
    expect([stdout, stderr]).toEqual(['1\n0\n', '']);
  });

  it('a reader that left does not change the code of a command that checks something', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    await tidemark(['sync'], { env });
    await tidemark(['snapshots', 'pin', 'base', '--baseline'], { env });
    service.set('roles', [{ id: 'r1', name: 'New' }]);
    await tidemark(['sync'], { env });
    const codeOf = (command: string): string[] => {
      const { stdout, stderr } = shell(`tidemark ${command} | true; echo \${PIPESTATUS[0]}`, env);
      return [stdout, stderr];
    };
    for (const command of ['drift', 'diff run:1 latest']) {
      const { code } = await tidemark(command.split(' '), { env });
      expect(code, command).toBeGreaterThan(1);
      expect(codeOf(command)[0], command).toBe(`${code}\n`);
    }
    expect(codeOf('drift')[1]).not.toContain('could not be written');
    alterFile(env['TIDEMARK_MIRROR'] ?? '', "UPDATE records SET body = '{}'");
    expect(['verify', 'verify 2>&1'].map((command) => codeOf(command)[0])).toEqual(['1\n', '1\n']);
  });

  it('a reader that left does not end work: all sources are synced, and the code says how it went', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      `mirror: ./mirror.db
sources:
  - { name: first, baseUrl: "${service.url}", apiKey: test-key-of-some-length }
  - { name: second, baseUrl: "${service.url}", apiKey: test-key-of-some-length }
`,
    );
    const sync = async (streams: 'stdout' | 'both', ...options: string[]): Promise<number | null> => {
      const { child, ended } = start(['sync', ...options], { cwd: directory });
      child.stdout?.destroy();
      if (streams === 'both') child.stderr?.destroy();
      return (await ended).code;
    };
    expect(await sync('stdout')).toBe(0);
    expect(await sync('both', '--json', '--log-level', 'debug')).toBe(0);
    service.quirks.push(({ path }, response) =>
      path.endsWith('/plugins/') ? forbidden(response, 'plugin:read') : false,
    );
    expect(await sync('stdout')).toBe(3);
    const read = shell(
      `cd '${directory}'; tidemark runs --json; tidemark forget --keep-last 1 | true; echo \${PIPESTATUS[0]}; tidemark runs --json`,
      {},
    );
    const [before = '', code, after = ''] = read.stdout.split('\n');
    const runs = (text: string): unknown[] =>
      (JSON.parse(text) as { runs: { source: string; outcome: string }[] }).runs.map(
        ({ source, outcome }) => `${source} ${outcome}`,
      );
    const [partial, complete] = [
      ['second partial', 'first partial'],
      ['second complete', 'first complete'],
    ];
    expect(runs(before)).toEqual([...partial, ...complete, ...complete]);
    expect([code, read.stderr]).toEqual(['0', '']);
    // Each source's latest complete run stays, and beside the first one's also what the second one held by then.
    expect(runs(after)).toEqual([...partial, ...complete, 'second complete']);
  });

  it.skipIf(!existsSync('/dev/full'))(
    'full, where there is work to do: it is done, and 1 says so',
    async () => {
      const service = await FakeService.start();
      const env = environment(service.url, scratch());
      const script = `"${process.execPath}" "${program}" sync --json > /dev/full`;
      const child = spawn('bash', ['--norc', '-c', script], { env: { PATH: process.env['PATH'], ...env } });
      let stderr = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
      expect(await new Promise((resolve) => child.on('close', resolve))).toBe(1);
      expect(stderr).toBe('tidemark: the output could not be written: the disk is full\n');
      expect((await tidemark(['status'], { env })).code).toBe(0);
    },
  );
});

describe('words', () => {
  it('configured limits read as sentences', async () => {
    const env = environment('http://127.0.0.1:9', scratch());
    const [none, some] = await Promise.all([
      tidemark(['config', 'check'], { env }),
      tidemark(['config', 'check'], {
        env: { ...env, TIDEMARK_RATE_PER_MINUTE: '1', TIDEMARK_RATE_PER_HOUR: '4800' },
      }),
    ]);
    expect(none.stdout).toContain('no limit on requests, 4 at a time');
    expect(some.stdout).toContain(
      'at most 1 request a minute and at most 4,800 requests an hour, 4 at a time',
    );
  });

  it('verify says what is wrong once, however often it is', async () => {
    const service = await FakeService.start();
    service.set(
      'domains',
      Array.from({ length: 40 }, (_each, index) => ({ id: `d${index}`, domain: `${index}.example` })),
    );
    const directory = scratch();
    const env = environment(service.url, directory);
    await tidemark(['sync'], { env });
    alterFile(
      join(directory, 'mirror.db'),
      `UPDATE records SET body = replace(body, '.example', '.evil') WHERE body LIKE '%"domain"%'`,
    );
    const [text, json] = await Promise.all([
      tidemark(['verify'], { env }),
      tidemark(['verify', '--json'], { env }),
    ]);
    expect(text.code).toBe(1);
    const { problems } = JSON.parse(json.stdout) as { problems: unknown[] };
    expect(problems.length).toBeGreaterThanOrEqual(40);
    expect(text.stdout.split('\n').length).toBeLessThan(25);
    expect(text.stdout).toMatch(/40 times/);
    expect(text.stdout).toMatch(/and 35 other places: --json lists them/);
  });
});
