/** A directory that is away, beside a bucket that takes connections and never answers: only the bucket is waited for. */
import { mkdirSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createBackup } from '../../src/backup/work.ts';
import { parseS3Address } from '../../src/config/backup-target.ts';
import { systemClock } from '../../src/core/clock.ts';
import { never, setting } from './fixture.ts';

it('the one that is waited for is named, and no other', async () => {
  const { home, mirror } = await setting();
  const workDirectory = join(home, 'work');
  mkdirSync(workDirectory);
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
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
      targets: [
        { type: 'directory', path: join(home, 'away'), retention: null },
        { ...bucket, objectLock: null, retention: null },
      ],
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
