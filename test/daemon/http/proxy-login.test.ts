/** A proxy that has logged somebody in names them in a header, which is believed from this proxy only. */
import { describe, expect, it } from 'vitest';
import { request } from 'node:http';
import { Secret } from '../../../src/core/secret.ts';
import type { HttpOptions } from '../../../src/daemon/http/routes.ts';
import { FULL_KEY, World } from './world.ts';

const TOKEN = new Secret('a-token-of-some-length');
const PROXIED: Partial<HttpOptions> = {
  token: TOKEN,
  trustedProxies: ['127.0.0.1'],
  userHeader: 'X-Forwarded-User',
};
const HTML = { accept: 'text/html' };

interface Answered {
  readonly status: number;
  readonly text: string;
}

/** With header values as they are given, also several of one name. */
function ask(
  url: string,
  headers: Record<string, string | string[]>,
  form?: Record<string, string>,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const body = form === undefined ? undefined : new URLSearchParams(form).toString();
    const type = body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
    const sent = request(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...HTML, ...type, ...headers },
    });
    sent.on('error', reject);
    sent.on('response', (answer) => {
      let text = '';
      answer.on('data', (part: Buffer) => (text += part.toString()));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
    });
    // With a text, Node.js would write the headers in its encoding too.
    sent.end(body === undefined ? undefined : Buffer.from(body));
  });
}

async function published(): Promise<World> {
  const world = await World.create();
  await world.sync();
  return world;
}

describe('a user whom a trusted proxy names', () => {
  it('reads without a login, is shown, and acts under this name', async () => {
    const world = await published();
    const { url } = await world.listen(PROXIED);
    const ada = { 'x-forwarded-user': 'ada@example.com' };
    const page = await ask(`${url}/`, ada);
    expect(page.status).toBe(200);
    expect(page.text).toContain('ada@example.com');
    expect(page.text).not.toContain('action="/logout"');
    expect((await ask(`${url}/login`, ada)).status).toBe(303);
    const pin = { run: '1', name: 'by-ada' };
    expect((await ask(`${url}/actions/pin`, { ...ada, origin: url }, pin)).status).toBe(303);
    expect(world.mirror().snapshots.list()).toMatchObject([{ name: 'by-ada', by: 'ada@example.com' }]);
    expect(world.mirror().query('SELECT by, via FROM audit_log').rows).toEqual([
      ['ada@example.com', 'proxy@dashboard'],
    ]);
  });

  it('acts by a form of this site only', async () => {
    const world = await published();
    const { url } = await world.listen(PROXIED);
    const ada = { 'x-forwarded-user': 'ada' };
    const pin = { run: '1', name: 'forged' };
    for (const from of [
      {},
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
    ])
      expect((await ask(`${url}/actions/pin`, { ...ada, ...from }, pin)).status, JSON.stringify(from)).toBe(
        403,
      );
    expect(world.mirror().snapshots.list()).toEqual([]);
  });

  it.each<[string, Partial<HttpOptions>, Record<string, string | string[]>]>([
    ['from an address that was not named', { trustedProxies: ['10.0.0.0/8'] }, { 'x-forwarded-user': 'eve' }],
    ['from nobody, since nobody was named', { trustedProxies: [] }, { 'x-forwarded-user': 'eve' }],
    ['where no header was configured', { userHeader: null }, { 'x-forwarded-user': 'eve' }],
    ['in another header', {}, { 'remote-user': 'eve' }],
    ['twice: one may be from the client', {}, { 'x-forwarded-user': ['eve', 'ada'] }],
    ['and is empty', {}, { 'x-forwarded-user': '  ' }],
    ['and is too long', {}, { 'x-forwarded-user': 'x'.repeat(201) }],
    [
      'for an address that is trusted, by one that is not',
      { trustedProxies: ['10.0.0.0/8'] },
      {
        'x-forwarded-user': 'eve',
        'x-forwarded-for': '10.0.0.1',
      },
    ],
  ])('is nobody where the name came %s', async (_name, more, headers) => {
    const world = await published();
    const { url } = await world.listen({ ...PROXIED, ...more });
    expect((await ask(`${url}/`, headers)).status).toBe(303);
    expect((await ask(`${url}/api/v1/status`, { ...headers, accept: 'application/json' })).status).toBe(401);
    const pin = { run: '1', name: 'x' };
    expect((await ask(`${url}/actions/pin`, { ...headers, origin: url }, pin)).status).toBe(401);
    expect(world.mirror().snapshots.list()).toEqual([]);
  });

  /** As its bytes travel. */
  const utf8 = (name: string): string => Buffer.from(name).toString('latin1');

  it.each([
    ['Jörg', 'Jörg'],
    ['李雷', '李雷'],
    ['Jo\u0308rg', 'Jörg'],
  ])('is recorded by the name %s as it is, composed', async (sent, name) => {
    const world = await published();
    const { url } = await world.listen(PROXIED);
    const headers = { 'x-forwarded-user': utf8(sent), origin: url };
    expect((await ask(`${url}/actions/pin`, headers, { run: '1', name: 'x' })).status).toBe(303);
    expect(world.mirror().snapshots.list()).toMatchObject([{ name: 'x', by: name }]);
  });

  it.each([
    ['J\u00f6rg', /X-Forwarded-User is not UTF-8/],
    [utf8('eve\u202egro.ada'), /X-Forwarded-User .* characters that cannot be printed/],
    [utf8('eve\u0085'), /characters that cannot be printed/],
    ['x'.repeat(201), /X-Forwarded-User .* longer than 200 characters/],
    [['eve', 'ada'], /X-Forwarded-User came more than once/],
    [`ann ${FULL_KEY}`, /X-Forwarded-User holds a key or token of the configuration/],
  ])('is nobody where the header is %j, and that is said', async (header, reason) => {
    const world = await published();
    const { url } = await world.listen(PROXIED);
    const headers = { 'x-forwarded-user': header };
    const refused = await ask(`${url}/api/v1/status`, { ...headers, accept: 'application/json' });
    expect(refused.status).toBe(401);
    expect((JSON.parse(refused.text) as { error: { hint: string } }).error.hint).toMatch(reason);
    expect((await ask(`${url}/`, headers)).status).toBe(303);
    expect((await ask(`${url}/login`, headers)).text).toMatch(reason);
    const pinned = await ask(`${url}/actions/pin`, { ...headers, origin: url }, { run: '1', name: 'x' });
    expect(pinned).toMatchObject({ status: 401, text: expect.stringMatching(reason) as string });
    expect(`${refused.text}${pinned.text}`).not.toContain(FULL_KEY);
  });

  it('starts no job over the API: that takes the token', async () => {
    const world = await published();
    const { url } = await world.listen(PROXIED);
    const answer = await fetch(`${url}/api/v1/runs`, {
      method: 'POST',
      headers: { 'x-forwarded-user': 'ada', 'content-type': 'application/json' },
      body: JSON.stringify({ job: 'sync' }),
    });
    expect(answer.status).toBe(401);
  });
});
