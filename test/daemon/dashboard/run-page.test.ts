/** The page of one run: what kept it from reading is said once, however many collections it skipped. */
import { expect, it } from 'vitest';
import { sampledByRun } from '../../../src/state/source-status.ts';
import { NARROW_KEY, World } from '../http/world.ts';
import { smallDemo } from '../../server/small-demo.ts';

it('a run that one cause kept from reading has a row for all that was skipped', async () => {
  const world = await World.create({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '5' });
  await world.sync();
  await world.sync('a-key-that-the-service-does-not-know');
  const { url } = await world.listen();
  const text = async (path: string): Promise<string> =>
    (await (await fetch(url + path)).text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  const failed = await text('/runs/2');
  expect(failed).toMatch(/organizations denied .* \d+ collections of \d+ kinds skipped/);
  // Once each: the run, its organizations, all others.
  expect(failed.match(/the key was refused/g)).toHaveLength(3);
  expect(failed).toContain('Nothing to compare with. This run published nothing.');
  const first = await text('/runs/1');
  expect(first).toContain('It was the first of its source: all of it was new.');
  expect(first).toMatch(/roles organization Kittiwake/);
  expect(first).toMatch(/members organization Kittiwake Analytics complete/);
  expect(first).toMatch(/recording sharings project Kittiwake Web sampled/);
  expect(first).toMatch(/recording sharings project Prototyping \S+ complete 0 records/);
});

it('a kind is sampled in a run that the limits of the service cut short, whatever may be read now', async () => {
  const world = await World.create({ TIDEMARK_RATE_PER_HOUR: '50' }, undefined, smallDemo);
  await world.sync();
  const mirror = world.mirror();
  const [run] = mirror.runs.list();
  if (run === undefined) throw new Error('there is a run');
  const sweeps = mirror.runs.sweeps(run.run).filter(({ kind }) => kind === 'recording_sharing');
  const read = sweeps.reduce((sum, { records }) => sum + records, 0);
  // Of 20, which is fewer than the configuration allows in a run.
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(20);
  expect(run.outcome).toBe('complete');
  const sampled = sampledByRun(mirror, { source: run.source, run: run.run, sweeps });
  expect([...sampled]).toEqual(['recording_sharing']);
});

it('says of a partial run that is pinned what drift from it cannot compare', async () => {
  const world = await World.create();
  const partial = await world.sync(NARROW_KEY);
  const { url } = await world.listen();
  const page = async (): Promise<string> => (await fetch(`${url}/runs/${partial}`)).text();
  // Who may not pin has nothing to do with it.
  expect(await page()).not.toContain('As a baseline');
  world.write((mirror) => mirror.snapshots.pin('approved', partial));
  expect(await page()).toMatch(/As a baseline: run 1 is partial: \d+ collections are not in it/);
});
