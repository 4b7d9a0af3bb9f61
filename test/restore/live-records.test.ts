/** The lists by which a restore decides that a record does not exist, from real HTTP servers. */
import { afterEach, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { LiveRecords } from '../../src/restore/apply/live-records.ts';
import { Opened, targetOf } from '../api/walk-rig.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import type { Script } from '../faults/fault-server.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';

const opened = new Opened();
afterEach(() => opened.close());

/** A list whose pages cannot overlap, and that changes after the first page of each of the first passes. */
async function idsOf(changingPasses: number): Promise<string[] | null> {
  let shift = 0;
  const script: Script = (request) => {
    const reply = listReply(rowsOf(230, shift), request, { defaultLimit: 100 });
    if (!/offset=[1-9]/.test(request.path) && shift < changingPasses) shift += 1;
    return reply;
  };
  const { client } = await opened.rig(script);
  const live = new LiveRecords({
    ...{ definitions: definitionOf, reader: client, clock: new FakeClock(), pageSize: 100, redaction: null },
  });
  const { definition, scope } = targetOf('roles', { listing: { acceptsQuery: false } });
  return live.idsOf(definition, scope, null, true);
}

it('holds every record once two readings of the list agree', async () => {
  const ids = await idsOf(0);
  expect(ids?.toSorted()).toEqual(
    rowsOf(230)
      .map(({ id }) => id)
      .toSorted(),
  );
});

it('fails where each reading misses another record, though the count agrees', async () => {
  await expect(idsOf(9)).rejects.toMatchObject({ code: 'walk_unproven' });
});

it('looks for what a late list lacks among what was created last', async () => {
  const { client } = await opened.rig((request) => {
    if (/\/roles\/(\?|$)/.test(request.path)) return listReply([], request);
    return request.path.includes('/new-11/') ? { body: { id: 'new-11' } } : { status: 404, body: {} };
  });
  const live = new LiveRecords({
    ...{ definitions: definitionOf, reader: client, clock: new FakeClock(), pageSize: 100, redaction: null },
  });
  const { definition, scope } = targetOf('roles');
  for (let n = 0; n < 12; n += 1) live.created(definition, scope, `new-${n}`);
  await live.idsOf(definition, scope, null, true);
  expect(await live.lateRecord(definition, scope)).toBe('new-11');
});
