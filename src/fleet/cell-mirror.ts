/**
 * The mirror of a cell on a worker: taken from the cache or from storage before the work, and put into storage after it.
 * Which one is taken is in ARCHITECTURE.md, A fleet. Besides:
 *
 * - A cell without a successful run in the registry begins a new mirror at once. If storage has only mirrors of another
 *   hash chain than the registry's, the cell is quarantined. A `forget` is not a problem: the mirror keeps the root hashes
 *   that it replaces.
 * - A checkout can change a mirror without a new run, for example its baseline. So the file `-stored` beside a cached mirror
 *   names the backup that it equals or continues. If the registry names another backup of the same run, that is fetched.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Backup, listNewestFenced } from '../backup/list.ts';
import { restoreBackup } from '../backup/opened-backup.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { openTarget } from '../backup/targets/open.ts';
import { openWorkDirectory } from '../backup/work-directory.ts';
import { answered, createBackup } from '../backup/work.ts';
import { removeOldBackups } from '../backup/writer.ts';
import type { SourceConfig, TargetConfig } from '../config/config.ts';
import { fromErrorMessage, toErrorMessage } from '../core/child-process.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { CELL_MIRROR_HINT, shellWord } from '../core/hints.ts';
import type { Logger } from '../core/logger.ts';
import { Secret } from '../core/secret.ts';
import { duration, plural } from '../core/wording.ts';
import type { LockHolder } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirror, restoreWorkDirectory } from '../mirror/open.ts';
import { newestRun } from './cell-report.ts';
import type { CellOrder, CellStorage, ChainState, KnownMirror } from './cell.ts';

export interface MirrorEffects {
  /** PostgreSQL's time, as well as this machine knows it. */
  readonly clock: Clock;
  /** Its lines carry the cell. */
  readonly log: Logger;
  /** Whether the registry knows a run of this cell with that root hash. */
  readonly isKnown: (root: string) => Promise<boolean>;
  readonly host: string;
  readonly pid: number;
  /** Ends the work early: what was read is not published, and what is published stays. */
  readonly signal: AbortSignal;
}

/** Backups that are looked at for one that continues what the registry knows. */
const LOOKED_AT = 4;
/** How long the storage may take to answer, before it counts as away: its requests are given minutes, which would be a slot's. */
const STORAGE_ANSWERS_MS = 20_000;
/** How long storing or fetching a mirror may take, and how many bytes a second more: a storage may stop in the middle as well. */
const STORAGE_LIMIT_MS = 120_000;
const STORAGE_BYTES_PER_SECOND = 500_000;
/** Old backups are looked for after each of these many runs: looking reads all manifests. */
const CLEANED_EVERY = 8;

/** Ends the work before it began. */
export class CellNotReady extends Error {
  readonly status: 'left' | 'quarantined';
  readonly error: TidemarkError;
  readonly isOfStorage: boolean;

  constructor(status: 'left' | 'quarantined', error: TidemarkError, isOfStorage = false) {
    super(error.message);
    this.status = status;
    this.error = error;
    this.isOfStorage = isOfStorage;
  }
}

// The mirror: from the local cache, else from storage, else a new one. It has to continue what the registry knows.

/** How a mirror's chain relates to what the registry knows; `other`: it is another chain. */
type Relation = ChainState | 'other';

/** Brings the mirror of a cell to `path`, or nothing for a new one. @throws Unworkable where the work cannot begin */
export async function prepareMirror(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
): Promise<ChainState> {
  const { known } = order;
  // What a killed process was fetching may not be wanted any more.
  removeMirror(fetchedPath(path));
  const cached = await cachedRelation(order, path, effects);
  if (cached === 'equal') await replaceOlder(order, path, effects);
  if (cached === 'equal' || cached === 'ahead') return cached;
  const stored = await fetchMirror(order, path, effects, cached === 'behind');
  if (stored === 'equal' || stored === 'ahead') return stored;
  if (known === null || known.root === null) return 'new';
  const lostRuns = known.lastRun - lastRunIn(path, order, effects);
  if (lostRuns <= 0)
    throw new CellNotReady('quarantined', alteredRegistry(order.cell, known.lastRun, known.root));
  if (!order.mayLoseRuns) {
    throw new CellNotReady(
      'left',
      new TidemarkError(
        'mirror_missing',
        `storage lacks the newest mirror of ${order.cell}, with the root hash ${known.root.slice(0, 12)}…: a worker that has it in its cache can continue`,
        { isRetryable: true },
      ),
    );
  }
  effects.log.warn(
    { lastRun: known.lastRun, lostRuns },
    `the newest mirror lacks ${plural(lostRuns, 'run')} that the registry knows, up to the one with the root hash ${known.root}, the next sync continues without them`,
  );
  return 'behind';
}

