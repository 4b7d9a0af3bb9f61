/** What several errors tell the reader to do. */

/** The command that brings back the newest backup; it says itself how to continue from there. */
export const RESTORE_HINT = 'restore a backup (`tidemark backup restore latest --to ./restored/mirror.db`)';

/** Where a mirror is, or was: its path, and the source if each has a mirror of its own (a backup is restored for one of them). */
export interface MirrorPlace {
  readonly path: string;
  readonly owner: string | null;
}

/** The command that restores the mirror to its place. @param backup name of the file, or `latest` */
export function restoreCommand({ path, owner }: MirrorPlace, backup = 'latest'): string {
  return `\`tidemark backup restore ${backup} --to ${path}${owner === null ? '' : ` --source ${owner}`}\``;
}

/**
 * What to do about a mirror that was there and is gone: first what is likeliest.
 * @param backup name of the file to restore; the newest without
 */
export function goneHint(place: MirrorPlace, backup?: string): string {
  return `mount the volume that it belongs to, or put the file back; if it is lost, restore a backup (${restoreCommand(place, backup)}). A restart of the daemon, or \`tidemark sync\`, begins a new mirror instead, without history`;
}

/** What to do about a directory that has none of the backups that were stored in it. */
export const EMPTIED_HINT =
  'mount the disk: the next complete run is backed up there. If it was emptied on purpose, or is a new disk, run `tidemark backup create`';

/**
 * What to do about a restore that was stopped or killed before its end.
 * @param owner the source, where each has a mirror of its own: only there a number does not tell which restore is meant
 */
export function resumeHint(restore: number, owner: string | null): string {
  const of = owner === null ? '' : ` --source ${owner}`;
  return `\`tidemark restores show ${restore}${of}\` lists what was done; \`tidemark restore --resume ${restore}${of}\` continues it; \`tidemark restore --abandon ${restore}${of}\` leaves it as it is`;
}
