import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openMirrorToRead } from '../docs/mirror-answer.ts';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService, projectPaths } from './service.ts';

const RECORDINGS = '/api/projects/1/session_recordings/';

function recordings(from: number, to: number): string[] {
  // Newest first, as the interface's feed is.
  return Array.from({ length: to - from }, (_each, index) => {
    const number = to - 1 - index;
    return JSON.stringify({
      id: `r${number}`,
      start_time: new Date(Date.UTC(2026, 0, 1, 0, number)).toISOString(),
      viewed: false,
    });
  });
}

interface Sweep {
  readonly kind: string;
  readonly outcome: string;
  readonly mode: string;
  readonly added: number;
  readonly records: number;
  readonly pending: number;
  readonly removed: number;
}

async function sweeps(env: Record<string, string>, ...args: string[]): Promise<(kind: string) => Sweep> {
  const { code, stdout, stderr } = await tidemark(['sync', '--json', ...args], { env });
  expect(code, stdout + stderr).toBe(0);
  const { runs } = JSON.parse(stdout) as { runs: { sweeps: Sweep[] }[] };
  return (kind) => runs[0]!.sweeps.find((sweep) => sweep.kind === kind)!;
}

async function service(count: number): Promise<FakeService> {
  const here = await FakeService.start();
  here.pageCap = 50;
  here.lists.set(RECORDINGS, recordings(0, count));
  here.quirks.push(({ path }, response) => {
    if (!path.endsWith('/sharing/')) return false;
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"enabled":false,"access_token":"t","created_at":null}');
    return true;
  });
  return here;
}

