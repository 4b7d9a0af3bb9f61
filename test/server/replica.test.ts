/** The replica over a mirror: what it answers, what it refuses, and what it does while the mirror changes or goes. */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { CATALOG, fillPath } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { Logger } from '../../src/core/logger.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { begin, open, ORG, scan, sweep, sync, testClock } from '../mirror/fixture.ts';
import { replicaDirectory, startReplica } from './running-replica.ts';

const ORGANIZATION =
  '{"id":"o1","name":"Harbor","big":9007199254740993,"price":1.10,"odd":"\\ud800 \\u0000 \u2028"}';
const DOMAINS = '/api/organizations/o1/domains/';
const RECORDINGS: Scope = { project_id: '1' };

const domain = (id: string, name = id): string => JSON.stringify({ id, domain: name });

async function withDomains(mirror: Mirror, ids: readonly string[]): Promise<number> {
  await sync(mirror, 'organizations', {}, [ORGANIZATION]);
  return (
    await sync(
      mirror,
      'domains',
      ORG,
      ids.map((id) => domain(id)),
    )
  ).run;
}

/** One run with one sweep that read nothing. */
async function failSweep(
  mirror: Mirror,
  kind: Kind,
  scope: Scope,
  outcome: 'denied' | 'missing',
): Promise<void> {
  const run = begin(mirror);
  run.stage(kind, scope);
  const error = { code: 'forbidden', message: `API key missing required scope 'plugin:read'` } as const;
  await run.publish({
    outcome: 'partial',
    sweeps: [
      sweep(kind, scope, 0, { outcome, mode: null, ...(outcome === 'denied' ? { error } : {}) }),
      sweep('organizations', {}, 0),
    ],
    requests: 1,
    retries: 0,
  });
}

