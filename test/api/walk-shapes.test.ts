import { afterEach, describe, expect, it } from 'vitest';
import { startFaultServer, type RecordedRequest, type Script } from '../faults/fault-server.ts';
import { listReply, queryNumber, rowsOf } from '../faults/list-server.ts';
import { MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const list =
  (rows: readonly unknown[], options: Parameters<typeof listReply>[2] = {}): Script =>
  (request) =>
    listReply(rows, request, options);

describe('shapes of a list', () => {
  const rows = rowsOf(230);
  const cursorList: Script = (request) => {
    const at = queryNumber(request, 'after') ?? 0;
    const limit = queryNumber(request, 'limit')!;
    const more = at + limit < rows.length;
    return {
      body: {
        results: rows.slice(at, at + limit),
        has_next: more,
        version: 3,
        ...(more ? { next_cursor: String(at + limit) } : {}),
      },
    };
  };
  const hasNextList: Script = (request) => {
    const at = queryNumber(request, 'offset') ?? 0;
    const limit = Math.min(50, queryNumber(request, 'limit')!);
    return { body: { results: rows.slice(at, at + limit), has_next: at + limit < rows.length, version: 3 } };
  };
  const pageList: Script = (request) => {
    const page = queryNumber(request, 'page') ?? 1;
    const next =
      page * 50 < rows.length
        ? `http://elsewhere.invalid/api/organizations/o1/domains/?page=${page + 1}&limit=50`
        : null;
    return {
      body: {
        results: rows.slice((page - 1) * 50, page * 50),
        next,
        previous: null,
        total_count: rows.length,
      },
    };
  };
  const opaqueList: Script = (request) => {
    const at = Number(
      (new URL(request.path, 'http://x.invalid').searchParams.get('cursor') ?? 'c0').slice(1),
    );
    const next = at + 50 < rows.length ? `/api/organizations/o1/domains/?cursor=c${at + 50}` : null;
    return { body: { results: rows.slice(at, at + 50), next } };
  };
  const bareArray: Script = (request) => {
    const at = queryNumber(request, 'offset') ?? 0;
    return { body: rows.slice(at, at + queryNumber(request, 'limit')!) };
  };

  it.each([
    ['has_next and next_cursor', cursorList],
    ['has_next and offset', hasNextList],
    ['total_count and page numbers', pageList],
    ['`next` with an opaque cursor', opaqueList],
    ['a bare array that honours offset', bareArray],
    ['a bare array that ignores every parameter', () => ({ body: rows })],
    ['results and nothing else', () => ({ body: { results: rows, max_proxy_records: 300 } })],
    [
      'a count sent as text',
      (request: RecordedRequest) => {
        const reply = listReply(rows, request);
        return { body: { ...(reply.body as object), count: '230' } };
      },
    ],
    [
      'a count that is null',
      (request: RecordedRequest) => ({ body: { ...(listReply(rows, request).body as object), count: null } }),
    ],
    [
      'a count that is rubbish',
      (request: RecordedRequest) => ({
        body: { ...(listReply(rows, request).body as object), count: 'many' },
      }),
    ],
    [
      'space around everything',
      (request: RecordedRequest) => ({
        body: `\n ${JSON.stringify(listReply(rows, request).body, null, 2)} \n`,
        headers: { 'content-type': 'application/json' },
      }),
    ],
  ] as [string, Script][])('%s', async (_name, script) => {
    const { server, client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf(), sink);
    expect(verdict.error).toBeNull();
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 230 });
    expect(sink.all.size).toBe(230);
    expect(server.requests.length).toBeLessThan(12);
  });

  it('asks without a query where the list takes none, and follows `next` as it is', async () => {
    const script: Script = (request) => {
      const url = new URL(request.path, 'http://x.invalid');
      if (url.searchParams.has('limit') && !url.searchParams.has('offset')) return { status: 500 };
      return listReply(rows, { ...request, path: url.pathname + url.search }, { defaultLimit: 100 });
    };
    const { server, client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf('roles', { listing: { acceptsQuery: false } }), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 230 });
    expect(server.requests[0]?.path).toBe('/api/organizations/o1/roles/');
    // Pages whose links are positions cannot overlap: nothing of them is in the mirror yet, so a second pass confirms the first.
    expect(server.requests).toHaveLength(6);
    const mirrored = new MemorySink(rows.map(({ id }) => id));
    await client.walk(targetOf('roles', { listing: { acceptsQuery: false } }), mirrored);
    expect(server.requests).toHaveLength(9);
  });

  it('finds the record that a removal and an addition during the first pass hid behind a link', async () => {
    let held = rowsOf(230);
    const script: Script = (request) => {
      const reply = listReply(held, request, { defaultLimit: 100 });
      // After the first page: what follows moves up by one, and the count stays the same.
      held = rowsOf(230, 1);
      return reply;
    };
    const { client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf('roles', { listing: { acceptsQuery: false } }), sink);
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 230 });
    expect(held.filter(({ id }) => !sink.all.has(id))).toEqual([]);
  });

  it('is not proved by its count while each reading misses another record behind the links', async () => {
    let shift = 0;
    const script: Script = (request) => {
      const reply = listReply(rowsOf(230, shift), request, { defaultLimit: 100 });
      // After the first page of each pass, one is removed and one added.
      if (!/offset=[1-9]/.test(request.path)) shift += 1;
      return reply;
    };
    const { client, sink } = await opened.rig(script);
    const verdict = await client.walk(targetOf('roles', { listing: { acceptsQuery: false } }), sink);
    expect(verdict).toMatchObject({ outcome: 'incomplete', error: { code: 'walk_unproven' } });
    expect(verdict.error?.message).toContain('two readings of it do not hold the same records');
  });

  it('sends the query that the definition adds', async () => {
    const { server, client, sink } = await opened.rig(list(rowsOf(3)));
    await client.walk(targetOf('session_recordings', { listing: { query: { date_from: '-30d' } } }), sink);
    expect(server.requests[0]?.path).toBe('/api/projects/o1/session_recordings/?date_from=-30d&limit=100');
  });

  it('reads the records under the first of several names', async () => {
    const { client, sink } = await opened.rig(() => ({ body: { items: rowsOf(2), count: 2, next: null } }));
    const verdict = await client.walk(
      targetOf('domains', { listing: { listKeys: ['results', 'items'] } }),
      sink,
    );
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 2 });
  });

  it('reads a member by the id of their user', async () => {
    const { client, sink } = await opened.rig(list([{ id: 'm1', user: { uuid: 'u1' } }]));
    await client.walk(targetOf('members'), sink);
    expect([...sink.all]).toEqual(['u1']);
  });
});

