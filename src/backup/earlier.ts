/**
 * Backups of a source that another mirror made before the configured mirror was begun. The mirror may have been begun
 * by mistake: its volume was not mounted, and the daemon, or a sync by hand, began an empty one in its place.
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
  /** `mirrorId` of its mirror, and how many runs it has. */
  readonly mirror: string;
  readonly runs: number;
}

/** What identifies the backups of a mirror, and those from before it. */
interface MirrorOrigin {
  /** `mirrorId`. */
  readonly id: string;
  /** When its first run of any source began, ISO 8601; null before that. */
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
 * For each source, this mirror's or not, the newest complete backup of another mirror that has backups from before this
 * one's first run (any backups if there was no run yet). That backup may be younger than this mirror: a mirror that was
 * begun by mistake may be used again after the other one. Of several other mirrors the one with the most runs: others
 * may have been begun by mistake too.
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
  // A mirror and source is removed once its newest backup was seen.
  const unseen = new Set(all.filter(isFromBefore).map(({ key }) => key));
  for (const { manifest, source, name, madeAt, run, key } of all) {
    if (!unseen.delete(key)) continue;
    // `parseManifest` does not check this field.
    const runs = (manifest as Partial<BackupManifest>).checked?.runs ?? 0;
    if (runs > (found.get(source)?.runs ?? -1))
      found.set(source, { source, name, madeAt, run, mirror: manifest.mirror, runs });
  }
  return [...found.values()];
}

/** A mirror that may have been begun by mistake. */
export interface BegunByMistake {
  readonly message: string;
  readonly hint: string;
  /** When its first run began, ISO 8601; null before that. */
  readonly since: string | null;
  /** `mirrorId` of the mirror that has the history. */
  readonly missed: string;
}

/** One of the sources of a backup, with the address of the target that has it. */
interface FoundBackup extends Omit<EarlierBackup, 'runs'> {
  readonly address: string;
}

/**
 * The warning about a mirror that was begun although a target has earlier backups of one of its sources, or of a
 * configured one; null if there are none. Mirrors of other sources may share the target. A baseline in the mirror shows
 * that a person continues with it.
 */
export function begunByMistake(
  config: MirrorOwnership,
  targets: readonly { readonly address: string; readonly earlier: readonly EarlierBackup[] }[],
  mirror: Mirror,
): BegunByMistake | null {
  if (mirror.snapshots.baseline() !== undefined) return null;
  const names = new Set([...config.sources.map(({ name }) => name), ...mirror.runs.sources()]);
  const found = targets
    .flatMap(({ address, earlier }) => earlier.map((each) => ({ ...each, address })))
    .filter(({ source }) => names.has(source))
    .toSorted(newestFirst);
  // The newest backup of each mirror, since targets may have different ones.
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
 * The same warning before a mirror is created. Looks only into directories, so that a first sync sends no requests to a
 * bucket.
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
 * For an error about a mirror that is missing, although a directory has backups of one of its sources: the end of a
 * sentence, and the hint. Null if no directory has any, or none answers.
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
 * The backup to restore in place of a mirror that cannot be read: `latest`, or its name if the directories have backups
 * of several mirrors; null if they have only backups of other sources.
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
 * The newest complete backup of one of these sources, of any mirror. Of several of the same time, the one in the first
 * directory.
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

/** The backups in the directories that answer in time, in the order of the configuration. */
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