describe('a replica', () => {
  it('answers lists and records as they were received, with the time of their state', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await withDomains(mirror, ['a', 'b', 'c/%2F ..', 'd']);
    const { get, url } = await startReplica(mirror.path, { clock });
    clock.move(90_500);
    const list = await get('/api/organizations/');
    expect(list.text).toBe(`{"count":1,"next":null,"previous":null,"results":[${ORGANIZATION}]}`);
    const at = mirror.runs.latest('production')?.finishedAt;
    expect(Object.fromEntries(list.headers)).toMatchObject({
      'x-tidemark-as-of': at,
      'x-tidemark-age': '90',
      'x-tidemark-run': '2',
      'x-tidemark-complete': 'true',
      'x-tidemark-read-at': mirror.runs.get(1)?.finishedAt,
      'content-type': 'application/json',
    });
    expect((await get('/api/organizations/o1/')).text).toBe(ORGANIZATION);
    expect((await get(`${DOMAINS}?limit=2&offset=1&x=y`)).json).toEqual({
      count: 4,
      next: `${url}${DOMAINS}?limit=2&offset=3&x=y`,
      previous: `${url}${DOMAINS}?limit=2&x=y`,
      results: [JSON.parse(domain('b')), JSON.parse(domain('c/%2F ..'))],
    });
    expect((await get(`${DOMAINS}${encodeURIComponent('c/%2F ..')}/`)).text).toBe(domain('c/%2F ..'));
    expect((await get(`${DOMAINS}?offset=9`)).json).toMatchObject({ count: 4, next: null, results: [] });
    expect((await get(`${DOMAINS}nobody/`)).status).toBe(404);
    const head = await get(DOMAINS, { method: 'HEAD' });
    expect([head.status, head.text, head.headers.get('x-tidemark-run')]).toEqual([200, '', '2']);
  });

  it('answers the same page again and again, and another one after the next run', async () => {
    const mirror = open();
    await withDomains(mirror, ['a', 'b', 'c']);
    const { get } = await startReplica(mirror.path);
    const ask = async (): Promise<string> => (await get(`${DOMAINS}?limit=2`)).text;
    const first = await ask();
    expect([await ask(), await ask(), await ask()]).toEqual([first, first, first]);
    await sync(mirror, 'domains', ORG, [domain('a', 'changed'), domain('b'), domain('c'), domain('d')]);
    const later = await get(`${DOMAINS}?limit=2`);
    expect(later.json).toMatchObject({ count: 4, results: [{ domain: 'changed' }, { id: 'b' }] });
    expect(later.headers.get('x-tidemark-run')).toBe('3');
  });

  it('shows any state that the mirror holds', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await sync(mirror, 'organizations', {}, [ORGANIZATION]);
    clock.move(60_000);
    const two = await sync(mirror, 'domains', ORG, [domain('a'), domain('b')]);
    const at = mirror.runs.get(two.run)?.finishedAt ?? '';
    mirror.snapshots.pin('before', two.run);
    mirror.snapshots.setBaseline('before');
    clock.move(60_000);
    await sync(mirror, 'domains', ORG, [domain('b', 'moved'), domain('c')]);
    const { get } = await startReplica(mirror.path, { clock });
    const old = [JSON.parse(domain('a')), JSON.parse(domain('b'))] as unknown;
    for (const ref of [`run:${two.run}`, 'snapshot:before', 'baseline', at, '2026-03-01T12:01:30Z']) {
      const query = `?as_of=${encodeURIComponent(ref)}`;
      const list = await get(DOMAINS + query);
      expect([ref, list.json['count'], list.json['results']]).toEqual([ref, 2, old]);
      expect(list.headers.get('x-tidemark-as-of')).toBe(at);
      expect((await get(`${DOMAINS}b/${query}`)).text).toBe(domain('b'));
      expect((await get(`${DOMAINS}c/${query}`)).status).toBe(404);
    }
    for (const query of ['', '?as_of=latest', '?as_of=run:3', '?as_of=2027-01-01']) {
      expect((await get(`${DOMAINS}b/${query}`)).text).toBe(domain('b', 'moved'));
    }
    expect((await get(`${DOMAINS}?as_of=run:1`)).json['detail']).toContain('this list was not read');
  });

  it.each(['', 'live', 'file:x', 'run:99', 'run:x', 'snapshot:none', 'baseline', 'yesterday', '1999-01-01'])(
    'answers 400 to as_of=%s',
    async (ref) => {
      const mirror = open();
      await withDomains(mirror, ['a']);
      const { get } = await startReplica(mirror.path);
      const answer = await get(`${DOMAINS}?as_of=${encodeURIComponent(ref)}`);
      expect(answer.status).toBe(400);
      expect(answer.json).toMatchObject({ type: 'validation_error', code: 'invalid', attr: 'as_of' });
      expect((await get(`${DOMAINS}?as_of=run:1&as_of=run:2`)).status).toBe(400);
    },
  );

  it.each(['at', 'asof', 'as-of', 'As_Of', 'AT'])(
    'answers 400 to %s=, which the latest state would answer',
    async (name) => {
      const mirror = open();
      await withDomains(mirror, ['a']);
      const { get } = await startReplica(mirror.path);
      const { status, json } = await get(`${DOMAINS}?limit=1&${name}=run:1`);
      expect([status, json['attr'], json['detail']]).toEqual([400, name, `${name}: did you mean as_of?`]);
      expect((await get(`${DOMAINS}?state=run:1&format=json`)).status).toBe(200);
    },
  );

  it('answers 400 to as_of= with a snapshot that another program altered, and names the command that pins its run again', async () => {
    const mirror = open();
    const first = await withDomains(mirror, ['a']);
    await withDomains(mirror, ['a', 'b']);
    mirror.snapshots.pin('before', first);
    mirror.snapshots.setBaseline('before');
    const file = new Database(mirror.path);
    file.prepare(`UPDATE snapshots SET run = ?`).run(first + 2);
    file.close();
    const { get } = await startReplica(mirror.path);
    for (const ref of ['snapshot:before', 'baseline']) {
      const { status, json } = await get(`${DOMAINS}?as_of=${ref}`);
      expect([ref, status, json['attr']]).toEqual([ref, 400, 'as_of']);
      expect(json['detail']).toContain(`snapshot "before" is not as it was pinned (now at run ${first + 2})`);
      expect(json['detail']).toContain(`tidemark snapshots pin NAME run:${first}`);
    }
    expect((await get(`${DOMAINS}?as_of=run:${first}`)).json['count']).toBe(1);
    expect((await get(DOMAINS)).status).toBe(200);
  });

  it('answers 405 with Allow to every writing operation, 501 to what is not mirrored', async () => {
    const mirror = open();
    await withDomains(mirror, ['a']);
    for (const kind of ['projects', 'batch_exports'] as const) await sync(mirror, kind, ORG, ['{"id":1}']);
    const { get } = await startReplica(mirror.path);
    const values = { organization_id: 'o1', project_id: '1', role_id: 'r1', recording_id: 'x', id: '1' };
    let writes = 0;
    for (const { operations } of CATALOG) {
      for (const { method, path } of operations) {
        if (method === 'GET') continue;
        writes += 1;
        const answer = await get(fillPath(path, { ...values, user__uuid: 'u' }), { method, body: '{}' });
        expect([path, answer.status, answer.json['code']]).toEqual([path, 405, 'method_not_allowed']);
        expect(answer.headers.get('allow')).toMatch(/^(GET, HEAD, )?OPTIONS$/);
      }
    }
    expect(writes).toBeGreaterThan(50);
    const activity = await get('/api/organizations/o1/projects/1/activity/');
    expect([activity.status, activity.json['detail']]).toEqual([501, expect.stringContaining('"activity"')]);
    expect((await get('/api/organizations/o1/batch_exports/1/logs/')).status).toBe(501);
    expect((await get('/api/organizations/o1/batch_exports/2/logs/')).status).toBe(404);
  });

  it('never shows what was not read as empty', async () => {
    const mirror = open();
    await withDomains(mirror, []);
    await failSweep(mirror, 'plugins', ORG, 'denied');
    await failSweep(mirror, 'invites', ORG, 'missing');
    const run = begin(mirror);
    run.stage('session_recordings', RECORDINGS).accept([scan('session_recordings', '{"id":"x"}')]);
    const half = sweep('session_recordings', RECORDINGS, 1, { outcome: 'incomplete' });
    await run.publish({ outcome: 'partial', sweeps: [half], requests: 1, retries: 0 });
    const { get } = await startReplica(mirror.path);
    const empty = await get(DOMAINS);
    expect([empty.status, empty.json['count']]).toEqual([200, 0]);
    const denied = await get('/api/organizations/o1/plugins/');
    expect([denied.status, denied.json['code']]).toEqual([403, 'permission_denied']);
    expect(denied.json['detail']).toContain(`missing required scope 'plugin:read'`);
    expect((await get('/api/organizations/o1/plugins/7/')).status).toBe(403);
    const missing = await get('/api/organizations/o1/invites/');
    expect([missing.status, missing.json['detail']]).toEqual([404, expect.stringContaining('not offer')]);
    const unread = await get('/api/organizations/o1/roles/');
    expect([unread.status, unread.json['detail']]).toEqual([404, expect.stringContaining('was not read')]);
    const elsewhere = await get('/api/organizations/o2/roles/');
    expect([elsewhere.status, elsewhere.json['detail']]).toEqual([404, 'Not found.']);
    const incomplete = await get('/api/projects/1/session_recordings/');
    expect(incomplete.headers.get('x-tidemark-complete')).toBe('false');
    expect(incomplete.headers.get('x-tidemark-read-at')).toBeNull();
    expect(incomplete.json).toMatchObject({ count: 1, results: [{ id: 'x' }] });
    const unknown = await get('/api/projects/1/session_recordings/y/');
    expect([unknown.status, unknown.json['detail']]).toEqual([404, expect.stringContaining('never read')]);
  });

  it('says of a list that it is not complete while its removals are held, also as of that run', async () => {
    const mirror = open();
    await withDomains(mirror, ['a']);
    const run = begin(mirror);
    run.stage('domains', ORG).accept([]);
    const held = sweep('domains', ORG, 0, { outcome: 'held' });
    await run.publish({ outcome: 'partial', sweeps: [held], requests: 1, retries: 0 });
    await withDomains(mirror, ['a']);
    const { get } = await startReplica(mirror.path);
    for (const [at, isComplete] of [
      ['latest', 'true'],
      ['run:2', 'true'],
      ['run:3', 'false'],
    ])
      expect((await get(`${DOMAINS}?as_of=${at}`)).headers.get('x-tidemark-complete'), at).toBe(isComplete);
  });

  it('says when a list was last read completely, where a later run failed to read it or was limited to others', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await withDomains(mirror, ['a']);
    clock.move(60_000);
    await failSweep(mirror, 'domains', ORG, 'denied');
    clock.move(60_000);
    await sync(mirror, 'organizations', {}, [ORGANIZATION]);
    const { get } = await startReplica(mirror.path, { clock });
    const readAt = mirror.runs.get(2)?.finishedAt;
    for (const at of ['latest', 'run:3', 'run:2'])
      expect((await get(`${DOMAINS}?as_of=${at}`)).headers.get('x-tidemark-read-at'), at).toBe(readAt);
  });

  it('says of recordings when all of them were last read: most runs read only the newest', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    const recordings = async (mode: 'full' | 'head'): Promise<void> => {
      const run = begin(mirror);
      run.stage('session_recordings', RECORDINGS).accept([scan('session_recordings', '{"id":"x"}')]);
      const sweeps = [sweep('session_recordings', RECORDINGS, 1, { mode })];
      await run.publish({ outcome: 'complete', sweeps, requests: 1, retries: 0 });
      clock.move(60_000);
    };
    for (const mode of ['full', 'head', 'full', 'head'] as const) await recordings(mode);
    const { get } = await startReplica(mirror.path, { clock });
    for (const [at, run] of [
      ['latest', 3],
      ['run:3', 3],
      ['run:2', 1],
    ] as const) {
      const { headers } = await get(`/api/projects/1/session_recordings/?as_of=${at}`);
      expect(headers.get('x-tidemark-read-at'), at).toBe(mirror.runs.get(run)?.finishedAt);
    }
  });

  it('says of a sharing that it was not read yet, where the recording is there', async () => {
    const mirror = open();
    await withDomains(mirror, []);
    const run = begin(mirror);
    run
      .stage('session_recordings', RECORDINGS)
      .accept([scan('session_recordings', '{"id":"x"}'), scan('session_recordings', '{"id":"y"}')]);
    run
      .stage('recording_sharing', RECORDINGS)
      .accept([{ ...scan('recording_sharing', '{"enabled":false}'), id: 'x' }]);
    const sweeps = [sweep('session_recordings', RECORDINGS, 2), sweep('recording_sharing', RECORDINGS, 1)];
    await run.publish({ outcome: 'complete', sweeps, requests: 1, retries: 0 });
    const { get } = await startReplica(mirror.path);
    const of = (id: string): Promise<{ status: number; json: Record<string, unknown> }> =>
      get(`/api/projects/1/session_recordings/${id}/sharing/`);
    expect((await of('x')).status).toBe(200);
    const waiting = await of('y');
    expect([waiting.status, waiting.json['detail']]).toEqual([
      404,
      expect.stringContaining('not all of them were read yet'),
    ]);
    expect((await of('z')).json['detail']).toBe('Not found.');
  });

  it('lists recordings from the greatest id down', async () => {
    const mirror = open();
    await sync(mirror, 'session_recordings', RECORDINGS, ['{"id":"1"}', '{"id":"3"}', '{"id":"2"}']);
    const { get } = await startReplica(mirror.path);
    const { json } = await get('/api/projects/1/session_recordings/');
    expect(json['results']).toEqual([{ id: '3' }, { id: '2' }, { id: '1' }]);
  });

  it('serves one source of several, below a prefix', async () => {
    const mirror = open();
    const other = { source: { name: 'other', baseUrl: 'https://other.example' } };
    await withDomains(mirror, ['a']);
    await sync(mirror, 'organizations', {}, ['{"id":"o9"}'], other);
    const { get } = await startReplica(mirror.path, { source: 'other', pathPrefix: '/replica/other' });
    expect((await get('/replica/other/api/organizations/')).json['results']).toEqual([{ id: 'o9' }]);
    expect((await get('/replica/other/api/organizations/o1/')).status).toBe(404);
    expect((await get('/api/organizations/')).status).toBe(404);
    const early = await get('/replica/other/api/organizations/?as_of=run:1');
    expect([early.status, early.json['attr']]).toEqual([400, 'as_of']);
    const none = await startReplica(mirror.path, { source: 'nobody' });
    const answer = await none.get('/api/organizations/');
    expect([answer.status, answer.json['detail']]).toEqual([
      503,
      expect.stringContaining('nothing was synced'),
    ]);
  });
});

