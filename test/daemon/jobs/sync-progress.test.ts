/** What a running sync says of the lists that it could not read. */
import { expect, it } from 'vitest';
import type { KindProgress } from '../../../src/daemon/view.ts';
import { respond } from '../../journeys/service.ts';
import { Rig } from '../rig.ts';

it('a list that fails is no list that was read, and is still expected to bring what the mirror holds', async () => {
  const rig = await Rig.create({ sync: '*/5 * * * *' });
  await rig.start();
  await rig.advance(1000);
  expect(rig.jobs({ name: 'sync' })).toMatchObject([{ outcome: 'done' }]);
  const seen: KindProgress[] = [];
  rig.service.quirks.push((_request, response) => {
    seen.push(...(rig.view.running()[0]?.progress?.kinds ?? []));
    return respond(response, 500, '{}');
  });
  await rig.advanceMinutes(5);
  const last = (kind: string) => seen.findLast((each) => each.kind === kind);
  expect([last('organizations'), last('roles')]).toEqual([
    { kind: 'organizations', records: 0, expected: 1, lists: 1, failed: 1, pending: 0 },
    { kind: 'roles', records: 0, expected: 0, lists: 1, failed: 1, pending: 0 },
  ]);
});
