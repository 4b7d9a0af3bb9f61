/**
 * Backups that another mirror had of a source before the configured mirror was begun. The volume of the mirror may not have been
 * mounted then: the daemon, or a sync by hand, began an empty one in its place.
 */
import type { Config } from '../config/config.ts';
import { type MirrorOwnership, placeOf } from '../config/mirrors.ts';
import { type Clock, ownTime, settlesWithin } from '../core/clock.ts';
import { goneHint, LATEST_BACKUP, restoreCommand } from '../core/hints.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type Backup, listBackups, newestFirst } from './list.ts';
import type { BackupManifest } from './manifest.ts';
import { mirrorId } from './plain-backup.ts';
import { openTarget } from './targets/open.ts';

export interface EarlierBackup {
  readonly source: string;
  /** Name of its file. */
  readonly name: string;
  readonly madeAt: string;
  readonly run: number;
  /** `mirrorId` of the mirror that it is of, and how many runs it has. */
  readonly mirror: string;
  readonly runs: number;
}

/** What identifies the backups of a mirror, and those from before it. */
export interface MirrorOrigin {
  /** `mirrorId`. */
  readonly id: string;
  /** When its first run began, of whichever source, ISO 8601; null before that. */
  readonly begun: string | null;
}

/** @throws what reading the mirror throws */
export function originOf(mirror: Mirror): MirrorOrigin {
  return { id: mirrorId(mirror), begun: begunAt(mirror) };
}

function begunAt(mirror: Mirror): string | null {
  const [oldest = null] = mirror.runs
    .sources()
    .flatMap((source) => mirror.runs.firstStartedAt(source) ?? [])
    .toSorted((a, b) => Date.parse(a) - Date.parse(b));
  return oldest;
}

/**
 * For each source, this mirror's or not, the newest complete backup of another mirror that has one from before this one's first
 * run, or any where there was no run yet. The newest may be younger: a mirror that was begun by mistake may be found again after
 * the other one was in use. Of several such mirrors that with the most runs: others may have been begun by mistake too.
 * @param backups newest first
 */
export function earlierBackups(
  backups: readonly Backup[],
  { id, begun }: MirrorOrigin,
): readonly EarlierBackup[] {
  const found = new Map<string, EarlierBackup>();
  const all = backups.flatMap(({ state, manifest, name, madeAt, run }) =>
    state !== 'whole' || manifest === null || manifest.mirror === id
      ? []
      : manifest.sources.map(({ source }) => ({
          ...{ manifest, source, name, madeAt, run },
          key: JSON.stringify([manifest.mirror, source]),
        })),
  );
  const isFromBefore = ({ madeAt }: { readonly madeAt: string }): boolean =>
    begun === null || Date.parse(madeAt) < Date.parse(begun);
  const before = new Set(all.filter(isFromBefore).map(({ key }) => key));
  const seen = new Set<string>();
  for (const { manifest, source, name, madeAt, run, key } of all) {
    if (before.has(key) && !seen.has(key)) {
      seen.add(key);
      // A manifest is read as far as backups need it.
      const runs = (manifest as Partial<BackupManifest>).checked?.runs ?? 0;
      if (runs > (found.get(source)?.runs ?? -1))
        found.set(source, { source, name, madeAt, run, mirror: manifest.mirror, runs });
    }
  }
  return [...found.values()];
}

/** A mirror that may have been begun by mistake. */
export interface BegunByMistake {
  readonly message: string;
  readonly hint: string;
  /** When its first run began, ISO 8601; null where there was none yet. */
  readonly since: string | null;
  /** `mirrorId` of the mirror that has the history. */
  readonly missed: string;
}

/** What a target has of the time before a mirror. */
interface TargetEarlier {
  readonly address: string;
  readonly earlier: readonly EarlierBackup[];
}

/** A backup, the target that has it, and one of its sources. */
interface FoundBackup extends Pick<Backup, 'name' | 'madeAt' | 'run'> {
  readonly address: string;
  readonly source: string;
  /** `mirrorId` of the mirror that it is of. */
  readonly mirror: string;
}

/**
 * What is to be said of a mirror that was begun although a target has earlier backups of a source that it has or that is
 * configured; null if there are none. Mirrors of other sources may share the target. A baseline in the mirror shows that a
 * person continues with it.
 */
export function begunByMistake(
  config: MirrorOwnership,
  targets: readonly TargetEarlier[],
  mirror: Mirror,
): BegunByMistake | null {
  if (mirror.snapshots.baseline() !== undefined) return null;
  const names = new Set([...config.sources.map(({ name }) => name), ...mirror.runs.sources()]);
  const found = targets
    .flatMap(({ address, earlier }) => earlier.map((each) => ({ ...each, address })))
    .filter(({ source }) => names.has(source))
    .toSorted(newestFirst);
  // Targets may have backups of different age of one mirror.
  const [longest] = [...Map.groupBy(found, (each) => each.mirror).values()]
    .flatMap(([newest]) => newest ?? [])
    .toSorted((a, b) => b.runs - a.runs);
  return longest === undefined ? null : mistakeOf(config, longest, begunAt(mirror));
}

