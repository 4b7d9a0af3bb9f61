/**
 * The existing backups, for pages and health checks. A target may be a network disk, or a service that does not
 * respond: a page waits for it only a moment, and shows what is known.
 */
import { statfs } from 'node:fs/promises';
import type { TargetConfig } from '../config/config.ts';
import { type Clock, ownTime, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { LATEST_BACKUP } from '../core/hints.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { mirrorFileState } from '../mirror/real-path.ts';
import { contradictingIn, lastStored, withMissing } from './chain.ts';
import { type EarlierBackup, earlierBackups, originOf } from './earlier.ts';
import { type Backup, hasStoredIn, listBackups } from './list.ts';
import { isOnMirrorDisk } from './mirror-disk.ts';
import { mirrorId } from './plain-backup.ts';
import { openTarget } from './targets/open.ts';
import { addressOf } from './targets/target.ts';

export interface TargetShown {
  readonly address: string;
  /** The complete backups of this mirror, newest first. */
  readonly whole: readonly Pick<Backup, 'name' | 'madeAt' | 'run' | 'bytes' | 'isEncrypted' | 'manifest'>[];
  /** Backups that are not what their manifests say, of this mirror or of an unknown one. */
  readonly damaged: number;
  /** Why the target could not be read; null if it was. */
  readonly problem: string | null;
  /** The newest of `whole` (made at, ISO 8601) when the target was last read; null for none. */
  readonly newest: { readonly madeAt: string; readonly bytes: number } | null;
  /** The volume of a directory; null if it is that of the mirror, or the system does not report it. */
  readonly volume: { readonly freeBytes: number; readonly sizeBytes: number } | null;
  readonly isOnMirrorDisk: boolean;
  /** True for a directory that has none of the backups that were stored there: its disk may not be mounted. */
  readonly isEmptied: boolean;
  /** See `earlierBackups`. */
  readonly earlier: readonly EarlierBackup[];
  /** Names of those of `whole` that are not in the chain of the mirror. */
  readonly contradicting: readonly string[];
  /** `mirrorId` of this mirror; null if it could never be read. */
  readonly owner: string | null;
  /** The newest complete backup of each mirror, including this one, newest first. */
  readonly byMirror: readonly (Pick<Backup, 'name' | 'madeAt'> & { readonly mirror: string })[];
}

/**
 * The backup to restore in place of a mirror, as a command names it: `latest`, or its name if the targets also have
 * backups of other mirrors. Null if the known backups are all of other mirrors; `latest` if no backups, or no id of the
 * mirror, are known.
 * @param mirror its `mirrorId`; by default, the one for which the targets were last read
 */
export function backupToName(
  targets: readonly Pick<TargetShown, 'owner' | 'byMirror'>[],
  mirror = targets.find(({ owner }) => owner !== null)?.owner ?? null,
): string | null {
  const all = targets
    .flatMap(({ byMirror }) => byMirror)
    .toSorted((a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt));
  if (mirror === null || all.length === 0) return LATEST_BACKUP;
  const own = all.find((each) => each.mirror === mirror);
  const isOnlyOne = all.every((each) => each.mirror === mirror);
  return isOnlyOne ? LATEST_BACKUP : (own?.name ?? null);
}

/** The backups of all targets. */
export interface BackupsShown {
  /** Complete backups, each once, newest first, without those of `contradicting`. */
  readonly whole: TargetShown['whole'];
  readonly damaged: number;
  /** The targets that could not be read, and why. */
  readonly problems: readonly string[];
  /** Names of the backups that are not in the chain of the mirror. */
  readonly contradicting: readonly string[];
  /** Addresses of the targets on the disk of the mirror. */
  readonly onMirrorDisk: readonly string[];
  /** Addresses of the targets that lost their backups. */
  readonly emptied: readonly string[];
  /** For each other mirror, when its newest complete backup was made, newest first. */
  readonly byOthers: readonly string[];
}

/** Combines the targets; null if none has answered yet. */
export function backupsShown(targets: readonly TargetShown[]): BackupsShown | null {
  if (targets.length === 0) return null;
  const whole = new Map(
    targets.flatMap((target) =>
      target.whole
        .filter(({ name }) => !target.contradicting.includes(name))
        .map((backup) => [`${backup.madeAt} ${backup.run}`, backup]),
    ),
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
    contradicting: [...new Set(targets.flatMap((target) => target.contradicting))],
    onMirrorDisk: targets.flatMap((target) => (target.isOnMirrorDisk ? [target.address] : [])),
    emptied: targets.flatMap((target) => (target.isEmptied ? [target.address] : [])),
    byOthers: newestOfOthers(targets),
  };
}

function newestOfOthers(targets: readonly TargetShown[]): string[] {
  const newest = new Map<string, string>();
  for (const { owner, byMirror } of targets)
    for (const { mirror, madeAt } of owner === null ? [] : byMirror)
      if (mirror !== owner && Date.parse(madeAt) > Date.parse(newest.get(mirror) ?? '1970-01-01'))
        newest.set(mirror, madeAt);
  return [...newest.values()].toSorted((a, b) => Date.parse(b) - Date.parse(a));
}

/** A sentence about the backups of other mirrors; null if there are none. */
export function othersText({ byOthers }: BackupsShown): string | null {
  const [latest] = byOthers;
  if (latest === undefined) return null;
  const whose = byOthers.length === 1 ? 'another mirror' : `${byOthers.length} other mirrors`;
  return `there are also backups made by ${whose}, the latest of ${latest}`;
}

const WAIT_MS = 250;
/** How long a target is not read again: listing a directory costs nothing, requests to a service do. */
const FRESH_MS = { directory: 30_000, s3: 15 * 60_000 } as const;

interface KnownTarget {
  readonly shown: TargetShown;
  readonly readAtMs: number;
  /** The latest backup job of the mirror when the target was read, with its outcome. */
  readonly job: string | null;
}

/** A result of `contradictingIn`, valid while the mirror's files and the backups are the same. */
interface ComparedChain {
  readonly of: string;
  readonly contradicting: readonly string[];
}

export class BackupCatalog {
  readonly #clock: Clock;
  readonly #known = new Map<string, KnownTarget>();
  readonly #reading = new Map<string, Promise<void>>();
  readonly #compared = new Map<string, ComparedChain>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Reads the targets if needed, and waits for them a moment. Targets that have never answered are left out.
   * @param mirror null if it cannot be read: then a target is shown if all of its backups are of one mirror
   */
  async look(
    targets: readonly TargetConfig[],
    mirror: Mirror | null,
    waitMs = WAIT_MS,
  ): Promise<readonly TargetShown[]> {
    const reading = targets.flatMap((target) => this.#refresh(target, mirror) ?? []);
    if (reading.length > 0) await settlesWithin(Promise.all(reading), waitMs, ownTime(this.#clock));
    return this.remembered(targets);
  }

  /** What is known now; starts reading targets of which this is outdated. */
  known(targets: readonly TargetConfig[], mirror: Mirror): readonly TargetShown[] {
    for (const target of targets) void this.#refresh(target, mirror);
    return this.remembered(targets);
  }

  /** What is known now, however old; needs no mirror. */
  remembered(targets: readonly TargetConfig[]): readonly TargetShown[] {
    return targets.flatMap((target) => this.#known.get(JSON.stringify(target))?.shown ?? []);
  }

  /** Reads a target; null if what is known is not outdated, and no backup job has ended since. */
  #refresh(target: TargetConfig, mirror: Mirror | null): Promise<void> | null {
    const key = JSON.stringify(target);
    const known = this.#known.get(key);
    const row = mirror?.daemon.jobs({ name: 'backup', limit: 1 })[0];
    // With the outcome, so that the end of a running job counts as a change.
    const job = row === undefined ? null : `${row.job} ${row.outcome}`;
    const isFresh = known !== undefined && this.#clock.monotonicMs() - known.readAtMs < FRESH_MS[target.type];
    if (isFresh && known.job === job) return null;
    const reading =
      this.#reading.get(key) ??
      readShown(target, mirror, this.#clock, (path, backups) => this.#contradicting(key, path, backups)).then(
        (read) => {
          // If it cannot be read, what was known before is still shown.
          const {
            newest = null,
            earlier = [],
            byMirror = [],
            owner = null,
            isOnMirrorDisk: isOnDisk = false,
          } = read.problem === null ? read : (known?.shown ?? {});
          this.#known.set(key, {
            shown: {
              ...{ ...read, newest, earlier, byMirror, isOnMirrorDisk: isOnDisk },
              owner: owner ?? known?.shown.owner ?? null,
            },
            readAtMs: this.#clock.monotonicMs(),
            job,
          });
          this.#reading.delete(key);
        },
      );
    this.#reading.set(key, reading);
    return reading;
  }

  #contradicting(target: string, path: string, backups: readonly Backup[]): readonly string[] {
    const of = JSON.stringify([mirrorFileState(path), backups.map(({ name, manifest }) => [name, manifest])]);
    const known = this.#compared.get(target);
    if (known?.of === of) return known.contradicting;
    try {
      // Not with the caller's mirror, which may be closed by the time the target has answered.
      const contradicting = contradictingIn(path, backups, { command: 'backup', clock: this.#clock });
      this.#compared.set(target, { of, contradicting });
      return contradicting;
    } catch {
      // As in `readable`.
      return [];
    }
  }
}

/** @param mirror whose backups are shown; null if it cannot be read */
async function readShown(
  config: TargetConfig,
  mirror: Mirror | null,
  clock: Clock,
  contradictingOf: (path: string, backups: readonly Backup[]) => readonly string[],
): Promise<TargetShown> {
  const address = addressOf(config);
  try {
    // All reads come before the first wait: after it, the mirror may be closed.
    const owner = readable(mirror, mirrorId);
    const origin = readable(mirror, originOf);
    const hadSome = readable(mirror, (each) => hasStoredIn(each, config)) ?? false;
    const last = readable(mirror, (each) => lastStored(each, address));
    const path = mirror?.path;
    const target = await openTarget(config, clock);
    const listed = await listBackups(target);
    // If all backups of this mirror are gone, `isEmptied` says so.
    const hasOwn = listed.some(({ manifest }) => manifest?.mirror === owner);
    const all = last !== null && hasOwn ? withMissing(target, listed, last) : listed;
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
    // Without backups of the future, made before the clock was set back: they would hide for a long time that no more
    // are made.
    const newest = whole.find(({ madeAt }) => Date.parse(madeAt) <= clock.now()) ?? null;
    const isOnDisk = path !== undefined && (await isOnMirrorDisk(config, path));
    const volume = path === undefined || isOnDisk ? null : await volumeOf(config);
    const earlier = origin === null ? [] : earlierBackups(all, origin);
    const damaged = own.length - whole.length;
    const isEmptied = hadSome && !all.some(({ manifest }) => manifest?.mirror === owner);
    const unlike = path === undefined || owner === null ? [] : contradictingOf(path, whole);
    return {
      ...{
        address,
        contradicting: unlike,
        whole,
        damaged,
        problem: null,
        newest,
        volume,
        isEmptied,
        earlier,
      },
      ...{ isOnMirrorDisk: isOnDisk, owner, byMirror: newestByMirror(all) },
    };
  } catch (error) {
    return unreadTarget(address, asTidemarkError(error).message);
  }
}

function newestByMirror(all: readonly Backup[]): TargetShown['byMirror'] {
  const whole = all.flatMap(({ state, name, madeAt, manifest }) =>
    state === 'whole' && manifest !== null ? [{ name, madeAt, mirror: manifest.mirror }] : [],
  );
  return [...Map.groupBy(whole, ({ mirror }) => mirror).values()].flatMap(([newest]) => newest ?? []);
}

/** A target of which nothing is known because of `problem`. */
export function unreadTarget(address: string, problem: string): TargetShown {
  const nothing = { newest: null, volume: null, isOnMirrorDisk: false, isEmptied: false, earlier: [] };
  const ofMirrors = { owner: null, byMirror: [] };
  return { ...ofMirrors, address, contradicting: [], whole: [], damaged: 0, problem, ...nothing };
}

/** What `read` returns; null if there is no mirror, or it cannot be read. */
function readable<T>(mirror: Mirror | null, read: (mirror: Mirror) => T): T | null {
  try {
    return mirror === null ? null : read(mirror);
  } catch {
    // Other readers of the mirror report the damage; its backups are shown all the more.
    return null;
  }
}

async function volumeOf(config: TargetConfig): Promise<TargetShown['volume']> {
  if (config.type !== 'directory') return null;
  const { path, within = path } = config;
  try {
    // A source's own directory may not exist before its first backup.
    const { bavail, blocks, bsize } = await statfs(path).catch(() => statfs(within));
    // Some file systems report no size.
    return blocks === 0 ? null : { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  } catch {
    // Some file systems do not support it; the directory itself could be listed.
    return null;
  }
}
