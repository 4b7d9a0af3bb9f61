/** `serve` through the real command line: an existing client with another base URL, and what refuses to start. */
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished, describe, expect, it, vi } from 'vitest';
import { environment, scratch, start, tidemark, type Ended, type RunOptions } from './harness.ts';
import { FakeService, ORG } from './service.ts';

const DOMAINS = `/api/organizations/${ORG}/domains/`;

interface Served {
  readonly told: { schema: string; url: string; source: string; run: number; at: string };
  /** Stops it as Ctrl-C does. */
  readonly stop: () => Promise<Ended>;
  readonly child: ChildProcess;
  /** Waits until its log has that. */
  readonly says: (text: string) => Promise<void>;
}

async function serve(args: readonly string[], options: RunOptions): Promise<Served> {
  const { child, ended } = start(['serve', '--port', '0', '--json', ...args], options);
  onTestFinished(() => void child.kill('SIGKILL'));
  const stop = (): Promise<Ended> => {
    child.kill('SIGINT');
    return ended;
  };
  let log = '';
  child.stderr?.on('data', (text: string) => (log += text));
  const says = async (text: string): Promise<void> => {
    await vi.waitUntil(() => log.includes(text), { timeout: 20_000 });
  };
  if (child.stdout === null) throw new Error('no output');
  for await (const line of createInterface({ input: child.stdout }))
    return { told: JSON.parse(line) as Served['told'], stop, child, says };
  throw new Error((await ended).stderr);
}

