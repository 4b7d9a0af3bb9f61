/**
 * The mirror of a cell on a worker: taken from the cache or from storage before the work, and put into storage after it.
 * Which one is taken is in ARCHITECTURE.md, A fleet. Besides:
 *
 * - Of a cell without a successful run, the registry does not tell which mirror is the newest: the cell is new, a worker died before
 *   it published, or the registry was lost. Then it is the one with the newest run, of those the one with the newest entry of
 *   the audit log, in the cache or in storage (`continueNewest`). Where one of the others is not in its history, the cell is
 *   quarantined. If there is none, a new mirror is begun at once.
 * - If storage has only mirrors of another hash chain than the registry's, the cell is quarantined. A `forget` is not a problem:
 *   the mirror keeps the root hashes that it replaces.
 * - A cached mirror with runs that the fetched one lacks is kept beside it (`-replaced`): after a registry was lost, another
 *   worker may have continued from an older one.
 * - A checkout can change a mirror without a new run, for example its baseline. So the file `-stored` beside a cached mirror
 *   names the backup that it equals or continues. If the registry names another backup of the same run, that is fetched.
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
import { restoreWorkDirectory } from '../mirror/open.ts';
import { newestRun } from './cell-report.ts';
import {
  CellNotReady,
  fetchOne,
  type MirrorEffects,
  openCell,
  storedBackups,
  storedMark,
  writeMark,
} from './cell-storage.ts';
import type { CellOrder, ChainState, KnownMirror } from './cell.ts';

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
    noteUnreadable(thrown, effects);
    return null;
  }
}

/** Of a cached mirror that is damaged or gone: another one takes its place. @throws all other errors */
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
  const mirror = openCell(path, 'read', effects);
  try {
    const root = mirror.runs.latest(cell)?.root ?? null;
    // `prepareMirror` looks for the newest mirror if there is none.
    const published = known?.root ?? '';
    if (root === published) return 'equal';
    const seal = mirror.findSeal(published);
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

/** What may continue from the registry's run comes first, newest first; then the one that ends with it; then the rest. */
function inOrderOfWorth(backups: readonly Backup[], known: KnownMirror | null): readonly Backup[] {
  if (known === null || known.root === null) return backups;
  const exact = backups.filter(({ manifest }) => manifest?.root === known.root);
  const later = backups.filter((each) => !exact.includes(each) && each.run > known.lastRun);
  return [...later, ...exact, ...backups.filter((each) => !exact.includes(each) && !later.includes(each))];
}

/** A cached mirror with runs that the fetched one lacks is moved aside, not removed: nothing else may have them. */
function keepReplaced(order: CellOrder, path: string, fetched: string, effects: MirrorEffects): void {
  const cached = cachedAt(path, order, effects);
  if (cached === null || isFirstRunAlone(cached)) return;
  const mirror = openCell(fetched, 'read', effects);
  try {
    if (inChain(mirror, cached).lacks !== 'root') return;
  } finally {
    mirror.close();
  }
  const file = `${path}-replaced`;
  moveMirror(path, file);
  effects.log.warn(
    { run: cached.run, root: cached.root, file },
    `the cached mirror has a run ${cached.run} with another root hash than the stored one from which the cell continues: it is kept as ${file} (docs/fleet.md, "The registry is lost")`,
  );
}

/** A mirror of the cell, and what decides which of them is the newest. */
interface Candidate extends Pick<BackupManifest, 'run' | 'root' | 'audit_log'> {
  readonly path: string;
  /** Null for one in the cache. */
  readonly backup: Backup | null;
  /** How many published runs it has. */
  readonly runs: number;
  /** Under which it was stored last; 0 for one that never was. */
  readonly fence: number;
}

/**
 * Puts the newest mirror of the cell to `path`, from the cache or from storage, where the registry does not tell which one that is.
 * @throws CellNotReady where storage cannot be read, so that nobody knows which is the newest, or if it finds two histories
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
      // The cached one of two that are the same: it is here, and may have failed runs since.
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

/** The cached mirrors of the cell in the directories of other groups: groups have other numbers in a new registry. */
function cachedElsewhere(path: string): string[] {
  const cache = dirname(dirname(path));
  return readdirSync(cache)
    .filter((group) => /^\d+$/.test(group))
    .map((group) => join(cache, group, basename(path)))
    .filter((each) => each !== path);
}

/** Null where nothing was published in it, or it cannot be used. */
function cachedAt(path: string, { cell }: CellOrder, effects: MirrorEffects): Candidate | null {
  if (!existsSync(path)) return null;
  try {
    const mirror = openCell(path, 'read', effects);
    try {
      const [latest, earlier] = mirror.runs.list({ source: cell, isPublished: true, limit: 2 });
      if (latest === undefined || latest.root === null) return null;
      const { run, root } = latest;
      const fence = parseBackupName(storedMark(path) ?? '')?.fence ?? 0;
      const runs = earlier === undefined ? 1 : 2;
      return { path, backup: null, run, root, audit_log: mirror.lastEntry(), runs, fence };
    } finally {
      mirror.close();
    }
  } catch (thrown) {
    noteUnreadable(thrown, effects);
    return null;
  }
}

function storedAs(backup: Backup): Candidate | null {
  const { path, manifest, fence } = backup;
  if (manifest === null) return null;
  // A manifest is read as far as backups need it.
  const { audit_log: entry = null, checked } = manifest as Partial<BackupManifest>;
  const { run, root } = manifest;
  return { path, backup, run, root, audit_log: entry, runs: checked?.runs ?? 0, fence: fence ?? 0 };
}

/**
 * A single run without audit entries has nothing that a sync would not read again. Two of them are there where a worker was frozen in the first run of
 * a cell, or killed before it published it.
 */
function isFirstRunAlone({ runs, audit_log: entry }: Candidate): boolean {
  return runs === 1 && entry === null;
}

/** @throws CellNotReady where one of these mirrors is not in the history of the newest, the first of them, which is at `path` */
function requireOneHistory(
  path: string,
  [newest, ...others]: readonly Candidate[],
  { cell }: CellOrder,
  effects: MirrorEffects,
): void {
  const mirror = openCell(path, 'read', effects);
  try {
    for (const other of others) {
      const { lacks } = isFirstRunAlone(other) ? { lacks: null } : inChain(mirror, other);
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
  } finally {
    mirror.close();
  }
}

/** A mirror that nobody has open. */
function moveMirror(from: string, to: string): void {
  removeMirror(to);
  for (const suffix of ['', '-wal', '-shm', '-stored'])
    if (existsSync(`${from}${suffix}`)) renameSync(`${from}${suffix}`, `${to}${suffix}`);
  removeMirror(from);
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
