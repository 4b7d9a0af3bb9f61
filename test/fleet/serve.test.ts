/** `fleet serve` over a real PostgreSQL and real HTTP: the page, JSON, metrics, who may come in, and a registry that is away. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { Registry } from '../../src/fleet/registry/registry.ts';
import { FLEET_METRICS } from '../../src/fleet/serve/metrics.ts';
import { serveFleet } from '../../src/fleet/serve/serve.ts';
import { scratch, start } from '../journeys/harness.ts';
import { POSTGRES, PostgresServer, WITHOUT_POSTGRES } from './postgres.ts';

const TOKEN = 'a-token-of-some-length';

describe.skipIf(POSTGRES === null)(`fleet serve${WITHOUT_POSTGRES}`, () => {
  let server: PostgresServer;
  let url: Secret;
  let open: string;
  let closed: string;
  const lines: string[] = [];

  beforeAll(async () => {
    server = await PostgresServer.start();
    url = await server.database();
    const registry = await Registry.open(url, { migrates: true });
    await server.execute(
      url,
      `INSERT INTO tidemark.groups (origin, secret) VALUES ('https://a.example.com', 'env:KEY');
       INSERT INTO tidemark.cells (name, group_id, address, profile, secret, schedule, owner, state, failures, error, published_at, complete_at, last_run, last_outcome, record_count, finding_count, due_at)
         SELECT 'c' || lpad(n::text, 3, '0'), 1, 'https://a.example.com', 'svc', 'env:KEY', '0 * * * *', CASE n % 2 WHEN 0 THEN '<b>team' END,
           CASE n WHEN 7 THEN 'quarantined' ELSE 'active' END, CASE n WHEN 7 THEN 5 ELSE 0 END, CASE n WHEN 7 THEN '<script>alert(1)</script>' END,
           now() - interval '10 minutes', now() - interval '10 minutes', 3, 'complete', 12, 1, now() + interval '20 minutes' FROM generate_series(1, 300) n;
       UPDATE tidemark.cells SET error = 'this worker has no variable KEY', due_at = now() - interval '1 minute' WHERE name = 'c300';
       INSERT INTO tidemark.findings SELECT id, 'roles', '', 'r', '/name', 'Role R', 'changed', 'high', now(), NULL, NULL FROM tidemark.cells WHERE name = 'c007';
       INSERT INTO tidemark.changes SELECT id, 3, 'roles', '', 'r', 'Role R', 'changed', '["/name"]', now() FROM tidemark.cells WHERE name = 'c007'`,
    );
    await registry.join({ name: 'w1', host: 'here', version: '1' });
    const log = createLogger('info', { write: (line) => lines.push(line) });
    const options = { host: '127.0.0.1', port: 0, localToken: '', clock: systemClock, log };
    const first = await serveFleet(registry, { ...options, token: null });
    const second = await serveFleet(registry, { ...options, token: new Secret(TOKEN) });
    [open, closed] = [first.url, second.url];
    return async () => {
      await first.close();
      await second.close();
      await registry.close();
    };
  });

  it('has a page of all cells, the worst first, that is searched and narrowed, and escapes what it shows', async () => {
    const page = await fetch(`${open}/`, { headers: { accept: 'text/html' } });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const text = await page.text();
    expect(text).toContain('1 of 300 cells needs a look.');
    expect(text.indexOf('c007')).toBeLessThan(text.indexOf('c001'));
    expect(text).toContain('100 more cells');
    expect(text).not.toContain('<script>alert');
    expect(text).not.toContain('href="/drift"');
    const of = async (query: string): Promise<string> => (await fetch(`${open}/?${query}`)).text();
    expect(await of('q=C123')).toMatch(/c123[^]*/);
    expect(await of('q=C123')).not.toContain('c124');
    expect(await of('status=quarantined')).not.toContain('c001');
    expect(await of('q=nobody')).toContain('No cell fits.');
    expect(await of('q=c300')).toContain('this worker has no variable KEY');
  });

  it('answers JSON as the commands print it', async () => {
    const get = async (path: string): Promise<unknown> => (await fetch(open + path)).json();
    expect(await get('/api/v1/status')).toMatchObject({
      schema: 'tidemark.fleet-status/1',
      cells: expect.objectContaining({
        length: 300,
        0: expect.objectContaining({ cell: 'c007' }) as object,
      }) as object,
      workers: [{ worker: 'w1' }],
    });
    expect(await get('/api/v1/changes?since=1h')).toMatchObject({
      total: 1,
      changes: [{ cell: 'c007' }],
      not_read: [],
    });
    for (const query of ['', '?since=1h', '?cell=c007', '?cell=c0*', '?limit=5', '?kind=roles'])
      expect(await get(`/api/v1/changes${query}`), query).toMatchObject({ total: 1 });
    expect(await get('/api/v1/changes?cell=c001')).toMatchObject({ total: 0 });
    expect(await get('/api/v1/drift?severity=high')).toMatchObject({
      total: 1,
      findings: [{ path: '/name' }],
    });
    expect(await get('/api/v1/drift?severity=critical&cell=c001')).toMatchObject({ total: 0 });
    expect(await get('/api/v1/status?cell=c00*&cell=c011')).toMatchObject({ cells: { length: 10 } });
    expect(await get('/api/v1/runs?cell=c001')).toEqual({ schema: 'tidemark.fleet-runs/1', runs: [] });
    for (const path of ['/api/v1/drift?severity=x', '/api/v1/runs?limit=x', '/api/v1/changes?kind=x'])
      expect((await fetch(open + path)).status, path).toBe(400);
    expect((await fetch(`${open}/api/v1/status`, { method: 'POST' })).status).toBe(405);
    expect((await fetch(`${open}/nothing`)).status).toBe(404);
  });

  it('refuses a cell that is not there, and a parameter that would narrow nothing', async () => {
    for (const [path, status, message] of [
      ['/api/v1/drift?cell=c07', 404, 'there is no cell c07; did you mean c007?'],
      ['/api/v1/changes?cell=c007&cell=nope', 404, 'there is no cell nope'],
      ['/api/v1/runs?cell=x*', 404, 'there is no cell x*'],
      ['/api/v1/status?cell=nope', 404, 'there is no cell nope'],
      ['/api/v1/changes?organization=nope', 404, 'no cell has records of organization nope'],
      ['/api/v1/drift?cel=c007', 400, 'there is no parameter cel; did you mean cell?'],
      ['/api/v1/drift?organization=nope', 400, 'there is no parameter organization'],
      ['/api/v1/drift?severity=hihg', 400, 'there is no severity hihg; did you mean high?'],
      ['/api/v1/drift?severity=high&severity=low', 400, 'severity is given more than once'],
      ['/api/v1/changes?sinc=1h', 400, 'there is no parameter sinc; did you mean since?'],
      ['/api/v1/changes?since=', 400, 'since is empty'],
      ['/api/v1/status?limit=5', 400, 'there is no parameter limit'],
    ] as const) {
      const answer = await fetch(open + path);
      expect([answer.status, await answer.json()], path).toMatchObject([status, { error: { message } }]);
    }
    for (const [query, message] of [
      ['status=bogus', 'There is no status bogus'],
      ['foo=1', 'There is no parameter foo'],
    ] as const) {
      const page = await fetch(`${open}/?${query}`, { headers: { accept: 'text/html' } });
      expect([page.status, await page.text()]).toEqual([400, expect.stringContaining(message)]);
    }
    expect((await fetch(`${open}/?q=&status=late&status=failing`)).status).toBe(200);
  });

  it('has every metric, with one line of help', async () => {
    const text = await (await fetch(`${open}/metrics`)).text();
    for (const { name, help } of FLEET_METRICS)
      expect(text).toContain(`# HELP tidemark_fleet_${name} ${help}\n`);
    expect(text).toContain('tidemark_fleet_cells{status="quarantined"} 1\n');
    expect(text).toContain('tidemark_fleet_cell_failures{cell="c007"} 5\n');
    expect(text).toContain('tidemark_fleet_cell_open_findings{cell="c007",severity="high"} 1\n');
    expect(text).toContain('tidemark_fleet_cell_open_findings{cell="c007",severity="low"} 0\n');
    expect(text).toContain('tidemark_fleet_workers 1\n');
    expect(text).toContain('tidemark_fleet_cells_without_baseline 300\n');
    expect(text).toMatch(/tidemark_fleet_cell_last_complete_age_seconds\{cell="c001"\} 6\d\d/);
  });

  it('says that storage lost a mirror, and that no worker is alive, on the page and in the metrics', async () => {
    const found = `error_code = 'mirror_missing', error = 'storage lacks the newest mirror of c001', due_at = now()`;
    await server.execute(url, `UPDATE tidemark.cells SET ${found} WHERE name = 'c001'`);
    await server.execute(url, `UPDATE tidemark.workers SET seen_at = now() - interval '3 minutes'`);
    const page = async (query = ''): Promise<string> =>
      (await fetch(`${open}/${query}`, { headers: { accept: 'text/html' } })).text();
    expect(await page()).toContain('No worker is alive: no cell is synced. 2 of 300 cells need a look.');
    expect(await page('?status=not_stored')).toContain('storage lacks the newest mirror of c001');
    expect(await page('?status=not_stored')).not.toContain('c002');
    const metrics = await (await fetch(`${open}/metrics`)).text();
    for (const line of ['cells{status="not_stored"} 1', 'behind_in_storage 1', 'workers 0'])
      expect(metrics).toContain(`tidemark_fleet_${line}\n`);
  });

  it('with a token lets nobody else in', async () => {
    expect((await fetch(`${closed}/healthz`)).status).toBe(200);
    for (const path of ['/metrics', '/api/v1/status', '/readyz'])
      expect((await fetch(closed + path)).status, path).toBe(401);
    const page = await fetch(`${closed}/`, { headers: { accept: 'text/html' }, redirect: 'manual' });
    expect([page.status, page.headers.get('location')]).toEqual([303, '/login?to=%2F']);
    const authorized = { headers: { authorization: `Bearer ${TOKEN}` } };
    expect((await fetch(`${closed}/api/v1/status`, authorized)).status).toBe(200);
    const login = await fetch(`${closed}/login`, {
      method: 'POST',
      body: new URLSearchParams({ token: TOKEN }),
      redirect: 'manual',
    });
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await fetch(`${closed}/`, { headers: { cookie, accept: 'text/html' } })).status).toBe(200);
  });

  it('takes a new token on SIGHUP, keeps the last one while the file has none, and stops with exit 0', async () => {
    const directory = scratch();
    const [config, file] = [join(directory, 'fleet.yaml'), join(directory, 'token')];
    writeFileSync(file, 'first-token-of-some-length', { mode: 0o600 });
    const http = { listen: '127.0.0.1:0', tokenFile: file };
    writeFileSync(config, JSON.stringify({ fleet: { database: '${DATABASE_URL}' }, http }));
    const { child, ended } = start(['fleet', 'serve', '--config', config], {
      env: { DATABASE_URL: url.reveal() },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let log = '';
    child.stderr?.on('data', (text: string) => (log += text));
    const says = (text: string, count = 1): Promise<unknown> =>
      vi.waitUntil(() => log.split(text).length > count, { timeout: 20_000 });
    const statuses = (): Promise<number[]> => {
      const [, at = ''] = [...log.matchAll(/"url":"([^"]+)"/g)].at(-1) ?? [];
      return Promise.all(
        ['first', 'second'].map(async (name) => {
          const headers = { authorization: `Bearer ${name}-token-of-some-length` };
          return (await fetch(`${at}/readyz`, { headers })).status;
        }),
      );
    };
    await says('the fleet is served');
    expect(await statuses()).toEqual([200, 401]);
    writeFileSync(file, 'second-token-of-some-length');
    child.kill('SIGHUP');
    await says('the fleet is served', 2);
    expect(await statuses()).toEqual([401, 200]);
    writeFileSync(file, '');
    child.kill('SIGHUP');
    await says('the old configuration stays active');
    expect(await statuses()).toEqual([401, 200]);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  });

  it('says 503 while the registry is away, and goes on when it is back', async () => {
    await server.stop();
    expect((await fetch(`${open}/readyz`)).status).toBe(503);
    expect((await fetch(`${open}/healthz`)).status).toBe(200);
    const status = await fetch(`${open}/api/v1/status`);
    expect(status.status).toBe(503);
    expect(await status.json()).toMatchObject({ error: { code: 'registry_unreachable' } });
    const page = await fetch(`${open}/`, { headers: { accept: 'text/html' } });
    expect(page.status).toBe(503);
    expect(await page.text()).toContain('cannot be reached');
    await server.resume();
    expect((await fetch(`${open}/readyz`)).status).toBe(200);
    const told = lines.filter((line) => /registry_unreachable/.test(line));
    expect(told, 'one line at the begin, one at the end, and none for each request').toEqual([
      expect.stringMatching(/the registry 127\.0\.0\.1.*answered with 503/),
      expect.stringMatching(/the registry can be reached again/),
    ]);
    expect(lines.join('')).not.toMatch(/Loopback|select /);
  });
});