/** The registry's row of a cell has another root hash than the mirror that has all of its runs. */
export function alteredRegistry(cell: string, run: number, root: string): TidemarkError {
  return new TidemarkError(
    'mirror_corrupt',
    `the registry's root hash of ${cell} was altered: the mirror has run ${run} with another one than ${root.slice(0, 12)}… (or storage was away while a \`forget\` replaced it)`,
    {
      hint: `compare it with \`tidemark fleet sql "SELECT run, root FROM runs WHERE cell = '${cell}'"\`; docs/fleet.md, "A mirror that does not verify", says what to do`,
    },
  );
}

/**
 * A cached mirror may end with the right run and still be an old one: a person who had it checked out pinned a baseline, say.
 * Then the stored one takes its place. The file beside a cached mirror names the backup that it is equal to, or newer than.
 */
async function replaceOlder(order: CellOrder, path: string, effects: MirrorEffects): Promise<void> {
  const stored = order.known?.stored ?? null;
  if (stored === null || storedMark(path) === stored.key) return;
  const backup = (await storedBackups(order, effects)).find(({ name }) => name === stored.key);
  if (backup === undefined || backup.manifest?.root !== order.known?.root) return;
  await putInPlace(backup, path, order, effects);
}

async function putInPlace(
  backup: Backup,
  path: string,
  order: CellOrder,
  effects: MirrorEffects,
): Promise<void> {
  const fetched = fetchedPath(path);
  try {
    await fetchOne(backup, fetched, order, effects);
    removeMirror(path);
    renameSync(fetched, path);
    writeMark(path, backup.name);
  } finally {
    removeMirror(fetched);
  }
}

function markPath(path: string): string {
  return `${path}-stored`;
}

function storedMark(path: string): string | null {
  return existsSync(markPath(path)) ? readFileSync(markPath(path), 'utf8') : null;
}

function writeMark(path: string, key: string): void {
  writeFileSync(markPath(path), key, { mode: 0o600 });
}

/** Null where there is no cached mirror that can be used. */
async function cachedRelation(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
): Promise<Relation | null> {
  if (!existsSync(path)) return null;
  try {
    return await relationOf(path, order, effects);
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    if (error.code === 'mirror_newer') throw new CellNotReady('left', error);
    if (error.code !== 'mirror_corrupt' && error.code !== 'mirror_missing') throw error;
    effects.log.warn({ code: error.code }, `${error.message}: it is fetched again`);
    return null;
  }
}

async function relationOf(
  path: string,
  { cell, known }: CellOrder,
  effects: MirrorEffects,
): Promise<Relation> {
  const mirror = openCell(path, 'read', effects);
  try {
    const root = mirror.runs.latest(cell)?.root ?? null;
    if (known === null || known.root === null) return root === null ? 'new' : 'ahead';
    if (root === known.root) return 'equal';
    const seal = mirror.findSeal(known.root);
    if (seal?.status === 'run' || seal?.status === 'replaced') return 'ahead';
    return root === null || (await effects.isKnown(root)) ? 'behind' : 'other';
  } finally {
    mirror.close();
  }
}

function lastRunIn(path: string, { cell }: CellOrder, effects: MirrorEffects): number {
  if (!existsSync(path)) return 0;
  const mirror = openCell(path, 'read', effects);
  try {
    return newestRun(mirror, cell);
  } finally {
    mirror.close();
  }
}

function openCell(
  path: string,
  mode: 'read' | 'write',
  { clock, host, pid }: Pick<MirrorEffects, 'clock' | 'host' | 'pid'>,
): Mirror {
  return openMirror(path, { mode, command: 'fleet', clock, host, pid });
}

/**
 * Puts the best mirror of the storage in the place of the cached one: one that ends as the registry knows, or continues from
 * there, else the newest that the registry knows an earlier run of. Null where storage has none that is better than the
 * cached one.
 * @throws Unworkable where storage cannot be read, or holds another chain only
 */
