/** Memory and the event loop while a large list is mirrored first and read again, and `status` on the large mirror. */
import { join } from 'node:path';
import { measure, measureProbed, median, type ProbedCost } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import {
  atMost,
  atMostTimes,
  megabytes,
  milliseconds,
  program,
  type BenchContext,
  type Line,
} from './section.ts';

const STATUS_ROUNDS = 10;
/** For any size of the collection. */
const MOST_BYTES = 200e6;
/** What counts as flat: the peak moves by some percent from run to run. */
const FLAT = 1.15;

interface Mirrored {
  readonly first: ProbedCost;
  readonly again: ProbedCost;
  /** Milliseconds. */
  readonly status: readonly number[];
}

export async function run(context: BenchContext): Promise<Line[]> {
  const small = await mirror(context, context.records);
  const large = await mirror(context, context.large);
  const n = context.large.toLocaleString('en');
  const against = `${megabytes(small.first.peakBytes)} at ${context.records.toLocaleString('en')}`;
  return [
    atMost(`peak memory, first sync of ${n}`, large.first.peakBytes, MOST_BYTES, megabytes),
    atMostTimes(
      'flatness of the peak',
      megabytes(large.first.peakBytes),
      large.first.peakBytes / small.first.peakBytes,
      FLAT,
      against,
    ),
    atMost(`peak memory, no-change sync of ${n}`, large.again.peakBytes, MOST_BYTES, megabytes),
    atMost('longest event-loop block', longestBlockMs(small), 100, milliseconds),
    atMost(`longest event-loop block at ${n}`, longestBlockMs(large), 100, milliseconds),
    atMost(`status at ${n}, median of ${STATUS_ROUNDS}`, median(large.status), 300, milliseconds),
  ];
}

function longestBlockMs({ first, again }: Mirrored): number {
  return Math.max(first.longestBlockMs, again.longestBlockMs);
}

async function mirror(context: BenchContext, count: number): Promise<Mirrored> {
  await using source = await startPageSource(count, { beyondLatin1: true });
  const env = environment(source, join(context.scratch, `mirror-${count}.db`));
  context.note(`${count.toLocaleString('en')} recordings, first sync with a probe`);
  const first = await measureProbed([program, 'sync', '--quiet'], { env });
  context.note(
    `${count.toLocaleString('en')} recordings, ${milliseconds(first.wallMs)}; again, with nothing changed`,
  );
  const again = await measureProbed([program, 'sync', '--quiet', '--full'], { env });
  const status: number[] = [];
  for (let round = 0; round < STATUS_ROUNDS; round += 1) {
    status.push((await measure([program, 'status'], { env })).wallMs);
  }
  return { first, again, status };
}
