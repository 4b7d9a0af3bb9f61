/** Status tells changes of form for a month, however quiet the runs after them were. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { isoTime } from '../../../src/core/clock.ts';
import { DAY_MS, World } from './world.ts';

it('status tells the changes of form of the last 30 days, with their time', async () => {
  const world = await World.create();
  for (let n = 0; n < 3; n += 1) {
    if (n > 0) world.clock.at += 20 * DAY_MS;
    await world.sync();
  }
  const mirror = new Database(world.mirrorPath);
  const note = mirror.prepare(
    `INSERT INTO schema_changes (run, source, kind, field, change, before, after)
     SELECT ?, id, 'roles', ?, 'retyped', '["number"]', '["string"]' FROM sources`,
  );
  note.run(1, '/long_ago');
  note.run(2, '/lately');
  mirror.close();
  const { url } = await world.listen();
  const status = (await (await fetch(`${url}/api/v1/status`)).json()) as {
    sources: { schema_changes: object[] }[];
  };
  expect(status.sources[0]?.schema_changes).toEqual([
    {
      run: 2,
      at: isoTime(world.clock.now() - 20 * DAY_MS),
      kind: 'roles',
      field: '/lately',
      change: 'retyped',
      before: ['number'],
      after: ['string'],
    },
  ]);
});
