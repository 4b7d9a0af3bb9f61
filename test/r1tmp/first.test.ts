import { it } from 'vitest';
import { world } from '../journeys/comparison.ts';
it('first read', async () => {
  const { service, expectRun } = await world();
  service.set('batch_exports', [{ id: 'e1', name: 'E1', paused: false }] as any);
  await expectRun(0, 'sync', '--quiet', '--kind', 'members');
  await expectRun(0, 'sync', '--quiet');
  console.log('KIND', (await expectRun(0, 'changes', '--kind', 'batch_exports')).stdout);
  const j = JSON.parse((await expectRun(0, 'runs', 'show', '2', '--json')).stdout);
  console.log(Object.keys(j), JSON.stringify(j).includes('first'), JSON.stringify(j.changes ?? null).slice(0, 300));
  console.log((await expectRun(0, 'changes')).stdout.slice(0, 1200));
});
