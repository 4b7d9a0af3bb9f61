import { afterEach, describe, expect, it } from 'vitest';
import type { ReadClient } from '../../src/api/read-client.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Reply, Script } from '../faults/fault-server.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { clientFor, Opened, KEY, MemorySink, targetOf } from './walk-rig.ts';
import { parseLossless } from '../../src/core/json.ts';

const opened = new Opened();
afterEach(() => opened.close());

const once = { retry: { attempts: 1, maxWaitSeconds: 300 } };

describe('the read client', () => {
  it('has no way to send anything but GET', async () => {
    const { server, client } = await opened.rig((request) => listReply(rowsOf(3), request));
    expect(Object.keys(client).sort()).toEqual(['close', 'retrieve', 'stats', 'walk', 'walkHead']);
    await client.walk(targetOf(), new MemorySink());
    await client.walkHead(targetOf('session_recordings'), new MemorySink());
    await client
      .retrieve(definitionOf('batch_exports'), { organization_id: 'o1' }, 'x')
      .catch(() => undefined);
    expect(new Set(server.requests.map(({ method }) => method))).toEqual(new Set(['GET']));
    expect(server.requests.length).toBeGreaterThan(2);
  });

  it('refuses a key that no header may carry, without showing it', () => {
    for (const key of ['', 'two words', 'line\nbreak', 'é']) {
      const create = (): ReadClient => clientFor('http://127.0.0.1:1', { apiKey: new Secret(key) });
      expect(create).toThrow(expect.objectContaining({ code: 'config_invalid' }));
    }
  });
});

