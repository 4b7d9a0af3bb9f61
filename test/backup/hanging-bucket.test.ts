/** A bucket that takes connections and never answers, beside a directory. */
import { mkdirSync, readdirSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createBackup } from '../../src/backup/work.ts';
import { parseS3Address } from '../../src/config/backup-target.ts';
import { systemClock } from '../../src/core/clock.ts';
import { never, setting } from './fixture.ts';

it('is given up after a minute, and the directory gets the backup before that', async () => {
  const { home, directory, mirror } = await setting();
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
      targets: [
        { ...bucket, objectLock: null, retention: null },
        { type: 'directory', path: directory, retention: null },
      ],
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