describe('many clients of a replica at once', () => {
  it('get every page as the list has it, whoever walks, jumps or comes back beside them', async () => {
    const COUNT = 900;
    const mirror = open();
    const ids = Array.from({ length: COUNT }, (_each, index) => `d${String(index).padStart(4, '0')}`);
    const bodyOf = (id: string): string => domain(id, `${id}.${'long-'.repeat(80)}example`);
    await sync(mirror, 'organizations', {}, [ORGANIZATION]);
    await sync(mirror, 'domains', ORG, ids.map(bodyOf));
    const { get } = await startReplica(mirror.path);
    // Pages of more than 64 kB: their memory is given back once they were sent.
    const ask = async (offset: number, limit: number): Promise<void> => {
      const { status, text } = await get(`${DOMAINS}?limit=${limit}&offset=${offset}`);
      const results = ids.slice(offset, offset + limit).map(bodyOf);
      expect([status, text.slice(text.indexOf('"results"'))]).toEqual([
        200,
        `"results":[${results.join(',')}]}`,
      ]);
    };
    const walk = async (limit: number): Promise<void> => {
      for (let offset = 0; offset < COUNT; offset += limit) await ask(offset, limit);
    };
    const comeBack = async (offset: number): Promise<void> => {
      for (let turn = 0; turn < 12; turn += 1) await ask(offset, 200);
    };
    const jump = async (): Promise<void> => {
      for (let turn = 0; turn < 12; turn += 1) await ask((turn * 370) % COUNT, 200);
    };
    await Promise.all([
      walk(200),
      walk(200),
      walk(300),
      walk(900),
      comeBack(0),
      comeBack(200),
      comeBack(400),
      jump(),
    ]);
  });
});

