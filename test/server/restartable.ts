/** A sandbox over a data file, opened again and again within one test. */
import { FakeClock } from '../faults/fake-clock.ts';
import { type RunningSandbox, KEY, NOW_MS, startSandbox } from './running-sandbox.ts';

export const RESTART_OPTIONS = {
  clock: new FakeClock({ epochMs: NOW_MS }),
  keys: [{ key: KEY, permissions: 'all' }],
} as const;

export async function restartable(
  file: string,
  seed: 'demo' | 'empty',
): Promise<RunningSandbox & { organizations(): string[] }> {
  const running = await startSandbox({ file, seed });
  return {
    ...running,
    organizations: () =>
      [...running.sandbox.snapshot()].filter((each) => each.kind === 'organizations').map((each) => each.id),
  };
}
