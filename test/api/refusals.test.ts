import { createServer as createTlsServer } from 'node:https';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { AnswerWatch } from '../../src/daemon/jobs/queue.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import type { Reply } from '../faults/fault-server.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { clientFor, Opened, MemorySink, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const once = { retry: { attempts: 1, maxWaitSeconds: 300 } };

describe('what the service says', () => {
  const fail = async (reply: Reply) => {
    const { client } = await opened.rig(() => reply, once);
    const verdict = await client.walk(targetOf(), new MemorySink());
    return verdict.error!;
  };

  it.each([
    [
      'the usual body',
      {
        status: 400,
        body: {
          type: 'validation_error',
          code: 'invalid',
          detail: 'Not a valid choice.',
          attr: 'destination__type',
        },
      },
      'the service refused the request (400): Not a valid choice.',
    ],
    ['error alone', { status: 409, body: { error: 'busy' } }, 'the service refused the request (409): busy'],
    [
      'detail alone',
      { status: 405, body: { detail: 'Method not allowed.' } },
      'the service refused the request (405): Method not allowed.',
    ],
    [
      'a map of fields',
      { status: 400, body: { name: ['This field is required.'] } },
      'the service refused the request (400): This field is required.',
    ],
    ['plain text', { status: 502, body: 'Bad\r\n\u0007 Gateway' }, 'the service failed (502): Bad Gateway'],
    ['an HTML page', { status: 503, body: '<html><script>x</script>' }, 'the service failed (503)'],
    ['nothing', { status: 401 }, 'the key was refused (401)'],
    [
      'a password of a URL',
      { status: 400, body: { detail: 'cannot reach https://u:CANerr70@h/ or https://h/?token=CANerr71' } },
      'the service refused the request (400): cannot reach https://u:[secret]@h/ or https://h/?token=[secret]',
    ],
    [
      'a password of a connection string',
      { status: 400, body: { error: 'no login: Server=db;Password=CANerr72;Database=x' } },
      'the service refused the request (400): no login: Server=db;Password=[secret];Database=x',
    ],
  ] as [string, Reply, string][])('is reported in one line: %s', async (_name, reply, message) => {
    expect((await fail(reply)).message).toBe(message);
  });

  it('does not call a key revoked that other requests accept', async () => {
    const refused: (Reply | null)[] = [{ status: 401 }, null, { status: 401 }];
    const { client } = await opened.rig((request) => refused.shift() ?? listReply(rowsOf(1), request), once);
    const hints: (string | null | undefined)[] = [];
    for (let time = 0; time < 3; time += 1)
      hints.push((await client.walk(targetOf(), new MemorySink())).error?.hint);
    expect(hints[0]).toContain('a revoked or mistyped key is refused');
    expect(hints[1]).toBeUndefined();
    expect(hints[2]).toContain('other requests accept the key: it lacks a permission, a gateway');
  });

  it('is cut when it is long', async () => {
    const error = await fail({ status: 400, body: { detail: 'x'.repeat(100_000) } });
    expect(error.message.length).toBeLessThan(260);
  });

  it('names the field and the permission', async () => {
    expect((await fail({ status: 400, body: { detail: 'no', attr: 'name' } })).field).toBe('name');
    const denied = await fail({
      status: 403,
      body: { detail: "API key missing required scope 'organization:read'" },
    });
    expect(denied).toMatchObject({
      permission: 'organization:read',
      hint: 'give the key the permission organization:read, or exclude the kind in the configuration',
    });
  });
});

describe('429', () => {
  const throttled = (headers: Record<string, string>, detail = 'Request was throttled.'): Reply => ({
    status: 429,
    headers,
    body: { type: 'throttled_error', code: 'throttled', detail, attr: null },
  });

  it.each([
    ['seconds', throttled({ 'retry-after': '62' }), 62_000],
    [
      'a date',
      throttled({ date: 'Sun, 01 Mar 2026 09:00:00 GMT', 'retry-after': 'Sun, 01 Mar 2026 09:01:02 GMT' }),
      62_000,
    ],
    [
      'an RFC 850 date',
      throttled({ date: 'Sun, 01 Mar 2026 09:00:00 GMT', 'retry-after': 'Sunday, 01-Mar-26 09:01:02 GMT' }),
      62_000,
    ],
    ['the text alone', throttled({}, 'Request was throttled. Expected available in 62 seconds.'), 62_000],
  ])('waits as long as asked by %s', async (_name, reply, ms) => {
    const clock = new FakeClock();
    const { client } = await opened.rig(
      (request, nth) => (nth === 1 ? reply : listReply(rowsOf(2), request)),
      {
        clock,
      },
    );
    expect(await client.walk(targetOf(), new MemorySink())).toMatchObject({ outcome: 'complete' });
    expect(clock.sleeps.reduce((sum, ms_) => sum + ms_, 0)).toBe(ms);
    expect(client.stats()).toMatchObject({ throttled: 1, retries: 1, requests: 2 });
  });

  it.each([
    ['', throttled({ 'retry-after': '10' })],
    [', as does a 503 that asks to wait', { status: 503, headers: { 'retry-after': '10' }, body: {} }],
  ])('pauses the other collections too%s', async (_name, reply) => {
    const clock = new FakeClock({ movesItself: false });
    const { server, client } = await opened.rig(
      (request, nth) => (nth === 1 ? reply : listReply(rowsOf(2), request)),
      { clock },
    );
    const first = client.walk(targetOf(), new MemorySink());
    await expect.poll(() => clock.sleeping).toBe(1);
    const second = client.walk(targetOf('members'), new MemorySink());
    await expect.poll(() => clock.sleeping).toBe(2);
    expect(server.requests).toHaveLength(1);
    expect(client.stats().waitingUntil).toBe(clock.now() + 10_000);
    clock.advance(10_000);
    expect((await first).outcome).toBe('complete');
    expect((await second).outcome).toBe('incomplete');
    expect(client.stats().waitingUntil).toBeUndefined();
  });

  it('of another kind with Retry-After is a wait that can be seen: the service answers', async () => {
    const clock = new FakeClock({ movesItself: false });
    const { client } = await opened.rig(
      (request, nth) =>
        nth === 1
          ? { status: 503, headers: { 'retry-after': '240' }, body: {} }
          : listReply(rowsOf(2), request),
      { clock },
    );
    const walk = client.walk(targetOf(), new MemorySink());
    await expect.poll(() => clock.sleeping).toBe(1);
    const watch = new AnswerWatch(clock);
    watch.check(client.stats(), 0, false);
    expect(client.stats().waitingUntil).toBe(clock.now() + 240_000);
    expect(watch.check(client.stats(), 0, false)).toBe(0);
    clock.advance(240_000);
    expect((await walk).outcome).toBe('complete');
    expect(client.stats().waitingUntil).toBeUndefined();
  });

  it('ends the sweep when the wait is too long', async () => {
    const { server, client } = await opened.rig(() => throttled({ 'retry-after': '4000' }));
    const verdict = await client.walk(targetOf(), new MemorySink());
    expect(verdict).toMatchObject({ outcome: 'failed', error: { code: 'throttled' } });
    expect((await client.walk(targetOf(), new MemorySink())).error?.code).toBe('throttled');
    expect(server.requests).toHaveLength(1);
  });

  it('keeps the configured rate by itself', async () => {
    const clock = new FakeClock();
    const arrived: number[] = [];
    const { client } = await opened.rig(
      (request) => {
        arrived.push(clock.monotonicMs());
        return listReply(rowsOf(1000), request, { cap: 20 });
      },
      { clock, rate: { perMinute: 30, perHour: 10_000, concurrency: 4 } },
    );
    const verdict = await client.walk(targetOf(), new MemorySink());
    expect(verdict.outcome).toBe('complete');
    expect(clock.sleeps.length).toBeGreaterThan(1);
    expect(arrived).toHaveLength(client.stats().requests);
    for (const from of arrived)
      expect(arrived.filter((at) => at >= from && at < from + 60_000).length).toBeLessThanOrEqual(30);
  });
});

describe('what is not there', () => {
  const error = async (url: string) => {
    const client = clientFor(url, once);
    opened.add(client);
    const verdict = await client.walk(targetOf(), new MemorySink());
    expect(verdict.outcome).toBe('failed');
    return verdict.error!;
  };

  it('is reported with host and port: nobody listens', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const refused = await error(`http://127.0.0.1:${port}`);
    expect(refused).toMatchObject({
      code: 'unreachable',
      message: `127.0.0.1:${port}: the connection was refused`,
    });
    expect(refused.hint).toContain('baseUrl');
  });

  it('is reported with host and port: no such name', async () => {
    const unknown = await error('http://no-such-host.invalid');
    expect(unknown.code).toBe('unreachable');
    expect(unknown.message).toMatch(/^no-such-host\.invalid:80: the host name/);
  });

  it('is reported: a server that speaks something else', async () => {
    const server = createServer((socket) => socket.end('SSH-2.0-OpenSSH_9.7\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    opened.add(server);
    expect((await error(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)).code).toBe(
      'malformed',
    );
  });

  it('is reported: no TLS where https was asked for', async () => {
    const { server } = await opened.rig(() => ({ body: [] }));
    const failed = await error(server.url.replace('http:', 'https:'));
    expect(failed.code).toBe('unreachable');
    expect(failed).toMatchObject({
      isRetryable: false,
      message: expect.stringContaining('does not speak https') as unknown,
    });
  });

  it('is reported: a TLS server without a certificate', async () => {
    const server = createTlsServer({});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    opened.add(server);
    const failed = await error(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(failed).toMatchObject({ code: 'unreachable', isRetryable: false });
  });
});
