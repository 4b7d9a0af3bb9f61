/**
 * What a fleet under measurement talks to, each in a process of its own: `service` is a sandbox that notes when each key
 * sent what, `storage` an S3 server. A process tells its parent the address, and answers `report` with what it noted.
 */
import { subscribe } from 'node:diagnostics_channel';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startFauxqs } from 'fauxqs';
import { systemClock } from '../src/core/clock.ts';
import { createSandbox } from '../src/server/sandbox.ts';

export interface ServiceReport {
  /** Requests of each key, epoch milliseconds, in order of arrival. */
  readonly starts: Readonly<Record<string, readonly number[]>>;
  /** Most requests of each key under way at once. */
  readonly concurrency: Readonly<Record<string, number>>;
  /** Changes that were made to the service's records. */
  readonly changes: number;
}

const [role = '', count = '1', changeEveryMs = '0'] = process.argv.slice(2);

if (role === 'service') await serve(Number(count), Number(changeEveryMs));
if (role === 'storage') await store();

async function serve(keys: number, everyMs: number): Promise<void> {
  const starts = new Map<string, number[]>();
  const open = new Map<string, number>();
  const most = new Map<string, number>();
  let changes = 0;
  const keyOf = ({ headers }: IncomingMessage): string => headers.authorization?.split(' ')[1] ?? '';
  subscribe('http.server.request.start', (message) => {
    const { request: asked, response } = message as { request: IncomingMessage; response: ServerResponse };
    const key = keyOf(asked);
    const times = starts.get(key) ?? [];
    times.push(Date.now());
    starts.set(key, times);
    const now = (open.get(key) ?? 0) + 1;
    open.set(key, now);
    most.set(key, Math.max(most.get(key) ?? 0, now));
    response.once('close', () => open.set(key, (open.get(key) ?? 1) - 1));
  });
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: Array.from({ length: keys }, (_, n) => ({ key: `bench-key-${n}`, permissions: 'all' as const })),
    seed: 'demo',
  });
  const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
  // Accepts and never answers.
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  if (everyMs > 0) {
    setInterval(() => {
      const roles = [...sandbox.snapshot()].filter(({ kind }) => kind === 'roles');
      const role = roles[changes % roles.length];
      if (role === undefined) throw new Error('the demo has roles');
      changes += 1;
      // A connection of its own: one that the service was about to close would cost the change.
      const patch = request(`${url}/api/organizations/${role.scope.organization_id}/roles/${role.id}/`, {
        method: 'PATCH',
        agent: false,
        headers: { authorization: 'Bearer bench-key-0', 'content-type': 'application/json' },
      });
      patch.once('response', (answer) => {
        answer.resume();
        if (answer.statusCode !== 200) throw new Error(`a change was refused: ${answer.statusCode}`);
      });
      patch.end(JSON.stringify({ name: `Role ${changes}` }));
    }, everyMs);
  }
  process.on('message', () => {
    const report: ServiceReport = {
      starts: Object.fromEntries(starts),
      concurrency: Object.fromEntries(most),
      changes,
    };
    process.send?.(report);
  });
  process.send?.({ url, silent: `http://127.0.0.1:${(silent.address() as AddressInfo).port}` });
  process.once('disconnect', () => process.exit(0));
}

async function store(): Promise<void> {
  const server = await startFauxqs({ port: Number(count) > 1 ? Number(count) : 0, logger: false });
  server.createBucket('fleet');
  process.send?.({ url: `http://127.0.0.1:${server.port}` });
  process.once('disconnect', () => process.exit(0));
}