describe('session recordings', () => {
  it('are walked from the head once known, and whole with --full', async () => {
    const far = await service(500);
    const env = environment(far.url, scratch(), { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    expect((await sweeps(env))('session_recordings')).toMatchObject({ mode: 'full', added: 500 });
    far.lists.set(RECORDINGS, [...recordings(500, 503), ...recordings(0, 500)]);
    far.seen.length = 0;
    expect((await sweeps(env))('session_recordings')).toMatchObject({
      mode: 'head',
      added: 3,
      removed: 0,
      outcome: 'complete',
    });
    expect(far.seen.filter(({ url }) => url.startsWith(RECORDINGS)).length).toBeLessThanOrEqual(3);
    far.lists.get(RECORDINGS)!.splice(400, 2);
    expect((await sweeps(env))('session_recordings')).toMatchObject({ mode: 'head', removed: 0 });
    const unread = 'session recordings: run 3 read only the newest; last read completely by run 1';
    const kind = ['--kind', 'session_recordings'];
    for (const args of [
      ['diff', 'run:2', 'latest', ...kind],
      ['changes', ...kind],
      ['export', ...kind],
      ['export', '--at', 'run:3', '--format', 'json'],
    ]) {
      const { code, stdout, stderr } = await tidemark(args, { env });
      const text = args[0] === 'export' ? stderr : stdout;
      expect([code, text.match(/.*read only the newest.*/g)]).toEqual([0, [expect.stringContaining(unread)]]);
    }
    for (const command of ['show', 'log', 'blame']) {
      const old = await tidemark([command, 'session_recordings', 'r7'], { env });
      expect([command, old.code, old.stdout]).toEqual([
        command,
        0,
        expect.stringContaining('present when last read, in run 1: run 3 read only the newest'),
      ]);
      const { stdout } = await tidemark([command, 'session_recordings', 'r7', '--json'], { env });
      expect(JSON.parse(stdout)).toMatchObject({ not_read_since: { run: 1, is_part: true } });
    }
    const before = await tidemark(['show', 'session_recordings', 'r7', '--at', 'run:1'], { env });
    expect(before.stdout).toContain('present, as of run 1');
    const part = {
      kind: 'session_recordings',
      last_complete: { run: 1 },
      is_part: true,
      reason: 'the run of the export read only the newest',
    };
    const exported = async (
      ...args: string[]
    ): Promise<{ whole: { kind: string }[]; stale?: { kind: string }[] }> =>
      JSON.parse((await tidemark(['export', '--format', 'json', ...args], { env })).stdout) as never;
    const partly = await exported();
    expect(partly.stale).toMatchObject([part]);
    expect(partly.whole.map(({ kind }) => kind)).not.toContain('session_recordings');
    const directory = join(scratch(), 'out');
    const written = await tidemark(['export', '--output', directory, '--json'], { env });
    expect(JSON.parse(written.stdout)).toMatchObject({ stale: [part] });
    const manifest: unknown = JSON.parse(readFileSync(join(directory, '.tidemark-export.json'), 'utf8'));
    expect(manifest).toMatchObject({ stale: [part] });
    // Compared as the run itself.
    const compared = await tidemark(['diff', 'latest', `file:${directory}`, ...kind], { env });
    expect([compared.code, compared.stdout]).toEqual([0, expect.stringContaining('read only the newest')]);
    expect((await sweeps(env, '--full'))('session_recordings')).toMatchObject({ mode: 'full', removed: 2 });
    const read = await tidemark(['show', 'session_recordings', 'r7', '--json'], { env });
    expect(JSON.parse(read.stdout)).toMatchObject({ not_read_since: null });
    const whole = await exported();
    expect(whole.stale).toBeUndefined();
    expect(whole.whole.map(({ kind }) => kind)).toContain('session_recordings');
  });
});

describe('recording sharing', () => {
  it('leaves the half of the hour to the lists of the next runs, and is complete all the same', async () => {
    const far = await service(60);
    const env = environment(far.url, scratch(), {
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: '50',
      TIDEMARK_RETRY_MAX_WAIT_SECONDS: '1',
      TIDEMARK_DEFINITIONS: JSON.stringify({ session_recordings: { rate: { perMinute: 0, perHour: 22 } } }),
    });
    const first = (await sweeps(env))('recording_sharing');
    expect(first).toMatchObject({ outcome: 'complete', pending: 60 - first.added });
    expect(first.added).toBeGreaterThan(3);
    const results = `SELECT result, records FROM run_lists WHERE kind = 'recording_sharing'`;
    expect(openMirrorToRead(env['TIDEMARK_MIRROR'] ?? '', results).rows).toEqual([
      `read in turns | ${first.added}`,
    ]);
    const asked = (): number => far.seen.filter(({ url }) => url.startsWith(RECORDINGS)).length;
    expect(asked()).toBe(11);
    const again = await sweeps(env);
    expect(again('session_recordings')).toMatchObject({ outcome: 'complete', mode: 'head' });
    // One in a hundred of the hour, so that it never stands still.
    expect(again('recording_sharing')).toMatchObject({
      outcome: 'complete',
      added: 1,
      pending: first.pending - 1,
    });
  });

  it('of which none had its turn is no complete reading', async () => {
    const far = await service(60);
    const env = environment(far.url, scratch(), {
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: '50',
      TIDEMARK_RETRY_MAX_WAIT_SECONDS: '1',
      TIDEMARK_DEFINITIONS: JSON.stringify({ session_recordings: { rate: { perMinute: 0, perHour: 2 } } }),
    });
    const { code, stdout } = await tidemark(['sync', '--json'], { env });
    expect(code, stdout).toBe(3);
    const { runs } = JSON.parse(stdout) as {
      runs: { sweeps: (Sweep & { error: { code: string } | null })[] }[];
    };
    expect(runs[0]!.sweeps.find(({ kind }) => kind === 'recording_sharing')).toMatchObject({
      outcome: 'failed',
      error: { code: 'throttled' },
    });
  });

  it('waits for the next run where no room is left at all', async () => {
    const far = await service(60);
    const env = environment(far.url, scratch(), {
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: '50',
      TIDEMARK_RETRY_MAX_WAIT_SECONDS: '1',
      TIDEMARK_RATE_PER_HOUR: '30',
    });
    const first = (await sweeps(env))('recording_sharing');
    expect(first).toMatchObject({ outcome: 'complete', pending: 60 - first.added });
    expect(first.added).toBeGreaterThan(3);
    expect(far.seen.length).toBe(30);
  });

  it('with the budget all, every recording is asked for in the first run, overlapping pages or not', async () => {
    const far = await service(230);
    const env = environment(far.url, scratch(), { TIDEMARK_RECORDINGS_SHARING_PER_RUN: 'all' });
    expect((await sweeps(env))('recording_sharing')).toMatchObject({
      added: 230,
      pending: 0,
      outcome: 'complete',
    });
  });

  it('within a budget, new ones come first and every one has its turn', async () => {
    const far = await service(25);
    // One at a time: else the order in which requests arrive is not quite that in which they were sent.
    const env = environment(far.url, scratch(), {
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: '10',
      TIDEMARK_RATE_CONCURRENCY: '1',
    });
    const asked: string[][] = [];
    for (let run = 0; run < 4; run += 1) {
      if (run === 1) far.lists.set(RECORDINGS, recordings(0, 27));
      far.seen.length = 0;
      await sweeps(env);
      asked.push(
        far.seen.filter(({ url }) => url.endsWith('/sharing/')).map(({ url }) => url.split('/').at(-3)!),
      );
    }
    expect(asked.map((ids) => ids.length)).toEqual([10, 10, 10, 10]);
    expect(asked[1]!.slice(0, 2).sort()).toEqual(['r25', 'r26']);
    expect(new Set(asked.slice(0, 3).flat()).size).toBe(27);
    const { code, stdout } = await tidemark(
      ['diff', 'run:3', 'latest', '--kind', 'recording_sharing', '--json'],
      { env },
    );
    expect(code).toBe(0);
    const { stale } = JSON.parse(stdout) as {
      stale: { kind: string; side: string; is_limited: boolean; reason: string }[];
    };
    expect(stale).toMatchObject([
      { kind: 'recording_sharing', side: 'to', is_limited: true, reason: 'run 4 read 10 of 27, in turns' },
    ]);
  });

  it('has one budget for all projects, of which each gets its part', async () => {
    const far = await service(25);
    const second = RECORDINGS.replace('/1/', '/2/');
    for (const path of projectPaths('2')) far.lists.set(path, []);
    far.set('projects', ['{"id":1,"name":"Web"}', '{"id":2,"name":"App"}']);
    far.lists.set(second, recordings(100, 125));
    const env = environment(far.url, scratch(), { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '10' });
    const asked: string[][] = [];
    for (let run = 0; run < 7; run += 1) {
      if (run === 1) far.lists.set(second, recordings(100, 127));
      far.seen.length = 0;
      await sweeps(env);
      asked.push(
        far.seen.filter(({ url }) => url.endsWith('/sharing/')).map(({ url }) => url.split('/').at(-3)!),
      );
    }
    expect(asked.map((ids) => ids.length)).toEqual([10, 10, 10, 10, 10, 10, 10]);
    expect(asked[0]!.filter((id) => id.length === 4)).toHaveLength(5);
    expect(asked[1]!).toEqual(expect.arrayContaining(['r125', 'r126']));
    // After six runs every recording had its turn; then those of the first run are read again.
    expect(new Set(asked.slice(0, 6).flat()).size).toBe(52);
    expect(new Set([...asked[5]!.slice(2), ...asked[6]!]).size).toBe(10 + 8);
    const { stdout } = await tidemark(['changes', '--kind', 'recording_sharing'], { env });
    expect(stdout.match(/.* in turns/g)).toEqual([expect.stringMatching(/: run 7 read 10 of 52, in turns$/)]);
  });

  it('is off with 0, and that is no gap', async () => {
    const far = await service(5);
    const env = environment(far.url, scratch(), { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    expect((await sweeps(env))('recording_sharing')).toBeUndefined();
  });
});
