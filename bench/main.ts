/**
 * `npm run bench`: the built product against a page server in a process of its own, beside a bare loop, in turn,
 * several rounds; prints medians and ratios. BENCH_RECORDS (100,000), BENCH_ROUNDS (5), BENCH_LARGE (1,000,000; 0 = off).
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { measure, median } from './measure.ts';
import type { Cost } from './measure.ts';

const records = Number(process.env['BENCH_RECORDS'] ?? 100_000);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const large = Number(process.env['BENCH_LARGE'] ?? 1_000_000);
const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

interface PageServer {
  readonly url: string;
  readonly bytes: number;
  readonly process: ChildProcess;
}

async function startPageServer(count: number): Promise<PageServer> {
  const child = spawn(process.execPath, [here('page-server.ts'), String(count)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    return { ...(JSON.parse(line) as { url: string; bytes: number }), process: child };
  }
  throw new Error('the page server did not start');
}

/** Only the recordings, so that both sides read the same; no rate limit, since the far side is ours. */
function environment(server: PageServer, mirror: string): Record<string, string> {
  return {
    TIDEMARK_BASE_URL: server.url,
    TIDEMARK_API_KEY: 'bench',
    TIDEMARK_MIRROR: mirror,
    TIDEMARK_RATE_PER_MINUTE: '0',
    TIDEMARK_RATE_PER_HOUR: '0',
    TIDEMARK_PAGE_SIZE: '1000',
    TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0',
  };
}

function size(path: string): number {
  return statSync(path).size;
}

const results: { name: string; figure: string; bound: string; isMet: boolean }[] = [];

function report(name: string, figure: string, bound: string, isMet: boolean): void {
  results.push({ name, figure, bound, isMet });
  process.stdout.write(`${isMet ? 'met   ' : 'MISSED'}  ${name}: ${figure} (bound: ${bound})\n`);
}

const ms = (value: number): string =>
  value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(0)} ms`;
const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

async function requestsOf(server: PageServer): Promise<number> {
  return Number(await (await fetch(`${server.url}/requests`)).text());
}

async function compareSpeed(scratch: string): Promise<void> {
  const server = await startPageServer(records);
  try {
    const bare: number[] = [];
    const bareHead: number[] = [];
    const first: Cost[] = [];
    const full: number[] = [];
    const head: number[] = [];
    const growth: number[] = [];
    let requests = 0;
    let mirrorBytes = 0;
    for (let round = 0; round < rounds; round += 1) {
      const mirror = join(scratch, `mirror-${round}.db`);
      const bareFile = join(scratch, `bare-${round}.db`);
      const env = environment(server, mirror);
      bare.push((await measure([here('bare-loop.ts'), server.url, bareFile])).wallMs);
      await requestsOf(server);
      first.push(await measure([program, 'sync', '--quiet'], { env }));
      requests = await requestsOf(server);
      mirrorBytes = size(mirror);
      full.push((await measure([program, 'sync', '--quiet', '--full'], { env })).wallMs);
      growth.push(size(mirror) - mirrorBytes);
      bareHead.push(
        (await measure([here('bare-loop.ts'), server.url, join(scratch, `head-${round}.db`), '1'])).wallMs,
      );
      head.push((await measure([program, 'sync', '--quiet'], { env })).wallMs);
      if (round < rounds - 1) for (const path of [mirror, bareFile]) rmSync(path, { force: true });
    }
    const base = median(bare);
    const ratio = (values: readonly number[], against: readonly number[]): number =>
      median(values.map((value, index) => value / (against[index] ?? Number.NaN)));
    process.stdout.write(
      `${records} recordings, ${mib(server.bytes)}: bare loop ${ms(base)}, bare head ${ms(median(bareHead))} (medians of ${rounds})\n`,
    );
    const firstWall = first.map(({ wallMs }) => wallMs);
    const show = (values: readonly number[], against: readonly number[]): string =>
      `${ms(median(values))}, ${ratio(values, against).toFixed(2)} times the bare loop`;
    report('first sync', show(firstWall, bare), '1.8 times', ratio(firstWall, bare) <= 1.8);
    report('no-change sync, full', show(full, bare), '1.2 times', ratio(full, bare) <= 1.2);
    report(
      'no-change sync, from the head',
      show(head, bareHead),
      '2 times a bare head read',
      ratio(head, bareHead) <= 2,
    );
    report('file growth by a no-change sync', `${median(growth)} bytes`, '8192', median(growth) <= 8192);
    const pages = Math.ceil(records / 1000);
    // Beside the recordings' pages, one request for each of the 13 other collections.
    const own = requests - OTHER_COLLECTIONS;
    report(
      'requests',
      `${own} for ${pages} pages, ${(own / pages).toFixed(2)} times`,
      '1.15 times',
      own <= 1.15 * pages,
    );
    report(
      'mirror size',
      `${mib(mirrorBytes)}, ${(mirrorBytes / server.bytes).toFixed(2)} times the JSON`,
      '1.4 times',
      mirrorBytes <= 1.4 * server.bytes,
    );
    const probed = await measure([program, 'sync', '--quiet'], {
      env: environment(server, join(scratch, 'probed.db')),
      withProbe: true,
    });
    report('peak memory', mib(probed.peakBytes), 'flat, see below', true);
    report('longest event-loop block', ms(probed.longestBlockMs), '100 ms', probed.longestBlockMs <= 100);
    cpSync(join(scratch, 'probed.db'), join(scratch, 'small.db'));
    rmSync(join(scratch, 'probed.db'), { force: true });
    await startUp();
  } finally {
    server.process.kill();
  }
}

/** organizations, projects and the organization's other collections: one page each. */
const OTHER_COLLECTIONS = 13;

async function startUp(): Promise<void> {
  const help: number[] = [];
  for (let round = 0; round < 10; round += 1) help.push((await measure([program, '--help'])).wallMs);
  report('--help', ms(median(help)), '120 ms', median(help) <= 120);
}

async function holdMemory(scratch: string): Promise<void> {
  if (large === 0) return;
  const server = await startPageServer(large);
  try {
    const mirror = join(scratch, 'large.db');
    const env = environment(server, mirror);
    const cost = await measure([program, 'sync', '--quiet'], { env, withProbe: true });
    process.stdout.write(`${large} recordings, ${mib(server.bytes)}: first sync ${ms(cost.wallMs)}\n`);
    report(`peak memory at ${large}`, mib(cost.peakBytes), '250 MiB', cost.peakBytes <= 250 * 1024 * 1024);
    report(
      `longest event-loop block at ${large}`,
      ms(cost.longestBlockMs),
      '100 ms',
      cost.longestBlockMs <= 100,
    );
    const status: number[] = [];
    for (let round = 0; round < 10; round += 1)
      status.push((await measure([program, 'status'], { env })).wallMs);
    report(`status at ${large}`, ms(median(status)), '300 ms', median(status) <= 300);
  } finally {
    server.process.kill();
  }
}

const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-'));
try {
  await compareSpeed(scratch);
  await holdMemory(scratch);
  const missed = results.filter(({ isMet }) => !isMet);
  process.stdout.write(
    missed.length === 0 ? 'all bounds met\n' : `${missed.length} of ${results.length} bounds missed\n`,
  );
  process.exitCode = missed.length === 0 ? 0 : 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
