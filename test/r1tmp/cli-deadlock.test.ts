import { createServer, request } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { environment, scratch, start, tidemark } from '../journeys/harness.ts';
import { KEY, startSandbox } from '../server/running-sandbox.ts';
it('restore --apply with a creation and eight updates of roles, no rate limits, four connections', async () => {
  const running = await startSandbox();
  const call = running.call;
  const org: any = await call('POST', '/api/organizations/', { name: 'Acme' });
  const o = (org.json ?? org.body ?? org).id;
  const ids: string[] = [];
  for (let i = 0; i < 30; i += 1) { const r: any = await call('POST', `/api/organizations/${o}/roles/`, { name: `role ${i}` }); ids.push((r.json ?? r.body ?? r).id); }
  const far = new URL(running.url);
  // A service 50 ms away.
  const proxy = createServer((q, a) => { setTimeout(() => { const r = request({ host: far.hostname, port: far.port, path: q.url, method: q.method, headers: q.headers }, (m) => { a.writeHead(m.statusCode ?? 500, m.headers); m.pipe(a); }); q.pipe(r); }, 50); });
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
  onTestFinished(() => { proxy.closeAllConnections(); proxy.close(); });
  const url = `http://127.0.0.1:${(proxy.address() as any).port}`;
  const env = { ...environment(url, scratch()), TIDEMARK_API_KEY: KEY, TIDEMARK_RATE_CONCURRENCY: '4', TIDEMARK_PROFILE: 'posthog' };
  const s = await tidemark(['sync', '--quiet'], { env }); console.log('sync', s.code, s.stderr.slice(0, 300));
  for (const id of ids.slice(3)) await call('PATCH', `/api/organizations/${o}/roles/${id}/`, { name: `moved ${id}` });
  for (const id of ids.slice(0, 3)) await call('DELETE', `/api/organizations/${o}/roles/${id}/`);
  const run = start(['restore', 'latest', '--kind', 'roles', '--apply', '--yes', '--max-share', '1'], { env });
  const late = setTimeout(() => run.child.kill('SIGTERM'), 15000);
  const r = await run.ended; clearTimeout(late);
  console.log('restore', r.code, r.stdout.slice(-600), r.stderr.slice(-400));
  expect(r.code).toBe(0);
}, 30000);
