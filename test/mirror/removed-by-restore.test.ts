/** Which absent records a restore removed, so that they are not lost. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { Mirror } from '../../src/mirror/mirror.ts';
import type { RestoreStepRow } from '../../src/mirror/restores.ts';
import type { SweepResult } from '../../src/mirror/sweep-result.ts';
import { ORG, PROJECT, begin, open, sweep, sync, testClock, type TestClock } from './fixture.ts';

const role = (id: string): string => `{"id":"${id}"}`;
const ALL = ['a', 'b', 'c'].map(role);
const NEVER = '0000-01-01T00:00:00.000Z';

function at(clock: TestClock): string {
  clock.move(1_000);
  return new Date(clock.now()).toISOString();
}

/** A restore that removed `a` and `b`, read back as gone. */
function remove(
  mirror: Mirror,
  clock: TestClock,
  more: { readonly scope?: object; readonly action?: string; readonly row?: Partial<RestoreStepRow> } = {},
): number {
  const { scope = ORG, action = 'remove', row = {} } = more;
  const ids = ['a', 'b'];
  const steps = ids.map((id, index) => ({ n: index + 1, action, kind: 'roles', scope, id }));
  const restore = mirror.restores.begin({
    ...{ source: 'production', planHash: 'h', from: 'run:1', approved: {}, startedAt: at(clock) },
    plan: JSON.stringify({ steps }),
    steps: steps.map(({ n }) => ({ n, outcome: 'planned', inverse: null, errorCode: null, error: null })),
  });
  const sentAt = at(clock);
  const done = {
    outcome: 'applied',
    status: 204,
    verified: true,
    attempts: 1,
    sentAt,
    endedAt: sentAt,
  } as const;
  for (const step of mirror.restores.steps(restore))
    mirror.restores.journal([{ row: { ...step, ...done, ...row } }]);
  mirror.restores.finish(restore, 'complete', at(clock));
  return restore;
}

/** What the next run finds, whose list shows nothing. */
async function counted(mirror: Mirror): Promise<{ absent: number; taken: number; confirmed: number }> {
  const run = begin(mirror);
  const stage = run.stage('roles', ORG);
  const { absent, taken, confirmed } = await stage.countAbsent(NEVER);
  const waiting = [...stage.absent({ which: 'waiting', heldBy: NEVER })].length;
  expect(waiting).toBe(absent - confirmed);
  run.abandon({ code: 'interrupted', message: 'only counted' });
  return { absent, taken, confirmed };
}

async function mirrored(): Promise<{ mirror: Mirror; clock: TestClock }> {
  const clock = testClock();
  const mirror = open({ clock });
  await sync(mirror, 'roles', ORG, ALL);
  return { mirror, clock };
}

/** A run of roles that receives nothing and decides nothing, or something else with the same outcome. */
async function tried(mirror: Mirror, clock: TestClock, rest: Partial<SweepResult>): Promise<void> {
  clock.move(1_000);
  const run = begin(mirror);
  run.stage('roles', ORG);
  const sweeps = [sweep('roles', ORG, 0, rest)];
  await run.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
}

it('are taken where a restore removed them and read them back as gone', async () => {
  const { mirror, clock } = await mirrored();
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
  remove(mirror, clock);
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 2, confirmed: 2 });
  // Nor does a list that was refused show anything of them.
  await tried(mirror, clock, { outcome: 'denied', mode: null });
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 2, confirmed: 2 });
});

it('count as lost once a run has seen them again', async () => {
  const { mirror, clock } = await mirrored();
  remove(mirror, clock);
  clock.move(1_000);
  await sync(mirror, 'roles', ORG, ALL);
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
  // Also those that were gone in between.
  remove(mirror, clock);
  clock.move(1_000);
  await sync(mirror, 'roles', ORG, [role('c')]);
  clock.move(1_000);
  await sync(mirror, 'roles', ORG, ALL);
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
});

it.each<[string, Parameters<typeof remove>[2]]>([
  ['was not read back', { row: { verified: null } }],
  ['was read back as still there', { row: { verified: false } }],
  ['has no answer', { row: { outcome: 'sent', verified: null } }],
  ['is of another scope', { scope: PROJECT }],
  ['is no removal', { action: 'update' }],
])('count as lost where the step %s', async (_why, more) => {
  const { mirror, clock } = await mirrored();
  remove(mirror, clock, more);
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
});

it('count as lost where a run may have seen them', async () => {
  const { mirror, clock } = await mirrored();
  remove(mirror, clock);
  await tried(mirror, clock, { outcome: 'incomplete' });
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
});

it('count as lost where the journal is not as the audit log has it', async () => {
  const { mirror, clock } = await mirrored();
  const restore = remove(mirror, clock, { row: { verified: false } });
  const file = new Database(mirror.path);
  file.prepare('UPDATE restore_steps SET verified = 1 WHERE restore = ?').run(restore);
  file.close();
  expect(await counted(mirror)).toEqual({ absent: 3, taken: 0, confirmed: 0 });
});
