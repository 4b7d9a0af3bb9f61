/** A mirror in which everything is long and there is something of everything: what a narrow page has to bear. */
import { CATALOG } from '../../src/catalog/catalog.ts';
import { isoTime } from '../../src/core/clock.ts';
import { DriftNow } from '../../src/daemon/health/drift-now.ts';
import { carelessAdmin } from '../../src/server/seed/careless-admin.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { type World, DAY_MS, NARROW_KEY } from '../daemon/http/world.ts';

/** The longest name that a source may have: nothing in it says where it may break. */
export const LONG_SOURCE = `production_eu_west_${'x'.repeat(44)}`;

/** Two sources, drift of which some is accepted, a partial run, jobs, notices that wait, and a run under way. */
export async function gatherCrowd(world: World): Promise<void> {
  const { clock } = world;
  await world.send('POST', `/api/organizations/${KITTIWAKE_ID}/roles/`, { name: 'unbroken'.repeat(20) });
  const first = await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', first);
    mirror.snapshots.setBaseline('as-approved');
  });
  for (const { method, path, body } of carelessAdmin()) await world.send(method, path, body);
  clock.at += DAY_MS;
  clock.stepMs = 40;
  await world.sync();
  await world.sync(NARROW_KEY);
  await world.sync(undefined, LONG_SOURCE);
  clock.stepMs = 0;
  await acceptSome(world);
  world.job('drill', null, { source: LONG_SOURCE, outcome: 'failed' });
  world.write((mirror) => {
    const state = mirror.daemon;
    const at = isoTime(clock.at);
    const notice = { at, source: 'default', subject: 'sync', event: 'run_failed', content: {} };
    state.recordNotices({
      states: [],
      cleared: [],
      notices: [{ notice, channels: ['on-call-of-the-week'] }],
    });
    const [pending] = state.pendingDeliveries();
    if (pending === undefined) throw new Error('no notice waits');
    state.recordDelivery({
      ...pending,
      attempts: 9,
      error: `https://${'hook.'.repeat(20)}example: not found`,
    });
    mirror.runs.begin({
      source: { name: LONG_SOURCE, baseUrl: world.url },
      trigger: 'sync',
      volatileFields: new Map(),
      definitions: CATALOG,
      isEqual: () => false,
    });
  });
  world.schedulesShown = world.schedulesShown.map((schedule) => ({
    ...schedule,
    cron: '*/10 8-18,20 * 1-6,9-12 1-5',
    zone: 'America/Argentina/ComodRivadavia',
    skippedTicks: 12,
    missedTicks: 144,
  }));
}

async function acceptSome(world: World): Promise<void> {
  const drift = await new DriftNow().of(world.mirror(), world.config(), 'default', world.clock.now());
  world.write((mirror) => {
    for (const [index, { fingerprint, kind, scope, id, path }] of (drift?.open ?? []).slice(0, 3).entries()) {
      const until = index === 0 ? {} : { until: isoTime(world.clock.at + index * DAY_MS) };
      const reason = `agreed with ${'the-owner-of-it'.repeat(6)} until the next review`;
      const at = { acceptedAt: isoTime(world.clock.at), ...until };
      mirror.acceptances.add({ source: 'default', fingerprint, kind, scope, id, path, reason, ...at });
    }
  });
}
