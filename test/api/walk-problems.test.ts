import { afterEach, describe, expect, it } from 'vitest';
import { startFaultServer, type Reply, type Script } from '../faults/fault-server.ts';
import { listReply, queryNumber, rowsOf } from '../faults/list-server.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { KEY, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const list =
  (rows: readonly unknown[], options: Parameters<typeof listReply>[2] = {}): Script =>
  (request) =>
    listReply(rows, request, options);

describe('problem', () => {
  it('a `next` at another origin is named where its path leads nowhere', async () => {
    const { server, client, sink } = await opened.rig((_request, nth) =>
      nth === 1
        ? {
            body: {
              count: 2,
              next: 'https://other.example/listing/?page=2',
              results: [{ id: 'r1' }],
            },
          }
        : { status: 404 },
    );
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'failed', pages: 1 });
    expect(verdict.error?.message).toMatch(/broke off: its `next` points to https:\/\/other\.example, .*404/);
    expect(verdict.error?.hint).not.toContain('exclude the kind');
    expect(server.requests.map(({ path }) => path).at(-1)).toBe('/listing/?page=2');
  });

  it.each([
    ['cut JSON', { body: '{"count":330,"results":[{"id":"r1"' }, false],
    ['a web page', { body: '<html>log in</html>', headers: { 'content-type': 'text/html' } }, true],
  ])('%s has a hint of its own', async (_name, reply, isPage) => {
    const { client, sink } = await opened.rig(() => reply);
    const { error } = await client.walk(targetOf(), sink);
    expect(error?.code).toBe('malformed');
    expect(/web page/.test(error?.hint ?? '')).toBe(isPage);
  });

  it.each([
    ['403', 403, { detail: "API key missing required scope 'organization:read'" }, 'denied', 'forbidden'],
    ['401', 401, { detail: 'Invalid personal API key.' }, 'denied', 'unauthorized'],
    ['404', 404, { detail: 'Not found.' }, 'missing', 'not_found'],
    ['410', 410, '', 'missing', 'not_found'],
    ['400', 400, { detail: 'no' }, 'failed', 'rejected'],
    ['402', 402, { detail: 'pay' }, 'failed', 'rejected'],
  ])('%s to the first request', async (_name, status, body, outcome, code) => {
    const { server, client, sink } = await opened.rig(() => ({ status, body }));
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome, pages: 0, pageCap: null, isOnePage: false });
    expect(verdict.error?.code).toBe(code);
    expect(server.requests).toHaveLength(1);
    if (status === 403) expect(verdict.error?.permission).toBe('organization:read');
  });

  it.each([
    ['404', 404, 'failed', 'not_found'],
    ['401', 401, 'denied', 'unauthorized'],
    ['403', 403, 'denied', 'forbidden'],
  ])('%s in the middle of a walk', async (_name, status, outcome, code) => {
    const { client, sink } = await opened.rig((request, nth) =>
      nth < 3 ? listReply(rowsOf(900), request) : { status },
    );
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome, pages: 2 });
    expect(verdict.error?.code).toBe(code);
  });

  const once =
    (fault: Reply, at = 2): Script =>
    (request, nth) =>
      nth === at ? fault : listReply(rowsOf(330), request);
  it.each([
    ['HTML', once({ body: '<html>log in</html>', headers: { 'content-type': 'text/html' } })],
    ['HTML called JSON', once({ body: ' <!doctype html>', headers: { 'content-type': 'application/json' } })],
    ['cut JSON', once({ body: '{"count":330,"results":[{"id":"r1"' })],
    ['a number instead of a list', once({ body: '7' })],
    ['an object without a list', once({ body: { detail: 'ok' } })],
    ['an empty 200', once({ body: '' })],
    ['204', once({ status: 204 })],
    ['invalid UTF-8', once({ body: Buffer.from([0x5b, 0x22, 0xff, 0xfe, 0x22, 0x5d]) })],
    ['a body cut off', once({ body: { results: [] }, cutAfter: 5 })],
    ['a Content-Length too large', once({ body: '{"results":[]}', contentLength: 400 })],
    ['a Content-Length too small', once({ body: '{"count":0,"next":null,"results":[]}', contentLength: 8 })],
    ['a reset', once({ reset: true })],
    ['500', once({ status: 500, body: { type: 'server_error', detail: 'A server error occurred.' } })],
    ['408', once({ status: 408 })],
    ['425', once({ status: 425 })],
    ['429 without a header', once({ status: 429 })],
    ['a compressed answer, unasked', once({ body: 'x', headers: { 'content-encoding': 'gzip' } })],
    ['problem with the first request', once({ status: 503 }, 1)],
  ] as [string, Script][])('is got over when it passes: %s', async (_name, script) => {
    const { client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.error).toBeNull();
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 330 });
    expect(client.stats().retries).toBe(1);
  });

  it.each([
    ['HTML', { body: '<html>', headers: { 'content-type': 'text/html' } }, 'malformed'],
    ['no list', { body: { detail: 'ok' } }, 'malformed'],
    ['500', { status: 500 }, 'server_error'],
    ['resets', { reset: true }, 'unreachable'],
  ] as [string, Reply, string][])(
    'that stays fails the walk after five attempts: %s',
    async (_name, reply, code) => {
      const { server, client, sink } = await opened.rig(() => reply);
      const verdict = await client.walk(targetOf(), sink);
      expect(verdict.outcome).toBe('failed');
      expect(verdict.error?.code).toBe(code);
      expect(verdict.error?.hint).toBeTruthy();
      expect(server.requests).toHaveLength(5);
    },
  );

  it('survives 15 % of requests failing', async () => {
    const random = seededRandom(11);
    const { client, sink } = await opened.rig((request) =>
      random() < 0.15 ? { status: 500 } : listReply(rowsOf(9000), request),
    );
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 9000 });
    expect(sink.all.size).toBe(9000);
  });

  it('ends a run whose requests mostly fail', async () => {
    let failing = 0;
    const { client, sink } = await opened.rig((request, nth) => {
      if (nth % 2 === 0) return listReply(rowsOf(30_000), request);
      failing += 1;
      return { status: 503 };
    });
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.outcome).toBe('failed');
    expect(verdict.error?.code).toBe('retry_budget');
    expect(failing).toBe(51);
  });

  it('asks for smaller pages after timeouts and repeated 5xx', async () => {
    const heavy: Script = (request) =>
      queryNumber(request, 'limit')! > 30 ? { status: 504 } : listReply(rowsOf(200), request);
    const { client, sink } = await opened.rig(heavy);
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 200 });
    expect(verdict.pageCap).toBeLessThanOrEqual(30);
  });

  it.each([
    ['slow headers', { hang: 'all' }],
    ['a slow body', { hang: 'headers', body: 'x'.repeat(100) }],
  ] as [string, Reply][])('ends %s by its limits', async (_name, reply) => {
    const { client, sink } = await opened.rig(() => reply, {
      timeouts: { headersMs: 40, bodyMs: 40, totalMs: 500 },
      retry: { attempts: 2, maxWaitSeconds: 300 },
    });
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.outcome).toBe('failed');
    expect(verdict.error?.code).toBe('timeout');
  });

  it('ends an answer that trickles by its total limit', async () => {
    const { client, sink } = await opened.rig(() => ({ hang: 'all' }), {
      timeouts: { headersMs: 10_000, bodyMs: 10_000, totalMs: 50 },
      retry: { attempts: 1, maxWaitSeconds: 300 },
    });
    expect((await client.walk(targetOf(), sink)).error?.message).toMatch(/no complete answer within/);
  });

  it('stops when aborted, with the reason', async () => {
    const abort = new AbortController();
    const { client, sink } = await opened.rig((request, nth) => {
      if (nth === 3) queueMicrotask(() => abort.abort(new Error('enough')));
      return nth === 3 ? { hang: 'all' } : listReply(rowsOf(900), request);
    });
    await expect(client.walk(targetOf(), sink, abort.signal)).rejects.toThrow('enough');
  });

  it('names records without an id and proves nothing', async () => {
    const { client, sink } = await opened.rig(
      list([{ id: 'a' }, { name: 'nobody' }, { id: '' }, { id: null }]),
    );
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.outcome).toBe('incomplete');
    expect(verdict.error?.message).toBe('the list of domains: 3 records have no usable id (id)');
    expect([...sink.all].filter((id) => id !== '')).toEqual(['a']);
  });

  it('counts a row without an id once, however often overlapping pages show it', async () => {
    const rows: unknown[] = rowsOf(31);
    rows[6] = { name: 'nobody' };
    const { client, sink } = await opened.rig(list(rows, { cap: 10 }));
    const verdict = await client.walk(targetOf('domains', { pageSize: 10 }), sink);
    expect(sink.withoutId).toBeGreaterThan(1);
    expect(verdict.error?.message).toBe('the list of domains: 1 record has no usable id (id)');
  });

  it('says which list proved nothing', async () => {
    const { client, sink } = await opened.rig((request) => ({
      body: { ...(listReply(rowsOf(40), request).body as object), count: 41 },
    }));
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict).toMatchObject({ outcome: 'incomplete', isOnePage: false, distinct: 40, count: 41 });
    expect(verdict.error?.message).toBe(
      'the list of domains: it ended with 40 distinct records, its count says 41',
    );
  });
});