describe('callers of a replica', () => {
  it('need one of its tokens where it has any', async () => {
    const mirror = open();
    await withDomains(mirror, []);
    const { get } = await startReplica(mirror.path, { tokens: ['first-token', 'second-token'] });
    const status = async (authorization?: string): Promise<number> =>
      (await get('/api/organizations/', authorization === undefined ? {} : { headers: { authorization } }))
        .status;
    expect(await status('Bearer first-token')).toBe(200);
    expect(await status('Bearer second-token')).toBe(200);
    for (const wrong of [
      undefined,
      '',
      'Bearer ',
      'Bearer first-toke',
      'Bearer first-token2',
      'Basic first-token',
    ])
      expect([wrong, await status(wrong)]).toEqual([wrong, 401]);
    expect((await get('/api/organizations/', { method: 'POST' })).status).toBe(401);
  });

  it('may be anybody on this machine where it has none, and nobody else', async () => {
    const mirror = open();
    await withDomains(mirror, []);
    const { url } = await startReplica(mirror.path);
    const status = (host: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const headers = { host, authorization: 'Bearer whatever' };
        request(`${url}/api/organizations/`, { headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        })
          .on('error', reject)
          .end();
      });
    for (const host of ['127.0.0.1:1', 'localhost', 'LOCALHOST:99', '[::1]:8'])
      expect([host, await status(host)]).toEqual([host, 200]);
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:80', '10.0.0.1'])
      expect([host, await status(host)]).toEqual([host, 403]);
  });
});

