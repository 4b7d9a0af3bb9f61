/** Requests through an HTTP proxy: which one, what it sees, and what is said when it refuses. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { wasNeverSent } from '../../src/api/network-error.ts';
import { openPoster } from '../../src/api/post.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { NO_PROXIES, proxyFor, proxySettings, shownProxy } from '../../src/config/proxy.ts';
import { type TidemarkError } from '../../src/core/errors.ts';
import { Secret } from '../../src/core/secret.ts';
import { ConnectProxy } from '../faults/connect-proxy.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { clientFor, KEY, MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());
const once = { retry: { attempts: 1, maxWaitSeconds: 300 } };

describe('the proxy of a URL', () => {
  const env = { HTTPS_PROXY: 'http://user:pa%40ss@proxy.example:3128', HTTP_PROXY: 'other.example:80' };
  it.each([
    ['https://svc.example', {}, 'http://proxy.example:3128'],
    ['http://svc.example', {}, 'http://other.example'],
    ['https://svc.example', { https_proxy: 'https://lower.example' }, 'https://lower.example'],
    ['https://svc.example', { https_proxy: '', HTTPS_PROXY: 'http://proxy.example' }, null],
    ['https://127.0.0.1:8600', {}, null],
    ['http://localhost:8600', {}, null],
    ['http://[::1]:8600', {}, null],
    ['https://svc.example', { NO_PROXY: '*' }, null],
    ['https://svc.example', { NO_PROXY: 'a.example, SVC.example' }, null],
    ['https://eu.svc.example', { no_proxy: 'svc.example' }, null],
    ['https://eu.svc.example', { NO_PROXY: '.svc.example' }, null],
    ['https://eu.svc.example', { NO_PROXY: '*.svc.example' }, null],
    ['https://mysvc.example', { NO_PROXY: 'svc.example' }, 'http://proxy.example:3128'],
    ['https://svc.example', { NO_PROXY: 'svc.example:443' }, null],
    ['https://svc.example:8443', { NO_PROXY: 'svc.example:443' }, 'http://proxy.example:3128'],
    ['https://10.1.2.3', { NO_PROXY: '10.0.0.0/8' }, null],
    ['https://11.1.2.3', { NO_PROXY: '10.0.0.0/8' }, 'http://proxy.example:3128'],
    ['https://10.1.2.3', { NO_PROXY: '10.1.2.3' }, null],
    ['https://[fd00::1]', { NO_PROXY: 'fd00::/8' }, null],
    ['https://[fd00::1]', { NO_PROXY: '[fd00::1]' }, null],
    ['https://svc.example', { NO_PROXY: '10.0.0.0/99,nonsense/,:' }, 'http://proxy.example:3128'],
  ])('of %s with %j is %s', (url, more, expected) => {
    const proxy = proxyFor(new URL(url), proxySettings({ ...env, ...more }));
    expect(proxy === null ? null : shownProxy(proxy)).toBe(expected);
  });

  it('that no HTTP proxy can have is refused without showing it, and only where it would be used', () => {
    const settings = proxySettings({ HTTPS_PROXY: 'socks5://user:secret@proxy.example' });
    expect(() => proxyFor(new URL('https://svc.example'), settings)).toThrow(
      expect.objectContaining({
        code: 'config_invalid',
        message: expect.not.stringContaining('secret') as string,
      }),
    );
    expect(proxyFor(new URL('http://svc.example'), settings)).toBeNull();
  });
});

describe('a client with a proxy', () => {
  const rig = async () => {
    const { server } = await opened.rig((request) => listReply(rowsOf(130), request));
    const proxy = await ConnectProxy.start(Number(new URL(server.url).port));
    const proxies = { ...NO_PROXIES, http: proxy.url('user:pa%40ss') };
    return { server, proxy, proxies };
  };

  it('sends all of it through tunnels, and the proxy sees neither the key nor a path', async () => {
    const { server, proxy, proxies } = await rig();
    const client = clientFor('http://svc.example:8443', { proxies });
    onTestFinished(() => client.close());
    const sink = new MemorySink();
    await client.walk(targetOf(), sink);
    expect(server.requests.length).toBeGreaterThan(1);
    for (const { headers } of server.requests) {
      expect(headers['authorization']).toBe(`Bearer ${KEY}`);
      expect(headers['host']).toBe('svc.example:8443');
      expect(headers['proxy-authorization']).toBeUndefined();
    }
    expect(new Set(proxy.asked.map(({ what }) => what))).toEqual(new Set(['CONNECT svc.example:8443']));
    const basic = `Basic ${Buffer.from('user:pa@ss').toString('base64')}`;
    expect(new Set(proxy.asked.map(({ authorization }) => authorization))).toEqual(new Set([basic]));
    expect(JSON.stringify(proxy.asked)).not.toContain(KEY);
  });

  it('follows no redirect, as without one', async () => {
    const { server } = await opened.rig(() => ({
      status: 302,
      headers: { location: 'http://evil.example/' },
    }));
    const proxy = await ConnectProxy.start(Number(new URL(server.url).port));
    const client = clientFor('http://svc.example', {
      proxies: { ...NO_PROXIES, http: proxy.url() },
      ...once,
    });
    onTestFinished(() => client.close());
    await expect(
      client.retrieve(definitionOf('batch_exports'), { organization_id: 'o1' }, 'x'),
    ).rejects.toMatchObject({ message: expect.stringContaining('302') as string });
    expect(proxy.asked.map(({ what }) => what)).toEqual(['CONNECT svc.example:80']);
  });

  it.each([
    [407, 'http://USER:PASSWORD@HOST:PORT', false],
    [403, 'let the proxy connect to svc.example:80', false],
    [502, 'let the proxy connect to svc.example:80', true],
  ])('says what a proxy that answers %d needs', async (status, hint, isRetryable) => {
    const { server, proxy, proxies } = await rig();
    proxy.answer = status;
    const client = clientFor('http://svc.example', { proxies, ...once });
    onTestFinished(() => client.close());
    const error = (await client
      .retrieve(definitionOf('batch_exports'), { organization_id: 'o1' }, 'x')
      .catch((thrown: unknown) => thrown)) as TidemarkError;
    expect(error).toMatchObject({ code: 'unreachable', isRetryable });
    expect(error.message).toContain(
      `svc.example:80: the proxy http://127.0.0.1:${proxy.port} answered ${status}`,
    );
    expect(error.hint).toContain(hint);
    expect(`${error.message} ${error.hint}`).not.toContain('pa%40ss');
    expect(wasNeverSent(error)).toBe(true);
    expect(server.requests).toEqual([]);
  });

  it('gives a proxy that never answers no longer than a connection', async () => {
    const { proxy, proxies } = await rig();
    proxy.answer = 'silent';
    const client = clientFor('http://svc.example', { proxies, ...once, timeouts: { connectMs: 200 } });
    onTestFinished(() => client.close());
    const begun = performance.now();
    await expect(
      client.retrieve(definitionOf('batch_exports'), { organization_id: 'o1' }, 'x'),
    ).rejects.toMatchObject({ code: 'timeout' });
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  it('names the proxy where that cannot be reached', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const proxies = { ...NO_PROXIES, http: `http://user:secret@127.0.0.1:${port}` };
    const client = clientFor('http://svc.example', { proxies, ...once });
    onTestFinished(() => client.close());
    const error = (await client
      .retrieve(definitionOf('batch_exports'), { organization_id: 'o1' }, 'x')
      .catch((thrown: unknown) => thrown)) as TidemarkError;
    expect(error.message).toBe(`svc.example:80: proxy http://127.0.0.1:${port}: the connection was refused`);
    expect(error.hint).toContain('NO_PROXY');
    expect(wasNeverSent(error)).toBe(true);
  });
});

it('notices and pings go through it, except to the hosts of NO_PROXY', async () => {
  const bodies: string[] = [];
  const server = createServer((incoming, outgoing) => {
    incoming.on('data', (chunk: Buffer) => bodies.push(chunk.toString()));
    incoming.on('end', () => outgoing.end('ok'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const proxy = await ConnectProxy.start((server.address() as AddressInfo).port);
  const poster = openPoster(() => ({ ...NO_PROXIES, http: proxy.url(), exceptions: ['direct.invalid'] }));
  onTestFinished(() => poster.close());
  const post = (url: string) =>
    poster.post({ method: 'POST', url: new Secret(url), body: 'news', headers: {} });
  expect(await post('http://hooks.example/services/T0')).toMatchObject({ status: 200, text: 'ok' });
  expect(bodies).toEqual(['news']);
  expect(proxy.asked.map(({ what }) => what)).toEqual(['CONNECT hooks.example:80']);
  await expect(post('http://direct.invalid/')).rejects.toMatchObject({ code: 'unreachable' });
  expect(proxy.asked).toHaveLength(1);
});
