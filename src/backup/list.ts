/** Lists the backups in a target, and compares each with its manifest, without reading the backup itself. */
import { basename, dirname, resolve } from 'node:path';
import type { BackupConfig, TargetConfig } from '../config/config.ts';
import { type Clock, settlesWithin } from '../core/clock.ts';
import { TidemarkError, asTidemarkError } from '../core/errors.ts';
import { EMPTIED_HINT } from '../core/hints.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type BackupManifest, isOtherSchema, parseManifest } from './manifest.ts';
import { type BackupName, backupOfManifest, manifestName, parseBackupName } from './name.ts';
import { mirrorId } from './plain-backup.ts';
import { directoryTarget } from './targets/directory.ts';
import { openTarget } from './targets/open.ts';
import type { BackupTarget } from './targets/target.ts';

/**
 * `whole`: the file has the size that its manifest says. `damaged`: it has another size, or its manifest is invalid,
 * belongs to another backup, or has another run or time than the name. `unlisted`: it has no manifest. `gone`: only the
 * manifest exists.
 */
export type BackupState = 'whole' | 'damaged' | 'unlisted' | 'gone';

export interface Backup {
  readonly name: string;
  readonly target: BackupTarget;
  /** Absolute path, or address in its target. */
  readonly path: string;
  /** ISO 8601. */
  readonly madeAt: string;
  readonly run: number;
  /** From the name, which anybody who can rename files can alter. */
  readonly fence: number | null;
  readonly isEncrypted: boolean;
  readonly bytes: number;
  readonly state: BackupState;
  /** Why it is not complete; null if it is. */
  readonly reason: string | null;
  /** True if its manifest names a schema that this version of Tidemark does not know: only that version can restore it. */
  readonly isOfOtherVersion: boolean;
  readonly manifest: BackupManifest | null;
  /** The error of reading its manifest, for example with a key that may only list: then nothing is known of the backup. */
  readonly unread?: TidemarkError;
  /** True if it is of the configured mirror, but its manifest names another one; set by `withMisattributed`. */
  readonly isMisattributed?: boolean;
}

/** How many manifests are read at a time. */
const READ_AT_ONCE = 8;

/**
 * The backups in a target, newest first. Reads only names, sizes and manifests.
 * @param most reads only this number of the newest, by their names
 * @throws TidemarkError if the target is missing or cannot be listed
 */
export async function listBackups(target: BackupTarget, most = Infinity): Promise<Backup[]> {
  const sizes = new Map((await target.list()).map(({ name, bytes }) => [name, bytes]));
  const found = new Map<string, BackupName>();
  for (const name of sizes.keys()) {
    const backup = parseBackupName(name) ?? backupOfManifest(name);
    if (backup === undefined) continue;
    if (target.isManifestLast && !sizes.has(manifestName(backup.name))) continue;
    found.set(backup.name, backup);
  }
  const backups: Backup[] = [];
  const waiting = [...found.values()].toSorted(newestFirst).slice(0, most);
  for (let start = 0; start < waiting.length; start += READ_AT_ONCE) {
    const some = waiting.slice(start, start + READ_AT_ONCE);
    backups.push(
      ...(await Promise.all(some.map((named) => describe(target, named, sizes.get(named.name) ?? null)))),
    );
  }
  return backups.toSorted(newestFirst);
}

/**
 * The newest backups of a cell of a fleet, by run, then fence, then time, and also `known`. Only their manifests are
 * read. The fence comes second, because fences begin again at 1 if the registry was lost, or the cell has another key.
 * @throws TidemarkError if the target is missing or cannot be listed
 */
export async function listNewestFenced(
  target: BackupTarget,
  most: number,
  known: string | null,
): Promise<Backup[]> {
  const sizes = new Map((await target.list()).map(({ name, bytes }) => [name, bytes]));
  const named = [...sizes.keys()]
    .flatMap((name) => parseBackupName(name) ?? [])
    .filter(({ name }) => sizes.has(manifestName(name)))
    .toSorted((a, b) => b.run - a.run || (b.fence ?? 0) - (a.fence ?? 0) || (a.name < b.name ? 1 : -1));
  const chosen = named.filter(({ name }, index) => index < most || name === known);
  return await Promise.all(chosen.map((each) => describe(target, each, sizes.get(each.name) ?? null)));
}

