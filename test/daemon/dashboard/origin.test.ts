/** A person on the dashboard under the name of somebody else: each page says how the program knew who it was. */
import { expect, it, onTestFinished } from 'vitest';
import type { Actor } from '../../../src/core/actor.ts';
import { isoTime } from '../../../src/core/clock.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { MINUTE_MS, World } from '../http/world.ts';

/** Logged in under the name that commands of the machine's administrator have. */
const ACTOR: Actor = { by: 'root@vm', via: 'token@dashboard' };

it('a snapshot and a restore are shown with the origin of their name', async () => {
  const world = await World.create({ TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' });
  const run = await world.sync();
  const [role] = world.mirror().records.read({ kinds: ['roles'] });
  if (role === undefined) throw new Error('no role');
  const { kind, scope, id } = role;
  const { name } = JSON.parse(role.body) as { name: string };
  const field = { path: '/name', from: name, to: 'Renamed' };
  await world.send('PATCH', `/api/organizations/${KITTIWAKE_ID}/roles/${id}/`, { name: field.to });
  world.clock.at += MINUTE_MS;
  const at = isoTime(world.clock.at);
  world.write((mirror) => {
    mirror.snapshots.pinBaseline('q4', run);
    const restore = mirror.restores.begin({
      ...{ source: 'default', planHash: 'h', from: 'run:1', approved: {}, startedAt: at },
      plan: JSON.stringify({
        steps: [{ n: 1, level: 0, action: 'update', kind, scope, id, name, fields: [field] }],
        ...{ adopted: [], left: [], skipped: [] },
      }),
      steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
    });
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([{ row: { ...row!, outcome: 'applied', sentAt: at, endedAt: at } }]);
    mirror.restores.finish(restore, 'interrupted', at);
  }, ACTOR);
  world.write((mirror) => {
    mirror.restores.resume(1);
    mirror.restores.finish(1, 'interrupted', at);
  });
  world.write((mirror) => mirror.restores.abandon(1, 'failed'), ACTOR);
  world.clock.at += MINUTE_MS;
  await world.sync();
  const { url } = await world.listen({}, (end) => onTestFinished(end));
  const html = async (path: string): Promise<string> =>
    await (await fetch(url + path, { headers: { accept: 'text/html' } })).text();

  const plain: string[] = [];
  for (const path of ['/runs/1', '/restores', '/changes', `/records/${kind}/${id}`, '/audit']) {
    const read = (await html(path)).replaceAll(/<[^>]*>/g, '').replaceAll('&#64;', '@');
    const shown = read.split('root@vm').length - 1;
    const known = read.split('root@vm (token@dashboard)').length - 1;
    if (shown === 0 || shown !== known) plain.push(`${path}: ${shown}, ${known} with the origin`);
  }
  expect(plain).toEqual([]);
});
