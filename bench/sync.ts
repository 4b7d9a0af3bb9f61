/**
 * Syncs, export and verification beside a bare loop over the same pages, in turn; requests, growth and size of the mirror. Pages of
 * 1,000 records of about 800 bytes, with characters beyond Latin-1.
 */
import { readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { measure, median, medianRatio } from './measure.ts';
import { RECORDINGS_PATH, environment, startPageSource } from './page-source.ts';
import { offline } from './recordings.ts';
import {
  atMost,
  atMostTimes,
  byteCount,
  here,
  megabytes,
  milliseconds,
  program,
  type BenchContext,
  type Line,
} from './section.ts';

const PAGE = 1000;

/** Milliseconds and bytes, one of each a round. */
interface Rounds {
  readonly bare: number[];
  readonly bareHead: number[];
  readonly first: number[];
  readonly full: number[];
  readonly head: number[];
  readonly growth: number[];
  /** With `DELAY_MS` for each page. */
  readonly bareFar: number[];
  readonly far: number[];
  /** After 1 % changed. */
  readonly changed: number[];
  readonly exported: number[];
  readonly verified: number[];
}

const DELAY_MS = 50;

export async function run(context: BenchContext): Promise<Line[]> {
  const { records, rounds, scratch } = context;
  await using source = await startPageSource(records, { beyondLatin1: true });
  const told: Rounds = {
    ...{ bare: [], bareHead: [], first: [], full: [], head: [], growth: [] },
    ...{ bareFar: [], far: [], changed: [], exported: [], verified: [] },
  };
  let requests: ReadonlyMap<string, number> = new Map();
  let mirrorBytes = 0;
  for (let round = 1; round <= rounds; round += 1) {
    context.note(`${records.toLocaleString('en')} recordings, round ${round} of ${rounds}`);
    const mirror = join(scratch, `mirror-${round}.db`);
    const env = environment(source, mirror);
    const bareLoop = async (file: string, ...pages: string[]): Promise<number> =>
      (await measure([here('bare-loop.ts'), source.url, join(scratch, file), ...pages])).wallMs;
    const sync = async (...options: string[]): Promise<number> =>
      (await measure([program, 'sync', '--quiet', ...options], { env })).wallMs;

    told.bare.push(await bareLoop('bare.db'));
    await source.requests();
    told.first.push(await sync());
    requests = await source.requests();
    mirrorBytes = sizeOf(mirror);
    told.full.push(await sync('--full'));
    told.growth.push(sizeOf(mirror) - mirrorBytes);
    told.bareHead.push(await bareLoop('head.db', '1'));
    told.head.push(await sync());
    await source.change(0.01);
    told.changed.push(await sync('--full'));
    await source.change(0.01, 0);
    const own = async (...args: string[]): Promise<number> =>
      (await measure([program, ...args], { env: offline(mirror) })).wallMs;
    told.exported.push(await own('export', '--quiet', '--output', join(scratch, 'export')));
    told.verified.push(await own('verify', '--quiet'));
    for (const file of readdirSync(scratch)) rmSync(join(scratch, file), { recursive: true });
    await source.delay(DELAY_MS);
    told.bareFar.push(await bareLoop('far.db'));
    told.far.push(await sync());
    await source.delay(0);
    for (const file of readdirSync(scratch)) rmSync(join(scratch, file), { recursive: true });
  }
  return lines(context, told, { requests, mirrorBytes, receivedBytes: source.bytes });
}

function lines(
  { records, rounds }: BenchContext,
  told: Rounds,
  last: { requests: ReadonlyMap<string, number>; mirrorBytes: number; receivedBytes: number },
): Line[] {
  const shown = (values: readonly number[]): string =>
    `${milliseconds(median(values))} (${milliseconds(Math.min(...values))} to ${milliseconds(Math.max(...values))})`;
  const ratio = (
    name: string,
    own: readonly number[],
    other: readonly number[],
    most: number,
    against: string,
  ): Line =>
    atMostTimes(
      name,
      shown(own),
      medianRatio(own, other),
      most,
      `${against} of ${milliseconds(median(other))}`,
    );
  const bare = `bare loop of ${milliseconds(median(told.bare))}`;
  const bareHead = `bare head read of ${milliseconds(median(told.bareHead))}`;
  const pages = Math.ceil(records / PAGE);
  const own = last.requests.get(RECORDINGS_PATH) ?? Number.NaN;
  const others = [...last.requests].filter(([path]) => path !== RECORDINGS_PATH).map(([, count]) => count);
  return [
    {
      ...atMostTimes('first sync', shown(told.first), medianRatio(told.first, told.bare), 1.5, bare),
      name: `first sync, median of ${rounds}`,
    },
    atMostTimes('no-change sync, full', shown(told.full), medianRatio(told.full, told.bare), 1, bare),
    ratio(`first sync, ${DELAY_MS} ms a page`, told.far, told.bareFar, 1.4, 'the same loop'),
    ratio('sync with 1 % changed, full', told.changed, told.bare, 1.5, 'bare loop'),
    ratio('export', told.exported, told.bare, 1.3, 'bare loop'),
    ratio('verify', told.verified, told.bare, 2.5, 'bare loop'),
    atMostTimes(
      'no-change sync, from the head',
      shown(told.head),
      medianRatio(told.head, told.bareHead),
      2,
      bareHead,
    ),
    atMost('mirror growth by a no-change sync', Math.max(...told.growth), 8192, byteCount),
    atMost('requests of a one-page collection', Math.max(...others), 1, String),
    atMostTimes('requests of the recordings', String(own), own / pages, 1.15, `${pages} pages`),
    atMostTimes(
      'mirror size',
      megabytes(last.mirrorBytes),
      last.mirrorBytes / last.receivedBytes,
      1.4,
      `${megabytes(last.receivedBytes)} of JSON`,
    ),
  ];
}

/** Of the mirror with all files beside it. */
function sizeOf(mirror: string): number {
  return readdirSync(dirname(mirror))
    .filter((file) => file.startsWith(basename(mirror)))
    .reduce((sum, file) => sum + statSync(join(dirname(mirror), file)).size, 0);
}