describe('retrieve', () => {
  const definition = definitionOf('batch_exports');
  const scope = { organization_id: 'o1' };

  it('returns the text as received, and what it says without losing a digit', async () => {
    const text = '{"id": "a/b", "n": 1.10, "big": 9007199254740993, "x": null}';
    const { server, client } = await opened.rig(() => ({ body: `\n${text}\n` }));
    const retrieved = await client.retrieve(definition, scope, 'a/b');
    expect(retrieved).toEqual({ found: true, text, body: parseLossless(text) });
    expect(server.requests[0]?.path).toBe('/api/organizations/o1/batch_exports/a%2Fb/');
  });

  it.each(['..', '.', '%2e%2e', '../../admin', 'a?b#c', ' ', 'ü/é'])(
    'addresses one record and nothing else: %s',
    async (id) => {
      const { server, client } = await opened.rig(() => ({ status: 404 }));
      expect(await client.retrieve(definition, scope, id)).toEqual({ found: false });
      const path = server.requests[0]?.path ?? '';
      expect(path).toMatch(/^\/api\/organizations\/o1\/batch_exports\/[^/?#]+\/$/);
      expect(decodeURIComponent(path.split('/')[5] ?? '')).toBe(id);
    },
  );

  it.each([404, 410])('takes %i for an answer', async (status) => {
    const { client } = await opened.rig(() => ({ status }));
    expect(await client.retrieve(definition, scope, 'x')).toEqual({ found: false });
  });

  it('reads the single object of kinds that have no id of their own', async () => {
    const { server, client } = await opened.rig(() => ({ body: { enabled: true, access_token: 't' } }));
    const answer = await client.retrieve(definitionOf('recording_sharing'), { project_id: '7' }, 'rec 1');
    expect(answer.found).toBe(true);
    expect(server.requests[0]?.path).toBe('/api/projects/7/session_recordings/rec%201/sharing/');
  });

  it.each([
    [
      '403',
      { status: 403, body: { detail: "API key missing required scope 'batch_export:read'" } },
      'forbidden',
    ],
    ['500', { status: 500 }, 'server_error'],
    ['a list', { body: [] }, 'malformed'],
    ['cut JSON', { body: '{"id": "x"' }, 'malformed'],
    ['trailing text', { body: '{"id": "x"} no' }, 'malformed'],
    ['another record', { body: { id: 'y' } }, 'malformed'],
    ['HTML', { body: '<html>', headers: { 'content-type': 'text/html' } }, 'malformed'],
    ['a redirect', { status: 307, headers: { location: '/elsewhere' } }, 'redirected'],
  ] as [string, Reply, string][])('fails on %s', async (_name, reply, code) => {
    const { client } = await opened.rig(() => reply, once);
    await expect(client.retrieve(definition, scope, 'x')).rejects.toMatchObject({ code });
  });

  it.each([
    ['OK', /with text instead of JSON$/, /not at a web page or a login$/],
    ['{"id": "x"', /with no batch export: /, /may have been cut/],
    ['', /with no batch export: /, /may have been cut/],
    ['null', /with no batch export$/, /may have been cut/],
  ])('says where to look for an answer of %j', async (body, message, hint) => {
    const { client } = await opened.rig(() => ({ body, headers: { 'content-type': 'text/plain' } }), once);
    await expect(client.retrieve(definition, scope, 'x')).rejects.toMatchObject({
      message: expect.stringMatching(message) as string,
      hint: expect.stringMatching(hint) as string,
    });
  });

  it('is no operation of a list-only kind', async () => {
    const { client, server } = await opened.rig(() => ({ body: {} }));
    await expect(client.retrieve(definitionOf('members'), scope, 'x')).rejects.toMatchObject({
      code: 'internal',
    });
    expect(server.requests).toEqual([]);
  });
});

describe('the head of a feed', () => {
  const recording = (n: number): { id: string; start_time: string } => ({
    id: `r${n}`,
    start_time: new Date(Date.UTC(2026, 0, 1) + n * 60_000).toISOString(),
  });
  const newestFirst = Array.from({ length: 900 }, (_each, index) => recording(900 - index));
  const feed =
    (rows: readonly unknown[]): Script =>
    (request) =>
      listReply(rows, request);
  const target = targetOf('session_recordings');
  const idsFrom = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);

  it('ends with the first page that is known and unchanged', async () => {
    const { server, client } = await opened.rig(feed(newestFirst));
    const sink = new MemorySink(idsFrom(newestFirst));
    expect(await client.walkHead(target, sink)).toMatchObject({
      outcome: 'complete',
      mode: 'head',
      pages: 1,
      error: null,
    });
    expect(server.requests).toHaveLength(1);
  });

  it('goes on while something is new', async () => {
    const { client } = await opened.rig(feed(newestFirst));
    const sink = new MemorySink(idsFrom(newestFirst.slice(150)));
    expect(await client.walkHead(target, sink)).toMatchObject({
      outcome: 'complete',
      mode: 'head',
      pages: 3,
    });
    expect(sink.all.has('r750')).toBe(true);
  });

  it('becomes a full walk when nothing is known', async () => {
    const { client } = await opened.rig(feed(newestFirst));
    const sink = new MemorySink();
    expect(await client.walkHead(target, sink)).toMatchObject({
      outcome: 'complete',
      mode: 'full',
      distinct: 900,
    });
  });

  it.each([
    ['oldest first', [...newestFirst].reverse()],
    ['one out of place', [...newestFirst.slice(1, 50), newestFirst[0]!, ...newestFirst.slice(50)]],
    ['one without a time', [{ id: 'r900' }, ...newestFirst.slice(1)]],
  ])('becomes a full walk when the order does not hold: %s', async (_name, rows) => {
    const { client } = await opened.rig(feed(rows));
    const sink = new MemorySink(idsFrom(newestFirst));
    expect(await client.walkHead(target, sink)).toMatchObject({
      outcome: 'complete',
      mode: 'full',
      distinct: 900,
    });
  });

  it('is a full walk where one page holds all', async () => {
    const { client } = await opened.rig(feed(newestFirst.slice(0, 30)));
    const sink = new MemorySink(idsFrom(newestFirst));
    expect(await client.walkHead(target, sink)).toMatchObject({
      mode: 'full',
      isOnePage: true,
      distinct: 30,
    });
  });
});

describe('the key', () => {
  it('is the only thing that the Authorization header holds', async () => {
    const { server, client } = await opened.rig((request) => listReply(rowsOf(1), request));
    await client.walk(targetOf(), new MemorySink());
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'user-agent': 'tidemark-test',
      accept: 'application/json',
    });
    expect(server.requests[0]?.path).not.toContain(KEY);
  });
});
