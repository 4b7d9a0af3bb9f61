import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, PROJECT, begin, bodies, open, scan, sweep, sync, testClock } from './fixture.ts';

const role = (id: string): string => `{"id":"${id}"}`;
const COUNT = 21_000;
const many = Array.from({ length: COUNT }, (_each, index) => role(`r${String(index).padStart(6, '0')}`));

/** Turns of the event loop while `work` is under way. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  const state = { turns: 0, isOver: false };
  const counting = (async () => {
    do {
      await nextTurn();
      state.turns += 1;
    } while (!state.isOver);
  })();
  await work();
  const { turns } = state;
  state.isOver = true;
  await counting;
  return turns;
}

describe('absent records', () => {
  it('are counted, held, removed and retired in slices, with turns of the event loop between', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, many);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    stage.accept([scan('roles', many[0]!)]);
    const never = '0000-01-01T00:00:00.000Z';
    const absent = COUNT - 1;
    for (const [work, expected] of [
      [
        () => stage.countAbsent(never),
        { absent, confirmed: 0, replaced: 0, taken: 0, held: 0, firstHeldAt: null, lastHeldAt: null },
      ],
      [() => stage.decideAbsent('hold'), absent],
      [() => stage.decideAbsent('remove'), absent],
      [() => run.retire('roles', ORG), absent],
    ] as const) {
      let result: unknown;
      expect(await turnsDuring(async () => (result = await work()))).toBeGreaterThanOrEqual(2);
      expect(result).toEqual(expected);
    }
    const published = await run.publish({
      outcome: 'complete',
      sweeps: [sweep('roles', ORG, 0)],
      requests: 1,
      retries: 0,
    });
    expect(published.removed).toBe(absent);
  });

  it('are parted by when they were first found absent', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await sync(mirror, 'roles', ORG, ['a', 'b', 'c'].map(role));
    const hold = async (...seen: string[]): Promise<string> => {
      clock.move(60_000);
      const run = begin(mirror);
      const stage = run.stage('roles', ORG);
      stage.accept(seen.map((id) => scan('roles', role(id))));
      await stage.decideAbsent('hold');
      const sweeps = [sweep('roles', ORG, seen.length, { outcome: 'held' })];
      return (await run.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 })).finishedAt;
    };
    const first = await hold('b', 'c');
    const second = await hold('c');
    clock.move(60_000);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    stage.accept([scan('roles', role('c'))]);
    expect(await stage.countAbsent(first)).toEqual({
      absent: 2,
      confirmed: 1,
      replaced: 0,
      taken: 0,
      held: 1,
      firstHeldAt: second,
      lastHeldAt: second,
    });
    expect(await stage.countAbsent(second)).toEqual({
      absent: 2,
      confirmed: 2,
      replaced: 0,
      taken: 0,
      held: 0,
      firstHeldAt: null,
      lastHeldAt: null,
    });
    const share = { which: 'confirmed', heldBy: first } as const;
    expect([...stage.absent(share)].map(({ id }) => id)).toEqual(['a']);
    expect(await stage.decideAbsent('remove', share)).toBe(1);
    expect(await stage.decideAbsent('hold', { which: 'waiting', heldBy: first })).toBe(1);
    expect(stage.willBeRemoved('a')).toBe(true);
    expect(stage.willBeRemoved('b')).toBe(false);
    await run.publish({
      outcome: 'partial',
      sweeps: [sweep('roles', ORG, 1, { outcome: 'held' })],
      requests: 1,
      retries: 0,
    });
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['b', 'c']);
    expect(mirror.runs.heldRemovals('production')).toMatchObject([{ kind: 'roles', records: 1 }]);
  });

  it('that are held leave the list without a whole look since', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['a', 'b'].map(role));
    const run = begin(mirror);
    await run.stage('roles', ORG).decideAbsent('hold');
    const sweeps = [sweep('roles', ORG, 0, { outcome: 'held' })];
    await run.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
    expect(mirror.runs.collections()).toMatchObject([{ lastOutcome: 'held', lastFullRun: 1 }]);
  });
});

/** A run that sees these recordings, and these sharings of them; returns what is unchecked, then publishes. */
async function share(
  mirror: Mirror,
  recordings: readonly string[],
  asked: readonly string[],
): Promise<{ orphans: number; unchecked: number }> {
  const run = begin(mirror);
  const parents = run.stage('session_recordings', PROJECT);
  parents.accept(recordings.map((id) => scan('session_recordings', `{"id":"${id}"}`)));
  await parents.decideAbsent('remove');
  const stage = run.stage('recording_sharing', PROJECT);
  for (const id of asked) {
    stage.accept([{ ...scan('recording_sharing', '{"enabled":true}'), id }]);
    stage.markChecked(id);
  }
  const orphans = await run.removeOrphans('recording_sharing', PROJECT);
  // Again: what has its verdict is not counted twice.
  expect(await run.removeOrphans('recording_sharing', PROJECT)).toBe(0);
  const unchecked = await run.countUnchecked('recording_sharing', PROJECT);
  await run.publish({
    outcome: 'complete',
    sweeps: [
      sweep('session_recordings', PROJECT, recordings.length),
      sweep('recording_sharing', PROJECT, asked.length, { mode: null }),
    ],
    requests: 1,
    retries: 0,
  });
  return { orphans, unchecked };
}

describe('records that are read one for each parent', () => {
  it('go with their parent, and come back with it', async () => {
    const mirror = open();
    expect(await share(mirror, ['a', 'b', 'c'], ['a', 'b'])).toEqual({ orphans: 0, unchecked: 1 });
    expect(await share(mirror, ['b', 'c', 'd'], [])).toEqual({ orphans: 1, unchecked: 2 });
    expect(Object.keys(bodies(mirror, 'recording_sharing'))).toEqual(['b']);
    expect(await share(mirror, ['a', 'b', 'c', 'd'], ['c', 'd'])).toEqual({ orphans: 0, unchecked: 0 });
    expect(await share(mirror, ['a', 'b'], ['a'])).toEqual({ orphans: 2, unchecked: 0 });
    expect(Object.keys(bodies(mirror, 'recording_sharing'))).toEqual(['a', 'b']);
  });

  it('of a kind that is listed there are none', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a')]);
    const run = begin(mirror);
    expect(await run.removeOrphans('roles', ORG)).toBe(0);
    expect(await run.countUnchecked('roles', ORG)).toBe(0);
    run.abandon({ code: 'interrupted', message: 'over' });
  });
});
