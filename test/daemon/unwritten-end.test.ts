/** The end of a job that could not be written down, as the disk was full. */
import { expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { Rig } from './rig.ts';

it('is written down with the next job, as it was', async () => {
  const rig = await Rig.create({ sync: '0 * * * *' });
  await rig.start();
  let writes = 0;
  rig.onOpen = (mode) => {
    if (mode !== 'write') return;
    writes += 1;
    if (writes > 1) throw new TidemarkError('disk_full', 'the disk is full');
  };
  rig.view.request('verify', null);
  await rig.settle();
  const ended = (): unknown[] =>
    rig.jobs({ name: 'verify' }).map(({ outcome, summary }) => [outcome, summary['problems']]);
  expect(ended()).toEqual([['running', undefined]]);
  rig.onOpen = () => undefined;
  rig.view.request('drift', null);
  await rig.settle();
  expect(ended()).toEqual([['done', 0]]);
  const [verify] = rig.jobs({ name: 'verify' });
  const [drift] = rig.jobs({ name: 'drift' });
  expect(Date.parse(verify?.finishedAt ?? '')).toBeLessThanOrEqual(Date.parse(drift?.startedAt ?? ''));
});