describe('addresses', () => {
  it('keeps to the configured origin and prefix whatever host `next` names', async () => {
    const elsewhere = await startFaultServer(list(rowsOf(230)));
    opened.add(elsewhere);
    const script: Script = (request) => listReply(rowsOf(230), request, { self: elsewhere.url });
    const { server, client, sink } = await opened.rig(script, {}, '/prefix/');
    expect(await client.walk(targetOf(), sink)).toMatchObject({ outcome: 'complete', distinct: 230 });
    expect(elsewhere.requests).toEqual([]);
    for (const { path } of server.requests)
      expect(path).toMatch(/^\/prefix\/api\/organizations\/o1\/domains\/\?/);
  });

  it.each([
    ['behind a prefix that `next` shows', '/prefix', 'http://elsewhere.invalid/prefix'],
    ['behind a prefix that `next` does not know', '/prefix', 'http://elsewhere.invalid'],
    ['with another origin in `next`', '', 'https://elsewhere.invalid:444'],
    ['with a `next` without scheme', '', '//elsewhere.invalid'],
  ])('follows an opaque `next` %s', async (_name, prefix, self) => {
    const rows = rowsOf(120);
    const script: Script = (request) => {
      const at = Number(
        (new URL(request.path, 'http://x.invalid').searchParams.get('cursor') ?? 'c0').slice(1),
      );
      const next = at + 50 < rows.length ? `${self}/api/organizations/o1/domains/?cursor=c${at + 50}` : null;
      return { body: { results: rows.slice(at, at + 50), next } };
    };
    const { server, client, sink } = await opened.rig(script, {}, prefix);
    expect(await client.walk(targetOf(), sink)).toMatchObject({ outcome: 'complete', distinct: 120 });
    for (const { path } of server.requests)
      expect(path.startsWith(`${prefix}/api/organizations/o1/domains/`)).toBe(true);
  });

  it('sends ids in paths byte for byte', async () => {
    const { server, client, sink } = await opened.rig(list(rowsOf(1)));
    await client.walk(targetOf('domains', { organization: '..' }), sink);
    await client.walk(targetOf('domains', { organization: 'a/../b%2F c' }), sink);
    expect(server.requests.map(({ path }) => path)).toEqual([
      '/api/organizations/%2E%2E/domains/?limit=100',
      '/api/organizations/a%2F..%2Fb%252F%20c/domains/?limit=100',
    ]);
  });
});
