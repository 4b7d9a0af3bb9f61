import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { RecordedRequest, Script } from '../faults/fault-server.ts';
import { listReply, queryNumber, rowsOf } from '../faults/list-server.ts';
import { clientFor, MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const list =
  (rows: readonly unknown[], options: Parameters<typeof listReply>[2] = {}): Script =>
  (request) =>
    listReply(rows, request, options);

describe('a list that fits one page', () => {
  it('costs exactly one request', async () => {
    const { server, client, sink } = await opened.rig(list(rowsOf(40)));
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', mode: 'full', pages: 1, count: 40, distinct: 40 });
    expect(verdict).toMatchObject({ isOnePage: true, pageCap: 40, error: null });
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'GET /api/organizations/o1/domains/?limit=100',
    ]);
    expect(client.stats()).toMatchObject({ requests: 1, retries: 0, throttled: 0 });
    expect(client.stats().bytes).toBeGreaterThan(1000);
  });

  it('is counted as it comes in, so that a slow answer is a sign of life', async () => {
    const body = JSON.stringify({ count: 1, next: null, previous: null, results: [{ id: 'd1' }] });
    const held: ServerResponse[] = [];
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write(body.slice(0, 20));
      held.push(response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = clientFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const walk = client.walk(targetOf(), new MemorySink());
    await expect.poll(() => client.stats().bytes).toBe(20);
    held[0]?.end(body.slice(20));
    expect(await walk).toMatchObject({ outcome: 'complete', distinct: 1 });
    expect(client.stats().bytes).toBe(body.length);
    await client.close();
    server.close();
  });

  it('may be empty', async () => {
    const { client, sink } = await opened.rig(list([]));
    expect(await client.walk(targetOf(), sink)).toMatchObject({
      outcome: 'complete',
      distinct: 0,
      isOnePage: true,
    });
  });

  it('keeps every record as it was sent', async () => {
    const text = '{"id":"a","n":1.10,"big":9007199254740993,"__proto__":null,"s":"\\u00e9\ud83d\ude00"}';
    const { client } = await opened.rig(() => ({
      body: `{"count":1,"next":null,"previous":null,"results":[${text}]}`,
    }));
    const seen: string[] = [];
    await client.walk(targetOf(), {
      accept: ({ records }) => {
        seen.push(...records.map((record) => record.text));
        return { fresh: 1, again: 0, known: 0, distinct: 1 };
      },
    });
    expect(seen).toEqual([text]);
  });
});

describe('a list of several pages', () => {
  it('is proven for at most 1.15 times its pages, and every row arrives', async () => {
    const { server, client, sink } = await opened.rig(list(rowsOf(5000)));
    const verdict = await client.walk(targetOf('domains', { pageSize: 250 }), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', count: 5000, distinct: 5000, isOnePage: false });
    expect(sink.all.size).toBe(5000);
    expect(server.requests.length).toBeLessThanOrEqual(23);
    expect(sink.progressed.at(-1)).toMatchObject({ pages: verdict.pages, count: 5000 });
  });

  it.each([
    ['a server that caps pages', list(rowsOf(333), { cap: 50 }), 50],
    [
      'a server that ignores limit',
      (request: RecordedRequest) =>
        listReply(rowsOf(333), { ...request, path: request.path.replace(/limit=\d+/, 'limit=70') }),
      70,
    ],
    ['a server with pages of one', list(rowsOf(12), { cap: 1 }), 1],
    ['a server with pages of two', list(rowsOf(9), { cap: 2 }), 2],
  ] as [string, Script, number][])('advances by what arrived: %s', async (_name, script, pageCap) => {
    const { client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', pageCap });
    expect(verdict.distinct).toBe(verdict.count);
  });

  it('takes the widening back where it is refused', async () => {
    const script: Script = (request) =>
      queryNumber(request, 'limit')! > 100
        ? { status: 400, body: { detail: 'limit too large' } }
        : listReply(rowsOf(350), request);
    const { server, client, sink } = await opened.rig(script);
    expect(await client.walk(targetOf(), sink)).toMatchObject({ outcome: 'complete', distinct: 350 });
    expect(server.requests.filter((request) => queryNumber(request, 'limit')! > 100)).toHaveLength(1);
  });

  it('asks ahead while the sink is busy, and never for a page that it does not take', async () => {
    const { server, client, sink } = await opened.rig(list(rowsOf(1000)));
    const verdict = await client.walk(targetOf(), sink);
    expect(server.requests).toHaveLength(verdict.pages);
  });
});

describe('the sink', () => {
  it('gets a page again that it could not read', async () => {
    const { client } = await opened.rig(list(rowsOf(3)));
    let calls = 0;
    const verdict = await client.walk(targetOf(), {
      accept: ({ records }) => {
        calls += 1;
        if (calls < 3) throw new SyntaxError('Unexpected token');
        return { fresh: records.length, again: 0, known: 0, distinct: records.length };
      },
    });
    expect(verdict.outcome).toBe('complete');
    expect(client.stats().retries).toBe(2);
  });

  it('fails the walk when no attempt can be read', async () => {
    const { client, server } = await opened.rig(list(rowsOf(3)));
    const verdict = await client.walk(targetOf(), {
      accept: () => {
        throw new SyntaxError('Unexpected token');
      },
    });
    expect(verdict.outcome).toBe('failed');
    expect(verdict.error?.code).toBe('malformed');
    expect(server.requests).toHaveLength(5);
  });

  it('has its own failures thrown, not told as a verdict', async () => {
    const { client } = await opened.rig(list(rowsOf(500)));
    const full = new Error('disk full');
    await expect(
      client.walk(targetOf(), {
        accept: () => {
          throw full;
        },
      }),
    ).rejects.toBe(full);
  });

  it.each([
    // Sorted by id: rows cannot move, so what left behind the reading hides nothing.
    ['one pass where the ids are in order', rowsOf(400), 1],
    [
      'another pass where nothing tells the order',
      rowsOf(400).map((row, at) => ({ ...row, id: `r${(at * 7) % 400}` })),
      2,
    ],
  ])('takes %s, when rows left the list during the walk', async (_name, all, passes) => {
    let rows = all;
    const { client, sink } = await opened.rig((request, nth) => {
      if (nth === 3) rows = rows.slice(1);
      return listReply(rows, request);
    });
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', count: 399 });
    expect(sink.all.size).toBe(400);
    expect(sink.passes).toBe(passes);
  });
});
