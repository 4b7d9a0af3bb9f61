/** Nothing that a caller sends is a defect of the daemon: refused with a reason, and nothing in the log. */
import { describe, expect, it } from 'vitest';
import { type Logger, silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { rawCall } from './raw.ts';
import { World } from './world.ts';

const TOKEN = 'a-token-of-some-length';
const HOSTS = [
  '1.2.3.4.5.6',
  '127.999.1.1',
  '127.0.0.1:99999',
  '[::1',
  '[::zz]:1',
  'a b',
  'a/b',
  'a@b',
  '%00',
  'ä',
  'localhost:x',
  'xn--a',
  '0x7f.1',
  '4294967296',
  '',
];
const PATHS = [
  '/',
  '/healthz',
  '/readyz',
  '/metrics',
  '/login',
  '/login?to=/%00/x',
  '/login?to=/%0d%0aX:1',
  '/login?to=/%ed%a0%80',
  '/login?to=%',
  '/login?to=/%25%',
  '/drift?source=%00',
  '/changes?from=%ff&to=99999-13-01',
  '/changes?from=7d&to=-1d',
  '/runs?before=1e99',
  '/runs/%00',
  '/runs/99999999999999999999',
  '/records?kind=%F0%9F%98%80',
  '/records/members/%',
  '/records/members/%2e%2e',
  '/records/members/%ed%a0%80',
  '/records/constructor/x',
  '/records/__proto__/x',
  '/api/v1/status?x=%',
  '/api/v1/runs?limit=-1',
  '/api/v1/runs?limit=1e400',
  '/api/v1/runs/0x1',
  '/api/v1/jobs?name=%00&source=%27--',
  '/api/v1/changes?kind[]=x&limit=NaN',
  '/api/v1/requests/%2f',
  '/replica/default/api/organizations/%',
  '/replica/%/api/',
  '/replica/api/organizations/?as_of=%00',
  '/nowhere/%',
  '//evil.example/x',
  '/../../etc/passwd',
  '/%2e%2e/x',
  '*',
  'http://1.2.3.4.5.6/',
  'http://evil.example/login?to=/x',
  'x',
];
const ACCEPTS = ['text/html', 'application/json', '*/*'];

/** A log of which only what is reported as problem is kept. */
function collecting(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const collect = (facts: object, message: string): void =>
    void lines.push(`${message} ${JSON.stringify(facts)}`);
  return { log: { ...silentLogger, error: collect, warn: collect }, lines };
}

describe.each([
  ['without a token, none configured', null, []],
  ['without a token', TOKEN, []],
  ['with the token', TOKEN, [`Authorization: Bearer ${TOKEN}`]],
  ['with a wrong token', TOKEN, ['Authorization: Bearer x']],
])('%s', (_name, token, authorization) => {
  it('no path, query or Host header is a defect', async () => {
    const world = await World.create();
    await world.sync();
    const { log, lines } = collecting();
    const { url } = await world.listen({ token: token === null ? null : new Secret(token), log });
    const { port } = new URL(url);
    const seen: string[] = [];
    const look = async (
      method: string,
      path: string,
      more: readonly string[],
      body = '',
    ): Promise<number> => {
      const length = method === 'POST' ? [`Content-Length: ${body.length}`] : [];
      const head = [`${method} ${path} HTTP/1.1`, ...more, ...length, ...authorization];
      const { status } = await rawCall(url, head, body);
      // A wrong token waits for its answer, which is no matter here.
      world.clock.passedMs += 60_000;
      if (!(status >= 200 && status < 500)) seen.push(`${status} ${method} ${path} ${more.join(' ')}`);
      return status;
    };
    const jobs: Promise<number>[] = [];
    for (const accept of ACCEPTS) {
      for (const path of PATHS) {
        const more = [`Host: 127.0.0.1:${port}`, `Accept: ${accept}`];
        jobs.push(look('GET', path, more), look('POST', path, more, '%00=%&token=%ff&to=/%00'));
      }
      for (const host of HOSTS)
        for (const path of ['/', '/login', '/api/v1/status', '/metrics', '/replica/api/x/', '/nowhere'])
          jobs.push(look('GET', path, [`Host: ${host}`, `Accept: ${accept}`]));
      await Promise.all(jobs.splice(0));
    }
    expect(seen).toEqual([]);
    expect(lines.filter((line) => !line.startsWith('a wrong token'))).toEqual([]);
  });
});

it.each(['1.2.3.4.5.6', '127.999.1.1', '[::1', 'a@b'])('a Host of %s is a 400', async (host) => {
  const world = await World.create();
  const { url } = await world.listen();
  const { status, body, headers } = await rawCall(url, [
    'GET / HTTP/1.1',
    `Host: ${host}`,
    'Accept: text/html',
  ]);
  expect(status).toBe(400);
  expect(JSON.parse(body)).toMatchObject({ error: { code: 'usage' } });
  expect(headers['x-content-type-options']).toBe('nosniff');
});

it.each([
  ['/drift?severity=bogus', 'There is no severity bogus', 'Severity is one of critical, high, medium, low'],
  ['/drift?severity=critical&change=moved', 'There is no change moved', 'Change is one of added, removed'],
  ['/drift?kind=nope', 'There is no such kind', 'Kinds are organizations, '],
  ['/drift?source=nobody', 'There is no source nobody', 'Source is one of default'],
  ['/drift?severty=high', 'There is no parameter severty; did you mean severity?', 'Parameters are severity'],
  ['/changes?since=xyz', 'There is no parameter since', 'Parameters are days, kind'],
  ['/changes?days=2', 'There is no days 2', 'Days is one of 1, 7, 30, 90'],
  ['/changes?kind=rolez', 'There is no such kind; did you mean roles?', ''],
  ['/runs?before=x', 'Before must be a whole number', ''],
  ['/records?kind=nope', 'There is no such kind', ''],
  ['/records?q=a&source=nobody', 'There is no source nobody', ''],
  ['/audit?action=nope', 'There is no action nope', 'Action is one of '],
  ['/audit?source=nobody', 'There is no source nobody', ''],
])('the page %s says which value is unknown, and which there are', async (path, message, hint) => {
  const world = await World.create();
  await world.sync();
  const { url } = await world.listen();
  const answer = await fetch(`${url}${path}`, { headers: { accept: 'text/html' } });
  const text = await answer.text();
  expect([answer.status, text]).toEqual([400, expect.stringContaining(`<h1>${message}`)]);
  expect(text).toContain(hint);
});
