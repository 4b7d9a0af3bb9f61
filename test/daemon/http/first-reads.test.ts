/** What a run read for the first time is no addition of the service: in documents, on pages, in the chart. */
import { describe, expect, it } from 'vitest';
import { changesBetween } from '../../../src/cli/run-comparison.ts';
import type { RunRow } from '../../../src/mirror/run-rows.ts';
import type { ChangeCounts } from '../../../src/mirror/change-counts.ts';
import { CONFIGURED_KINDS, DayCounts } from '../../../src/daemon/http/changes.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { isEqual } from '../../mirror/fixture.ts';
import { DAY_MS, NARROW_KEY, World } from './world.ts';

interface RunJson {
  readonly added: number;
  readonly summary: ChangeCounts;
  readonly changes: readonly { kind: string; change: string }[];
  readonly first_read: readonly { kind: string; scope: object; records: number; reason: string }[];
}

interface ChangesJson {
  readonly summary: ChangeCounts;
  readonly runs: readonly (RunJson & { readonly run: number })[];
}

/** Run 1 may not read batch exports nor recordings, run 2 may; a role comes with it. */
async function story(): Promise<World> {
  const world = await World.create();
  await world.sync(NARROW_KEY);
  world.clock.at += DAY_MS;
  await world.send('POST', `/api/organizations/${KITTIWAKE_ID}/roles/`, { name: 'Newcomers' });
  await world.sync();
  world.clock.at += DAY_MS;
  return world;
}

async function reader(world: World): Promise<{
  json: <T>(path: string) => Promise<T>;
  text: (path: string) => Promise<string>;
}> {
  const { url } = await world.listen();
  return {
    json: async <T>(path: string) => (await (await fetch(url + path)).json()) as T,
    text: async (path) => (await fetch(url + path)).text(),
  };
}

function exportsOf(world: World): number {
  return world
    .mirror()
    .records.countsAt(2, { kinds: ['batch_exports'] })
    .reduce((sum, { records }) => sum + records, 0);
}

