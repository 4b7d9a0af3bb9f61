/** Which backups a target holds, and whether each is what its manifest says, as far as that shows without reading it. */
import { existsSync } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import type { BackupConfig, TargetConfig } from '../config/config.ts';
import { type Clock, settlesWithin } from '../core/clock.ts';
import { TidemarkError, asTidemarkError } from '../core/errors.ts';

import type { Mirror } from '../mirror/mirror.ts';
import { type BackupManifest, parseManifest } from './manifest.ts';
import { type BackupName, backupOfManifest, manifestName, parseBackupName } from './name.ts';
import { mirrorId } from './plain-backup.ts';
import { directoryTarget } from './targets/directory.ts';
import { openTarget } from './targets/open.ts';
import type { BackupTarget } from './targets/target.ts';

/**
 * `whole`: the file has the size of its manifest. `damaged`: it has another size, or its manifest is invalid.
 * `unlisted`: it has no manifest. `gone`: there is a manifest without its file.
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
  /** As in its name. */
  readonly fence: number | null;
  readonly isEncrypted: boolean;
  readonly bytes: number;
  readonly state: BackupState;
  /** Why it is not complete; null if it is. */
  readonly reason: string | null;
  readonly manifest: BackupManifest | null;
}

/** Manifests that are read at a time. */
const READ_AT_ONCE = 8;

/**
 * The backups in a target, newest first. Nothing is read but names, sizes and manifests.
 * @throws TidemarkError where the target is missing or cannot be listed
 */
export async function listBackups(target: BackupTarget): Promise<Backup[]> {
  const sizes = new Map((await target.list()).map(({ name, bytes }) => [name, bytes]));
  const found = new Map<string, BackupName>();
  for (const name of sizes.keys()) {
    const backup = parseBackupName(name) ?? backupOfManifest(name);
    if (backup === undefined) continue;
    if (target.isManifestLast && !sizes.has(manifestName(backup.name))) continue;
    found.set(backup.name, backup);
  }
  const backups: Backup[] = [];
  const waiting = [...found.values()];
  for (let start = 0; start < waiting.length; start += READ_AT_ONCE) {
    const some = waiting.slice(start, start + READ_AT_ONCE);
    backups.push(
      ...(await Promise.all(some.map((named) => describe(target, named, sizes.get(named.name) ?? null)))),
    );
  }
  return backups.toSorted(newestFirst);
}

/**
 * The newest backups of one cell of a fleet, by fence, then run, then time: the names that come last, and `known`, with their
 * manifests. Others are not read.
 * @throws TidemarkError where the target is missing or cannot be listed
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
    .toSorted((a, b) => (b.fence ?? 0) - (a.fence ?? 0) || b.run - a.run || (a.name < b.name ? 1 : -1));
  const chosen = named.filter(({ name }, index) => index < most || name === known);
  return await Promise.all(chosen.map((each) => describe(target, each, sizes.get(each.name) ?? null)));
}

/** One file in any directory; its name need not be that of a backup. */
export async function readBackup(path: string): Promise<Backup> {
  const name = basename(path);
  const named = parseBackupName(name) ?? { name, madeAt: '', run: 0, fence: null, isEncrypted: false };
  const target = directoryTarget(dirname(resolve(path)));
  const bytes = await target.bytesOf(name);
  if (bytes !== null) return await describe(target, named, bytes);
  throw new TidemarkError('file_system', `${path} could not be read: there is no such file`, {
    hint: '`tidemark backup list` lists the backups',
  });
}

function newestFirst(a: Backup, b: Backup): number {
  return Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run || (a.name < b.name ? 1 : -1);
}

async function describe(target: BackupTarget, named: BackupName, bytes: number | null): Promise<Backup> {
  const path = target.pathOf(named.name);
  const facts = { ...named, target, path, bytes: bytes ?? 0 };
  let manifest: BackupManifest | null;
  try {
    const name = manifestName(named.name);
    const text = await target.readText(name);
    manifest = text === null ? null : parseManifest(text, target.pathOf(name));
  } catch (error) {
    return { ...facts, state: 'damaged', reason: asTidemarkError(error).message, manifest: null };
  }
  if (bytes === null) return { ...facts, state: 'gone', reason: 'only its manifest is there', manifest };
  if (manifest === null) return { ...facts, state: 'unlisted', reason: 'it has no manifest', manifest };
  const known = { ...facts, madeAt: manifest.made_at, run: manifest.run, manifest };
  if (bytes === manifest.bytes) return { ...known, state: 'whole', reason: null };
  const reason = `it has ${bytes} bytes where its manifest says ${manifest.bytes}`;
  return { ...known, state: 'damaged', reason };
}