async function fetchMirror(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
  hasCached: boolean,
): Promise<Exclude<Relation, 'other'> | null> {
  const { known } = order;
  const backups = await storedBackups(order, effects);
  let others: Backup | null = null;
  for (const backup of inOrderOfWorth(backups, known)) {
    const isOlder = known !== null && backup.run < known.lastRun && backup.manifest?.root !== known.root;
    if (isOlder && hasCached && backup.run <= lastRunIn(path, order, effects)) continue;
    const fetched = fetchedPath(path);
    try {
      await fetchOne(backup, fetched, order, effects);
      const relation = await relationOf(fetched, order, effects);
      if (relation !== 'other') {
        removeMirror(path);
        renameSync(fetched, path);
        writeMark(path, backup.name);
        effects.log.info({ file: backup.name, chain: relation }, 'the mirror was fetched');
        return relation;
      }
      others ??= backup;
    } finally {
      removeMirror(fetched);
    }
  }
  if (others === null || hasCached) return null;
  throw new CellNotReady(
    'quarantined',
    new TidemarkError(
      'mirror_corrupt',
      `${others.path} does not continue what the registry knows of ${order.cell}: its root is ${others.manifest?.root ?? 'unknown'}, and the registry has ${known?.root ?? 'none'}`,
      {
        hint: `\`tidemark backup restore ${shellWord(others.path)} --to look.db\` shows its records and runs; ${CELL_MIRROR_HINT}`,
      },
    ),
  );
}

async function storedBackups(
  { storage, storageAway, known }: CellOrder,
  effects: MirrorEffects,
): Promise<Backup[]> {
  try {
    if (storageAway !== null && effects.clock.now() < storageAway.until)
      throw fromErrorMessage(storageAway.error);
    if (storage.type === 'directory' && !existsSync(storage.path)) {
      requireStorage(dirname(dirname(storage.path)));
      return [];
    }
    const target = await openTarget(storage, effects.clock);
    const listed = listNewestFenced(target, LOOKED_AT, known?.stored?.key ?? null);
    const backups = await answered(target, listed, STORAGE_ANSWERS_MS, effects.clock);
    return backups.filter(({ state }) => state === 'whole');
  } catch (thrown) {
    throw new CellNotReady('left', asTidemarkError(thrown), true);
  }
}

/** What may continue from the registry's run comes first, newest first; then the one that ends with it; then the rest. */
function inOrderOfWorth(backups: readonly Backup[], known: KnownMirror | null): readonly Backup[] {
  if (known === null || known.root === null) return backups;
  const exact = backups.filter(({ manifest }) => manifest?.root === known.root);
  const later = backups.filter((each) => !exact.includes(each) && each.run > known.lastRun);
  return [...later, ...exact, ...backups.filter((each) => !exact.includes(each) && !later.includes(each))];
}

async function fetchOne(
  backup: Backup,
  to: string,
  { identities }: CellOrder,
  { clock, signal, host, pid }: MirrorEffects,
): Promise<void> {
  try {
    await withinStorageLimit(backup.path, backup.bytes, { clock, signal }, (limited) =>
      restoreBackup(backup, to, {
        identities: identities.map((each) => new Secret(each)),
        clock,
        signal: limited,
        holder: holderOf({ clock, host, pid }),
      }),
    );
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    throw error.code === 'mirror_corrupt' ? error : new CellNotReady('left', error);
  }
}

/**
 * Ends work with the storage that takes too long for this number of bytes.
 * @throws TidemarkError `timeout` then, and as the work does
 */
async function withinStorageLimit<T>(
  subject: string,
  bytes: number,
  { clock, signal }: Pick<MirrorEffects, 'clock' | 'signal'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limitMs = STORAGE_LIMIT_MS + (bytes / STORAGE_BYTES_PER_SECOND) * 1000;
  const [late, over] = [new AbortController(), new AbortController()];
  void clock.sleep(limitMs, over.signal).then(
    () => late.abort(),
    () => undefined,
  );
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (!late.signal.aborted) throw error;
    throw new TidemarkError('timeout', `${subject}: the storage took longer than ${duration(limitMs)}`, {
      hint: 'check that it works, and that this machine reaches it',
      isRetryable: true,
    });
  } finally {
    over.abort();
  }
}

function holderOf({ clock, host, pid }: Pick<MirrorEffects, 'clock' | 'host' | 'pid'>): LockHolder {
  return { command: 'fleet', pid, host, since: isoTime(clock.now()) };
}

/** Where a mirror is fetched to, beside the one that it is to replace. */
function fetchedPath(path: string): string {
  return `${path}.fetched`;
}

/** A cached mirror and all that is beside it, also what a process that was killed left there. */
export function removeCached(path: string): void {
  removeMirror(fetchedPath(path));
  removeMirror(path);
  for (const suffix of ['-backups-work', '-backups-lock', '.daemon', '.daemon-lock'])
    rmSync(`${path}${suffix}`, { recursive: true, force: true });
}

/** A mirror, and where it was unpacked. */
function removeMirror(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal', '-stage', '-lock', '-stored'])
    rmSync(`${path}${suffix}`, { force: true });
  rmSync(restoreWorkDirectory(path), { recursive: true, force: true });
}