describe('a first reading', () => {
  it('is told apart from what came, in documents, on pages and in the chart', async () => {
    const world = await story();
    const { json, text } = await reader(world);
    const exported = exportsOf(world);
    expect(exported).toBeGreaterThan(5);

    const run = await json<RunJson>('/api/v1/runs/2');
    expect(run.changes.filter(({ kind }) => kind === 'batch_exports')).toEqual([]);
    expect(run.summary).toMatchObject({ added: run.changes.length, changed: 0, removed: 0 });
    // The run's own row stays as it is stored.
    expect(run.added).toBeGreaterThan(run.summary.added + exported);
    const ofExports = run.first_read.filter(({ kind }) => kind === 'batch_exports');
    expect(ofExports.reduce((sum, { records }) => sum + records, 0)).toBe(exported);
    expect(ofExports[0]?.reason).toMatch(/^read for the first time: .*denied in run 1/);
    expect(run.first_read.map(({ kind }) => kind)).not.toContain('roles');

    for (const turn of ['first', 'from memory']) {
      const period = await json<ChangesJson>('/api/v1/changes?from=30d&kind=roles,batch_exports');
      expect(period.summary, turn).toEqual({ added: 1, changed: 0, removed: 0 });
      expect(period.runs[0], turn).toMatchObject({ run: 2, summary: { added: 1 } });
      expect(period.runs[0]?.first_read.map(({ kind }) => kind)).toContain('batch_exports');
    }
    const dayCounts = new DayCounts();
    const days = await dayCounts.read(world.mirror(), 30, world.clock.now());
    const whole = await json<ChangesJson>(`/api/v1/changes?from=30d&kind=${CONFIGURED_KINDS.join(',')}`);
    expect(days.reduce((sum, { added }) => sum + added, 0)).toBe(whole.runs[0]?.summary.added);
    const ofRoles = await dayCounts.read(world.mirror(), 30, world.clock.now(), 'roles');
    expect(ofRoles.reduce((sum, { added }) => sum + added, 0)).toBe(1);

    const page = await text('/runs/2');
    expect(page).toContain('new here, read for the first time');
    expect(page).toMatch(/of the added were only read for the first time/);
    expect(page).not.toMatch(/changes? of activity data/);
  });

  it('is one too where retention dropped the run that read it', async () => {
    const world = await story();
    await world.send('POST', `/api/organizations/${KITTIWAKE_ID}/roles/`, { name: 'Latecomers' });
    await world.sync();
    world.write((mirror) => mirror.snapshots.pin('first', 1));
    const mirror = openMirror(world.mirrorPath, { mode: 'write', command: 'test', clock: world.clock });
    await mirror.retention.forget({
      policy: { last: 1 },
      isEqual: (_source, ...bodies) => isEqual(...bodies),
    });
    mirror.close();
    const { json } = await reader(world);
    const run = await json<RunJson>('/api/v1/runs/3');
    expect(run.changes.filter(({ kind }) => kind === 'batch_exports')).toEqual([]);
    expect(run.first_read.map(({ kind }) => kind)).toContain('batch_exports');
    const days = await new DayCounts().read(world.mirror(), 30, world.clock.now());
    const whole = await json<ChangesJson>(`/api/v1/changes?from=30d&kind=${CONFIGURED_KINDS.join(',')}`);
    expect(whole.runs[0]?.summary.added).toBeGreaterThanOrEqual(2);
    expect(days.reduce((sum, { added }) => sum + added, 0)).toBe(whole.runs[0]?.summary.added);
  });

  it('is what only had its turn, too: all that shows the changes of a run has what the command line has', async () => {
    const world = await World.create({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '3' });
    await world.sync();
    world.clock.at += DAY_MS;
    await world.send('POST', `/api/organizations/${KITTIWAKE_ID}/roles/`, { name: 'Newcomers' });
    await world.sync();
    world.clock.at += DAY_MS;
    await world.sync();
    const { json, text } = await reader(world);
    const mirror = world.mirror();
    const looks: string[] = [];
    for (const [from, to] of [
      [1, 2],
      [2, 3],
    ] as const) {
      const rows = [mirror.runs.get(from), mirror.runs.get(to)] as [RunRow, RunRow];
      const {
        summary,
        left_out: leftOut,
        changes,
      } = changesBetween(mirror, world.config(), {
        from: rows[0],
        to: rows[1],
      });
      expect(leftOut?.[0]).toMatchObject({ kind: 'recording_sharing' });
      looks.push(leftOut?.[0]?.reason ?? '');
      const { added, changed, removed } = summary;
      const same = {
        summary: { added, changed, removed },
        changes: changes.map(({ id, change }) => ({ id, change })),
        left_out: leftOut,
        first_read: [],
      };
      expect(await json(`/api/v1/runs/${to}`)).toMatchObject({ ...same, is_cut: false });
      for (const turn of ['first', 'from memory']) {
        const { runs } = await json<ChangesJson>('/api/v1/changes?from=30d');
        expect(
          runs.find(({ run }) => run === to),
          turn,
        ).toMatchObject(same);
      }
    }
    expect(looks).toEqual([1, 2].map((run) => `3 recording sharings: perhaps not read yet by run ${run}`));
    const cut = await json<ChangesJson & { is_cut: boolean }>(
      '/api/v1/changes?from=30d&kind=roles,recording_sharing&limit=1',
    );
    expect(cut).toMatchObject({
      summary: { added: 1 },
      runs: [{ run: 3 }, { run: 2, summary: { added: 1 } }],
    });
    const days = await new DayCounts().read(mirror, 30, world.clock.now(), 'recording_sharing');
    expect(days.reduce((sum, { added }) => sum + added, 0)).toBe(0);
    const page = await text('/runs/3');
    expect(page).toMatch(/3 of the added were only read for the first time/);
    expect(page).toContain('3 new here, read for the first time');
    expect(page).not.toMatch(/changes? of activity data/);
    expect(await text('/changes?kind=recording_sharing')).not.toContain('href="/runs/3"');
  });
});
