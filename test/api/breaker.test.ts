/** A service that accepts and never answers costs a run a few limits of time, and not one for each request. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { createWriteClient } from '../../src/api/write-client.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { startFaultServer, type Reply } from '../faults/fault-server.ts';
import { clientFor, KEY, MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterAll(() => opened.close());
// The HTTP client looks at its limits once or twice a second: five of them in a row take seconds, however short they are. So the
// tests wait side by side.
vi.setConfig({ testTimeout: 60_000 });

const SHORT = { connectMs: 100, headersMs: 100, bodyMs: 100 };
const SILENT: Reply = { hang: 'all' };
const EMPTY: Reply = { body: { count: 0, next: null, previous: null, results: [] } };
const LISTS = ['a', 'b', 'c', 'd'].map((organization) => targetOf('domains', { organization }));

describe.concurrent('a service that never answers', () => {
  it('is asked no more after five limits of time, by no request', async () => {
    const { server, client, sink } = await opened.rig(() => SILENT, { timeouts: SHORT, source: 'acme' });
    const first = await client.walk(targetOf(), sink);
    expect(first).toMatchObject({ outcome: 'failed', pages: 0 });
    expect(first.error).toMatchObject({ code: 'unresponsive', isRetryable: true });
    expect(first.error?.message).toContain(new URL(server.url).host);
    expect(first.error?.hint).toContain('`tidemark doctor --source acme`');
    expect(server.requests).toHaveLength(5);
    const rest = await Promise.all(LISTS.map((list) => client.walk(list, new MemorySink())));
    expect(rest.map(({ error }) => error?.code)).toEqual(Array(4).fill('unresponsive'));
    const retrieved = client.retrieve(definitionOf('domains'), { organization_id: 'o1' }, 'd1');
    await expect(retrieved).rejects.toMatchObject({ code: 'unresponsive' });
    expect(server.requests).toHaveLength(5);
    expect(client.stats()).toMatchObject({ requests: 5, retries: 4 });
  });

  it('takes as long where it falls silent while several requests are under way', async () => {
    const { server, client } = await opened.rig(() => SILENT, { timeouts: SHORT });
    const verdicts = await Promise.all(LISTS.map((list) => client.walk(list, new MemorySink())));
    expect(verdicts.map(({ error }) => error?.code)).toEqual(Array(4).fill('unresponsive'));
    // Five of each list at most: those under way at the same time say one thing.
    expect(server.requests.length).toBeGreaterThan(5);
    expect(server.requests.length).toBeLessThanOrEqual(20);
  });

  it('counts over requests that are not tried again', async () => {
    const retry = { attempts: 1, maxWaitSeconds: 300 };
    const { server, client } = await opened.rig(() => SILENT, { timeouts: SHORT, retry });
    const codes: unknown[] = [];
    for (const list of [...LISTS, ...LISTS])
      codes.push((await client.walk(list, new MemorySink())).error?.code);
    expect(codes).toEqual([...Array<string>(4).fill('timeout'), ...Array<string>(4).fill('unresponsive')]);
    expect(server.requests).toHaveLength(5);
  });

  it('is one as well where no connection comes about', async () => {
    let connections = 0;
    const sockets = new Set<Socket>();
    // Accepts, and never says its part of the TLS handshake.
    const server = createServer((socket) => {
      connections += 1;
      sockets.add(socket);
      socket.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    opened.add({
      close: () => {
        for (const socket of sockets) socket.destroy();
        return new Promise((resolve) => server.close(resolve));
      },
    });
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = opened.add(clientFor(url, { timeouts: SHORT }));
    const { error } = await client.walk(targetOf(), new MemorySink());
    expect(error).toMatchObject({ code: 'unresponsive' });
    const before = connections;
    expect((await client.walk(targetOf(), new MemorySink())).error?.code).toBe('unresponsive');
    expect(connections).toBe(before);
  });
});

describe.concurrent('a service that answers', () => {
  it.each([503, 404])('with %i now and then is asked on', async (status) => {
    const retry = { attempts: 1, maxWaitSeconds: 300 };
    const { server, client } = await opened.rig(
      (_request, nth) => (nth % 5 === 0 ? { status, body: {} } : SILENT),
      { timeouts: SHORT, retry },
    );
    const codes = new Set<unknown>();
    for (let walk = 0; walk < 7; walk += 1)
      codes.add((await client.walk(targetOf(), new MemorySink())).error?.code);
    expect(codes).not.toContain('unresponsive');
    expect(server.requests).toHaveLength(7);
  });

  it('slowly, and in time only for small pages, is read', async () => {
    const { client } = await opened.rig(
      ({ path }) => (Number(new URL(path, 'http://x').searchParams.get('limit')) > 100 ? SILENT : EMPTY),
      { timeouts: SHORT },
    );
    const lists = ['a', 'b', 'c', 'd'].map((organization) =>
      targetOf('domains', { organization, pageSize: 500 }),
    );
    const verdicts = await Promise.all(lists.map((list) => client.walk(list, new MemorySink())));
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(Array(4).fill('complete'));
  });

  it('with headers and no body is asked on: that is for the limit of the whole run', async () => {
    const retry = { attempts: 1, maxWaitSeconds: 300 };
    const { client } = await opened.rig(() => ({ hang: 'headers', contentLength: 10 }), {
      timeouts: SHORT,
      retry,
    });
    for (let walk = 0; walk < 7; walk += 1)
      expect((await client.walk(targetOf(), new MemorySink())).error?.code).toBe('timeout');
  });
});

describe.concurrent('writes', () => {
  const rig = async () => {
    const server = opened.add(await startFaultServer(() => SILENT));
    const client = opened.add(
      createWriteClient({
        baseUrl: new URL(server.url),
        apiKey: new Secret(KEY),
        rate: { perMinute: 600, perHour: 0, concurrency: 2 },
        retry: { attempts: 4, maxWaitSeconds: 300 },
        timeouts: SHORT,
        userAgent: 'test',
        clock: new FakeClock(),
        random: () => 0.5,
        log: silentLogger,
      }),
    );
    const target = { definition: definitionOf('domains'), scope: { organization_id: 'o1' } };
    return { server, client, create: () => client.create(target, '{}'), target };
  };

  it('are unknown as long as they were sent, and refused without being sent then', async () => {
    const { server, create } = await rig();
    for (let n = 1; n <= 4; n += 1)
      expect(await create()).toMatchObject({ outcome: 'unknown', error: { code: 'timeout' } });
    // The one that opens it was sent.
    expect(await create()).toMatchObject({ outcome: 'unknown', error: { code: 'unresponsive' } });
    expect(server.requests).toHaveLength(5);
    expect(await create()).toMatchObject({ outcome: 'refused', error: { code: 'unresponsive' } });
    expect(server.requests).toHaveLength(5);
  });

  it('share it with the reads of the same client', async () => {
    const { server, client, create } = await rig();
    expect((await client.reader.walk(targetOf(), new MemorySink())).error?.code).toBe('timeout');
    expect(await create()).toMatchObject({ outcome: 'unknown', error: { code: 'unresponsive' } });
    expect(server.requests).toHaveLength(5);
  });

  it('free the start that is held for them also where they are given up before all else', async () => {
    const { client, target } = await rig();
    const held = await client.reserve(undefined, 'domains');
    if (held === null) throw new Error('expected a start to be held');
    let released = 0;
    const watched = { ...held, release: () => void (released += 1) };
    const gone = new Error('given up');
    const signals = { signal: AbortSignal.abort(gone), reservation: watched };
    await expect(client.create(target, '{}', signals)).rejects.toBe(gone);
    expect(released).toBe(1);
  });
});
