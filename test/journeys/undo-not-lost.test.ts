/** What a restore created and its undo removed again is not reported as lost by the next sync. */
import { expect, it } from 'vitest';
import { ORGANIZATION, type RestoreJson, Story } from './restore-story.ts';

const EXPORTS = `${ORGANIZATION}batch_exports/`;
const COUNT = 12;

interface RunsJson {
  readonly runs: readonly {
    readonly outcome: string;
    readonly sweeps: readonly { readonly kind: string; readonly removed: number; readonly held: number }[];
  }[];
}

async function synced(story: Story, code: number, ...args: string[]) {
  const { stdout } = await story.expectRun(code, 'sync', '--json', ...args);
  const [run] = (JSON.parse(stdout) as RunsJson).runs;
  const sweep = run?.sweeps.find(({ kind }) => kind === 'batch_exports');
  return { outcome: run?.outcome, removed: sweep?.removed, held: sweep?.held };
}

async function drop(story: Story, names: RegExp): Promise<number> {
  const own = (await story.list('batch_exports')).filter(({ name }) => names.test(String(name)));
  for (const { id } of own) await story.call('DELETE', `${EXPORTS}${String(id)}/`);
  return own.length;
}

it('what an undo removed needs no confirmation, and what is lost beside it does', async () => {
  const story = await Story.start();
  const destination = { type: 'NoOp', config: {} };
  for (let n = 1; n <= COUNT; n += 1)
    await story.call('POST', EXPORTS, { name: `Own ${n}`, model: 'events', interval: 'day', destination });
  expect(await synced(story, 0)).toMatchObject({ outcome: 'complete' });
  expect(await drop(story, /^Own /)).toBe(COUNT);
  // By hand that many are held: the same ids will be absent in the same way below.
  expect(await synced(story, 3)).toEqual({ outcome: 'partial', removed: 0, held: COUNT });
  expect(await synced(story, 0, '--accept-removals', String(COUNT))).toMatchObject({ removed: COUNT });

  const restored = await story.applied(0, 'restore', 'run:2', '--kind', 'batch_exports', '--apply');
  expect(restored.steps.filter((step) => step.new_id !== null)).toHaveLength(COUNT);
  expect(await synced(story, 0)).toMatchObject({ outcome: 'complete' });
  const undone: RestoreJson = await story.applied(0, 'undo', '1', '--apply');
  expect(undone.steps.filter(({ verified }) => verified)).toHaveLength(COUNT);
  expect(await synced(story, 0)).toEqual({ outcome: 'complete', removed: COUNT, held: 0 });
  expect((await story.expectRun(0, 'status')).stdout).not.toMatch(/missing|held|kept for now/);
  await story.expectRun(0, 'verify');

  // All that is left of the collection goes too, which no restore did.
  await story.applied(0, 'restore', 'run:2', '--kind', 'batch_exports', '--apply');
  expect(await synced(story, 0)).toMatchObject({ outcome: 'complete' });
  await story.applied(0, 'undo', '3', '--apply');
  const others = await drop(story, /^/);
  expect(others).toBeGreaterThan(0);
  expect(await synced(story, 3)).toEqual({ outcome: 'partial', removed: COUNT, held: others });
});
