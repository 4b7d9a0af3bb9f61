/**
 * What history costs on disk, beside restic and git over daily exports of the same states; and how fast one record of
 * long ago is shown.
 */
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isInstalled, KEEPERS } from './keepers.ts';
import { measure, measureLook, median } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import { recording, recordingId } from './recording.ts';
import { offline, openBenchMirror, syncRecordings } from './recordings.ts';
import { atMost, byteCount, program, type BenchContext, type Line } from './section.ts';

/** The share of the records that changes each day: another one every day. */
const SHARE = 0.01;
const DAYS = 30;
const MOST_BYTES = 300;

/** Revisions of the record that is shown as of its past: more than lie between two bodies that are kept whole. */
const DEPTH = 150;
/** Which recording it is. */
const SHOWN = 7;
const LOOKS = 15;
const MOST_MS = 50;

export async function run(context: BenchContext): Promise<Line[]> {
  return [...(await space(context)), ...(await pointInTime(context))];
}

async function space({ records, scratch, note }: BenchContext): Promise<Line[]> {
  await using source = await startPageSource(records);
  const mirror = join(scratch, 'space.db');
  const env = environment(source, mirror);
  const keepers = KEEPERS.filter(isInstalled).map((keeper) => ({
    keeper,
    place: join(scratch, keeper.command),
  }));
  for (const { keeper, place } of keepers) keeper.begin(place);
  const day = async (): Promise<void> => {
    await measure([program, 'sync', '--quiet', '--full'], { env });
    const args = [program, 'export', '--quiet', '--kind', 'session_recordings'];
    const { stdout } = await measure(args, { env });
    for (const { keeper, place } of keepers) {
      writeFileSync(join(place, 'days', 'export.ndjson'), stdout);
      keeper.keep(place);
    }
  };
  const sizes = (): number[] => [
    statSync(mirror).size,
    ...keepers.map(({ keeper, place }) => keeper.size(place)),
  ];
  await day();
  const before = sizes();
  for (let number = 1; number <= DAYS; number += 1) {
    note(`${records.toLocaleString('en')} recordings, day ${number} of ${DAYS}`);
    await source.change(SHARE, number);
    await day();
  }
  const revisions = Math.round(records * SHARE) * DAYS;
  const [own = Number.NaN, ...others] = sizes().map(
    (bytes, index) => (bytes - (before[index] ?? Number.NaN)) / revisions,
  );
  const shown = (value: number): string => byteCount(Math.round(value));
  return [
    atMost(
      `a revision, ${DAYS} runs of 1 % of ${records} changed`,
      own,
      MOST_BYTES,
      shown,
      KEEPERS.map((keeper) => {
        const index = keepers.findIndex((each) => each.keeper === keeper);
        return `${keeper.name} ${index === -1 ? 'is not installed here' : shown(others[index] ?? Number.NaN)}`;
      }).join(', '),
    ),
  ];
}

async function pointInTime({ large, scratch, note }: BenchContext): Promise<Line[]> {
  const path = join(scratch, 'past.db');
  note(`${large.toLocaleString('en')} recordings, one of them with ${DEPTH} revisions`);
  {
    await using source = await startPageSource(large);
    await measure([program, 'sync', '--quiet'], { env: environment(source, path) });
  }
  const writer = openBenchMirror(path);
  for (let generation = 1; generation < DEPTH; generation += 1)
    await syncRecordings(writer, [recording(SHOWN, generation, large - SHOWN)]);
  writer.close();
  const look = async (at: number): Promise<number> => {
    const args = [program, 'show', 'session_recordings', recordingId(SHOWN), '--at', `run:${at}`, '--json'];
    const { stdout, lookMs } = await measureLook(args, { env: offline(path) });
    const { body } = JSON.parse(stdout) as { body: unknown };
    const expected: unknown = JSON.parse(recording(SHOWN, at - 1, large - SHOWN));
    if (JSON.stringify(body) !== JSON.stringify(expected))
      throw new Error(`the record as of run ${at} is not what it was`);
    return lookMs;
  };
  const isCold = dropFromPageCache(path);
  const first = await look(1);
  const looks: number[] = [];
  for (let n = 0; n < LOOKS; n += 1) {
    note(`show as of long ago, ${n + 1} of ${LOOKS}`);
    looks.push(await look(1 + ((n * 7919) % DEPTH)));
  }
  const shown = (value: number): string => `${value.toFixed(1)} ms`;
  return [
    atMost(
      `show of one of ${large} as of long ago, from the opened mirror on, median of ${LOOKS}`,
      median(looks),
      MOST_MS,
      shown,
      `slowest ${shown(Math.max(...looks))}; the first${isCold ? ', from the disk,' : ''} ${shown(first)}`,
    ),
  ];
}

/** Makes the next look read the file from the disk, where the system can be reported so. */
function dropFromPageCache(path: string): boolean {
  const drop = spawnSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' });
  return drop.status === 0;
}
