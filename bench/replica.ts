/**
 * The replica's list pages beside a bare Node server that holds the same bytes in memory, each in a process of its own:
 * a walk, page after page, each once; and one page again and again. From the head of the usual list and deep in a large
 * one.
 */
import { spawn } from 'node:child_process';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nodeFlags } from '../test/tools/node-flags.ts';
import { measure, median, medianRatio } from './measure.ts';
import { environment, RECORDINGS_PATH, startPageSource } from './page-source.ts';
import { offline } from './recordings.ts';
import { atMost, atMostTimes, here, program, type BenchContext, type Line } from './section.ts';

/** Records on a page. */
const PAGE = 1_000;
/** Different pages of a walk: more than the replica keeps. */
const PAGES = 20;
/** How often in a round. */
const TURNS = 5;
/** At least half as fast as the bare server. */
const MOST_TIMES = 2;
/** Where no page is near the one before it nothing can be read ahead, and the mirror's pages come from the disk's cache. */
const MOST_TIMES_JUMPING = 4;
/** The first page that deep, before any other: what has to be found out then. */
const MOST_FIRST_MS = 250;

export async function run({ records, large, rounds, scratch, note }: BenchContext): Promise<Line[]> {
  const lines: Line[] = [];
  for (const [count, from] of [
    [records, 0],
    [large, Math.max(0, large - PAGES * PAGE)],
  ] as const) {
    const mirror = join(scratch, `${count}-${from}.db`);
    note(`${count.toLocaleString('en')} recordings`);
    {
      await using source = await startPageSource(count);
      await measure([program, 'sync', '--quiet'], { env: environment(source, mirror) });
    }
    lines.push(...(await compare(mirror, count, from, { rounds, note })));
  }
  return lines;
}

async function compare(
  mirror: string,
  count: number,
  from: number,
  { rounds, note }: Pick<BenchContext, 'rounds' | 'note'>,
): Promise<Line[]> {
  await using replica = await startServer([program, 'serve', '--port', '0', '--json'], offline(mirror));
  const pathOf = (offset: number): string => `${RECORDINGS_PATH}?limit=${PAGE}&offset=${offset}`;
  const pages = (offsetOf: (index: number) => number): string[] =>
    Array.from({ length: PAGES }, (_unused, index) => pathOf(offsetOf(index)));
  const where = from === 0 ? `of ${count}` : `from record ${from} of ${count} on`;
  const courses = [
    { name: `a walk ${where}`, most: MOST_TIMES, paths: pages((index) => from + index * PAGE) },
    { name: `one page ${where}, again and again`, most: MOST_TIMES, paths: pages(() => from + 7) },
    {
      name: `pages all over ${count}`,
      most: MOST_TIMES_JUMPING,
      paths: pages((index) => Math.floor((((index * 7) % PAGES) / PAGES) * (count - PAGE))),
    },
  ];
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  // The first request opens the mirror, and one behind it finds out where the page begins.
  await fetchBytes(agent, replica.url + pathOf(0));
  const deepest = count - PAGE;
  const first = await timed(() => fetchBytes(agent, replica.url + pathOf(deepest)));
  const known = new Set(courses.flatMap(({ paths }) => paths));
  await using bare = await startServer(
    [here('bare-server.ts'), ...[...known].map((path) => replica.url + path)],
    {},
  );
  const shown = (value: number): string => `${value.toFixed(2)} ms`;
  const lines: Line[] = [];
  for (const { name, most, paths } of courses) {
    let bytes = 0;
    const turn = async (url: string): Promise<number> => {
      const ms = await timed(async () => {
        for (let n = 0; n < TURNS; n += 1)
          for (const path of paths) bytes = await fetchBytes(agent, url + path);
      });
      return ms / (TURNS * paths.length);
    };
    const [own, others]: [number[], number[]] = [[], []];
    await turn(replica.url);
    await turn(bare.url);
    for (let round = 1; round <= rounds; round += 1) {
      note(`${name}, round ${round} of ${rounds}`);
      own.push(await turn(replica.url));
      others.push(await turn(bare.url));
    }
    lines.push(
      atMostTimes(
        `${name}, ${PAGE} records or ${Math.round(bytes / 1000)} kB each`,
        shown(median(own)),
        medianRatio(own, others),
        most,
        `a bare server with the same bytes, ${shown(median(others))}`,
      ),
    );
  }
  agent.destroy();
  lines.push(atMost(`the first page at the end of ${count}`, first, MOST_FIRST_MS, shown));
  return lines;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** Bytes of the answer's body. */
function fetchBytes(agent: Agent, url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => (bytes += chunk.length));
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode === 200) resolve(bytes);
        else reject(new Error(`${url} answered ${response.statusCode}`));
      });
    }).on('error', reject);
  });
}

interface Server extends AsyncDisposable {
  readonly url: string;
}

/** A program that prints a JSON document with its `url` once it listens. */
async function startServer(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Server> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...nodeFlags(), ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const line of createInterface({ input: child.stdout })) {
    const { url } = JSON.parse(line) as { url: string };
    return {
      url,
      [Symbol.asyncDispose]: async () => {
        child.kill();
        await ended;
      },
    };
  }
  throw new Error(`${args.join(' ')} did not start`);
}
