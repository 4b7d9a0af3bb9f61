/** `changes` compares most runs with nothing, since they changed nothing: each entry is still what `diff` says of its two runs. */
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

interface DiffJson {
  readonly summary: Readonly<Record<'added' | 'removed' | 'changed' | 'unchanged', number>>;
  readonly changes: readonly { readonly id: string }[];
}

interface ChangesJson {
  readonly runs: readonly (DiffJson & { readonly run: number; readonly previous: number | null })[];
}

it('each run of a period has what a comparison of its two runs has', async () => {
  const story = await Story.start();
  const [role, other] = await story.list('roles');
  const [plugin] = await story.list('pipeline_destinations');
  const roleAt = (each: typeof role) => `${ORGANIZATION}roles/${String(each?.['id'])}/`;
  const steps: (() => Promise<unknown>)[] = [
    () => Promise.resolve(),
    () => story.call('PATCH', roleAt(role), { name: 'Renamed' }),
    () => Promise.resolve(),
    () => Promise.resolve(),
    () => story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(plugin?.['id'])}/`),
    () => Promise.resolve(),
    () => story.call('DELETE', roleAt(other)),
    () => Promise.resolve(),
  ];
  for (const step of steps) {
    await step();
    await story.expectRun(0, 'sync', '--quiet');
  }
  for (const filter of [[], ['--kind', 'roles'], ['--kind', 'plugins']]) {
    const { runs } = JSON.parse(
      (await story.expectRun(0, 'changes', '--json', ...filter)).stdout,
    ) as ChangesJson;
    expect(runs.map(({ run, previous }) => [run, previous])).toEqual(
      Array.from({ length: 9 }, (_each, index) => [index + 1, index === 0 ? null : index]),
    );
    for (const { run, previous, summary, changes } of runs.slice(1)) {
      const ids = changes.map(({ id }) => id);
      const code = ids.length === 0 ? 0 : 2;
      const { stdout } = await story.expectRun(
        ...([code, 'diff', `run:${previous}`, `run:${run}`, '--json', ...filter] as const),
      );
      const diff = JSON.parse(stdout) as DiffJson;
      expect(summary, `run ${run} ${filter.join(' ')}`).toEqual(
        Object.fromEntries(Object.keys(summary).map((key) => [key, diff.summary[key as 'added']])),
      );
      expect(ids).toEqual(diff.changes.map(({ id }) => id));
    }
  }
});
