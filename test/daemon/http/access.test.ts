import { writeFileSync } from 'node:fs';
import { request as rawRequest } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../../src/core/errors.ts';
import { type Logger, silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { keyFingerprint } from '../../../src/config/source.ts';
import { SharedThrottle } from '../../../src/mirror/shared-throttle.ts';
import { scratch } from '../../journeys/harness.ts';
import { FULL_KEY, LOCAL_TOKEN, MINUTE_MS, World } from './world.ts';

const TOKEN = 'a-token-of-some-length';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** With headers that `fetch` would not send. */
function call(
  url: string,
  how: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = rawRequest(
      url,
      { method: how.method ?? 'GET', headers: how.headers ?? {} },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    request.on('error', reject);
    request.end(how.body);
  });
}

const JSON_BODY = { 'content-type': 'application/json' };
const sync = JSON.stringify({ job: 'sync', sources: null, full: false, kinds: null });

describe('without a token', () => {
  it('everybody on this machine reads, and no page elsewhere whose name leads here', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    for (const path of ['/', '/healthz', '/metrics', '/api/v1/status'])
      expect((await call(url + path)).status).toBe(200);
    for (const host of ['evil.example', 'evil.example:80', '127.0.0.1.evil.example']) {
      expect((await call(`${url}/`, { headers: { host } })).status).toBe(421);
    }
    expect((await call(`${url}/`, { headers: { host: 'localhost:1' } })).status).toBe(200);
    expect((await call(`${url}/healthz`, { headers: { host: '10.0.0.1' } })).status).toBe(200);
  });

  it('only the local token starts a job, and no page of another site does', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    const post = (headers: Record<string, string>, body = sync): Promise<Answer> =>
      call(`${url}/api/v1/runs`, { method: 'POST', headers: { ...JSON_BODY, ...headers }, body });
    expect((await post({})).status).toBe(401);
    expect((await post({ authorization: 'Bearer ' })).status).toBe(401);
    expect((await post({ authorization: `Bearer ${LOCAL_TOKEN}x` })).status).toBe(401);
    const own = { authorization: `Bearer ${LOCAL_TOKEN}` };
    expect((await post({ ...own, origin: 'https://evil.example' })).status).toBe(403);
    expect((await post({ ...own, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await post({ ...own, 'content-type': 'text/plain' })).status).toBe(415);
    expect(world.asked).toEqual([]);
    const accepted = await post({ ...own, referer: `${url}/jobs` });
    expect(accepted.status).toBe(202);
    expect(JSON.parse(accepted.text)).toEqual({
      schema: 'tidemark.queued/1',
      queued: [{ job: 'sync', source: 'default', request: 1, behind: [] }],
    });
    const usual = { by: 'token@http', via: 'token@http' };
    expect(world.asked).toEqual([['sync', null, { actor: usual, full: false, kinds: null }]]);
  });

  it('who asks is known by the token: only the command line may say of which user of the system it is', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const by = 'root@vm';
    const post = async (token: string, more: object): Promise<number> => {
      const headers = { ...JSON_BODY, authorization: `Bearer ${token}` };
      const body = JSON.stringify({ job: 'forget', ...more });
      return (await call(`${url}/api/v1/runs`, { method: 'POST', headers, body })).status;
    };
    expect(await post(TOKEN, { by })).toBe(202);
    expect(await post(TOKEN, { by, via: by })).toBe(400);
    expect(await post(LOCAL_TOKEN, { by: 'ann', via: by })).toBe(202);
    expect(world.asked.map(([, , how]) => how?.actor)).toEqual([
      { by, via: 'token@http' },
      { by: 'ann', via: by },
    ]);
  });

  it('what was asked for is found again by its number', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    const identity = { name: 'sync', source: 'default' } as const;
    const before = [{ name: 'drill', source: 'default' }] as const;
    world.requestStatuses.set(1, { state: 'waiting', ...identity, before });
    const headers = { ...JSON_BODY, authorization: `Bearer ${LOCAL_TOKEN}` };
    const answer = await call(`${url}/api/v1/runs`, { method: 'POST', headers, body: sync });
    const behind = [{ job: 'drill', source: 'default' }];
    expect(JSON.parse(answer.text)).toMatchObject({ queued: [{ request: 1, behind }] });
    const requestStatus = async (): Promise<unknown> =>
      JSON.parse((await call(`${url}/api/v1/requests/1`)).text);
    const document = {
      schema: 'tidemark.request/1',
      request: 1,
      job: 'sync',
      source: 'default',
      error: null,
    };
    expect(await requestStatus()).toEqual({ ...document, state: 'waiting', number: null, behind });
    world.requestStatuses.set(1, { state: 'running', ...identity, job: 7 });
    expect(await requestStatus()).toEqual({ ...document, state: 'running', number: 7, behind: [] });
    const error = new TidemarkError('disk_full', 'no room');
    world.requestStatuses.set(1, { state: 'ended', ...identity, job: null, error });
    expect(await requestStatus()).toMatchObject({
      state: 'ended',
      error: { code: 'disk_full', message: 'no room' },
    });
    for (const other of ['2', 'x', '-1'])
      expect((await call(`${url}/api/v1/requests/${other}`)).status).toBe(404);
  });

  it.each([
    ['no JSON', '{'],
    ['a list', '[]'],
    ['an unknown job', '{"job":"reboot"}'],
    ['an unknown member', '{"job":"sync","force":true}'],
    ['no list of sources', '{"job":"sync","sources":"default"}'],
    ['an unknown source', '{"job":"sync","sources":["nobody"]}'],
    ['nobody', '{"job":"sync","by":" "}'],
    ['somebody of two lines', '{"job":"sync","by":"a\\nb"}'],
    ['a number', '{"job":"sync","by":7}'],
    ['a name that holds a key', JSON.stringify({ job: 'sync', by: `ann ${FULL_KEY}` })],
    ['an unknown kind', '{"job":"sync","kinds":["members","x"]}'],
    ['kinds of a drill', '{"job":"drill","kinds":["members"]}'],
  ])('refuses %s with what to send', async (_name, body) => {
    const world = await World.create();
    const { url } = await world.listen();
    const headers = { ...JSON_BODY, authorization: `Bearer ${LOCAL_TOKEN}` };
    const answer = await call(`${url}/api/v1/runs`, { method: 'POST', headers, body });
    expect(answer.status).toBe(400);
    const { error } = JSON.parse(answer.text) as { error: Record<string, string> };
    expect(error['code']).toBe('usage');
    expect(error['hint']).not.toBeNull();
    expect(world.asked).toEqual([]);
  });

  it('listens nowhere else', async () => {
    const world = await World.create();
    await expect(world.listen({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'config_invalid' });
  });
});

