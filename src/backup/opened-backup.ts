/** Verifies and restores backups. */
import { existsSync, linkSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Actor } from '../core/actor.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError, makeDirectory } from '../core/file-errors.ts';
import { REFETCH_HINT } from '../core/hints.ts';
import type { Secret } from '../core/secret.ts';
import { addToRestored } from '../mirror/backup.ts';
import type { NoticeState } from '../mirror/notice-rows.ts';
import { type LockHolder, type WriterLock, acquireWriterLock } from '../mirror/lock.ts';
import { migrationsDigest } from '../mirror/migrations.ts';
import { movedAway, restoreWorkDirectory } from '../mirror/open.ts';
import type { Backup } from './list.ts';
import { type BackupManifest, lackOf } from './manifest.ts';
import { parseBackupName } from './name.ts';
import { damaged, digestOf, formatOf, unpack, type Digests } from './packing.ts';
import { type PlainFacts, checkPlainBackup } from './plain-backup.ts';
import { syncDirectory } from './targets/directory.ts';

export interface OpenedBackup {
  /** Null if the backup is encrypted and no identity was given: then only its file was checked. */
  readonly facts: PlainFacts | null;
  /** False if there is no manifest to compare the file with. */
  readonly isCompared: boolean;
}

export interface OpenOptions {
  readonly identities: readonly Secret[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress?: (phase: 'unpacking' | 'verifying', share: number) => void;
}

/**
 * Verifies a backup: compares its file with the manifest, unpacks it into `workDirectory`, opens it and verifies every
 * seal, then compares the contents with the manifest.
 * @throws TidemarkError `mirror_corrupt` if it is not what was written, `usage` for identities that do not decrypt it
 */
export async function verifyBackup(
  backup: Backup,
  workDirectory: string,
  options: OpenOptions,
): Promise<OpenedBackup> {
  refuseDamaged(backup);
  const isCompared = backup.manifest !== null;
  const file = await backup.target.fetch(backup.name, workDirectory, options.signal);
  const format = await formatOf(file);
  if (options.identities.length === 0 && format === 'age') {
    const packed = await digestOf(file, { signal: options.signal });
    if (backup.manifest !== null && packed.sha256 !== backup.manifest.sha256) throw damaged(backup.path);
    refuseContradiction(backup, { format, plain: null, facts: null });
    return { facts: null, isCompared };
  }
  const facts = await unpackChecked(backup, file, join(workDirectory, 'backup.db'), options);
  return { facts, isCompared };
}

/**
 * Restores the mirror of a backup to `to`, where neither a mirror nor the log of one may exist. It is verified before
 * it gets that name. Missing directories are created with mode 0700.
 * @throws TidemarkError `usage` if `to` exists, `mirror_missing` if that mirror was moved, `mirror_locked` while
 * somebody writes that mirror, and as `verifyBackup`; then everything that was created is removed
 */
export async function restoreBackup(
  backup: Backup,
  to: string,
  options: OpenOptions & {
    readonly holder: LockHolder;
    /** States of notices to add, since those that were reported after the backup are lost. */
    readonly noticeStates?: (facts: PlainFacts) => readonly NoticeState[];
    /** Who makes it the mirror, for its audit log; omitted for a copy. */
    readonly actor?: Actor | undefined;
  },
): Promise<PlainFacts> {
  refuseDamaged(backup);
  refuseExisting(to);
  const undo = makePlace(to);
  const work = restoreWorkDirectory(to);
  const clear = (): void => rmSync(work, { recursive: true, force: true });
  let lock: WriterLock | undefined;
  try {
    lock = acquireWriterLock(to, options.holder);
    // A killed process may have left it; only the holder of the lock may delete it.
    clear();
    makeDirectory(work);
    const plain = join(work, 'backup.db');
    const file = await backup.target.fetch(backup.name, work, options.signal);
    const facts = await unpackChecked(backup, file, plain, options);
    const states = options.noticeStates?.(facts) ?? [];
    const entry = options.actor === undefined ? null : entryOf(backup, facts, options.actor, options.clock);
    if (states.length > 0 || entry !== null) addToRestored(plain, { states, entry });
    refuseExisting(to);
    giveName(plain, to);
    clear();
    await syncDirectory(dirname(resolve(to)));
    return facts;
  } catch (error) {
    const isSomebodyElses = lock === undefined && asTidemarkError(error).code === 'mirror_locked';
    if (!isSomebodyElses) {
      clear();
      if (!existsSync(to)) undo();
    }
    throw error;
  } finally {
    lock?.release();
  }
}

function entryOf({ name, madeAt }: Backup, { run, root, sources }: PlainFacts, actor: Actor, clock: Clock) {
  const names = sources.map(({ source }) => source);
  return { actor, at: isoTime(clock.now()), backup: { name, run, root, madeAt, sources: names } };
}

/**
 * Creates the directory for `to`. Returns a function that removes the file of the lock and the directories that did not
 * exist before.
 */
function makePlace(to: string): () => void {
  const lock = `${to}-lock`;
  const hadLock = existsSync(lock);
  const directory = dirname(resolve(to));
  const first = makeDirectory(directory);
  return () => {
    if (!hadLock) rmSync(lock, { force: true });
    for (let made = directory; first !== undefined && made.length >= first.length; made = dirname(made)) {
      // Kept if somebody has created something in it meanwhile.
      if (readdirSync(made).length > 0) return;
      rmdirSync(made);
    }
  };
}

async function unpackChecked(
  backup: Backup,
  file: string,
  to: string,
  options: OpenOptions,
): Promise<PlainFacts> {
  const { identities, signal, clock, onProgress } = options;
  const digests = await unpack(file, to, {
    identities,
    signal,
    subject: backup.path,
    mostBytes: backup.manifest?.plain_bytes ?? (await mostBytesAt(to, backup.bytes)),
    onBytes: (bytes) => onProgress?.('unpacking', backup.bytes === 0 ? 1 : bytes / backup.bytes),
  });
  compare(backup, digests);
  const facts = await checkPlainBackup(to, backup.path, {
    clock,
    signal,
    onVerify: ({ records, of }) => onProgress?.('verifying', of === 0 ? 1 : records / of),
  });
  refuseContradiction(backup, { format: await formatOf(file), plain: digests.plain, facts });
  return facts;
}

const ALTERED_HINT =
  'somebody changed the manifest, or put another one there: fetch it again from where backups are kept; moved away, the backup is read without it';

/** The actual properties of a backup. */
interface Found {
  readonly format: Awaited<ReturnType<typeof formatOf>>;
  /** Both are null if it was not opened. */
  readonly plain: Digests['plain'] | null;
  readonly facts: PlainFacts | null;
}

/**
 * Compares the manifest with the contents of the backup, since anybody may have altered it. `listBackups` has compared
 * it with the name.
 * @throws TidemarkError `mirror_corrupt` that names the first field that differs
 */
function refuseContradiction(
  { name, path, madeAt, manifest }: Backup,
  { format, plain, facts }: Found,
): void {
  if (manifest === null) {
    const named = parseBackupName(name);
    if (named !== undefined && facts !== null && named.run !== facts.run)
      throw new TidemarkError(
        'mirror_corrupt',
        `${path} was renamed: its name says run ${named.run}, and the newest run in it is ${facts.run}`,
        { hint: REFETCH_HINT },
      );
    refuseEarlierThanRuns({ name, path, madeAt }, facts);
    return;
  }
  const lack = lackOf(manifest);
  if (lack !== null)
    throw new TidemarkError('mirror_corrupt', `the manifest of ${path} was altered: ${lack}`, {
      hint: ALTERED_HINT,
    });
  const differs = (field: string, said: unknown, found: unknown): void => {
    const [one, other] = [JSON.stringify(said), JSON.stringify(found)];
    if (one === other) return;
    throw new TidemarkError(
      'mirror_corrupt',
      `${path} is not what its manifest says: ${field} is ${one} there, and ${other} in the file`,
      { hint: ALTERED_HINT },
    );
  };
  differs('encryption', manifest.encryption, format === 'age' ? 'age' : null);
  // The only one: other compressions would not unpack.
  differs('compression', manifest.compression, 'zstd');
  if (plain !== null) differs('plain_bytes', manifest.plain_bytes, plain.bytes);
  if (facts !== null) {
    const { audit_log: entry, sources, versions } = manifest;
    // The contents do not confirm the version of the program: only its form is checked.
    const {
      tidemark: said,
      schema,
      schema_digest: digest,
    }: Partial<BackupManifest['versions']> = { ...versions };
    const found = { schema: facts.schema, schema_digest: migrationsDigest(facts.schema) };
    // Only these fields, since later versions of the program may add more.
    if (!isVersion(said) || schema !== found.schema || digest !== found.schema_digest) {
      const tidemark = isVersion(said) ? said : 'a version';
      differs('versions', ordered(versions), ordered({ tidemark, ...found }));
    }
    differs('mirror', manifest.mirror, facts.mirror);
    differs('run', manifest.run, facts.run);
    differs('root', manifest.root, facts.root);
    differs('sources', ordered(sources), ordered(facts.sources));
    differs('audit_log', ordered(entry), ordered(facts.audit_log));
    differs('checked', ordered(manifest.checked), ordered(facts.checked));
  }
  refuseEarlierThanRuns({ name, path, madeAt }, facts);
}

/** True for a version such as `0.1.0` or `0.2.0-rc.1`. */
function isVersion(value: unknown): boolean {
  return typeof value === 'string' && /^\d+\.\d+\.\d+(?:[-+][\w.+-]+)?$/.test(value);
}

/** Clocks are not set back by more than this. */
const CLOCK_SET_BACK_MS = 24 * 60 * 60 * 1000;

/** Refuses a backup with a time before the end of its runs: somebody gave it an earlier time, so that it seems older. */
function refuseEarlierThanRuns(
  { name, path, madeAt }: Pick<Backup, 'name' | 'path' | 'madeAt'>,
  facts: PlainFacts | null,
): void {
  const ends = (facts?.sources ?? []).flatMap(({ finished_at: at }) => at ?? []).toSorted();
  const latest = ends.at(-1);
  if (latest === undefined || parseBackupName(name) === undefined) return;
  if (Date.parse(latest) - Date.parse(madeAt) <= CLOCK_SET_BACK_MS) return;
  throw new TidemarkError(
    'mirror_corrupt',
    `${path} was renamed, or its manifest altered: it was made ${madeAt} by these, and has a run that ended ${latest}`,
    { hint: ALTERED_HINT },
  );
}

/** The value with the members of objects sorted. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, ordered(inner)]),
  );
}

/** Limit of the compression ratio: for mirrors of very similar records it is about 30. */
const MOST_RATIO = 200;
/** The limit is never lower: an almost empty mirror may have a higher ratio, and files of this size do no harm. */
const LEAST_BOUND_BYTES = 64 * 1024 * 1024;
/** Of the free space; the rest is for other programs. */
const MOST_SHARE_OF_FREE = 0.9;

/** The largest size to unpack without a manifest: estimated from the size of the backup, and limited by the free space. */
async function mostBytesAt(to: string, packedBytes: number): Promise<number> {
  const { bavail, bsize } = await statfs(dirname(resolve(to)));
  const free = Math.floor(bavail * bsize * MOST_SHARE_OF_FREE);
  return Math.min(free, Math.max(LEAST_BOUND_BYTES, packedBytes * MOST_RATIO));
}

function compare({ path, manifest }: Backup, { plain, packed }: Digests): void {
  if (manifest === null) return;
  if (packed.sha256 !== manifest.sha256 || plain.sha256 !== manifest.plain_sha256) throw damaged(path);
}

/** Refuses a backup whose listing already shows that it is damaged. */
function refuseDamaged({ state, path, reason }: Backup): void {
  if (state !== 'damaged') return;
  throw new TidemarkError('mirror_corrupt', `${path} is damaged: ${reason ?? ''}`, { hint: REFETCH_HINT });
}

function refuseExisting(to: string): void {
  const inTheWay = ['', '-wal', '-shm', '-journal']
    .map((suffix) => `${to}${suffix}`)
    .find((path) => existsSync(path));
  if (inTheWay === undefined) {
    const moved = movedAway(to);
    if (moved !== null) throw moved;
    return;
  }
  throw new TidemarkError('usage', `${inTheWay} exists already, and a backup never replaces anything`, {
    hint: `restore to another path and set \`mirror\` to it; or stop whatever uses ${to}, move it away with its -wal and -shm, and run the command again`,
  });
}

/**
 * Moves the file without replacing one that was created meanwhile. Without hard links, only `refuseExisting` guards
 * against that.
 */
function giveName(plain: string, to: string): void {
  try {
    linkSync(plain, to);
  } catch (error) {
    if (!/^(EPERM|ENOTSUP|EOPNOTSUPP|ENOSYS|EMLINK|EACCES)$/.test(systemCodeOf(error) ?? ''))
      throw asFileError(error, to, 'made');
    renameSync(plain, to);
  }
}