describe('a mirror that goes while it is served', () => {
  it('is answered with 503, said once, and served again when it is back, another one too', async () => {
    const lines: string[] = [];
    const log: Logger = {
      error: (_facts, message) => lines.push(`error ${message}`),
      warn: (_facts, message) => lines.push(`warn ${message}`),
      info: (_facts, message) => lines.push(`info ${message}`),
      debug: () => undefined,
      trace: () => undefined,
      isLevelEnabled: () => false,
      child: () => log,
    };
    const directory = replicaDirectory();
    const path = join(directory, 'mirror.db');
    const make = async (name: string): Promise<void> => {
      const mirror = open({ path: join(directory, name) });
      await sync(mirror, 'organizations', {}, [`{"id":"${name}"}`]);
      mirror.close();
    };
    await make('mirror.db');
    await make('other.db');
    const { get } = await startReplica(path, { log });
    const ids = async (): Promise<unknown> => (await get('/api/organizations/')).json['results'];
    expect(await ids()).toEqual([{ id: 'mirror.db' }]);
    renameSync(path, `${path}.away`);
    const gone = await get('/api/organizations/');
    expect([gone.status, gone.headers.get('retry-after')]).toEqual([503, '5']);
    expect(gone.json).toEqual({
      type: 'server_error',
      code: 'service_unavailable',
      detail: 'The mirror has no answer: it is not there.',
      attr: null,
    });
    expect((await get('/api/organizations/')).status).toBe(503);
    renameSync(`${path}.away`, path);
    expect(await ids()).toEqual([{ id: 'mirror.db' }]);
    renameSync(join(directory, 'other.db'), path);
    expect(await ids()).toEqual([{ id: 'other.db' }]);
    rmSync(path);
    expect((await get('/api/organizations/')).status).toBe(503);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^error the mirror cannot be read: there is no mirror at /);
    expect(lines[1]).toBe('info the mirror can be read again');
    expect(lines[2]).toMatch(/^error /);
  });

  it('names no path of this machine, and no other file than a mirror is served', async () => {
    const directory = replicaDirectory();
    const path = join(directory, 'mirror.db');
    const { get } = await startReplica(path);
    expect((await get('/api/organizations/')).text).not.toContain(directory);
    renameSync(writeForeign(directory), path);
    const foreign = await get('/api/organizations/');
    expect([foreign.status, foreign.json['detail']]).toEqual([503, expect.stringContaining('another file')]);
  });
});

function writeForeign(directory: string): string {
  const path = join(directory, 'foreign');
  writeFileSync(path, 'no mirror at all, but longer than the header of one would be '.repeat(20));
  return path;
}
