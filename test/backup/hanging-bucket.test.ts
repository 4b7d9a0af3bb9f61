/** A bucket that takes connections and never answers, beside a directory that is there or away. */
import { mkdirSync, readdirSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { openTarget } from '../../src/backup/targets/open.ts';
import { createBackup } from '../../src/backup/work.ts';
import { parseS3Address } from '../../src/config/backup-target.ts';
import type { TargetConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/core/clock.ts';
import { never, setting } from './fixture.ts';

/** Takes connections, and never answers. */
async function hangingBucket(): Promise<TargetConfig> {
  return await bucketAt(() => undefined);
}

async function bucketAt(onConnection: (socket: Socket) => void): Promise<TargetConfig> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  onTestFinished(() => void vi.unstubAllEnvs());
  const { port } = server.address() as AddressInfo;
  const bucket = parseS3Address(`s3://backups/here?endpoint=http://127.0.0.1:${port}&region=us-east-1`);
  if (bucket === null) throw new Error('not an address');
  return { ...bucket, objectLock: null, retention: null };
}

it('a bucket that breaks connections off is not taken for one that is slow', async () => {
  const bucket = await bucketAt((socket) => socket.resetAndDestroy());
  await expect((await openTarget(bucket, systemClock)).list()).rejects.toMatchObject({
    code: 'unreachable',
    message: 's3://backups/here could not be listed: the connection was broken off (ECONNRESET)',
  });
});

it('is given up after a minute, and the directory gets the backup before that', async () => {
  const { home, directory, mirror } = await setting();
  const workDirectory = join(home, 'work');
  mkdirSync(workDirectory);
  const bucket = await hangingBucket();
  const waits: number[] = [];
  // A minute that is over when it is reported that the bucket is waited for.
  let endMinute = (): void => undefined;
  const minute = new Promise<void>((resolve) => (endMinute = resolve));
  const sleep = async (ms: number): Promise<void> => {
    waits.push(ms);
    // Not at once: what has answered already is not late.
    await (ms === 60_000 ? minute : systemClock.sleep(10));
  };
  const clock = { ...systemClock, sleep };
  const waiting: unknown[] = [];
  const { stored } = await createBackup(
    {
      mirrorPath: mirror.path,
      workDirectory,
      targets: [bucket, { type: 'directory', path: directory, retention: null }],
      recipients: [],
      owner: 'test',
    },
    {
      clock,
      signal: never,
      onProgress: ({ phase, target = '' }) => {
        // Where no time is left, it may also be reported while the directory has not answered yet.
        if (phase !== 'waiting' || target.includes(' or ')) return;
        waiting.push([target, readdirSync(directory).length]);
        endMinute();
      },
    },
  );
  expect(stored.map(({ error }) => error?.code ?? null)).toEqual(['timeout', null]);
  expect(waits).toContain(60_000);
  expect(waiting, 'with the backup and its manifest in the directory').toEqual([['s3://backups/here', 2]]);
  expect(readdirSync(directory)).toHaveLength(2);
});

it('is named alone, where the directory is away and nobody waits for it', async () => {
  const { home, mirror } = await setting();
  const workDirectory = join(home, 'work');
  mkdirSync(workDirectory);
  const bucket = await hangingBucket();
  // Reported once, when the directory has long answered that it is away; then the minute is over.
  let endMinute = (): void => undefined;
  const minute = new Promise<void>((resolve) => (endMinute = resolve));
  const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
    await (ms === 60_000 ? minute : systemClock.sleep(Math.min(ms, 300), signal));
  };
  const waiting: unknown[] = [];
  const made = createBackup(
    {
      ...{ mirrorPath: mirror.path, workDirectory, recipients: [], owner: 'test' },
      targets: [{ type: 'directory', path: join(home, 'away'), retention: null }, bucket],
    },
    {
      clock: { ...systemClock, sleep },
      signal: never,
      onProgress: ({ phase, target }) => {
        if (phase !== 'waiting') return;
        waiting.push(target);
        endMinute();
      },
    },
  );
  await expect(made).rejects.toMatchObject({ message: expect.stringContaining('away') as string });
  expect(waiting).toEqual(['s3://backups/here']);
});