describe('the key', () => {
  it('goes with every request and nowhere else', async () => {
    const elsewhere = await startFaultServer(() => ({ body: [] }));
    opened.add(elsewhere);
    const { server, client, sink } = await opened.rig((_request, nth) =>
      nth === 1 ? { status: 302, headers: { location: `${elsewhere.url}/login?key=1` } } : { body: [] },
    );
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.outcome).toBe('failed');
    expect(verdict.error?.code).toBe('redirected');
    expect(verdict.error?.message).toContain(elsewhere.url);
    expect(verdict.error?.message).not.toContain('login');
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(elsewhere.requests).toEqual([]);
  });

  it.each([
    ['an error body', { status: 400, body: { detail: `bad header Bearer ${KEY}` } }],
    ['an error page', { status: 500, body: `Authorization: Bearer ${KEY}\u001b[31m\nred` }],
    ['broken JSON', { body: `{"results": ${KEY}` }],
    ['a redirect', { status: 301, headers: { location: `http://${KEY}.invalid/${KEY}` } }],
  ] as [string, Reply][])('never shows in a message: %s', async (_name, reply) => {
    const { client, sink } = await opened.rig(() => reply);
    const { error } = await client.walk(targetOf(), sink);
    const shown = `${error?.message} ${error?.hint} ${error?.stack} ${String(error?.cause)}`;
    expect(error).not.toBeNull();
    expect(shown.toLowerCase()).not.toContain(KEY.toLowerCase());
    expect(error?.message).not.toMatch(/[\u0000-\u001f]/);
  });
});
