/**
 * What backups take of memory beyond `backup list`, which reads nothing of the mirror: to and from S3-compatible storage over
 * plain HTTP, whose packets are the largest. Linux only: elsewhere it has no lines.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { startFauxqs } from 'fauxqs';
import { measure, measurePeaks } from './measure.ts';
import { environment, startPageSource } from './page-source.ts';
import { atMost, megabytes, program, type BenchContext, type Line } from './section.ts';

/** Beyond the same program without the work, whatever the size of the mirror. */
const MOST_BYTES = 64e6;

export async function run(context: BenchContext): Promise<Line[]> {
  return [...(await backups(context, context.records)), ...(await backups(context, context.large))];
}

/** The memory of the commands on a mirror of `count` recordings, and the bytes that it may take. */
export async function backups(
  { scratch, note }: BenchContext,
  count: number,
  mostBytes = MOST_BYTES,
): Promise<Line[]> {
  const n = count.toLocaleString('en');
  const mirror = join(scratch, `backed-up-${count}.db`);
  {
    note(`${n} recordings are synced`);
    await using source = await startPageSource(count, { beyondLatin1: true });
    await measure([program, 'sync', '--quiet'], { env: environment(source, mirror) });
  }
  const server = await startFauxqs({ port: 0, logger: false });
  try {
    server.createBucket('bench');
    const identity = await generateIdentity();
    const identityFile = join(scratch, 'identity.txt');
    writeFileSync(identityFile, identity);
    const place = (prefix: string): Record<string, string> => ({
      ...environment({ url: 'http://127.0.0.1:1' }, mirror),
      ...{ AWS_ACCESS_KEY_ID: 'bench', AWS_SECRET_ACCESS_KEY: 'bench', AWS_REGION: 'us-east-1' },
      TIDEMARK_BACKUP_TARGETS: `s3://bench/${prefix}?endpoint=http://127.0.0.1:${server.port}`,
    });
    const plain = place('plain');
    const encrypted = {
      ...place('encrypted'),
      TIDEMARK_BACKUP_RECIPIENTS: await identityToRecipient(identity),
    };
    const peak = async (env: Record<string, string>, ...args: string[]): Promise<number> => {
      note(`${n} recordings, backup ${args[0]}${env === encrypted ? ', encrypted' : ''}`);
      return Math.max(...(await measurePeaks([program, 'backup', ...args], { env })).peaks);
    };
    const list = await peak(plain, 'list');
    const restored = join(scratch, `restored-${count}.db`);
    const peaks = {
      'backup create': await peak(plain, 'create'),
      'backup verify': await peak(plain, 'verify'),
      'backup create, encrypted': await peak(encrypted, 'create'),
      'backup restore, encrypted': await peak(
        encrypted,
        ...['restore', 'latest', '--to', restored, '--identity', identityFile],
      ),
    };
    for (const path of [mirror, restored])
      for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    return Number.isFinite(list)
      ? Object.entries(peaks).map(([name, bytes]) =>
          atMost(
            `memory, ${name} of ${n}`,
            bytes - list,
            mostBytes,
            megabytes,
            `${megabytes(bytes)} where backup list has ${megabytes(list)}`,
          ),
        )
      : [];
  } finally {
    await server.stop();
  }
}
