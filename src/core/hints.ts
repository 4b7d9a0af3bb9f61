/** What several errors tell the reader to do. */

/** The command that brings back the newest backup; it says itself how to continue from there. */
export const RESTORE_HINT = 'restore a backup (`tidemark backup restore latest --to ./restored/mirror.db`)';

/** What to do about a mirror that was there and is gone: first what is likeliest. */
export function goneHint(path: string): string {
  return `mount the volume that it belongs to, or put the file back; if it is lost, restore a backup (\`tidemark backup restore latest --to ${path}\`). Restarting the daemon instead begins a new mirror, without history`;
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
  return `\`tidemark restores show ${restore}${of}\` lists what was done; \`tidemark restore --resume ${restore}${of}\` continues it`;
}
