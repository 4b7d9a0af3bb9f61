/** What arrives otherwise than a browser or our own client sends it: refused by rule, never a defect in the log. */
import { beforeEach, describe, expect, it } from 'vitest';
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { type Logger, silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { createReplica } from '../../../src/server/replica/replica.ts';
import { chunked, rawCall } from './raw.ts';
import { LOCAL_TOKEN, World } from './world.ts';

const TOKEN = 'a-token-of-some-length';
const METHODS = ['DELETE', 'POST', 'PUT', 'PATCH', 'OPTIONS'];
const PATHS = [
  '/',
  '/healthz',
  '/readyz',
  '/metrics',
  '/runs/1',
  '/records',
  '/api/v1/status',
  '/api/v1/jobs',
];
const AUTHORIZED = `Authorization: Bearer ${TOKEN}`;
const JSON_TYPE = 'Content-Type: application/json';
const SYNC = JSON.stringify({ job: 'sync', sources: null, full: false, kinds: null });

let logged: string[];
const note = (_facts: unknown, message?: string): void => void logged.push(message ?? '');
const log = { ...silentLogger, error: note, warn: note } as Logger;
beforeEach(() => (logged = []));

describe('a request without Content-Length', () => {
  it.each(METHODS)('%s: 405 with what is allowed, wherever only reading is', async (method) => {
    const world = await World.create();
    const { url } = await world.listen({ log });
    for (const path of PATHS) {
      const { status, headers } = await rawCall(url, [`${method} ${path} HTTP/1.1`]);
      expect([path, status, headers['allow']]).toEqual([path, 405, 'GET, HEAD']);
    }
    const runs = await rawCall(url, [`PUT /api/v1/runs HTTP/1.1`]);
    expect([runs.status, runs.headers['allow']]).toEqual([405, 'GET, HEAD, POST']);
    const logout = await rawCall(url, [`DELETE /logout HTTP/1.1`]);
    expect([logout.status, logout.headers['allow']]).toEqual([405, 'POST']);
    expect((await rawCall(url, [`${method} /nowhere HTTP/1.1`])).status).toBe(404);
    expect(logged).toEqual([]);
  });

  it.each(METHODS)('%s: its address and its token are looked at first', async (method) => {
    const world = await World.create();
    const open = await world.listen({ log });
    const closed = await world.listen({ log, token: new Secret(TOKEN) });
    for (const path of [...PATHS.filter((each) => each !== '/healthz'), '/api/v1/runs', '/nowhere']) {
      const evil = await rawCall(open.url, [`${method} ${path} HTTP/1.1`, 'Host: evil.example']);
      expect([path, evil.status]).toEqual([path, 421]);
      const stranger = await rawCall(closed.url, [`${method} ${path} HTTP/1.1`]);
      expect([path, stranger.status]).toEqual([path, 401]);
    }
    const known = await rawCall(closed.url, [`${method} /metrics HTTP/1.1`, AUTHORIZED]);
    expect(known.status).toBe(405);
    expect(logged).toEqual([]);
  });

  it('a POST is judged by its content', async () => {
    const world = await World.create();
    const { url } = await world.listen({ log, token: new Secret(TOKEN) });
    const post = 'POST /api/v1/runs HTTP/1.1';
    expect((await rawCall(url, [post, AUTHORIZED])).status).toBe(415);
    expect((await rawCall(url, [post, AUTHORIZED, JSON_TYPE])).status).toBe(400);
    expect((await rawCall(url, ['POST /login HTTP/1.1'])).status).toBe(401);
    expect(logged).toEqual([]);
  });

  it.each(METHODS)('%s to the replica: 405', async (method) => {
    const world = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations' });
    const { url } = await world.listen({
      log,
      replica: (source, pathPrefix) =>
        createReplica({
          mirrorPath: world.mirrorPath,
          openMirror: () =>
            openMirror(world.mirrorPath, { mode: 'read', command: 'replica', clock: world.clock }),
          source,
          definitionOf,
          tokens: () => [new Secret(TOKEN)],
          pathPrefix,
          clock: world.clock,
          log,
        }),
    });
    const line = `${method} /replica/api/organizations/ HTTP/1.1`;
    const { status, headers } = await rawCall(url, [line, AUTHORIZED]);
    expect([status, headers['allow']]).toEqual([method === 'OPTIONS' ? 204 : 405, 'GET, HEAD, OPTIONS']);
    expect(logged).toEqual([]);
  });
});

describe('a body in chunks', () => {
  const head = ['POST /api/v1/runs HTTP/1.1', `Authorization: Bearer ${LOCAL_TOKEN}`, JSON_TYPE];
  const inChunks = [...head, 'Transfer-Encoding: chunked'];

  it('starts a job like any other', async () => {
    const world = await World.create();
    const { url } = await world.listen({ log });
    const { status } = await rawCall(url, inChunks, chunked(SYNC.slice(0, 10), SYNC.slice(10)));
    expect(status).toBe(202);
    const actor = { by: 'token@http', via: 'token@http' };
    expect(world.asked).toEqual([['sync', null, { actor, full: false, kinds: null }]]);
  });

  it('is cut off where it is too large, as one that says so beforehand', async () => {
    const world = await World.create();
    const { url } = await world.listen({ log });
    const part = 'x'.repeat(4096);
    const large = await rawCall(url, inChunks, chunked(...Array.from({ length: 40 }, () => part)));
    expect([large.status, JSON.parse(large.body)]).toMatchObject([413, { error: { code: 'usage' } }]);
    const said = await rawCall(url, [...head, 'Content-Length: 1000000']);
    expect(said.status).toBe(413);
    const form = [`POST /login HTTP/1.1`, 'Transfer-Encoding: chunked'];
    const guarded = await world.listen({ log, token: new Secret(TOKEN) });
    expect((await rawCall(guarded.url, form, chunked(part, part, part, part, part))).status).toBe(413);
    // Who may not ask learns nothing of sizes.
    expect(
      (await rawCall(guarded.url, [...inChunks.filter((line) => !/^Auth/.test(line))], chunked(part))).status,
    ).toBe(401);
    expect(world.asked).toEqual([]);
    expect(logged).toEqual([]);
  });

  it('that is none, or ends early, is no defect either', async () => {
    const world = await World.create();
    const { url } = await world.listen({ log });
    expect((await rawCall(url, inChunks, 'this is no chunk\r\n\r\n')).status).toBe(400);
    expect(logged).toEqual([]);
  });
});
