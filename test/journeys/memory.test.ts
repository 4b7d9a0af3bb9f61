/**
 * Memory is bounded by the pages in flight, not by the size of a collection (design.md, invariant 11): the peak of real
 * processes beside each other. Names beyond Latin-1 make V8 hold a page's text with two bytes a character.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { nodeFlags } from '../tools/node-flags.ts';
import { environment, scratch, runProgram } from './harness.ts';
import { ORG } from './service.ts';

const PAGE = 1000;
const probe = fileURLToPath(new URL('peak-memory.ts', import.meta.url));

/** A recording of about 800 bytes. */
function recording(index: number): string {
  return JSON.stringify({
    id: `0190f000-7a3c-4d1e-9b2f-${String(index).padStart(12, '0')}`,
    distinct_id: `user-${index % 5000}`,
    viewed: index % 3 === 0,
    recording_duration: 61.5 + (index % 900),
    start_time: new Date(Date.UTC(2026, 0, 1) - index * 1000).toISOString(),
    click_count: index % 50,
    start_url: `https://app.example.com/dashboards/${index % 400}?tab=overview`,
    person: {
      id: index % 5000,
      name: `Łucja 東京 ${index % 5000}`,
      properties: { city: 'Kraków', note: 'п'.repeat(180) },
    },
    storage: 'object_storage',
    ongoing: false,
  });
}

/** A service with one organization, one project and so many recordings, made page by page as they are asked for. */
async function startService(count: number): Promise<string> {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const from = Number(url.searchParams.get('offset') ?? 0);
    let records: string[] = [];
    let total = 0;
    if (url.pathname === '/api/organizations/')
      records = [`{"id":"${ORG}","name":"Harbor","teams":[{"id":1}]}`];
    else if (url.pathname.endsWith('/projects/')) records = ['{"id":1,"name":"Web"}'];
    else if (url.pathname.endsWith('/session_recordings/')) {
      total = count;
      const size = Math.min(PAGE, Number(url.searchParams.get('limit') ?? PAGE), Math.max(0, count - from));
      records = Array.from({ length: size }, (_each, index) => recording(from + index));
    }
    total ||= records.length;
    const next =
      from + records.length < total
        ? `"http://${request.headers.host}${url.pathname}?limit=${PAGE}&offset=${from + records.length}"`
        : 'null';
    response.setHeader('content-type', 'application/json');
    response.end(`{"count":${total},"next":${next},"previous":null,"results":[${records.join(',')}]}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A first sync, one that reads everything again, and a comparison with what is live. */
const COMMANDS = ['first', 'full', 'live'] as const;
type Peaks = Record<(typeof COMMANDS)[number], number>;
const MOST = 1.2;

/** How much memory each process held at its peak, bytes. */
async function peaks(count: number): Promise<Peaks> {
  const directory = scratch();
  const told = join(directory, 'peak');
  const env = environment(await startService(count), directory, {
    TIDEMARK_PAGE_SIZE: String(PAGE),
    TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0',
    PEAK_MEMORY_FILE: told,
  });
  const peak = async (args: readonly string[]): Promise<number> => {
    const { code, stderr } = await runProgram(args, {
      env,
      node: [...nodeFlags(), '--import', probe],
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return Number(readFileSync(told, 'utf8'));
  };
  return {
    first: await peak(['sync', '--quiet']),
    full: await peak(['sync', '--quiet', '--full']),
    live: await peak(['diff', 'latest', 'live', '--quiet']),
  };
}

describe('the memory of a process', () => {
  it('does not grow with the collection', { timeout: 240_000 }, async () => {
    const small = [await peaks(10_000)];
    const large = [await peaks(40_000)];
    const ratio = (each: (typeof COMMANDS)[number]): number =>
      Math.min(...large.map((run) => run[each])) / Math.max(...small.map((run) => run[each]));
    // When the collector runs is chance: it adds to a run, and takes from one, more than a tenth. Growth adds to every run.
    if (COMMANDS.some((each) => ratio(each) >= MOST)) {
      small.push(await peaks(10_000));
      large.push(await peaks(40_000));
    }
    for (const each of COMMANDS)
      expect(ratio(each), `${each}: ${JSON.stringify({ small, large })} bytes`).toBeLessThan(MOST);
  });
});