/** The backup in a file, in any directory and of any name. */
export async function readBackup(path: string): Promise<Backup> {
  const name = basename(path);
  const named = parseBackupName(name) ?? { name, madeAt: '', run: 0, fence: null, isEncrypted: false };
  const target = directoryTarget(dirname(resolve(path)));
  const bytes = await target.bytesOf(name);
  if (bytes !== null) return await describe(target, named, bytes);
  throw new TidemarkError('reference_unknown', `${path} could not be read: there is no such file`, {
    hint: '`tidemark backup list` lists the backups',
  });
}

/** Compares for sorting: 0 for the same backup. */
export function newestFirst(
  a: Pick<Backup, 'madeAt' | 'run' | 'name'>,
  b: Pick<Backup, 'madeAt' | 'run' | 'name'>,
): number {
  const byName = a.name === b.name ? 0 : a.name < b.name ? 1 : -1;
  return Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run || byName;
}

async function describe(target: BackupTarget, named: BackupName, bytes: number | null): Promise<Backup> {
  const path = target.pathOf(named.name);
  const facts = { ...named, target, path, bytes: bytes ?? 0, isOfOtherVersion: false };
  let manifest: BackupManifest | null;
  try {
    const name = manifestName(named.name);
    const text = await target.readText(name);
    manifest = text === null ? null : parseManifest(text, target.pathOf(name));
  } catch (error) {
    const problem = asTidemarkError(error);
    // If the target does not answer, this is not an error of the backup.
    if (problem.isRetryable) throw problem;
    const unread = problem.code === 'mirror_corrupt' ? {} : { unread: problem };
    return { ...facts, state: 'damaged', reason: problem.message, manifest: null, ...unread };
  }
  if (bytes === null) return { ...facts, state: 'gone', reason: 'only its manifest is there', manifest };
  if (manifest === null) return { ...facts, state: 'unlisted', reason: 'it has no manifest', manifest };
  // If the name is not that of a backup, somebody renamed the file and its manifest.
  if (manifest.file !== named.name && parseBackupName(named.name) !== undefined)
    return { ...facts, state: 'damaged', reason: `its manifest is that of ${manifest.file}`, manifest };
  const contradiction = contradictionOf(manifest, parseBackupName(named.name));
  if (contradiction !== null) return { ...facts, state: 'damaged', reason: contradiction, manifest };
  const isOfOtherVersion = isOtherSchema(manifest);
  const known = { ...facts, madeAt: manifest.made_at, run: manifest.run, isOfOtherVersion, manifest };
  if (bytes === manifest.bytes) return { ...known, state: 'whole', reason: null };
  const reason = `it has ${bytes} bytes where its manifest says ${manifest.bytes}`;
  return { ...known, state: 'damaged', reason };
}

/** A second backup within one second is named after a later second, never after an earlier one (`freeName`). */
const NAMED_LATER_MS = 60_000;
const SECOND_MS = 1000;

/**
 * How a manifest contradicts the name of its file; null if it does not. An older backup may have been renamed to a
 * newer one, with the name in its manifest altered.
 */
function contradictionOf({ run, made_at: madeAt }: BackupManifest, named?: BackupName): string | null {
  if (named === undefined) return null;
  if (run !== named.run) return `run is ${run} in its manifest, and ${named.run} in its name`;
  const laterMs = Date.parse(named.madeAt) - Date.parse(madeAt);
  return laterMs > -SECOND_MS && laterMs <= NAMED_LATER_MS
    ? null
    : `made_at is ${madeAt} in its manifest, and ${named.madeAt} in its name`;
}

/** True for a complete run of all kinds: only these are followed by a backup. */
export function isBackedUpAfter(mirror: Mirror, number: number): boolean {
  const run = mirror.runs.get(number);
  return run?.outcome === 'complete' && run.kinds === null;
}