/**
 * The targets whose newest complete backup of this mirror is as old as `every`. Backups of the future, made before the clock
 * stepped back, do not count: they would put off the next one for long. A target that cannot be listed is due: the attempt
 * reports why.
 */
export async function dueTargets(
  mirror: Mirror,
  { backup, clock }: { readonly backup: BackupConfig; readonly clock: Clock },
): Promise<readonly TargetConfig[]> {
  const owner = mirrorId(mirror);
  const now = clock.now();
  const isDue = async (config: TargetConfig): Promise<boolean> => {
    let backups: readonly Backup[];
    try {
      backups = await listBackups(await openTarget(config, clock));
    } catch {
      // The attempt to store a backup there fails with this error, and reports it.
      return true;
    }
    return backups
      .filter(({ state, manifest }) => state === 'whole' && manifest?.mirror === owner)
      .map(({ madeAt }) => Date.parse(madeAt))
      .filter((at) => at <= now)
      .every((at) => now - at >= backup.everyMs);
  };
  const due = await Promise.all(backup.targets.map(isDue));
  return backup.targets.filter((_target, index) => due[index]);
}

// The existing backups, for pages and health checks. Their target may be a network disk, or a service that does not
// respond: a page waits for it a moment only, and shows what is known.

export interface TargetShown {
  readonly address: string;
  /** Complete ones of this mirror, newest first. */
  readonly whole: readonly Pick<Backup, 'madeAt' | 'run' | 'bytes' | 'isEncrypted' | 'manifest'>[];
  /** Backups that are not what their manifests say, of this mirror or of an unknown one. */
  readonly damaged: number;
  /** Why the target could not be read; null where it was. */
  readonly problem: string | null;
  /** The newest of `whole` (made at, ISO 8601), as of the latest time that the target could be read; null for none. */
  readonly newest: { readonly madeAt: string; readonly bytes: number } | null;
  /** Of a directory, if it is not the volume of the mirror; null where that is so, or the system does not report it. */
  readonly volume: { readonly freeBytes: number; readonly sizeBytes: number } | null;
  /** The newest complete backup of another mirror that had a source of this one before this one was begun. */
  readonly earlier?: EarlierBackup;
}

interface EarlierBackup {
  readonly source: string;
  readonly madeAt: string;
  readonly run: number;
  /** When the first run of the source began in this mirror, ISO 8601. */
  readonly begunAt: string;
}

/** The targets together. */
export interface BackupsShown {
  /** Complete backups, each once, newest first. */
  readonly whole: TargetShown['whole'];
  readonly damaged: number;
  /** Which targets could not be read, and why; empty where all were. */
  readonly problems: readonly string[];
}