/** @param since when the mirror's first run began, ISO 8601; null before that */
function mistakeOf(
  config: MirrorOwnership,
  { source, address, name, madeAt, run, mirror }: FoundBackup,
  since: string | null,
): BegunByMistake {
  const begun = since === null ? 'a new mirror is begun' : `the mirror was begun at ${since}`;
  return {
    message: `${begun} without history, although ${address} has backups of ${source} from another mirror, the newest of ${madeAt} (run ${run}): is the mirror's volume mounted?`,
    hint: `stop the daemon and move the new mirror away, or it is used again whenever the volume is missing; then mount the volume, or restore the backup if that is lost (${restoreCommand(placeOf(config), name)}); to continue with the new one, pin a baseline (\`tidemark snapshots pin NAME --baseline\`)`,
    since,
    missed: mirror,
  };
}

/** A directory may be on a network disk that hangs. */
const WAIT_MS = 2_000;

/**
 * The same before a mirror is created. Looks into the directories only: a bucket would be asked before each first sync.
 * @param config of one mirror
 */
export async function wouldBeginByMistake(
  config: MirrorOwnership & Pick<Config, 'backup'>,
  clock: Clock,
): Promise<BegunByMistake | null> {
  const found = newestBackup(await lookIntoDirectories(config, clock), namesIn(config));
  return found === undefined ? null : mistakeOf(config, found, null);
}

/**
 * What is to be said where the mirror is needed and is not in its place, although a directory has backups of one of its sources:
 * the end of a sentence, and what to do. Null if none has, or none answers.
 * @param config of one mirror
 */
export async function backupsOfMissing(
  config: MirrorOwnership & Pick<Config, 'backup'>,
  clock: Clock,
): Promise<{ readonly found: string; readonly hint: string } | null> {
  const backup = newestBackup(await lookIntoDirectories(config, clock), namesIn(config));
  if (backup === undefined) return null;
  const { address, source, madeAt, run, name } = backup;
  return {
    found: `${address} has backups of ${source}, the newest of ${madeAt} (run ${run})`,
    hint: goneHint(placeOf(config), name),
  };
}

/**
 * The backup to restore in place of a mirror that cannot be read: name of its file, where `latest` would not say which mirror is
 * meant; null where the directories have backups of other sources only.
 * @param config of one mirror
 */
export async function backupOfUnreadable(
  config: MirrorOwnership & Pick<Config, 'backup'>,
  clock: Clock,
): Promise<string | null> {
  const directories = await lookIntoDirectories(config, clock);
  const owners = directories.flatMap(({ backups }) => backups.map(({ manifest }) => manifest?.mirror));
  if (owners.length === 0) return LATEST_BACKUP;
  const newest = newestBackup(directories, namesIn(config));
  return newest !== undefined && new Set(owners).size < 2 ? LATEST_BACKUP : (newest?.name ?? null);
}

function namesIn({ sources }: MirrorOwnership): ReadonlySet<string> {
  return new Set(sources.map(({ name }) => name));
}

interface DirectoryBackups {
  readonly address: string;
  readonly backups: readonly Backup[];
}

/**
 * The newest complete backup of one of these sources, of whichever mirror: an older one would lose what came after it. Of several
 * of the same time, that in the first directory.
 * @internal
 */
export function newestBackup(
  directories: readonly DirectoryBackups[],
  sources: ReadonlySet<string>,
): FoundBackup | undefined {
  const [newest] = directories
    .flatMap(({ address, backups }) =>
      backups
        .filter(({ state }) => state === 'whole')
        .flatMap(({ manifest, name, madeAt, run }) =>
          (manifest?.sources ?? []).map(({ source }) => ({
            ...{ address, source, name, madeAt, run },
            mirror: manifest?.mirror ?? '',
          })),
        ),
    )
    .filter(({ source }) => sources.has(source))
    .toSorted(newestFirst);
  return newest;
}

/** Those that have answered in time, in the order of the configuration. */
async function lookIntoDirectories(
  { backup }: Pick<Config, 'backup'>,
  clock: Clock,
): Promise<readonly DirectoryBackups[]> {
  const directories = (backup?.targets ?? []).filter(({ type }) => type === 'directory');
  const found = directories.map((): DirectoryBackups | null => null);
  const looks = directories.map(async (target, index) => {
    try {
      const place = await openTarget(target, clock);
      found[index] = { address: place.address, backups: await listBackups(place) };
    } catch {
      // The next backup reports why it cannot be used.
    }
  });
  if (looks.length > 0) await settlesWithin(Promise.all(looks), WAIT_MS, ownTime(clock));
  return found.flatMap((each) => each ?? []);
}
