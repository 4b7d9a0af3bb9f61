/** The names of files in a directory of backups. Files with other names are neither listed nor removed. */

export interface BackupName {
  readonly name: string;
  /** ISO 8601, to the second. */
  readonly madeAt: string;
  /** The latest published run in it. */
  readonly run: number;
  /** The fence under which a worker of a fleet made it; null for other backups. */
  readonly fence: number | null;
  readonly isEncrypted: boolean;
}

const NAME =
  /^tidemark-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-run(\d{1,15})(?:-fence(\d{1,15}))?\.db\.zst(\.age)?$/;
const MANIFEST_SUFFIX = '.json';

/**
 * `tidemark-20260301T120000Z-run42.db.zst`, with `.age` if it is encrypted: the order of names is that of times. With
 * a fence, `…-run42-fence7.db.zst`: two workers never store backups of the same name.
 */
export function backupName(
  atMs: number,
  run: number,
  isEncrypted: boolean,
  fence: number | null = null,
): string {
  const time = new Date(atMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const by = fence === null ? '' : `-fence${fence}`;
  return `tidemark-${time}-run${run}${by}.db.zst${isEncrypted ? '.age' : ''}`;
}

/** The parts of a name; undefined if it is not that of a backup. */
export function parseBackupName(name: string): BackupName | undefined {
  const match = NAME.exec(name);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, run, fence, age] = match;
  const madeAt = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  if (Number.isNaN(Date.parse(madeAt))) return undefined;
  return {
    name,
    madeAt,
    run: Number(run),
    fence: fence === undefined ? null : Number(fence),
    isEncrypted: age !== undefined,
  };
}

/** The name of the manifest beside a backup. */
export function manifestName(name: string): string {
  return name + MANIFEST_SUFFIX;
}

/** The backup to which a manifest belongs; undefined for other files. */
export function backupOfManifest(name: string): BackupName | undefined {
  return name.endsWith(MANIFEST_SUFFIX) ? parseBackupName(name.slice(0, -MANIFEST_SUFFIX.length)) : undefined;
}

/** A place with backups below a target. */
export interface PlaceBelow {
  readonly name: string;
  /** When the newest backup there was made, as the names of files say: ISO 8601, to the second. */
  readonly newestAt: string;
}

/** The places with backups, by name. @param inside the names of the files in each place */
export function placesWith(inside: ReadonlyMap<string, readonly string[]>): PlaceBelow[] {
  return [...inside.keys()].toSorted().flatMap((name) => {
    const files = inside.get(name) ?? [];
    const times = files.flatMap((file) => (parseBackupName(file) ?? backupOfManifest(file))?.madeAt ?? []);
    const newestAt = times.toSorted().at(-1);
    return newestAt === undefined ? [] : [{ name, newestAt }];
  });
}

/**
 * The name of a file while it is written or deleted. `owner` is the id of its mirror, so that two mirrors can share a
 * directory.
 */
export function partialName(name: string, owner: string): string {
  return `${name}.${owner}.partial`;
}

/** The final name of an unfinished file of this owner; undefined for other files. */
export function finishedName(partial: string, owner: string): string | undefined {
  const suffix = `.${owner}.partial`;
  if (!partial.endsWith(suffix)) return undefined;
  const name = partial.slice(0, -suffix.length);
  return parseBackupName(name) === undefined && backupOfManifest(name) === undefined ? undefined : name;
}
