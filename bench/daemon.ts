/** What the living daemon takes of memory and time: before, between and after its jobs, and for a page. Linux only. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeFlags } from '../test/tools/node-flags.ts';
import { median } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import { atMost, megabytes, milliseconds, program, type BenchContext, type Line } from './section.ts';

const IDLE_BYTES = 90e6;
const PAGE_MS = 50;
const SCRAPE_MS = 20;
/** Of the time of one processor, in thousandths; a look at the event loop each second, and at the clock each minute. */
const IDLE_CPU = 2;
const SYNCS = 3;
const LOOKS = 10;
const IDLE_SECONDS = 60;
/** What a job freed is given back within this. */
const REST_MS = 1_000;
const PAGES = ['/', '/runs', '/changes', '/records?kind=session_recordings', '/drift'];

export async function run({ records, scratch, note }: BenchContext): Promise<Line[]> {
  await using source = await startPageSource(records);
  const path = join(scratch, 'daemon.db');
  const env = { ...environment(source, path), TIDEMARK_HTTP_LISTEN: '127.0.0.1:0' };
  const lines: Line[] = [];
  const memory = (name: string, daemon: Daemon): void =>
    void lines.push(atMost(`memory, ${name}`, daemon.residentBytes(), IDLE_BYTES, megabytes));

  note('a daemon with nothing to do');
  {
    await using daemon = await startDaemon(path, { ...env, TIDEMARK_SCHEDULES_SYNC_CRON: 'off' });
    await delay(REST_MS);
    memory('fresh', daemon);
  }
  note(`${SYNCS} syncs of ${records.toLocaleString('en')} recordings`);
  await using daemon = await startDaemon(path, { ...env, TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *' });
  for (let ended = 1; ended <= SYNCS; ended += 1) {
    if (ended > 1) await daemon.request('sync');
    while (daemon.syncsDone() < ended) await delay(50);
    await delay(REST_MS);
    if (ended === 1) memory('after the first sync', daemon);
  }
  note(`${LOOKS} looks at ${PAGES.length} pages`);
  const times: number[] = [];
  const scrapes: number[] = [];
  for (let look = 0; look < LOOKS; look += 1) {
    for (const page of PAGES) times.push(await daemon.look(page));
    scrapes.push(await daemon.look('/metrics'));
  }
  memory(`after ${SYNCS} syncs and ${times.length} pages`, daemon);
  lines.push(
    atMost(`a page, median of ${times.length}`, median(times), PAGE_MS, milliseconds, slowest(times)),
    atMost(
      `metrics, median of ${scrapes.length}`,
      median(scrapes),
      SCRAPE_MS,
      milliseconds,
      slowest(scrapes),
    ),
  );
  note(`nothing for ${IDLE_SECONDS} s`);
  const before = daemon.cpuSeconds();
  await delay(IDLE_SECONDS * 1000);
  const share = ((daemon.cpuSeconds() - before) / IDLE_SECONDS) * 1000;
  lines.push(atMost('processor time while idle', share, IDLE_CPU, (value) => `${value.toFixed(1)} ‰`));
  memory('in the end', daemon);
  return lines;
}

function slowest(times: readonly number[]): string {
  return `slowest ${milliseconds(Math.max(...times))}`;
}

interface Daemon extends AsyncDisposable {
  residentBytes(): number;
  cpuSeconds(): number;
  syncsDone(): number;
  request(job: string): Promise<void>;
  /** Milliseconds until the whole answer was there. */
  look(target: string): Promise<number>;
}

/** Linux counts a process's time in these. */
const TICKS_PER_SECOND = 100;

async function startDaemon(mirror: string, env: Readonly<Record<string, string>>): Promise<Daemon> {
  const child = spawn(process.execPath, [...nodeFlags(), program, 'daemon'], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const proc = (file: string): string => readFileSync(`/proc/${child.pid}/${file}`, 'utf8');
  while (!log.includes('"daemon started"')) {
    if (child.exitCode !== null) throw new Error(`the daemon ended: ${log}`);
    await delay(20);
  }
  const cardPath = `${mirror}.daemon`;
  while (!existsSync(cardPath)) await delay(20);
  const { url, token } = JSON.parse(readFileSync(cardPath, 'utf8')) as { url: string; token: string };
  return {
    residentBytes: () => Number(/^VmRSS:\s+(\d+)/m.exec(proc('status'))?.[1]) * 1024,
    cpuSeconds: () => {
      // Behind the name, which may hold anything: user and system time are the 12th and 13th.
      const fields = proc('stat').split(') ').at(-1)?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    },
    syncsDone: () => log.split('"sync is done').length - 1,
    request: async (job) => {
      const answer = await fetch(`${url}/api/v1/runs`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ job }),
      });
      if (answer.status !== 202) throw new Error(`${job}: ${answer.status} ${await answer.text()}`);
    },
    look: async (target) => {
      const startedAt = performance.now();
      const answer = await fetch(url + target);
      const text = await answer.text();
      const tookMs = performance.now() - startedAt;
      if (answer.status !== 200) throw new Error(`${target}: ${answer.status} ${text.slice(0, 200)}`);
      return tookMs;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
