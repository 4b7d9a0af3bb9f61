/** A first sync that is cut short: a restart makes its source not late. */
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readFreshness } from '../../src/daemon/health/freshness.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { respond } from '../journeys/service.ts';
import { Rig } from './rig.ts';

function healthOf(rig: Rig) {
  const { state, sources } = readHealthSnapshot(rig.view, rig.clock.now()).health;
  return { state, codes: sources.flatMap(({ reasons }) => reasons.map(({ code }) => code)), sources };
}

/** True while no `sync_overdue` is sent of it. */
function isExcused(rig: Rig): boolean | undefined {
  return readFreshness(rig.view, rig.clock.now())?.[0]?.isFirstSyncAtWork;
}

/** A service that asks for patience, so that no sync gets further. */
async function slowRig(): Promise<Rig> {
  const rig = await Rig.create({ sync: '*/5 * * * *' });
  rig.service.quirks.push((_request, response) =>
    respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '240' }),
  );
  return rig;
}

async function stop(rig: Rig): Promise<void> {
  const stopped = rig.daemon.stop();
  await rig.advance(10_000);
  await stopped;
}

/** As `stop`, but the mirror is left as the death of the process would leave it. */
async function kill(rig: Rig): Promise<void> {
  const files = ['', '-wal'].map((suffix) => `${rig.mirrorPath}${suffix}`).filter((file) => existsSync(file));
  for (const file of files) copyFileSync(file, `${file}.killed`);
  await stop(rig);
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${rig.mirrorPath}${suffix}`, { force: true });
  for (const file of files) copyFileSync(`${file}.killed`, file);
}

describe('a first sync', () => {
  it.each([
    ['stopped', stop],
    ['killed', kill],
  ])('that was %s is not late while the next one is under way', async (_name, end) => {
    const rig = await slowRig();
    await rig.start();
    expect(healthOf(rig)).toMatchObject({ state: 'starting', codes: ['first_sync'] });
    await end(rig);
    await rig.advanceMinutes(20);
    await rig.start();
    expect(rig.read((mirror) => mirror.runs.list({}))).toMatchObject([
      { outcome: 'running' },
      { outcome: 'failed', errorCode: 'interrupted' },
    ]);
    const { state, codes, sources } = healthOf(rig);
    expect([state, codes]).toEqual(['starting', ['first_sync', 'run_failed']]);
    expect(sources[0]?.reasons[1]?.message).toMatch(/^the last sync was interrupted/);
  });

  it('of which the process dies each hour is late after six hours, and then reported', async () => {
    const rig = await slowRig();
    for (let hour = 0; hour < 6; hour += 1) {
      await rig.start();
      expect([hour, healthOf(rig).state]).toEqual([hour, 'starting']);
      await rig.advanceMinutes(3);
      expect([hour, healthOf(rig).state, isExcused(rig)]).toEqual([hour, 'starting', true]);
      await kill(rig);
      await rig.advanceMinutes(57);
    }
    await rig.start();
    await rig.advanceMinutes(2);
    expect(healthOf(rig)).toMatchObject({ state: 'failing', codes: ['never_complete', 'run_failed'] });
    expect(isExcused(rig)).toBe(false);
  });

  it('that was refused is late, whatever interrupts the next ones', async () => {
    const rig = await Rig.create({ sync: '*/5 * * * *' });
    const answer = { status: 403 };
    rig.service.quirks.push((_request, response) =>
      respond(response, answer.status, '{"detail":"no"}', { 'retry-after': '240' }),
    );
    await rig.start();
    await rig.advanceMinutes(1);
    answer.status = 429;
    await rig.advanceMinutes(6);
    await stop(rig);
    await rig.start();
    expect(rig.view.running()).toMatchObject([{ name: 'sync' }]);
    expect(healthOf(rig)).toMatchObject({ state: 'failing', codes: ['never_complete', 'run_failed'] });
  });
});
