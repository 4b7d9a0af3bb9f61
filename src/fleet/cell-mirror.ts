/**
 * Chooses the mirror of a cell on a worker before the work: the cached one, one from storage, or a new one.
 * The README of this folder describes the choice. Besides:
 *
 * - If no run of a cell succeeded, the registry does not know which mirror is the newest: the cell is new, a worker
 *   died before it published, or the registry was lost. Then the mirror with the newest run is taken, and of those the
 *   one with the newest entry in the audit log, from the cache or from storage (`continueNewest`). If one of the others
 *   is not part of its history, the cell is quarantined. Without any mirror, a new one is begun at once.
 * - If storage has only mirrors of another hash chain than the registry's, the cell is quarantined. A `forget` is not a
 *   problem: the mirror keeps the root hashes that it replaces.
 * - A cached mirror with runs that the fetched one lacks is kept beside it (`-replaced`): after a registry was lost,
 *   another worker may have continued from an older one.
 * - A checkout can change a mirror without a new run, for example its baseline. So the file `-stored` beside a cached
 *   mirror names the backup that it equals or continues. If the registry names another backup of the same run, that is
 *   fetched.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { inChain } from '../backup/chain.ts';
import type { Backup } from '../backup/list.ts';
import type { BackupManifest } from '../backup/manifest.ts';
import { parseBackupName } from '../backup/name.ts';
import type { SourceConfig } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { CELL_MIRROR_HINT, shellWord } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { restoreWorkDirectory } from '../mirror/open.ts';
import { newestRun } from './cell-report.ts';
import {
  CellNotReady,
  fetchOne,
  type MirrorEffects,
  openCell,
  readCell,
  storedBackups,
  storedMark,
  writeMark,
} from './cell-storage.ts';
import type { CellOrder, ChainState, KnownMirror } from './cell.ts';

/** How a mirror's chain relates to what the registry knows; `other`: it is another chain. */
type Relation = ChainState | 'other';

