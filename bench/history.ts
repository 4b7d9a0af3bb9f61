/**
 * What history costs on disk, beside restic and git over daily exports of the same states; and how fast one record of
 * long ago is read. BENCH_RECORDS (100,000), BENCH_DAYS (30), BENCH_LARGE (1,000,000; 0: BENCH_RECORDS).
 */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/core/clock.ts';
import { openMirror } from '../src/mirror/mirror.ts';
import type { Line } from './line.ts';
import { median } from './measure.ts';
import { openBenchMirror, recording, recordings, syncRecordings } from './recordings.ts';

/** Bytes of everything below a path. */
function sizeOf(path: string): number {
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

/** On day d the records of the classes 0 to d-1 have changed: a hundredth more each day, spread over the whole list. */
function texts(records: number, day: number): Generator<string> {
  return recordings(records, (index) => (index % 100 < day ? 1 + (index % 100) : 0));
}

async function mirrorGrowth(path: string, records: number, days: number): Promise<number> {
  const mirror = openBenchMirror(path);
  await syncRecordings(mirror, texts(records, 0));
  const before = sizeOf(path);
  for (let day = 1; day <= days; day += 1) await syncRecordings(mirror, texts(records, day));
  mirror.close();
  return sizeOf(path) - before;
}

function writeDay(path: string, records: number, day: number): void {
  const file = openSync(path, 'w');
  let buffer = '';
  for (const text of texts(records, day)) {
    buffer += `${text}\n`;
    if (buffer.length < 1 << 20) continue;
    writeSync(file, buffer);
    buffer = '';
  }
  writeSync(file, buffer);
  closeSync(file);
}

function isInstalled(command: string): boolean {
  return spawnSync(command, ['version'], { stdio: 'ignore' }).error === undefined;
}

function run(
  command: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): void {
  const { status, stderr, error } = spawnSync(command, args, {
    cwd: options.cwd,
    env: { PATH: process.env['PATH'], HOME: options.cwd, ...options.env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (error !== undefined) throw error;
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${status}: ${stderr.toString()}`);
}

/** A tool that keeps the daily exports; `size` is what its repository takes when it has tidied up. */
interface Keeper {
  readonly name: string;
  readonly command: string;
  begin(scratch: string): void;
  keep(scratch: string): void;
  size(scratch: string): number;
}

const KEEPERS: readonly Keeper[] = [
  {
    name: 'restic',
    command: 'restic',
    begin: (scratch) => run('restic', ['init', '--repo', 'repository'], { cwd: scratch, env: RESTIC }),
    keep: (scratch) =>
      run('restic', ['backup', '--quiet', '--repo', 'repository', 'days'], { cwd: scratch, env: RESTIC }),
    size: (scratch) => sizeOf(join(scratch, 'repository')),
  },
  {
    name: 'git after gc',
    command: 'git',
    begin: (scratch) => run('git', ['init', '--quiet', 'days'], { cwd: scratch }),
    keep: (scratch) => {
      run('git', ['-C', 'days', 'add', '.'], { cwd: scratch });
      run('git', ['-C', 'days', ...AUTHOR, 'commit', '--quiet', '--message', 'a day'], { cwd: scratch });
    },
    size: (scratch) => {
      run('git', ['-C', 'days', 'gc', '--quiet'], { cwd: scratch });
      return sizeOf(join(scratch, 'days', '.git'));
    },
  },
];

const RESTIC = { RESTIC_PASSWORD: 'bench', RESTIC_CACHE_DIR: 'cache' };
const AUTHOR = ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', '-c', 'gc.auto=0'];

function keeperGrowth(keeper: Keeper, scratch: string, records: number, days: number): number {
  const folder = join(scratch, 'days');
  mkdirSync(folder, { recursive: true });
  keeper.begin(scratch);
  const keepDay = (day: number): void => {
    writeDay(join(folder, 'export.ndjson'), records, day);
    keeper.keep(scratch);
  };
  keepDay(0);
  const before = keeper.size(scratch);
  for (let day = 1; day <= days; day += 1) keepDay(day);
  return keeper.size(scratch) - before;
}

async function compareSpace(scratch: string): Promise<Line[]> {
  const records = Number(process.env['BENCH_RECORDS'] ?? 100_000);
  const days = Number(process.env['BENCH_DAYS'] ?? 30);
  const revisions = Math.round(records / 100) * days;
  const own = (await mirrorGrowth(join(scratch, 'space.db'), records, days)) / revisions;
  const others: string[] = [];
  for (const keeper of KEEPERS) {
    if (!isInstalled(keeper.command)) {
      others.push(`${keeper.name}: not installed here, not measured`);
      continue;
    }
    const place = join(scratch, keeper.command);
    mkdirSync(place);
    const growth = keeperGrowth(keeper, place, records, days);
    rmSync(place, { recursive: true, force: true });
    others.push(`${keeper.name} ${(growth / revisions).toFixed(0)}`);
  }
  return [
    {
      name: `history, ${days} runs of 1 % of ${records} changed`,
      figure: `${own.toFixed(0)} bytes a revision (${others.join('; ')})`,
      bound: '300 bytes',
      isMet: own <= 300,
    },
  ];
}

/** Revisions of the record that is read at random points of its past. */
const DEPTH = 1000;

async function readPast(scratch: string): Promise<Line[]> {
  const records = Number(process.env['BENCH_LARGE'] ?? 0) || Number(process.env['BENCH_RECORDS'] ?? 100_000);
  const path = join(scratch, 'past.db');
  const writer = openBenchMirror(path);
  await syncRecordings(
    writer,
    recordings(records, () => 0),
  );
  for (let generation = 1; generation < DEPTH; generation += 1)
    await syncRecordings(writer, [recording(7, generation)]);
  writer.close();
  const mirror = openMirror(path, { mode: 'read', command: 'bench', clock: systemClock });
  const id = (JSON.parse(recording(7, 0)) as { id: string }).id;
  const times: number[] = [];
  for (let n = 0; n < 200; n += 1) {
    const run = 1 + ((n * 7919) % DEPTH);
    const startedAt = performance.now();
    const row = mirror.record('default', 'session_recordings', id);
    const body = row === undefined ? undefined : mirror.recordAt(row, run);
    times.push(performance.now() - startedAt);
    if (body !== recording(7, run - 1)) throw new Error(`the record as of run ${run} is not what it was`);
  }
  mirror.close();
  const [first = Number.NaN] = times;
  return [
    {
      name: `one record of ${records} as of any of its ${DEPTH} revisions`,
      figure: `${median(times).toFixed(2)} ms; the first look ${first.toFixed(2)} ms, the slowest ${Math.max(...times).toFixed(2)} ms`,
      bound: '5 ms',
      isMet: median(times) < 5,
    },
  ];
}

export async function runHistorySection(): Promise<Line[]> {
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-history-'));
  try {
    return [...(await readPast(scratch)), ...(await compareSpace(scratch))];
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
