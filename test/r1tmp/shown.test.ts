import { it } from 'vitest';
import { world } from '../journeys/comparison.ts';
it('a query shown in the schema only', async () => {
  const { service, expectRun } = await world();
  const set = (q: string | null): void => service.set('batch_exports', [{ id: 'e1', name: 'Export', model: 'events', interval: 'hour', paused: false, destination: { type: 'S3', config: {} }, schema: q === null ? null : { svcql_query: q, fields: [] } }] as any);
  for (const [a, b] of [['select 1', 'select 2'], [null, 'select 3'], ['select 3', null]] as const) {
    set(a); await expectRun(0, 'sync', '--quiet'); set(b);
    for (const args of [['diff', 'latest', 'live', '--managed-only'], ['restore', 'latest']]) {
      for (const code of [0, 2, 3]) { try { const r = await expectRun(code as any, ...(args as [string])); console.log(a, '→', b, args.join(' '), 'EXIT', code, '\n' + r.stdout.slice(0, 700), r.stderr.slice(0,200)); break; } catch (e) { void e; } }
    }
  }
});