/** Brings the mirror of a cell to `path`; nothing for a new one. @throws CellNotReady if the work cannot begin */
export async function prepareMirror(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
): Promise<ChainState> {
  const { known } = order;
  // A killed process may have left one.
  removeMirror(fetchedPath(path));
  if (known === null || known.root === null) return await continueNewest(order, path, effects);
  const cached = await cachedRelation(order, path, effects);
  if (cached === 'equal') await replaceOlder(order, path, effects);
  if (cached === 'equal' || cached === 'ahead') return cached;
  const stored = await fetchMirror(order, path, effects, cached);
  if (stored === 'equal' || stored === 'ahead') return stored;
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

/** The error for a cell whose mirror has all runs of the registry, but another root hash. */
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
 * Replaces a cached mirror that ends with the right run, but is older than the stored one: a person may have checked it
 * out and pinned a baseline, for example.
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

/** Null if there is no usable cached mirror. */
async function cachedRelation(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
): Promise<Relation | null> {
  if (!existsSync(path)) return null;
  try {
    return await relationOf(path, order, effects);
  } catch (thrown) {
    noteUnreadable(thrown, effects);
    return null;
  }
}

/** Logs that a cached mirror is damaged or missing, so that another one replaces it. @throws all other errors */
function noteUnreadable(thrown: unknown, { log }: MirrorEffects): void {
  const error = asTidemarkError(thrown);
  if (error.code === 'mirror_newer') throw new CellNotReady('left', error);
  if (error.code !== 'mirror_corrupt' && error.code !== 'mirror_missing') throw error;
  log.warn({ code: error.code }, `${error.message}: it is fetched again`);
}

async function relationOf(
  path: string,
  { cell, known }: CellOrder,
  effects: MirrorEffects,
): Promise<Relation> {
  // `prepareMirror` handles cells without one.
  const published = known?.root ?? '';
  const { root, isContinuation } = readCell(path, effects, (mirror) => ({
    root: mirror.runs.latest(cell)?.root ?? null,
    isContinuation: hasRoot(mirror, published),
  }));
  if (root === published) return 'equal';
  if (isContinuation) return 'ahead';
  return root === null || (await effects.isKnown(root)) ? 'behind' : 'other';
}

/** True if the mirror has, or had before a `forget`, a run with this root hash. */
export function hasRoot(mirror: Mirror, root: string): boolean {
  const status = mirror.findSeal(root)?.status;
  return status === 'run' || status === 'replaced';
}

function lastRunIn(path: string, { cell }: CellOrder, effects: MirrorEffects): number {
  return existsSync(path) ? readCell(path, effects, (mirror) => newestRun(mirror, cell)) : 0;
}

/**
 * Replaces the cached mirror by the best one in storage: one that ends with the registry's run, or continues from it,
 * otherwise the newest that ends with an earlier run of the registry. Null if storage has none that is better than the
 * cached one.
 * @throws CellNotReady if storage cannot be read, or has only mirrors of another chain
 */
async function fetchMirror(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
  cached: Relation | null,
): Promise<Exclude<Relation, 'other'> | null> {
  const { known } = order;
  const hasCached = cached === 'behind';
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
        if (cached !== null) keepReplaced(order, path, fetched, effects);
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

/** First the backups that may continue from the registry's run, newest first, then those that end with it, then the rest. */
function inOrderOfWorth(backups: readonly Backup[], known: KnownMirror | null): readonly Backup[] {
  if (known === null || known.root === null) return backups;
  const rank = ({ manifest, run }: Backup): number => {
    if (manifest?.root === known.root) return 1;
    return run > known.lastRun ? 0 : 2;
  };
  return backups.toSorted((a, b) => rank(a) - rank(b));
}

/** Moves a cached mirror aside that has runs which the fetched one lacks: nothing else may have them. */
function keepReplaced(order: CellOrder, path: string, fetched: string, effects: MirrorEffects): void {
  const cached = cachedAt(path, order, effects);
  if (cached === null || isFirstRunAlone(cached)) return;
  if (readCell(fetched, effects, (mirror) => inChain(mirror, cached).lacks) !== 'root') return;
  const file = `${path}-replaced`;
  moveMirror(path, file);
  effects.log.warn(
    { run: cached.run, root: cached.root, file },
    `the cached mirror has a run ${cached.run} with another root hash than the stored one from which the cell continues: it is kept as ${file} (docs/fleet.md, "The registry is lost")`,
  );
}

/** A mirror of the cell, with what determines which one is the newest. */
interface Candidate extends Pick<BackupManifest, 'run' | 'root' | 'audit_log'> {
  readonly path: string;
  /** Null for a mirror in the cache. */
  readonly backup: Backup | null;
  /** How many published runs it has. */
  readonly runs: number;
  /** Of its newest backup; 0 if it was never stored. */
  readonly fence: number;
}

/**
 * Brings the newest mirror of the cell to `path`, from the cache or from storage, if the registry does not know which
 * one that is.
 * @throws CellNotReady if storage cannot be read, so that the newest is not known, or if there are two histories
 */
async function continueNewest(
  order: CellOrder,
  path: string,
  effects: MirrorEffects,
): Promise<'new' | 'ahead'> {
  const cached = [path, ...cachedElsewhere(path)].flatMap((each) => cachedAt(each, order, effects) ?? []);
  const stored = (await storedBackups(order, effects)).flatMap((each) => storedAs(each) ?? []);
  const all = [...cached, ...stored].toSorted(
    (a, b) =>
      b.run - a.run ||
      (b.audit_log?.entry ?? 0) - (a.audit_log?.entry ?? 0) ||
      // Of two equal ones the cached one: it need not be fetched, and may have failed runs since.
      Number(a.backup !== null) - Number(b.backup !== null) ||
      b.fence - a.fence,
  );
  const [newest] = all;
  if (newest === undefined) return 'new';
  const fetched = fetchedPath(path);
  try {
    if (newest.backup !== null) await fetchOne(newest.backup, fetched, order, effects);
    const from = newest.backup === null ? newest.path : fetched;
    requireOneHistory(from, all, order, effects);
    if (from !== path) {
      removeMirror(path);
      moveMirror(from, path);
      if (newest.backup === null) removeCached(from);
    }
    if (newest.backup !== null) writeMark(path, newest.backup.name);
    effects.log.info({ file: newest.path, run: newest.run }, 'the cell continues from its newest mirror');
    return 'ahead';
  } finally {
    removeMirror(fetched);
  }
}

/** The cached mirrors of the cell in the directories of other groups: in a new registry, groups have other numbers. */
function cachedElsewhere(path: string): string[] {
  const cache = dirname(dirname(path));
  return readdirSync(cache)
    .filter((group) => /^\d+$/.test(group))
    .map((group) => join(cache, group, basename(path)))
    .filter((each) => each !== path);
}

/** Null if there is no usable mirror with a published run. */
function cachedAt(path: string, { cell }: CellOrder, effects: MirrorEffects): Candidate | null {
  if (!existsSync(path)) return null;
  try {
    return readCell(path, effects, (mirror) => {
      const [latest, earlier] = mirror.runs.list({ source: cell, isPublished: true, limit: 2 });
      if (latest === undefined || latest.root === null) return null;
      const { run, root } = latest;
      const fence = parseBackupName(storedMark(path) ?? '')?.fence ?? 0;
      const runs = earlier === undefined ? 1 : 2;
      return { path, backup: null, run, root, audit_log: mirror.lastEntry(), runs, fence };
    });
  } catch (thrown) {
    noteUnreadable(thrown, effects);
    return null;
  }
}

function storedAs(backup: Backup): Candidate | null {
  const { path, manifest, fence } = backup;
  if (manifest === null) return null;
  // Reading a manifest checks only the fields that `Backup` needs.
  const { audit_log: entry = null, checked } = manifest as Partial<BackupManifest>;
  const { run, root } = manifest;
  return { path, backup, run, root, audit_log: entry, runs: checked?.runs ?? 0, fence: fence ?? 0 };
}

/**
 * True for a mirror with a single run and no audit entries, which has nothing that a sync would not read again. A cell
 * may have two of these, if a worker was suspended in the first run, or killed before it published it.
 */
function isFirstRunAlone({ runs, audit_log: entry }: Candidate): boolean {
  return runs === 1 && entry === null;
}

/** @throws CellNotReady if one of these mirrors is not part of the history of the first, which is the newest, and is at `path` */
function requireOneHistory(
  path: string,
  [newest, ...others]: readonly Candidate[],
  { cell }: CellOrder,
  effects: MirrorEffects,
): void {
  readCell(path, effects, (mirror) => {
    for (const other of others) {
      const lacks = isFirstRunAlone(other) ? null : inChain(mirror, other).lacks;
      if (lacks === null) continue;
      const what =
        lacks === 'root'
          ? `run ${other.run} with the root hash ${other.root.slice(0, 12)}…`
          : `entry ${other.audit_log?.entry ?? 0} of the audit log with the hash ${other.audit_log?.hash.slice(0, 12) ?? ''}…`;
      throw new CellNotReady(
        'quarantined',
        new TidemarkError(
          'mirror_corrupt',
          `two histories of ${cell}, of which none is continued until you move the files of the other one away (docs/fleet.md, "The registry is lost"): ${other.path} has ${what}, which ${newest?.path ?? path} with run ${newest?.run ?? 0} has not`,
        ),
      );
    }
  });
}

/** Moves a mirror that nobody has open. */
function moveMirror(from: string, to: string): void {
  removeMirror(to);
  for (const suffix of ['', '-wal', '-shm', '-stored'])
    if (existsSync(`${from}${suffix}`)) renameSync(`${from}${suffix}`, `${to}${suffix}`);
  removeMirror(from);
}

/** Where a mirror is fetched to before it replaces the one at `path`. */
function fetchedPath(path: string): string {
  return `${path}.fetched`;
}

/** Removes a cached mirror and everything beside it, including what a killed process left there. */
export function removeCached(path: string): void {
  removeMirror(fetchedPath(path));
  removeMirror(path);
  for (const suffix of ['-backups-work', '-backups-lock', '.daemon', '.daemon-lock'])
    rmSync(`${path}${suffix}`, { recursive: true, force: true });
}

/** Removes a mirror, and the directory in which it was unpacked. */
function removeMirror(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal', '-stage', '-lock', '-stored'])
    rmSync(`${path}${suffix}`, { force: true });
  rmSync(restoreWorkDirectory(path), { recursive: true, force: true });
}

/**
 * If the mirror lacks runs that the registry knows, failed ones too, their numbers are not used again. Its schedule
 * does not know them either: syncs that were due before the registry's due time were not missed.
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
