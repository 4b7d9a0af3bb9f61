/** Ten days of a mirror: what a dashboard has to show when there is something to show. */
import { isoTime } from '../../../src/core/clock.ts';
import { carelessAdmin } from '../../../src/server/seed/careless-admin.ts';
import { type World, DAY_MS, NARROW_KEY } from './world.ts';

/** A baseline after the first run, quiet days, a partial run, a careless admin, jobs of every kind. Ends at 07:20 of day 10. */
export async function tellStory(world: World): Promise<void> {
  const { clock } = world;
  const first = await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', first);
    mirror.snapshots.setBaseline('as-approved');
  });
  const actions = carelessAdmin();
  clock.stepMs = 40;
  for (let day = 1; day <= 9; day += 1) {
    clock.at += DAY_MS;
    clock.stepMs = 30 + ((day * 17) % 29);
    for (const { method, path, body } of actions.slice((day - 3) * 2, (day - 2) * 2))
      if (day >= 3 && day < 8) await world.send(method, path, body);
    await world.sync(day === 2 ? NARROW_KEY : undefined);
  }
  for (const { method, path, body } of actions.slice(10)) await world.send(method, path, body);
  await world.sync();
  clock.stepMs = 0;
  tellJobs(world);
  clock.at += 20 * 60_000;
  const due = (ms: number): string => isoTime(clock.at + ms);
  const dueIn: Readonly<Record<string, number>> = {
    sync: 10 * 60_000,
    drift: 0.98 * DAY_MS,
    verify: 4.8 * DAY_MS,
    drill: 5.9 * DAY_MS,
  };
  world.schedulesShown = world.schedulesShown.map((schedule) => ({
    ...schedule,
    dueAt: due(dueIn[schedule.schedule] ?? DAY_MS),
  }));
}

function tellJobs(world: World): void {
  const sync = {
    outcome: 'complete',
    requests: 40,
    retries: 1,
    throttled: 0,
    added: 2,
    changed: 1,
    removed: 0,
    unchanged: 900,
    held: 0,
    sweeps: { complete: 30 },
    kinds: [{ kind: 'members', sweeps: 3, records: 40, durationMs: 420, longestMs: 300 }],
    unread: [],
    unfinished: [],
  } as const;
  const all = { needsSecret: 0, needsPerson: 0, cannot: 0, unknown: 0, score: 1, restored: true };
  const kinds = [
    { kind: 'roles', records: 79, comesBack: 79, ...all },
    { kind: 'members', records: 48, comesBack: 43, ...all, needsPerson: 5, score: 0.8958 },
    { kind: 'batch_exports', records: 23, comesBack: 19, ...all, needsSecret: 3, unknown: 1, score: 0.826 },
    { kind: 'session_recordings', records: 40, comesBack: 0, ...all, cannot: 40, score: 0, restored: false },
  ] as const;
  const drill = { outcome: 'short', from: 1, kinds, tasks: 3, seconds: 4.2 } as const;
  world.job('drill', { ...drill, score: 0.92 });
  world.job('drill', { ...drill, score: 0.94 });
  world.job(
    'verify',
    { records: 1200, revisions: 1480, runs: 11, problems: 0, found: [], root: null, durationMs: 800 },
    { source: null },
  );
  world.job('drift', {
    hasBaseline: true,
    from: 1,
    to: 11,
    open: 9,
    severities: { critical: 3, high: 4, medium: 1, low: 1 },
    accepted: 0,
    ignored: 0,
    findings: [],
    compared: { collections: 30, records: 900 },
    skipped: 0,
  });
  world.job('sync', sync, { run: 11 });
}
