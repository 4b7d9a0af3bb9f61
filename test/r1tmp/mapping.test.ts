import { expect, it } from 'vitest';
import { world } from '../journeys/comparison.ts';
it('a changed mapping', async () => {
  const { service, expectRun, diff } = await world();
  const set = (m: object): void => service.set('pipeline_destinations', [{ id: 7, name: 'CRM', enabled: true, config: { attributes: { email: '{person.email}', ...m } } }] as any);
  set({ first_name: '{person.first}', phone: '{person.phone}', updated_at: '{event.timestamp}' });
  await expectRun(0, 'sync', '--quiet');
  set({ first_name: '{person.HACKED}', phone: '{person.secret}' });
  const s = await expectRun(0, 'sync', '--json');
  console.log(JSON.stringify(JSON.parse(s.stdout).runs[0].sweeps.find((x: any) => x.kind === 'pipeline_destinations')));
  console.log((await expectRun(0, 'diff', 'run:1', 'run:2')).stdout);
  console.log((await expectRun(0, 'log', 'pipeline_destinations', '7')).stdout);
  console.log((await expectRun(0, 'show', 'pipeline_destinations', '7', '--at', 'run:1', '--json')).stdout);
  console.log('NOW', JSON.parse((await expectRun(0, 'show', 'pipeline_destinations', '7', '--json')).stdout).body.config);
  console.log('LIVE', (await expectRun(0, 'diff', 'latest', 'live', '--all')).stdout);
  expect((await diff(0, 'run:1', 'latest')).changes).not.toEqual([]);
});
