/** Reading a copy: whether it is what was written, and putting the mirror in it back. */
import { existsSync, linkSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { asFileTrouble } from '../../core/file-trouble.ts';
import type { Secret } from '../../core/secret.ts';
import type { LockHolder } from '../../mirror/lock.ts';
import { acquireWriterLock } from '../../mirror/lock.ts';
import type { Copy } from './copy-list.ts';
import { damaged, digestOf, formatOf, unpack } from './packing.ts';
import type { Digests } from './packing.ts';
import type { PlainFacts } from './plain-copy.ts';
import { checkPlainCopy } from './plain-copy.ts';
import { syncDirectory } from './unfinished.ts';

export interface OpenedCopy {
  /** Null where the copy is encrypted and no identity was given: then only its file was looked at. */
  readonly facts: PlainFacts | null;
  /** False where there is no manifest to compare the file with. */
  readonly isCompared: boolean;
}

export interface OpenOptions {
  readonly identities: readonly Secret[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress?: (phase: 'unpacking' | 'verifying', share: number) => void;
}

/**
 * Verifies a copy: its file against the manifest, then unpacked into `workDirectory`, opened, and every seal in it.
 * @throws TidemarkError `mirror_corrupt` where it is not what was written, `usage` for identities that do not open it
 */
export async function verifyCopy(
  copy: Copy,
  workDirectory: string,
  options: OpenOptions,
): Promise<OpenedCopy> {
  refuseDamaged(copy);
  const isCompared = copy.manifest !== null;
  if (options.identities.length === 0 && (await formatOf(copy.path)) === 'age') {
    const packed = await digestOf(copy.path, { signal: options.signal });
    if (copy.manifest !== null && packed.sha256 !== copy.manifest.sha256) throw damaged(copy.path);
    return { facts: null, isCompared };
  }
  const facts = await unpackChecked(copy, join(workDirectory, 'copy.db'), options);
  return { facts, isCompared };
}

/**
 * Puts the mirror of a copy at `to`, where nothing may stand: neither a mirror nor the log of one. It is verified before
 * it gets that name.
 * @throws TidemarkError `usage` where something stands there, `mirror_locked` while somebody writes that mirror, and as
 *   `verifyCopy` does; nothing is left at `to` then
 */
export async function restoreCopy(
  copy: Copy,
  to: string,
  options: OpenOptions & { readonly holder: LockHolder },
): Promise<PlainFacts> {
  refuseDamaged(copy);
  refuseExisting(to);
  const lock = acquireWriterLock(to, options.holder);
  const work = `${to}-restore-work`;
  const clear = (): void => rmSync(work, { recursive: true, force: true });
  try {
    // Of one that was killed: whoever holds the lock may.
    clear();
    mkdirSync(work, { mode: 0o700 });
    const plain = join(work, 'copy.db');
    const facts = await unpackChecked(copy, plain, options);
    refuseExisting(to);
    giveName(plain, to);
    await syncDirectory(dirname(resolve(to)));
    return facts;
  } finally {
    clear();
    lock.release();
  }
}

async function unpackChecked(copy: Copy, to: string, options: OpenOptions): Promise<PlainFacts> {
  const { identities, signal, clock, onProgress } = options;
  const digests = await unpack(copy.path, to, {
    identities,
    signal,
    onBytes: (bytes) => onProgress?.('unpacking', copy.bytes === 0 ? 1 : bytes / copy.bytes),
  });
  compare(copy, digests);
  return await checkPlainCopy(to, copy.path, {
    clock,
    signal,
    onVerify: ({ records, of }) => onProgress?.('verifying', of === 0 ? 1 : records / of),
  });
}

function compare({ path, manifest }: Copy, { plain, packed }: Digests): void {
  if (manifest === null) return;
  if (packed.sha256 !== manifest.sha256 || plain.sha256 !== manifest.plain_sha256) throw damaged(path);
}

/** A manifest that cannot be read, or a size that is not right: no need to look further. */
function refuseDamaged({ state, path, reason }: Copy): void {
  if (state !== 'damaged') return;
  throw new TidemarkError('mirror_corrupt', `${path} is damaged: ${reason ?? ''}`, {
    hint: 'fetch it again from where copies are kept, or take another one (`tidemark copies list`)',
  });
}

function refuseExisting(to: string): void {
  const inTheWay = ['', '-wal', '-shm', '-journal']
    .map((suffix) => `${to}${suffix}`)
    .find((path) => existsSync(path));
  if (inTheWay === undefined) return;
  throw new TidemarkError('usage', `${inTheWay} stands there already, and a copy never goes over anything`, {
    hint: `restore to another path and set \`mirror\` to it; or stop whatever uses ${to}, move it away with its -wal and -shm, and run the command again`,
  });
}

/** Never over a file that came meanwhile; where the file system knows no hard links, a look before has to do. */
function giveName(plain: string, to: string): void {
  try {
    linkSync(plain, to);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!/^(EPERM|ENOTSUP|EOPNOTSUPP|ENOSYS|EMLINK|EACCES)$/.test(code))
      throw asFileTrouble(error, to, 'made');
    renameSync(plain, to);
  }
}
