/** Counts after retention dropped runs: those of a list, of a day and of a run are of the same comparison. */
import { describe, expect, it } from 'vitest';
import type { ChangeCounts } from '../../../src/mirror/change-counts.ts';
import { CONFIGURED_KINDS, DayCounts } from '../../../src/daemon/http/changes.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { isEqual } from '../../mirror/fixture.ts';
import { DAY_MS, World } from './world.ts';

interface Shown {
  summary: ChangeCounts;
  is_cut: boolean;
  runs: {
    run: number;
    previous: number | null;
    forgotten: { into: number; runs: unknown } | null;
    summary: ChangeCounts;
    changes: { change: string }[] | null;
  }[];
}

async function forgetting(world: World, last: number): Promise<void> {
  const mirror = openMirror(world.mirrorPath, { mode: 'write', command: 'test', clock: world.clock });
  await mirror.retention.forget({ policy: { last }, isEqual: (_source, ...bodies) => isEqual(...bodies) });
  mirror.close();
}

/** Runs 1 to 6, a day apart: roles come in 2 and 3, nothing in 4, the organization changes in 5 and 6. */
async function story(): Promise<World> {
  const world = await World.create();
  const organization = `/api/organizations/${KITTIWAKE_ID}/`;
  const roles = (names: string[]): Promise<unknown> =>
    Promise.all(names.map((name) => world.send('POST', `${organization}roles/`, { name })));
  const actions: (() => Promise<unknown>)[] = [
    () => Promise.resolve(),
    () => roles(Array.from({ length: 20 }, (_unused, n) => `Second ${n}`)),
    () => roles(Array.from({ length: 10 }, (_unused, n) => `Third ${n}`)),
    () => Promise.resolve(),
    () => world.send('PATCH', organization, { enforce_2fa: false }),
    () => world.send('PATCH', organization, { enforce_2fa: true }),
  ];
  for (const action of actions) {
    await action();
    await world.sync();
    world.clock.at += DAY_MS;
  }
  return world;
}

function totalOf({ added, changed, removed }: ChangeCounts): number {
  return added + changed + removed;
}

describe('after runs were forgotten', () => {
  it('a run is reported with the counts of its list, as a document, on a page and in the chart', async () => {
    const world = await story();
    world.write((mirror) => mirror.snapshots.pin('first', 1));
    await forgetting(world, 2);
    const http = await world.listen();
    const json = async (path: string): Promise<unknown> => (await fetch(http.url + path)).json();
    const read = async (query: string): Promise<Shown> =>
      (await json(`/api/v1/changes?from=30d${query}`)) as Shown;

    // Twice: the second time from memory.
    for (const turn of ['first', 'second']) {
      const all = await read('&kind=roles,organizations');
      expect(
        all.runs.map(({ run, previous }) => [run, previous]),
        turn,
      ).toEqual([
        [6, 5],
        [5, 1],
        [1, null],
      ]);
      const [, merged] = all.runs;
      expect(merged).toMatchObject({
        summary: { added: 30, changed: 1, removed: 0 },
        forgotten: { into: 5, runs: [[2, 4]] },
      });
      for (const { changes, summary } of all.runs)
        if (changes !== null) expect(changes).toHaveLength(totalOf(summary));
      expect(all.summary).toEqual({ added: 30, changed: 2, removed: 0 });
    }
    expect((await read('&kind=roles')).runs[0]).toMatchObject({
      run: 5,
      summary: { added: 30, changed: 0, removed: 0 },
    });
    // From memory, and counted: nobody asked for these two kinds before.
    for (const kinds of ['roles,organizations', 'roles,organizations,batch_exports']) {
      const cut = await read(`&kind=${kinds}&limit=7`);
      expect(cut).toMatchObject({ is_cut: true, summary: { added: 30, changed: 2 } });
      expect(cut.runs[1]?.changes).toHaveLength(6);
      expect(cut.runs[1]).toMatchObject({ run: 5, summary: { added: 30, changed: 1, removed: 0 } });
    }

    const run = (await json('/api/v1/runs/5')) as {
      added: number;
      summary: ChangeCounts;
      forgotten: object;
      changes: object[];
    };
    // Its own reading beside the comparison: recordings come every day.
    expect(run.forgotten).toMatchObject({ into: 5 });
    expect(run.summary.added).toBeGreaterThanOrEqual(run.added + 30);
    expect(run.changes).toHaveLength(totalOf(run.summary));
    expect(await json('/api/v1/runs/6')).toMatchObject({ forgotten: null, summary: { changed: 1 } });
    expect(await json('/api/v1/runs/1')).toMatchObject({ summary: null, changes: null });

    const whole = await read(CONFIGURED_KINDS.map((kind) => `&kind=${kind}`).join(''));
    const days = await new DayCounts().read(world.mirror(), 30, world.clock.now());
    const byDay = days.map(totalOf).filter((total) => total > 0);
    expect(byDay).toEqual(
      whole.runs
        .filter(({ previous }) => previous !== null)
        .map(({ summary }) => totalOf(summary))
        .reverse(),
    );
    const page = await (await fetch(`${http.url}/`)).text();
    expect(page).toContain('30 added, 1 changed, 0 removed');
    expect(await (await fetch(`${http.url}/runs/5`)).text()).toMatch(
      /runs 2–4 were dropped by retention on .*: what they changed is part of run 5\. The counts are those of this run, the changes those of all/,
    );
    const dropped = await fetch(`${http.url}/runs/3`, { headers: { accept: 'text/html' } });
    expect(dropped.status).toBe(404);
    const said = await dropped.text();
    expect(said).toMatch(/run 3 was dropped by retention on /i);
    expect(said).toMatch(/part of run:5 now.*the oldest one is run:1, the latest one is run:6/s);
  });

  it('the first one that is left is reported with all its records, which it did not read as new', async () => {
    const world = await story();
    await forgetting(world, 1);
    const http = await world.listen();
    const before = new Date(world.clock.now() - 1.5 * DAY_MS).toISOString();
    expect(await (await fetch(`${http.url}/api/v1/changes?from=30d&to=${before}`)).json()).toMatchObject({
      runs: [],
      forgotten: [{ source: 'default', runs: [[1, 5]], into: 6 }],
    });
    expect(await (await fetch(`${http.url}/changes?days=30`)).text()).toMatch(
      /runs 1–5 were dropped by retention/,
    );
    const { runs } = (await (await fetch(`${http.url}/api/v1/changes?from=30d&kind=roles`)).json()) as Shown;
    const roles = world
      .mirror()
      .records.countsAt(6, { kinds: ['roles'] })
      .reduce((sum, { records }) => sum + records, 0);
    expect(roles).toBeGreaterThan(30);
    expect(runs).toMatchObject([{ run: 6, previous: null, changes: null, summary: null }]);
    expect(await (await fetch(`${http.url}/changes?days=30&kind=roles`)).text()).toContain(
      `${roles} records, all new`,
    );
    const days = await new DayCounts().read(world.mirror(), 30, world.clock.now());
    expect(days.every((day) => totalOf(day) === 0)).toBe(true);
  });
});