/** Null where no target has answered yet. */
export function backupsShown(targets: readonly TargetShown[]): BackupsShown | null {
  if (targets.length === 0) return null;
  const whole = new Map(
    targets.flatMap((target) => target.whole.map((backup) => [`${backup.madeAt} ${backup.run}`, backup])),
  );
  return {
    whole: [...whole.values()].toSorted(
      (a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run,
    ),
    damaged: targets.reduce((sum, { damaged }) => sum + damaged, 0),
    problems: targets.flatMap(({ address, problem }) => {
      if (problem === null) return [];
      return [problem.includes(address) ? problem : `${address}: ${problem}`];
    }),
  };
}

const WAIT_MS = 250;
/** For how long what is known of a target is shown: listing a directory costs nothing, requests to a service do. */
const FRESH_MS = { directory: 30_000, s3: 15 * 60_000 } as const;

interface KnownTarget {
  readonly shown: TargetShown;
  readonly readAtMs: number;
  /** The latest backup job of the mirror when the target was read, with its outcome. */
  readonly job: string | null;
}

export class BackupCatalog {
  readonly #clock: Clock;
  readonly #known = new Map<string, KnownTarget>();
  readonly #reading = new Map<string, Promise<void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits a moment where targets have to be read. Those that have not answered yet are left out.
   * @param mirror null where it cannot be read: what a target holds is shown then, if it is all of one mirror
   */
  async look(
    targets: readonly TargetConfig[],
    mirror: Mirror | null,
    waitMs = WAIT_MS,
  ): Promise<readonly TargetShown[]> {
    const reading = targets.flatMap((target) => this.#refresh(target, mirror) ?? []);
    if (reading.length > 0) await settlesWithin(Promise.all(reading), waitMs, this.#clock);
    return this.remembered(targets);
  }

  /** What is known now; starts reading again where that is outdated. */
  known(targets: readonly TargetConfig[], mirror: Mirror): readonly TargetShown[] {
    for (const target of targets) void this.#refresh(target, mirror);
    return this.remembered(targets);
  }

  /** What is known now, however old; needs no mirror. */
  remembered(targets: readonly TargetConfig[]): readonly TargetShown[] {
    return targets.flatMap((target) => this.#known.get(JSON.stringify(target))?.shown ?? []);
  }

  /** Null while what is known is fresh: not outdated, and no backup job has ended since. */
  #refresh(target: TargetConfig, mirror: Mirror | null): Promise<void> | null {
    const key = JSON.stringify(target);
    const known = this.#known.get(key);
    const row = mirror?.daemon.jobs({ name: 'backup', limit: 1 })[0];
    // Of one that is still running, what it stores is not there yet.
    const job = row === undefined ? null : `${row.job} ${row.outcome}`;
    const isFresh = known !== undefined && this.#clock.monotonicMs() - known.readAtMs < FRESH_MS[target.type];
    if (isFresh && known.job === job) return null;
    const reading =
      this.#reading.get(key) ??
      readShown(target, mirror, this.#clock).then((read) => {
        const newest = read.problem === null ? read.newest : (known?.shown.newest ?? null);
        this.#known.set(key, { shown: { ...read, newest }, readAtMs: this.#clock.monotonicMs(), job });
        this.#reading.delete(key);
      });
    this.#reading.set(key, reading);
    return reading;
  }
}

/** @param mirror whose backups are shown; null where it cannot be read */
async function readShown(config: TargetConfig, mirror: Mirror | null, clock: Clock): Promise<TargetShown> {
  let address = config.type === 'directory' ? config.path : `s3://${config.bucket}`;
  try {
    const owner = ownerOf(mirror);
    const target = await openTarget(config, clock);
    ({ address } = target);
    const all = await listBackups(target);
    const owners = new Set(all.flatMap(({ manifest }) => manifest?.mirror ?? []));
    if (owner === null && owners.size > 1)
      throw new TidemarkError(
        'usage',
        'it has backups of several mirrors, and which are of this one is not known',
      );
    const own = all.filter(
      ({ manifest }) => manifest === null || owner === null || manifest.mirror === owner,
    );
    const whole = own.filter(({ state }) => state === 'whole');
    // One of the future, made before the clock stepped back, would hide for long that none is made.
    const newest = whole.find(({ madeAt }) => Date.parse(madeAt) <= clock.now()) ?? null;
    const volume = mirror === null ? null : await volumeOf(config, mirror);
    const earlier = mirror === null || owner === null ? {} : earlierBackup(all, mirror, owner);
    return { address, whole, damaged: own.length - whole.length, problem: null, newest, volume, ...earlier };
  } catch (error) {
    const problem = asTidemarkError(error).message;
    return { address, whole: [], damaged: 0, problem, newest: null, volume: null };
  }
}

/** Of a mirror that was begun without history although there was one: its volume may not have been mounted. */
function earlierBackup(
  all: readonly Backup[],
  mirror: Mirror,
  owner: string,
): { readonly earlier?: EarlierBackup } {
  const begun = firstRuns(mirror);
  for (const { state, manifest, madeAt, run } of all) {
    if (state !== 'whole' || manifest === null || manifest.mirror === owner) continue;
    for (const { source } of manifest.sources) {
      const begunAt = begun.get(source);
      if (begunAt !== undefined && Date.parse(madeAt) < Date.parse(begunAt))
        return { earlier: { source, madeAt, run, begunAt } };
    }
  }
  return {};
}

/** When the first run of each source began, ISO 8601. */
function firstRuns(mirror: Mirror): ReadonlyMap<string, string> {
  try {
    return new Map(
      mirror.runs.sources().flatMap((source): [string, string][] => {
        const at = mirror.runs.firstStartedAt(source);
        return at === null ? [] : [[source, at]];
      }),
    );
  } catch {
    // As in `ownerOf`.
    return new Map();
  }
}

/** Null where it cannot be read. */
function ownerOf(mirror: Mirror | null): string | null {
  try {
    return mirror === null ? null : mirrorId(mirror);
  } catch {
    // The damage is reported by whatever else reads the mirror; the backups are the way out of it.
    return null;
  }
}

async function volumeOf(config: TargetConfig, mirror: Mirror): Promise<TargetShown['volume']> {
  if (config.type !== 'directory') return null;
  // A source's own directory is made by its first backup.
  const there = config.within !== undefined && !existsSync(config.path) ? config.within : config.path;
  try {
    const [own, mirrors] = await Promise.all([stat(there), stat(dirname(mirror.path))]);
    if (own.dev === mirrors.dev) return null;
    const { bavail, blocks, bsize } = await statfs(there);
    // Some file systems have no size.
    return blocks === 0 ? null : { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  } catch {
    // Some file systems do not report it; that the backups could be listed is known already.
    return null;
  }
}