/**
 * Numbers of runs that the registry has and the mirror has not, failed ones too, are not given again. Nor does the mirror know what was
 * due meanwhile: no sync was missed before the registry had the cell due.
 */
export function noteLostRuns(order: CellOrder, source: SourceConfig, effects: MirrorEffects): void {
  const { known } = order;
  if (known === null || lastRunIn(order.mirror, order, effects) >= known.lastRun) return;
  const mirror = openCell(order.mirror, 'write', effects);
  try {
    const { name, baseUrl } = source;
    mirror.runs.noteLost({ name, baseUrl: baseUrl.href }, known.lastRun, isoTime(effects.clock.now()));
    const dueAt = isoTime(order.dueAt);
    for (const row of mirror.daemon.schedules())
      if (row.schedule === 'sync' && row.dueAt < dueAt) mirror.daemon.saveSchedule({ ...row, dueAt });
  } finally {
    mirror.close();
  }
}

// The mirror goes to storage where it has something new. Without storage the run counts even so.

const NOTHING_STORED: CellStorage = { stored: null, error: null };

/** Where `known` is null, it is stored whatever is there. @throws TidemarkError as opening the mirror does */
export async function storeMirror(
  order: Pick<CellOrder, 'cell' | 'known' | 'fence' | 'storage' | 'storageAway' | 'recipients' | 'mirror'>,
  effects: Pick<MirrorEffects, 'clock' | 'signal' | 'log' | 'host' | 'pid'>,
): Promise<CellStorage> {
  const { cell, known, fence, storage: target, storageAway, recipients, mirror: path } = order;
  const { clock, signal } = effects;
  const mirror = openCell(path, 'read', effects);
  let owner: string;
  try {
    const latest = mirror.runs.latest(cell);
    if (latest === undefined) return NOTHING_STORED;
    if (known?.stored?.run === latest.run && known.root === latest.root) return NOTHING_STORED;
    owner = mirrorId(mirror);
  } finally {
    mirror.close();
  }
  // The run may have taken longer than that.
  if (storageAway !== null && clock.now() < storageAway.until)
    return { stored: null, error: storageAway.error };
  try {
    if (target.type === 'directory') makeDirectories(target.path);
    const work = openWorkDirectory(path, 'backups', holderOf(effects));
    try {
      const job = {
        mirrorPath: path,
        workDirectory: work.directory,
        targets: [target],
        recipients,
        owner,
        fence,
        answersWithinMs: STORAGE_ANSWERS_MS,
      };
      const { manifest } = await withinStorageLimit(
        storageAddress(target),
        statSync(path).size,
        { clock, signal },
        (limited) => createBackup(job, { clock, signal: limited, onProgress: () => undefined }),
      );
      if (manifest.run % CLEANED_EVERY === 0) {
        const { cleanupError } = await removeOldBackups(target, manifest, { clock, mirrorPath: null, fence });
        if (cleanupError !== null) effects.log.warn({ code: cleanupError.code }, cleanupError.message);
      }
      const { file: key, run, bytes } = manifest;
      writeMark(path, key);
      return { stored: { key, run, bytes }, error: null };
    } finally {
      work.close();
    }
  } catch (error) {
    return { stored: null, error: toErrorMessage(error) };
  }
}

function storageAddress(target: TargetConfig): string {
  return target.type === 'directory' ? target.path : `s3://${target.bucket}/${target.prefix}`;
}

/** A storage that is a directory has to exist: without its disk it would look as if nothing had been stored. */
function requireStorage(storage: string): void {
  const error = storageError(storage, false);
  if (error !== null) throw error;
}

/**
 * What is wrong with a storage that is a directory; null if nothing is.
 * @param hasMirrors true where mirrors were stored in it: an empty directory is then what the disk is to be mounted on
 */
export function storageError(storage: string, hasMirrors: boolean): TidemarkError | null {
  const isThere = !isMissing(storage);
  if (isThere && !(hasMirrors && isMissing(join(storage, 'cells')))) return null;
  const what = isThere ? 'has none of the mirrors that were stored there' : 'does not exist';
  return new TidemarkError('file_system', `the storage ${storage} ${what}`, {
    hint: `mount the disk that belongs there${isThere ? '' : ', or create the directory'}`,
  });
}

/** False also for what this user may not look at: that says nothing of the storage. */
function isMissing(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '');
  }
}

/** Makes the cell's directory in a storage that is one. */
function makeDirectories(path: string): void {
  requireStorage(dirname(dirname(path)));
  for (const each of [dirname(path), path]) {
    if (existsSync(each)) continue;
    try {
      mkdirSync(each, { mode: 0o700 });
    } catch (error) {
      throw asFileError(error, each, 'made');
    }
  }
}
