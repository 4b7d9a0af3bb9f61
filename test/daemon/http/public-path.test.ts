/** `http.publicUrl` with a path: requests come with it and without, and everything that an answer leads to has it. */
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { createReplica } from '../../../src/server/replica/replica.ts';
import { smallDemo } from '../../server/small-demo.ts';
import { World } from './world.ts';

const TOKEN = 'a-token-of-some-length';
const HTML = { accept: 'text/html' };
const PUBLIC = 'https://ops.example.com/tidemark/';

async function listening(): Promise<{ world: World; url: string }> {
  const world = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations,roles' });
  await world.sync();
  const { url } = await world.listen({ token: new Secret(TOKEN), publicUrl: PUBLIC });
  return { world, url };
}

describe('the path of http.publicUrl', () => {
  it("is none of the daemon's own, whatever its pages lead to", async () => {
    const { url } = await listening();
    const headers = { ...HTML, authorization: `Bearer ${TOKEN}` };
    const page = await (await fetch(`${url}/`, { headers })).text();
    const led = [...page.matchAll(/ (?:href|action)="\/tidemark\/([\w.-]+)/g)].map(([, first = '']) => first);
    const env = { TIDEMARK_BASE_URL: url, TIDEMARK_API_KEY: 'key' };
    expect(new Set(led).size).toBeGreaterThan(8);
    for (const first of new Set([...led, 'healthz', 'readyz', 'metrics', 'mcp', 'replica']))
      expect(() =>
        loadConfig({
          env: { ...env, TIDEMARK_HTTP_PUBLIC_URL: `https://ops.example.com/${first}` },
          cwd: '/',
        }),
      ).toThrow(`/${first} is a path of the daemon itself`);
  });

  it('is in redirects, forms and the cookie, whether or not the proxy keeps it', async () => {
    const { url } = await listening();
    for (const base of [url, `${url}/tidemark`]) {
      const away = await fetch(`${base}/runs?before=3`, { headers: HTML, redirect: 'manual' });
      expect(away.headers.get('location')).toBe('/tidemark/login?to=%2Fruns%3Fbefore%3D3');
      const form = await (await fetch(`${base}/login?to=/runs`, { headers: HTML })).text();
      expect(form).toContain('action="/tidemark/login"');
      expect(form).toContain('href="/tidemark/icon.svg"');
      expect(form).toContain('name="to" value="/runs"');
      const answer = await fetch(`${base}/login`, {
        method: 'POST',
        redirect: 'manual',
        body: new URLSearchParams({ token: TOKEN, to: '/runs' }),
        headers: { origin: url },
      });
      expect(answer.headers.get('location')).toBe('/tidemark/runs');
      expect(answer.headers.get('set-cookie')).toContain('; Path=/tidemark; HttpOnly');
      const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
      const page = await fetch(`${base}/runs`, { headers: { ...HTML, cookie } });
      expect(await page.text()).toContain('<a href="/tidemark/runs/1">');
      const foreign = { origin: 'https://evil.example.com', cookie };
      const refused = await fetch(`${base}/logout`, { method: 'POST', headers: foreign });
      expect(refused.status).toBe(403);
    }
    const again = await fetch(`${url}/login?to=/runs`, {
      headers: { ...HTML, 'sec-fetch-site': 'cross-site' },
    });
    expect(again.headers.get('refresh')).toBe('0; url=/tidemark/login?again=1&to=%2Fruns');
  });

  it('is not doubled in the way back to the page that asked, and no other path is taken for it', async () => {
    const { url } = await listening();
    const headers = { ...HTML, authorization: `Bearer ${TOKEN}` };
    const refused = await fetch(`${url}/tidemark/actions/pin`, {
      method: 'POST',
      body: new URLSearchParams({ name: '', run: '1' }),
      headers: { ...headers, origin: url, referer: `${url}/tidemark/runs/1` },
    });
    expect(await refused.text()).toContain('<a href="/tidemark/runs/1">Back to the page before</a>');
    for (const path of ['/tidemarks', '/tidemarks/runs', '/tidemark/tidemark/runs', '/Tidemark/runs'])
      expect([path, (await fetch(url + path, { headers })).status]).toEqual([path, 404]);
    for (const path of ['', '/', '?', '/healthz', '/readyz', '/metrics', '/api/v1/status'])
      expect([path, (await fetch(`${url}/tidemark${path}`, { headers })).status]).toEqual([path, 200]);
    const outside = await fetch(`${url}/tidemark//evil.example.com`, { headers: HTML, redirect: 'manual' });
    expect(outside.headers.get('location')).toMatch(/^\/tidemark\/login\?to=/);
  });

  it('is in `next` of the replica', async () => {
    const world = await World.create(
      { TIDEMARK_KINDS_INCLUDE: 'organizations,domains' },
      undefined,
      smallDemo,
    );
    await world.sync();
    const { url } = await world.listen({
      token: new Secret(TOKEN),
      publicUrl: PUBLIC,
      trustedProxies: ['127.0.0.1'],
      replica: (source, pathPrefix) =>
        createReplica({
          mirrorPath: world.mirrorPath,
          openMirror: () =>
            openMirror(world.mirrorPath, { mode: 'read', command: 'replica', clock: world.clock }),
          source,
          definitionOf,
          tokens: () => [new Secret('token-of-the-replica')],
          pathPrefix,
          clock: world.clock,
          log: silentLogger,
        }),
    });
    for (const base of [url, `${url}/tidemark`]) {
      const answer = await fetch(`${base}/replica/default/api/organizations/?limit=1`, {
        headers: {
          authorization: 'Bearer token-of-the-replica',
          'x-forwarded-host': 'ops.example.com',
          'x-forwarded-proto': 'https',
        },
      });
      const { next } = (await answer.json()) as { next: string };
      expect(next).toBe(`${PUBLIC}replica/default/api/organizations/?limit=1&offset=1`);
    }
  });
});