describe('with a token', () => {
  it('everything but the proof of life needs it', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    expect((await call(`${url}/healthz`)).status).toBe(200);
    for (const path of ['/readyz', '/metrics', '/api/v1/status', '/api/v1/runs', '/records']) {
      const answer = await call(url + path);
      expect([path, answer.status]).toEqual([path, 401]);
      expect(answer.headers['www-authenticate']).toContain('Bearer');
      for (const wrong of ['Bearer x', `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, `Bearer ${TOKEN.slice(1)}`])
        expect((await call(url + path, { headers: { authorization: wrong } })).status).toBe(401);
      const known = await call(url + path, { headers: { authorization: `Bearer ${TOKEN}` } });
      expect(known.status).not.toBe(401);
      // Four wrong ones a minute are answered so.
      world.clock.passedMs += MINUTE_MS;
    }
    // A name that leads here is no matter: who calls under it has no token.
    expect((await call(`${url}/healthz`, { headers: { host: 'backup.example' } })).status).toBe(200);
  });

  it('people log in, stay for a week, and log out', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const asPerson = { accept: 'text/html' };
    const away = await call(`${url}/drift?x=1`, { headers: asPerson });
    expect([away.status, away.headers.location]).toEqual([303, '/login?to=%2Fdrift%3Fx%3D1']);
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const log = (token: string, to: string, more: Record<string, string> = {}): Promise<Answer> =>
      call(`${url}/login`, {
        method: 'POST',
        headers: { ...form, ...more },
        body: new URLSearchParams({ token, to }).toString(),
      });
    const wrong = await log('nonsense', '/');
    expect([wrong.status, wrong.headers['set-cookie']]).toEqual([401, undefined]);
    expect((await log(TOKEN, '/', { origin: 'https://evil.example' })).status).toBe(403);
    for (const to of ['//evil.example', '/\\evil.example', 'https://evil.example'])
      expect((await log(TOKEN, to)).headers.location).toBe('/');
    const right = await log(TOKEN, '/drift', { 'x-forwarded-proto': 'https' });
    expect([right.status, right.headers.location]).toEqual([303, '/drift']);
    const [cookie = ''] = right.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Secure$/);
    expect(cookie).not.toContain(TOKEN);
    const session = { ...asPerson, cookie: `other=1; ${cookie.split(';')[0] ?? ''}` };
    expect((await call(`${url}/api/v1/status`, { headers: session })).status).toBe(200);
    // It reads, and starts nothing.
    const start = await call(`${url}/api/v1/runs`, {
      method: 'POST',
      headers: { ...session, ...JSON_BODY },
      body: sync,
    });
    expect(start.status).toBe(401);
    const forged = session.cookie.replace(/[0-9a-f]{4}$/, '0000');
    expect((await call(`${url}/`, { headers: { ...asPerson, cookie: forged } })).status).toBe(303);
    const out = await call(`${url}/logout`, { method: 'POST', headers: session });
    expect(out.headers['set-cookie']?.[0]).toContain('Max-Age=0');
    // Whoever kept the cookie has nothing of it.
    expect((await call(`${url}/`, { headers: session })).status).toBe(303);
    const [again = ''] = (await log(TOKEN, '/')).headers['set-cookie'] ?? [];
    session.cookie = again.split(';')[0] ?? '';
    expect((await call(`${url}/`, { headers: session })).status).toBe(200);
    world.clock.at += 7 * 24 * 60 * MINUTE_MS + 1000;
    expect((await call(`${url}/`, { headers: session })).status).toBe(303);
  });

  const log = (url: string, token: string, more: Record<string, string> = {}): Promise<Answer> =>
    call(`${url}/login`, {
      method: 'POST',
      headers: more,
      body: new URLSearchParams({ token, to: '/' }).toString(),
    });
  const times = <T>(count: number, work: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, work));

  it('guesses at the login form are slowed, and the right token enters all the same', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const statuses = (await times(5, () => log(url, 'nonsense'))).map(({ status }) => status);
    expect(statuses).toEqual([401, 401, 401, 401, 401]);
    const refused = await log(url, 'nonsense');
    expect([refused.status, refused.headers['set-cookie']]).toEqual([429, undefined]);
    const seconds = Number(refused.headers['retry-after']);
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect((await log(url, TOKEN)).status).toBe(303);
    world.clock.passedMs += seconds * 1000;
    expect((await log(url, 'nonsense')).status).toBe(401);
  });

  it('wrong tokens of programs are slowed and logged once a minute, without the token', async () => {
    const world = await World.create();
    const lines: string[] = [];
    const collect = (facts: object, message: string): void =>
      void lines.push(JSON.stringify({ ...facts, message }));
    const logger: Logger = { ...silentLogger, debug: collect, info: collect, warn: collect, error: collect };
    const { url } = await world.listen({ token: new Secret(TOKEN), log: logger });
    const ask = (token: string): Promise<Answer> =>
      call(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const begun = performance.now();
    const statuses = (await times(40, () => ask('a-guess-at-it'))).map(({ status }) => status);
    expect(performance.now() - begun).toBeGreaterThan(390);
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(35);
    expect((await ask(TOKEN)).status).toBe(200);
    // At the form as well: it is the same address.
    expect((await log(url, 'a-guess-at-it')).status).toBe(429);
    const told = lines.filter((line) => line.includes('wrong token'));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('127.0.0.1');
    expect(lines.join('')).not.toContain('a-guess-at-it');
    world.clock.passedMs += 60_000;
    expect((await ask('a-guess-at-it')).status).toBe(401);
    expect(lines.filter((line) => line.includes('wrong token'))).toHaveLength(2);
  });

  it('guesses from one address are no matter to another one', async () => {
    const world = await World.create();
    const behind = (address: string): Record<string, string> => ({ 'x-forwarded-for': address });
    const { url } = await world.listen({ token: new Secret(TOKEN), trustedProxies: ['127.0.0.0/8'] });
    await times(6, () => log(url, 'nonsense', behind('2001:db8:1:2::1')));
    const status = async (address: string): Promise<number> =>
      (await log(url, 'nonsense', behind(address))).status;
    // One customer's addresses are one address.
    expect(await status('2001:db8:1:2:ffff::2')).toBe(429);
    expect(await status('2001:db8:1:3::1')).toBe(401);
    expect(await status('192.0.2.1')).toBe(401);
    // What stands before the first stranger is that one's own word.
    expect(await status('192.0.2.7, 2001:db8:1:2::1')).toBe(429);
    // Nobody was named: the headers say nothing.
    const { url: open } = await world.listen({ token: new Secret(TOKEN) });
    await times(6, () => log(open, 'nonsense', behind('192.0.2.8')));
    expect((await log(open, 'nonsense', behind('192.0.2.9'))).status).toBe(429);
  });

  it.each<[string, Record<string, string>, number]>([
    ['a program', {}, 303],
    ['our form', { origin: 'SAME', 'sec-fetch-site': 'same-origin' }, 303],
    ['our form over plain HTTP to another machine', { origin: 'SAME' }, 303],
    ['our form that hides its origin', { origin: 'null', 'sec-fetch-site': 'same-origin' }, 303],
    ['an address typed by hand', { origin: 'null', 'sec-fetch-site': 'none' }, 303],
    ['a sandboxed frame', { origin: 'null', 'sec-fetch-site': 'cross-site' }, 403],
    ['a sandboxed frame over plain HTTP', { origin: 'null' }, 403],
    ['another site', { origin: 'https://evil.example' }, 403],
    [
      'another site that claims to be this one',
      { origin: 'https://evil.example', 'sec-fetch-site': 'none' },
      403,
    ],
  ])('a login by %s', async (_name, headers, status) => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const sent = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value === 'SAME' ? url : value]),
    );
    expect((await log(url, TOKEN, sent)).status).toBe(status);
    const known = { ...sent, authorization: `Bearer ${TOKEN}` };
    expect((await call(`${url}/logout`, { method: 'POST', headers: known })).status).toBe(status);
  });

  it.each([
    ['/drift?x=1#part', '/drift?x=1#part'],
    ['/records/members/\u00e4', '/records/members/%C3%A4'],
    ['//evil.example', '/'],
    ['/\\evil.example', '/'],
    ['/\t/evil.example', '/'],
    ['\t//evil.example', '/'],
    ['/\n/evil.example', '/'],
    ['/\r\n/evil.example', '/'],
    ['/\0/x', '/'],
    ['/\u0085/x', '/'],
    ['/.//evil.example', '/'],
    ['/x/..//evil.example', '/'],
    ['https://evil.example', '/'],
    ['https:evil.example', '/'],
    ['javascript:alert(1)', '/'],
    ['@evil.example', '/'],
    ['', '/'],
    ['/\ud800', '/%EF%BF%BD'],
  ])('a login for %j leads to %s', async (to, location) => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const headers = { authorization: `Bearer ${TOKEN}` };
    const asked = `${url}/login?${new URLSearchParams({ to }).toString()}`;
    const known = await call(asked, { headers });
    expect([known.status, known.headers.location]).toEqual([303, location]);
    const body = new URLSearchParams({ token: TOKEN, to }).toString();
    const logged = await call(`${url}/login`, { method: 'POST', body });
    expect([logged.status, logged.headers.location]).toEqual([303, location]);
    const form = await call(asked, { headers: { 'sec-fetch-site': 'cross-site' } });
    expect(form.headers['refresh']).toBe(`0; url=/login?again=1&to=${encodeURIComponent(location)}`);
  });

  it('another token ends every session', async () => {
    const world = await World.create();
    const first = await world.listen({ token: new Secret(TOKEN) });
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const answer = await call(`${first.url}/login`, {
      method: 'POST',
      headers: form,
      body: `token=${TOKEN}&to=/`,
    });
    const cookie = answer.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
    const second = await world.listen({ token: new Secret(`${TOKEN}2`) });
    expect((await call(`${second.url}/readyz`, { headers: { cookie } })).status).toBe(401);
  });
});

describe('every answer', () => {
  it('carries strict headers, and refusals are JSON', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    for (const path of [
      '/',
      '/metrics',
      '/api/v1/status',
      '/nowhere',
      '/runs/99',
      '/api/v1/runs/99',
      '/records/members/x',
    ]) {
      const { headers, text, status } = await call(url + path);
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['x-frame-options']).toBe('DENY');
      expect(headers['referrer-policy']).toBe('same-origin');
      expect(headers['content-security-policy']).toMatch(/default-src 'none'/);
      expect(headers['content-security-policy']).toMatch(/frame-ancestors 'none'/);
      expect(headers['content-security-policy']).not.toContain('unsafe');
      if (status >= 400 && headers['content-type'] === 'application/json')
        expect(JSON.parse(text)).toHaveProperty('error.code');
    }
    expect((await call(`${url}/nowhere`)).status).toBe(404);
  });

  it('large and endless requests are turned away', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    const headers = { ...JSON_BODY, authorization: `Bearer ${LOCAL_TOKEN}` };
    const body = JSON.stringify({ job: 'sync', sources: ['x'.repeat(20_000)] });
    expect((await call(`${url}/api/v1/runs`, { method: 'POST', headers, body })).status).toBe(413);
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    const said = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString())));
    socket.on('error', () => undefined);
    socket.write(`GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(await said).toMatch(/^HTTP\/1.1 431/);
    socket.destroy();
  });

  it('a port that is taken is said so', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    await expect(world.listen({ port: Number(new URL(url).port) })).rejects.toMatchObject({
      code: 'port_in_use',
    });
  });
});

describe('the token of webhooks', () => {
  const TRIGGER = 'a-trigger-token-of-some-length';
  const both = { token: new Secret(TOKEN), triggerToken: new Secret(TRIGGER) };
  const shown = [{ authorization: `Bearer ${TRIGGER}` }, { 'tidemark-token': TRIGGER }];
  const actor = { by: 'triggerToken@http', via: 'triggerToken@http' };

  it.each(shown)(
    'starts a sync, narrowed or not, and is answered with its number only (%o)',
    async (headers) => {
      const world = await World.create();
      const { url } = await world.listen(both);
      const post = (body: string): Promise<Answer> =>
        call(`${url}/api/v1/runs`, { method: 'POST', headers, body });
      const answer = await post('');
      expect([answer.status, JSON.parse(answer.text)]).toEqual([
        202,
        { schema: 'tidemark.triggered/1', requests: [1] },
      ]);
      expect((await post('{"kinds": ["roles"], "sources": ["default"]}')).status).toBe(202);
      expect(world.asked).toEqual([
        ['sync', null, { actor, kinds: null, joins: true }],
        ['sync', ['default'], { actor, kinds: ['roles'], joins: true }],
      ]);
      const refused = await post('{"sources": ["productoin"]}');
      expect(refused.status).toBe(400);
      // Which sources there are is not for who may only start a sync.
      expect(refused.text).not.toContain('default');
      for (const [body, status] of [
        ['{"kinds": ["rolls"]}', 400],
        ['{"organizations": ["x"]}', 400],
        ['{"by": "ann"}', 400],
        ['nonsense', 400],
        ['[]', 400],
        ['{"full": true}', 403],
        ['{"job": "forget"}', 403],
        ['{"job": "drill"}', 403],
      ] as const)
        expect([body, (await post(body)).status]).toEqual([body, status]);
      expect(world.asked).toHaveLength(2);
    },
  );

  it('a sender with a body of its own narrows the sync by the address', async () => {
    const world = await World.create();
    const { url } = await world.listen(both);
    const post = (query: string, body: string): Promise<Answer> =>
      call(`${url}/api/v1/runs${query}`, { method: 'POST', headers: { 'tidemark-token': TRIGGER }, body });
    const event = JSON.stringify({ event: 'member.added', text: 'x'.repeat(100_000) });
    expect((await post('?kind=members&kind=roles&source=default', event)).status).toBe(202);
    expect((await post('?source=default', 'no JSON')).status).toBe(202);
    expect(world.asked).toEqual([
      ['sync', ['default'], { actor, kinds: ['members', 'roles'], joins: true }],
      ['sync', ['default'], { actor, kinds: null, joins: true }],
    ]);
    for (const query of [
      '?kind=rolls',
      '?source=productoin',
      '?kinds=roles',
      '?job=forget',
      '?kind=roles&full=true',
    ])
      expect([query, (await post(query, '')).status]).toEqual([query, 400]);
    expect(world.asked).toHaveLength(2);
  });

  it.each(shown)('opens nothing else (%o)', async (headers) => {
    const world = await World.create();
    const { url } = await world.listen(both);
    for (const [method, path] of [
      ...['/', '/readyz', '/metrics', '/api/v1/status', '/api/v1/runs', '/api/v1/requests/1', '/nowhere'].map(
        (each) => ['GET', each] as const,
      ),
      ['GET', '/replica/api/organizations/'],
      ['POST', '/api/v1/runs/1'],
      ['POST', '/actions/sync'],
      ['POST', '/logout'],
      ['PUT', '/api/v1/runs'],
    ] as const) {
      const answer = await call(url + path, { method, headers });
      expect([method, path, answer.status]).toEqual([method, path, 403]);
    }
    expect((await call(`${url}/api/v1/status`, { headers })).text).toContain('opens nothing else');
    const foreign = { ...headers, origin: 'https://evil.example' };
    expect((await call(`${url}/api/v1/runs`, { method: 'POST', headers: foreign })).status).toBe(403);
    expect(world.asked).toEqual([]);
  });

  it('is not taken from the address, nor for another one, and guesses are slowed', async () => {
    const world = await World.create();
    const { url } = await world.listen(both);
    const post = (path: string, headers: Record<string, string>): Promise<Answer> =>
      call(url + path, { method: 'POST', headers, body: '' });
    expect((await post(`/api/v1/runs?token=${TRIGGER}`, {})).status).toBe(401);
    // The token of pages is not one of webhooks.
    expect((await post('/api/v1/runs', { 'tidemark-token': TOKEN })).status).toBe(401);
    const guesses = await Promise.all(
      Array.from({ length: 8 }, () => post('/api/v1/runs', { 'tidemark-token': 'a-guess' })),
    );
    expect(guesses.map(({ status }) => status)).toContain(429);
    expect((await post('/api/v1/runs', { 'tidemark-token': TRIGGER })).status).toBe(202);
    const without = await world.listen({ token: new Secret(TOKEN) });
    const answer = await call(`${without.url}/api/v1/runs`, {
      method: 'POST',
      headers: { 'tidemark-token': '' },
    });
    expect(answer.status).toBe(401);
  });

  it('a sender in a loop is asked to wait', async () => {
    const world = await World.create();
    const { url } = await world.listen(both);
    const post = (): Promise<Answer> =>
      call(`${url}/api/v1/runs`, { method: 'POST', headers: { 'tidemark-token': TRIGGER }, body: '{}' });
    const statuses: number[] = [];
    for (let sent = 0; sent < 130; sent += 1) statuses.push((await post()).status);
    expect([statuses.indexOf(429), world.asked.length]).toEqual([120, 120]);
    expect(Number((await post()).headers['retry-after'])).toBeGreaterThan(0);
    world.clock.passedMs += MINUTE_MS;
    expect((await post()).status).toBe(202);
  });

  it('names the sources that the service asked to wait for, in the answer only to who named them, and in the log', async () => {
    const directory = scratch();
    const config = join(directory, 'tidemark.yaml');
    const sourceText = (name: string, key: string): string =>
      `  - { name: ${name}, baseUrl: "\${SERVICE_URL}", apiKey: "${key}" }\n`;
    const first = sourceText('first', '${TIDEMARK_API_KEY}');
    writeFileSync(config, `sources:\n${first}${sourceText('second', 'another-key-of-some-length')}`);
    const world = await World.create({ TIDEMARK_CONFIG: config });
    const { clock, mirrorPath: beside } = world;
    const fingerprint = keyFingerprint(world.config().sources[0]!);
    const now = clock.now();
    const rates = { rate: 1, fullRate: 2, doublesEveryMs: 10_000, granted: 0, grantedAt: now };
    const pace = { ...rates, pausedUntil: now + 60 * MINUTE_MS, refusedAt: now };
    new SharedThrottle({ beside, before: null, fingerprint, clock }).write(JSON.stringify(pace));
    const lines: unknown[][] = [];
    const log: Logger = { ...silentLogger, info: (...line: unknown[]) => void lines.push(line) };
    const { url } = await world.listen({ ...both, log });
    const post = async (query: string, token: string, body = ''): Promise<[number, unknown]> => {
      const headers = { ...JSON_BODY, authorization: `Bearer ${token}` };
      const { status, text } = await call(`${url}/api/v1/runs${query}`, { method: 'POST', headers, body });
      return [status, JSON.parse(text)];
    };
    const why = 'the service asked to wait until 2026-03-01T08:00:00Z (429 or 503)';
    const refused = {
      ...{ source: 'first', code: 'throttled', message: `no sync of first was begun: ${why}` },
      hint: 'sync again then; `tidemark sync --source first --ignore-pause` tries now',
      until: '2026-03-01T08:00:00.000Z',
    };
    const answer = { schema: 'tidemark.triggered/1', requests: [1] };
    expect(await post('', TRIGGER)).toEqual([
      202,
      {
        ...answer,
        errors: [
          {
            ...{ ...refused, source: null, message: `no sync of a source was begun: ${why}` },
            hint: 'sync again then',
          },
        ],
      },
    ]);
    expect(await post('?source=first&source=second', TRIGGER)).toEqual([
      202,
      { ...answer, requests: [2], errors: [refused] },
    ]);
    expect(await post('', TOKEN, sync)).toMatchObject([
      202,
      { queued: [{ source: 'second' }], errors: [refused] },
    ]);
    expect(world.asked.map(([, sources]) => sources)).toEqual([['second'], ['second'], ['second']]);
    const said = lines.filter(([facts]) => (facts as { source?: string }).source === 'first');
    expect(said.map(([facts]) => facts)).toEqual([
      { source: 'first', code: 'throttled', ...actor },
      { source: 'first', code: 'throttled', ...actor },
      { source: 'first', code: 'throttled', by: 'token@http', via: 'token@http' },
    ]);
  });
});
