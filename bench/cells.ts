/**
 * What a daemon of many mirrors takes: time a source with 1, 2 and 4 slots; start, memory and answers over HTTP with 500 of
 * them. Linux only.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeFlags } from '../test/tools/node-flags.ts';
import { startPageSource } from './page-source.ts';
import { type BenchContext, type Line, atMost, megabytes, milliseconds, program } from './section.ts';

const SYNCED = 100;
const MANY = 500;
const RECORDS_EACH = 240;
/** Of wall time, with two slots on two cores: a process for each sync is most of it. */
const MOST_PER_SOURCE_MS = 700;
const START_MS = 6_000;
const RESIDENT_BYTES = 300e6;
/** Answers over HTTP about all mirrors, the median of some, while other mirrors are being synced. */
const ANSWERS: readonly (readonly [path: string, mostMs: number])[] = [
  ['/readyz', 150],
  ['/metrics', 600],
  ['/api/v1/status', 300],
  ['/api/v1/runs', 500],
  ['/api/v1/jobs', 500],
];
const ASKED = 7;
/** Readers that stay open hold three files each. */
const OPEN_FILES = 200;

export async function run({ scratch, note }: BenchContext): Promise<Line[]> {
  await using source = await startPageSource(RECORDS_EACH);
  const lines: Line[] = [];
  for (const slots of [1, 2, 4]) {
    note(`${SYNCED} first syncs, slots: ${slots}`);
    const took = await firstSyncs(join(scratch, `slots-${slots}`), source.url, slots);
    const line = atMost(
      `a source of ${RECORDS_EACH} records, slots: ${slots}`,
      took / SYNCED,
      MOST_PER_SOURCE_MS,
      milliseconds,
      `${((SYNCED * 1000) / took).toFixed(1)} sources/s`,
    );
    // Other work on the machine shows here first.
    lines.push({ ...line, isReported: true });
  }
  note(`${MANY} sources`);
  const directory = join(scratch, 'many');
  configure(directory, source.url, MANY, 2);
  const startedAt = performance.now();
  await using daemon = await startDaemon(directory);
  lines.push({
    ...atMost(`start with ${MANY} mirrors`, performance.now() - startedAt, START_MS, milliseconds),
    isReported: true,
  });
  await daemon.synced(SYNCED);
  lines.push(
    atMost(`memory, ${MANY} mirrors`, daemon.residentBytes(), RESIDENT_BYTES, megabytes),
    atMost(`open files, ${MANY} mirrors`, daemon.openFiles(), OPEN_FILES, String),
  );
  for (const [path, mostMs] of ANSWERS) {
    const line = atMost(`${path}, ${MANY} mirrors`, await daemon.answerMs(path), mostMs, milliseconds);
    lines.push({ ...line, isReported: true });
  }
  return lines;
}

async function firstSyncs(directory: string, url: string, slots: number): Promise<number> {
  configure(directory, url, SYNCED, slots);
  await using daemon = await startDaemon(directory);
  const from = performance.now();
  await daemon.synced(SYNCED);
  return performance.now() - from;
}

/** A key for each source, so that they do not wait for each other. */
function configure(directory: string, url: string, count: number, slots: number): void {
  mkdirSync(directory, { recursive: true });
  const sources = Array.from(
    { length: count },
    (_, index) =>
      `  - { name: s${index}, baseUrl: "${url}", apiKey: key-${index}, pageSize: 1000, rate: { perMinute: 0, perHour: 0, concurrency: 4 }, recordings: { sharingPerRun: 0 } }`,
  );
  const text = [
    'mirror: ./{source}.db',
    'sources:',
    ...sources,
    'schedules: { sync: { cron: "0 0 1 1 *" }, drift: { cron: "off" }, verify: { cron: "off" }, drill: { cron: "off" } }',
    `daemon: { slots: ${slots} }`,
    'http: { listen: "127.0.0.1:0" }',
  ];
  writeFileSync(join(directory, 'tidemark.yaml'), text.join('\n'));
}

interface ManyDaemon extends AsyncDisposable {
  /** Resolves when so many syncs are done. */
  synced(count: number): Promise<void>;
  residentBytes(): number;
  openFiles(): number;
  /** Median time of an answer over HTTP. */
  answerMs(path: string): Promise<number>;
}

async function startDaemon(directory: string): Promise<ManyDaemon> {
  const child = spawn(process.execPath, [...nodeFlags(), program, 'daemon'], {
    cwd: directory,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) {
      if (child.exitCode !== null) throw new Error(`the daemon ended: ${log.slice(-2000)}`);
      await delay(50);
    }
  };
  await until(() => log.includes('"daemon started"'));
  return {
    synced: (count) => until(() => log.split('"sync is done').length > count),
    residentBytes: () =>
      Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
    openFiles: () => readdirSync(`/proc/${child.pid}/fd`).length,
    answerMs: async (path) => {
      const { url } = JSON.parse(readFileSync(join(directory, 's0.db.daemon'), 'utf8')) as { url: string };
      const times: number[] = [];
      for (let asked = 0; asked < ASKED; asked += 1) {
        const from = performance.now();
        await (await fetch(url + path)).text();
        times.push(performance.now() - from);
      }
      return times.toSorted((a, b) => a - b)[Math.floor(ASKED / 2)] ?? 0;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