/** How long a target may take to list its backups. After that, it counts as due, and the backup waits for it and reports it. */
const DUE_WAIT_MS = 10_000;

/** A target in which a backup is due. */
export interface DueTarget {
  readonly config: TargetConfig;
  /**
   * True for a directory that has no backup of this mirror, although the daemon stored one there: its disk may not be
   * mounted, and a backup would be written to the disk below it.
   */
  readonly isEmptied: boolean;
  /** True for a target that also has backups of other mirrors. */
  readonly holdsOthers: boolean;
  /** True for a directory in which the daemon stored a backup of this mirror, even if it cannot be listed now. */
  readonly hadSome: boolean;
}

/**
 * The targets whose newest complete backup of this mirror is as old as `every`. Backups of the future, made before the
 * clock was set back, do not count: they would delay the next one for a long time. A target that cannot be listed, or
 * does not answer, is due: the attempt reports why, or finds that it is emptied.
 */
export async function dueTargets(
  mirror: Mirror,
  { backup, clock }: { readonly backup: BackupConfig; readonly clock: Clock },
): Promise<readonly DueTarget[]> {
  const owner = mirrorId(mirror);
  const now = clock.now();
  const dueIn = async (config: TargetConfig): Promise<DueTarget | null> => {
    let all: readonly Backup[];
    // Read before the first wait: after it, the mirror may be closed.
    const hadSome = hasStoredIn(mirror, config);
    const unread = { config, isEmptied: false, holdsOthers: false, hadSome };
    try {
      const listing = openTarget(config, clock).then(listBackups);
      if (!(await settlesWithin(listing, DUE_WAIT_MS, clock))) return unread;
      all = await listing;
    } catch {
      // The backup will fail with this error, and report it.
      return unread;
    }
    const own = all.filter(({ manifest }) => manifest?.mirror === owner);
    const isDue = own
      .filter(({ state }) => state === 'whole')
      .map(({ madeAt }) => Date.parse(madeAt))
      .filter((at) => at <= now)
      .every((at) => now - at >= backup.everyMs);
    if (!isDue) return null;
    const holdsOthers = all.length > own.length;
    return { config, isEmptied: own.length === 0 && hadSome, holdsOthers, hadSome };
  };
  return (await Promise.all(backup.targets.map(dueIn))).filter((each) => each !== null);
}

/** True for a directory in which the daemon stored backups of this mirror. */
export function hasStoredIn(mirror: Mirror, target: TargetConfig): boolean {
  return target.type === 'directory' && mirror.daemon.hasStoredIn(target.path);
}

/** True if one of these files is the manifest of a backup, of any mirror. */
export function holdsBackups(names: ReadonlySet<string>): boolean {
  return [...names].some((name) => backupOfManifest(name) !== undefined);
}

/**
 * True if one of these files is the manifest of a backup of that mirror.
 * @param owner `mirrorId` of the mirror
 * @param names of the files in the target
 * @throws TidemarkError if the target does not answer
 */
export async function holdsBackupOf(
  target: BackupTarget,
  owner: string,
  names: ReadonlySet<string>,
): Promise<boolean> {
  const manifests = [...names].filter((name) => backupOfManifest(name) !== undefined);
  // Newest first: usually that is one.
  for (const name of manifests.toSorted().toReversed()) {
    try {
      const text = await target.readText(name);
      if (text !== null && parseManifest(text, target.pathOf(name)).mirror === owner) return true;
    } catch (error) {
      // Other errors: a damaged manifest names no mirror.
      if (asTidemarkError(error).isRetryable) throw error;
    }
  }
  return false;
}

/**
 * The error about a directory that has none of the backups that were stored there.
 * @param holdsOthers whether it has backups of other mirrors: another disk may be mounted, or this mirror was moved
 */
export function emptiedError(path: string, holdsOthers: boolean): TidemarkError {
  return new TidemarkError(
    'file_system',
    holdsOthers
      ? `${path} has none of the backups that were stored there, only those of another mirror: is it the right disk?`
      : `${path} has none of the backups that were stored there: is its disk mounted?`,
    { hint: EMPTIED_HINT },
  );
}