describe('serve', () => {
  it('lets a client go on with another base URL, sees later runs, and needs its own token', async () => {
    const service = await FakeService.start();
    service.set('domains', ['{"id":"d1","price":1.10}', '{"id":"d2","big":9007199254740993}']);
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const tokens = join(directory, 'tokens');
    writeFileSync(tokens, '# of the dashboard\nfirst-token-of-the-replica\n\nsecond-token-of-the-replica\n');
    const asked = service.seen.length;
    const { told, stop } = await serve(['--token-file', tokens], { env });
    expect(told).toMatchObject({ schema: 'tidemark.serve/1', source: 'default', run: 1 });
    const ask = (token: string): Promise<Response> =>
      fetch(told.url + DOMAINS, { headers: { authorization: `Bearer ${token}` } });
    expect((await ask(env['TIDEMARK_API_KEY'] ?? '')).status).toBe(401);
    expect(await (await ask('second-token-of-the-replica')).text()).toBe(
      '{"count":2,"next":null,"previous":null,"results":[{"id":"d1","price":1.10},{"id":"d2","big":9007199254740993}]}',
    );

    const shown = start(['serve', '--port', '0', '--token-file', tokens], { env });
    onTestFinished(() => void shown.child.kill('SIGKILL'));
    for await (const line of createInterface({ input: shown.child.stdout! }))
      if (line.startsWith('try it:')) {
        expect(line).toMatch(/curl -H "Authorization: Bearer TOKEN" http:.*\/api\/organizations\/$/);
        break;
      }
    shown.child.kill('SIGINT');
    expect((await shown.ended).code).toBe(0);

    const copy = environment(told.url, scratch(), { TIDEMARK_API_KEY: 'first-token-of-the-replica' });
    expect(await tidemark(['sync', '--quiet'], { env: copy })).toMatchObject({ code: 0, stderr: '' });
    const [one, other] = await Promise.all([env, copy].map((each) => tidemark(['export'], { env: each })));
    expect(one?.stdout.split('\n').length).toBeGreaterThan(4);
    expect(other?.stdout).toBe(one?.stdout);
    expect(service.seen.length).toBe(asked);

    service.set('domains', ['{"id":"d3"}', '{"id":"d2","big":9007199254740993}']);
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const later = await ask('first-token-of-the-replica');
    const text = await later.text();
    expect(text).toContain('"d3"');
    expect(later.headers.get('x-tidemark-run')).toBe('2');
    expect(await stop()).toMatchObject({ code: 0, stderr: '' });
  });

  it.each(['--token-file', 'replica.tokenFile'])(
    'takes the new token of %s on SIGHUP, and keeps the last one while the file has none',
    async (named) => {
      const service = await FakeService.start();
      service.set('domains', ['{"id":"d1"}']);
      const directory = scratch();
      const file = join(directory, 'tokens');
      const isOption = named === '--token-file';
      const env = environment(service.url, directory, isOption ? {} : { TIDEMARK_REPLICA_TOKEN_FILE: file });
      writeFileSync(file, 'first-token-of-the-replica\n', { mode: 0o600 });
      expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
      const { told, child, stop, says } = await serve(isOption ? ['--token-file', file] : [], { env });
      const statuses = (): Promise<number[]> =>
        Promise.all(
          ['first', 'second'].map(async (name) => {
            const headers = { authorization: `Bearer ${name}-token-of-the-replica` };
            return (await fetch(told.url + DOMAINS, { headers })).status;
          }),
        );
      expect(await statuses()).toEqual([200, 401]);
      writeFileSync(file, 'second-token-of-the-replica\n');
      child.kill('SIGHUP');
      await says('configuration reloaded');
      expect(await statuses()).toEqual([401, 200]);
      writeFileSync(file, '');
      child.kill('SIGHUP');
      await says('the old configuration stays active');
      expect(await statuses()).toEqual([401, 200]);
      expect((await stop()).code).toBe(0);
    },
  );

  it.each([
    ['0.0.0.0', '127.0.0.1'],
    ['127.0.0.1', '127.0.0.1'],
  ])('and the sandbox, on %s, print a URL that can be opened', async (host, shown) => {
    const { child, ended } = start(['sandbox', '--port', '0', '--host', host], {});
    onTestFinished(() => void child.kill('SIGKILL'));
    let text = '';
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (text.includes('Ctrl-C')) break;
    }
    const [, url = '', port = ''] = /TIDEMARK_BASE_URL=(http:\/\/[^:]+:(\d+)) /.exec(text) ?? [];
    expect(url).toBe(`http://${shown}:${port}`);
    expect(text).not.toContain('0.0.0.0');
    expect(text.includes(`such as http://${hostname()}:${port}\n`)).toBe(host !== shown);
    expect((await fetch(`${url}/api/organizations/`)).status).toBe(401);
    const env = environment(url, scratch(), {
      TIDEMARK_API_KEY: 'sandbox-key',
      TIDEMARK_KINDS_INCLUDE: 'organizations',
    });
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const token = join(scratch(), 'token');
    writeFileSync(token, 'a-token-of-the-replica-of-some-length');
    const { told } = await serve(['--host', host, '--token-file', token], { env });
    expect(new URL(told.url).hostname).toBe(shown);
    child.kill('SIGINT');
    await ended;
  });

  it.each(['serve', 'sandbox'])('%s warns of a range that has more than proxies in it', async (command) => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    if (command === 'serve') expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const proxies = ['0.0.0.0/0', '10.1.0.0/16'].flatMap((each) => ['--trusted-proxy', each]);
    const { child, ended } = start([command, '--port', '0', '--json', ...proxies], { env });
    onTestFinished(() => void child.kill('SIGKILL'));
    child.stdout?.once('data', () => child.kill('SIGINT'));
    const { stderr } = await ended;
    expect(stderr).toContain(
      '--trusted-proxy: 0.0.0.0/0 is wide: whoever is in it can claim any address; list the proxies alone',
    );
    expect(stderr).not.toContain('10.1.0.0');
  });

  it('refuses to start where it would be open, or has nothing to serve', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const key = join(directory, 'key');
    writeFileSync(key, env['TIDEMARK_API_KEY'] ?? '');
    const empty = join(directory, 'empty');
    writeFileSync(empty, '\n# nothing\n');
    const two = join(directory, 'two.yaml');
    const source = (name: string): string =>
      `  - { name: ${name}, baseUrl: "${service.url}", apiKey: "another-key" }\n`;
    const mirror = `mirror: ${join(directory, 'two.db')}\n`;
    writeFileSync(two, `${mirror}sources:\n${source('one')}${source('two')}`);
    const plain = { PATH: process.env['PATH'] ?? '' };
    expect((await tidemark(['sync', '--quiet', '--config', two], { env: plain })).code).toBe(0);
    const cases: [string[], Record<string, string>, number, RegExp][] = [
      [[], env, 1, /there is no mirror at .*\n.*tidemark sync/],
      [
        ['--host', '0.0.0.0'],
        env,
        4,
        /0\.0\.0\.0 is not a loopback address and needs a token\n.*--token-file/,
      ],
      [['--token-file', key], env, 4, /is the key of source default\n/],
      [['--token-file', empty], env, 4, /holds no token\n/],
      [['--token-file', join(directory, 'none')], env, 1, /none could not be read/],
      [['--config', two], plain, 4, /serves one source, and there are 2\n.*--source: one, two/],
      [['--config', two, '--source', 'tow'], plain, 4, /did you mean two/],
    ];
    const ended = await Promise.all(
      cases.map(([args, with_]) => tidemark(['serve', '--port', '0', ...args], { env: with_ })),
    );
    for (const [index, [args, , code, says]] of cases.entries()) {
      expect([args, ended[index]?.code, ended[index]?.stdout]).toEqual([args, code, '']);
      expect(ended[index]?.stderr).toMatch(says);
    }
  });
});
