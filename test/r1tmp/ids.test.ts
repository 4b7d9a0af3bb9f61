import { it } from 'vitest';
import { world } from '../journeys/comparison.ts';
it('ids', async () => {
  const { service, expectRun } = await world();
  service.set('batch_exports', [{ id: '0190bbbb-0000-7000-8000-000000000001', name: 'E1', paused: false }, { id: '0190bbbb-0000-7000-8000-000000000002', name: 'E2', paused: false }] as any);
  await expectRun(0, 'sync', '--quiet');
  const tries: string[][] = [
    ['diff', 'latest', 'live', '--id', '0190bbbb-0000-7000-8000-000000000001', '--id', '0190bbbb-0000-7000-8000-00000000000f', '--quiet', '--json'],
    ['diff', 'latest', 'latest', '--id', '0190bbbb-0000-7000-8000-00000000000f', '--quiet'],
    ['diff', 'latest', 'live', '--id', '0190bbbb-0000-7000-8000-00000000000f'],
  ];
  for (const args of tries) for (const code of [0, 1, 2, 3, 4, 5]) { try { const r = await expectRun(code as any, ...(args as [string])); console.log(args.slice(0,3).join(' '), 'EXIT', code, '\n' + r.stdout.replaceAll('\n', ' ').slice(0, 500), '| ERR', r.stderr.slice(0,300)); break; } catch (e) { void e; } }
});
