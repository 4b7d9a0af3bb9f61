/** A pipeline component is in two lists, its family's and `plugins`, and is one record in every total. */
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { formatInteger } from '../../src/core/wording.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

interface Totals {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}
interface SyncJson {
  readonly runs: readonly (Totals & { readonly sweeps: readonly ({ readonly kind: string } & Totals)[] })[];
}

const counts = ({ added, changed, removed }: Totals): Totals => ({ added, changed, removed });

async function totals(story: Story): Promise<Record<'runs' | 'diff', Totals>> {
  const { runs } = JSON.parse((await story.expectRun(0, 'runs', '--json')).stdout) as { runs: Totals[] };
  const diff = await story.expectRun(2, 'diff', 'run:-1', 'latest', '--json');
  const { summary } = JSON.parse(diff.stdout) as { summary: Totals };
  return { runs: counts(runs[0]!), diff: counts(summary) };
}

describe('the totals of a run with a component', () => {
  it('are fewer than the records of the mirror, which says why; without plugins both agree', async () => {
    const story = await Story.start();
    const numbers = async (): Promise<{ added: number; held: number; text: string }> => {
      const { runs } = JSON.parse((await story.expectRun(0, 'runs', '--json')).stdout) as { runs: Totals[] };
      const text = (await story.expectRun(0, 'status')).stdout;
      const held = Number(/: ([\d,]+) records, mirror/.exec(text)?.[1]?.replace(',', ''));
      return { added: runs[0]!.added, held, text };
    };
    const all = await numbers();
    expect(all.held).toBeGreaterThan(all.added);
    expect(all.text.replaceAll('\n', ' ')).toContain(
      '(a pipeline component is in two lists and counts twice here, but once in a run)',
    );
    // What lists the changes says the run's number.
    expect((await story.expectRun(0, 'changes')).stdout).toContain(
      `run 1 was the first sync of default: ${formatInteger(all.added)} records, not listed as changes`,
    );
  });

  it('is complete where one of the two lists is left out', async () => {
    const story = await Story.start();
    const { compared, left_out } = JSON.parse(
      (await story.expectRun(0, 'diff', 'latest', 'live', '--managed-only', '--json')).stdout,
    ) as { compared: { records: number }; left_out: { kind: string }[] };
    const leftOut = new Set(left_out.map(({ kind }) => kind));
    expect(leftOut).toContain('plugins');
    const mirror = new Database(story.file('mirror.db'), { readonly: true });
    const records = KINDS.filter((kind) => !leftOut.has(kind)).map((kind) =>
      Number(mirror.prepare(`SELECT count(*) FROM ${kind}`).pluck().get()),
    );
    mirror.close();
    expect(compared.records).toBe(records.reduce((sum, each) => sum + each, 0));
  });

  it('are one number in a comparison, a plan, and of the first run that is kept', async () => {
    const story = await Story.start();
    const { compared, summary } = JSON.parse(
      (await story.expectRun(0, 'diff', 'latest', 'live', '--json')).stdout,
    ) as { compared: { records: number }; summary: { unchanged: number } };
    const { runs } = JSON.parse((await story.expectRun(0, 'runs', '--json')).stdout) as { runs: Totals[] };
    expect(compared.records).toBe(runs[0]!.added);
    expect(summary.unchanged).toBe(runs[0]!.added);
    expect((await story.plan(0)).summary.unchanged).toBe(runs[0]!.added);
    await story.expectRun(0, 'sync', '--quiet');
    const equal = await story.expectRun(0, 'diff', 'run:1', 'run:2');
    expect(equal.stdout).toContain(`${formatInteger(runs[0]!.added)} unchanged)`);
    await story.expectRun(0, 'forget', '--keep-last', '1');
    expect((await story.expectRun(3, 'changes')).stdout).toContain(
      `run 2 is the first kept run of default: ${formatInteger(runs[0]!.added)} records, not listed as changes`,
    );
  });

  it('count its removal once, and the lists each', async () => {
    const story = await Story.start();
    const first = JSON.parse((await story.expectRun(0, 'runs', 'show', '1', '--json')).stdout) as {
      added: number;
      sweeps: { kind: string; added: number }[];
    };
    const sum = (is: (kind: string) => boolean): number =>
      first.sweeps.filter(({ kind }) => is(kind)).reduce((total, { added }) => total + added, 0);
    expect(sum((kind) => kind.startsWith('pipeline_'))).toBeGreaterThan(0);
    expect(first.added).toBeLessThan(sum(() => true));
    expect(first.added).toBeGreaterThanOrEqual(sum((kind) => kind !== 'plugins'));

    const [component] = await story.list('pipeline_destinations');
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`);
    const { runs } = JSON.parse((await story.expectRun(0, 'sync', '--json')).stdout) as SyncJson;
    const one = { added: 0, changed: 0, removed: 1 };
    expect(counts(runs[0]!)).toEqual(one);
    const lists = runs[0]!.sweeps.filter(({ removed }) => removed > 0);
    expect(lists.map(({ kind, removed }) => [kind, removed])).toEqual([
      ['pipeline_destinations', 1],
      ['plugins', 1],
    ]);
    expect(await totals(story)).toEqual({ runs: one, diff: one });
  });

  it('are printed below the lists, and count what only plugins lists', async () => {
    const story = await Story.start();
    const families = ['destinations', 'frontend_apps', 'import_apps', 'transformations'];
    const listed = new Set<unknown>();
    for (const family of families)
      for (const { id } of await story.list(`pipeline_${family}`)) listed.add(id);
    const alone = (await story.list('plugins')).find(({ id }) => !listed.has(id));
    const [component] = await story.list('pipeline_destinations');
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`);
    expect((await story.expectRun(0, 'sync')).stdout).toContain('In total 1 removed: ');
    await story.call('DELETE', `${ORGANIZATION}plugins/${String(alone?.['id'])}/`);
    expect((await story.expectRun(0, 'sync')).stdout).not.toContain('In total');
    const one = { added: 0, changed: 0, removed: 1 };
    expect(await totals(story)).toEqual({ runs: one, diff: one });
  });
});
