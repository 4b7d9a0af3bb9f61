/** A diff of two runs beside one SQL query that finds the changed records, and its cost beside the number of records. */
import { join } from 'node:path';
import { measure, median, medianRatio } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import { offline } from './recordings.ts';
import { atMostTimes, here, milliseconds, program, type BenchContext, type Line } from './section.ts';

/** The share of the records that changed between the two runs. */
const SHARE = 0.01;
/** As many changes among so many times the records. */
const LARGER = 4;
/** What a cost that follows the changes may take longer where there are four times the records. */
const FLAT = 1.25;

export async function run(context: BenchContext): Promise<Line[]> {
  const { records, rounds, scratch, note } = context;
  const changes = Math.round(records * SHARE);
  const small = join(scratch, 'small.db');
  const large = join(scratch, 'large.db');
  note(`two runs of ${records.toLocaleString('en')} and of ${(records * LARGER).toLocaleString('en')}`);
  await twoRuns(small, records, SHARE);
  await twoRuns(large, records * LARGER, SHARE / LARGER);
  for (const mirror of [small, large]) {
    const { changed } = (JSON.parse(await diff(mirror, '--json')) as { summary: { changed: number } })
      .summary;
    if (changed !== changes) throw new Error(`${changed} changes were found where ${changes} were made`);
  }
  const [own, larger, query]: [number[], number[], number[]] = [[], [], []];
  for (let round = 1; round <= rounds; round += 1) {
    note(`${changes.toLocaleString('en')} changes, round ${round} of ${rounds}`);
    own.push(await timed(() => diff(small)));
    query.push(await timed(() => measure([here('bare-diff.ts'), small])));
    larger.push(await timed(() => diff(large)));
  }
  return [
    atMostTimes(
      `diff of two runs, ${changes} of ${records} changed`,
      milliseconds(median(own)),
      medianRatio(own, query),
      3,
      `one SQL query, ${milliseconds(median(query))}`,
    ),
    atMostTimes(
      `the same changes among ${records * LARGER}`,
      milliseconds(median(larger)),
      medianRatio(larger, own),
      FLAT,
      `of those among ${records}`,
    ),
  ];
}

/** A mirror of two runs, between which that share of the recordings changed. */
async function twoRuns(mirror: string, records: number, share: number): Promise<void> {
  await using source = await startPageSource(records);
  const env = environment(source, mirror);
  await measure([program, 'sync', '--quiet'], { env });
  await source.change(share);
  await measure([program, 'sync', '--quiet', '--full'], { env });
}

async function diff(mirror: string, ...options: string[]): Promise<string> {
  const args = [program, 'diff', 'run:1', 'run:2', ...options];
  return (await measure(args, { env: offline(mirror), exitCodes: [2] })).stdout;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
