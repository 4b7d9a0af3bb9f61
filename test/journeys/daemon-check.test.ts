/** What the command line asks the daemon on this machine goes to it alone, and only its own answer counts. */
import { createServer, type RequestListener } from 'node:http';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { type DaemonRegistration, registerDaemon } from '../../src/daemon/lockfile.ts';
import { MINUTE_MS, NARROW_KEY, World } from '../daemon/http/world.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch, tidemark } from './harness.ts';

async function server(answer: RequestListener): Promise<string> {
  const listening = createServer(answer).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  onTestFinished(() => void listening.close());
  const address = listening.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

/** A daemon that announced itself at `url`, or where a real HTTP side listens. */
async function announced(
  url?: string,
  isSynced = true,
): Promise<{ world: World; registration: DaemonRegistration; env: Record<string, string> }> {
  const world = await World.create();
  if (isSynced) await world.sync();
  const registration = await registerDaemon(world.mirrorPath, {
    clock: systemClock,
    pid: process.pid,
    host: 'here',
  });
  onTestFinished(() => registration.leave());
  const own = url ?? (await world.listen({ localToken: registration.token.reveal() })).url;
  registration.setUrl(own);
  return { world, registration, env: environment(world.url, dirname(world.mirrorPath)) };
}

describe('daemon --check', () => {
  it('takes the answer of this daemon, in both forms', async () => {
    const { env } = await announced();
    const options = { env, cwd: env['TIDEMARK_MIRROR']?.replace(/\/[^/]*$/, '') ?? '' };
    const text = await commandLine(['daemon', '--check'], options);
    expect(text, text.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^(ok|degraded)\n/) as string,
    });
    const json = await commandLine(['daemon', '--check', '--json'], options);
    expect(json, json.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(json.stdout)).toMatchObject({ schema: 'tidemark.health/1' });
  });

  it('a first sync that is not complete is starting over HTTP, and no failure of the check', async () => {
    const { world, env } = await announced(undefined, false);
    // Nothing of all kinds was complete yet.
    await world.sync(undefined, undefined, undefined, ['roles']);
    const { url } = await world.listen();
    const ready = await fetch(`${url}/readyz`);
    expect([ready.status, await ready.json()]).toMatchObject([
      503,
      { state: 'starting', sources: [{ source: 'default', state: 'starting' }] },
    ]);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const options = { env, cwd: dirname(world.mirrorPath) };
    const text = await commandLine(['daemon', '--check'], options);
    expect([text.code, text.stdout, text.stderr]).toEqual([
      0,
      expect.stringMatching(
        /^starting\ndefault: starting\n {2}starting: no run of all kinds has been complete yet/,
      ),
      '',
    ]);
    const json = await commandLine(['daemon', '--check', '--json'], options);
    expect([json.code, JSON.parse(json.stdout)]).toMatchObject([0, { state: 'starting' }]);

    world.clock.at += 120 * MINUTE_MS;
    const late = await commandLine(['daemon', '--check'], options);
    expect([late.code, late.stdout]).toEqual([1, expect.stringMatching(/^failing\n/)]);
    expect(late.stderr).toContain('  failing: default: no run of all kinds has been complete yet');
    const inJson = await commandLine(['daemon', '--check', '--json'], options);
    expect(inJson.stderr).toContain('  failing: default: no run of all kinds has been complete yet');

    await world.sync();
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  it('a first sync that ended partial fails the check at once', async () => {
    const { world, env } = await announced(undefined, false);
    // It reads only a part.
    await world.sync(NARROW_KEY);
    const { code, stderr } = await commandLine(['daemon', '--check'], {
      env,
      cwd: dirname(world.mirrorPath),
    });
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('  failing: default: no run of all kinds has been complete yet'),
    ]);
  });

  describe('with a mistake in the configuration, which the daemon does not take', () => {
    const SOURCE = 'sources: [{ name: default, baseUrl: "http://127.0.0.1:1", apiKey: x }]\n';
    /** The exit code and the texts, with a configuration file and no variables that say where the mirror is. */
    async function checked(text: string, cwd: string) {
      writeFileSync(join(cwd, 'tidemark.yaml'), text);
      return await commandLine(['daemon', '--check'], { env: {}, cwd });
    }

    it.each([
      ['a wrong value', 'backup: { every: 1q }\n'],
      ['a variable that is not set', 'drift: { ignore: "${NOT_SET}" }\n'],
      ['a text that is no YAML', 'drift: [\n\tno: {\n'],
    ])('it is found with %s', async (_name, wrong) => {
      const { world } = await announced();
      const text = `mirror: ./${basename(world.mirrorPath)}\n${SOURCE}${wrong}`;
      const ended = await checked(text, dirname(world.mirrorPath));
      expect(ended, ended.stderr).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^(ok|degraded)\n/) as string,
      });
    });

    it.each([
      '"mirror": "./{source}.db"\ndrift: [\n',
      '  mirror: "./{source}.db"\n  drift: [\n',
      '{ mirror: "./{source}.db", drift: [ }\n',
    ])('no mirror is named where its path cannot be read: %j', async (text) => {
      const { code, stderr } = await checked(text, scratch());
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/no daemon can be found without the path of its mirror: [^]*not valid YAML/),
      ]);
      expect(stderr).not.toContain('mirror.db');
    });

    it('it is found on the mirror of a source', async () => {
      const { world } = await announced();
      const pattern = basename(world.mirrorPath).replace(/[a-z]+/, '{source}');
      const ended = await checked(
        `mirror: ./${pattern}\n${SOURCE}backup: { every: 1q }\n`,
        dirname(world.mirrorPath),
      );
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
    });

    it('that no daemon is there is exit 1 with the mistake, also where the path of the mirror is what is wrong', async () => {
      const { world } = await announced();
      const cwd = dirname(world.mirrorPath);
      const other = await checked(`mirror: ./other.db\n${SOURCE}backup: { every: 1q }\n`, cwd);
      expect([other.code, other.stderr]).toEqual([
        1,
        expect.stringMatching(/no daemon is running on \S+other\.db[^]*backup\.every: expected a duration/),
      ]);
      const unknown = await checked(`mirror: [1]\n${SOURCE}`, cwd);
      expect([unknown.code, unknown.stderr]).toEqual([
        1,
        expect.stringMatching(
          /no daemon can be found without the path of its mirror: tidemark\.yaml:1: mirror/,
        ),
      ]);
      const nameless = await checked('mirror: "./{source}.db"\nsources: 7\n', scratch());
      expect([nameless.code, nameless.stderr]).toEqual([
        1,
        expect.stringMatching(/no daemon can be found without the path of its mirror: [^]*sources/),
      ]);
      const absent = await commandLine(['daemon', '--check', '--config', 'absent.yaml'], { env: {}, cwd });
      expect([absent.code, absent.stderr]).toEqual([
        1,
        expect.stringContaining('no configuration file at') as string,
      ]);
    });
  });

  describe('where no file beside the mirror says where the daemon is', () => {
    /** A daemon that listens as configured, and whose file went away with the volume. */
    async function withoutCard(more: Parameters<World['listen']>[0] = {}) {
      const world = await World.create();
      await world.sync();
      const { url } = await world.listen(more);
      const cwd = dirname(world.mirrorPath);
      const env = { ...environment(world.url, cwd), TIDEMARK_HTTP_LISTEN: new URL(url).host };
      return { world, url, check: () => commandLine(['daemon', '--check'], { env, cwd }) };
    }

    it.each([
      ['without a token', {}, ' with failing'],
      ['with a token, which is not sent to whoever listens there', { token: new Secret('x'.repeat(32)) }, ''],
    ])('and the mirror is away, it is found at its address, %s', async (_name, more, state) => {
      const { world, url, check } = await withoutCard(more);
      renameSync(world.mirrorPath, `${world.mirrorPath}.away`);
      const { code, stdout, stderr } = await check();
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(
        new RegExp(`^tidemark: a daemon answers at ${url}${state}, but ${world.mirrorPath} and the daemon's`),
      );
      expect(stderr).toContain('is the volume mounted?\n  → mount the volume');
      expect(stderr).not.toContain('start one with');
    });

    it('and another mirror is in the place, that is said', async () => {
      const { url, check } = await withoutCard();
      const { code, stderr } = await check();
      expect(code).toBe(1);
      expect(stderr).toMatch(
        new RegExp(`^tidemark: no daemon is running on .*, or .* see it; a daemon answers at ${url} with `),
      );
      expect(stderr).toContain('another mirror is in its place, move that one away and mount the volume');
    });

    it.each([
      ['nobody', null],
      ['a web page', (_request, answer) => void answer.end('ok\n')],
      ['who refuses otherwise', (_request, answer) => void answer.writeHead(401).end('{"detail":"no"}')],
    ] as [string, RequestListener | null][])('and %s answers, none is running', async (_name, answer) => {
      const world = await World.create();
      const cwd = dirname(world.mirrorPath);
      const listen = answer === null ? '127.0.0.1:1' : new URL(await server(answer)).host;
      const env = { ...environment(world.url, cwd), TIDEMARK_HTTP_LISTEN: listen };
      const { code, stderr } = await commandLine(['daemon', '--check'], { env, cwd });
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^tidemark: no daemon is running on \S+, or this user may not see it\n/),
      ]);
    });
  });

  it.each([
    ['ok', 'text/plain', 'ok\n'],
    ['a document', 'application/json', '{"schema":"tidemark.health/1","state":"ok"}'],
    ['a page', 'text/html', '<h1>It works</h1>'],
  ])('does not believe %s of somebody else', async (_name, type, body) => {
    const url = await server((_request, answer) => answer.setHeader('Content-Type', type).end(body));
    const { env } = await announced(url);
    for (const form of [[], ['--json']]) {
      const ended = await commandLine(['daemon', '--check', ...form], { env, cwd: '/' });
      expect(ended.code).toBe(1);
      expect(ended.stdout + ended.stderr).toContain('is not this daemon');
    }
  });
});

it('goes past the proxies of the environment, with its token', async () => {
  const seen: string[] = [];
  const proxy = await server((request, answer) => {
    seen.push(`${request.method ?? ''} ${request.url ?? ''} ${request.headers.authorization ?? ''}`);
    answer.end('ok\n');
  });
  const { world, env } = await announced();
  world.requestStatuses.set(1, { state: 'ended', name: 'sync', source: 'default', job: null, error: null });
  const proxied = { ...env, NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy, http_proxy: proxy, NO_PROXY: '' };
  const check = await tidemark(['daemon', '--check'], { env: proxied });
  expect(check, check.stderr).toMatchObject({ code: 0 });
  await tidemark(['sync', '--quiet'], { env: proxied });
  // The daemon was asked, and nobody else.
  expect(world.asked).toHaveLength(1);
  expect(seen.filter((line) => line.includes('/api/v1/') || line.includes('Bearer'))).toEqual([]);
  expect(seen).toEqual([]);
});
