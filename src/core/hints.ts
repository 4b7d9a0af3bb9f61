/** Hints that several errors share, and changes to the commands in hints. */
import type { ErrorCode } from './errors.ts';

/** The text as one word of a POSIX shell, for commands that are printed: quoted only if necessary. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether the text is a single `tidemark restore` that does nothing else in a shell: a plan may have been edited. */
export function isRestoreCommand(text: unknown): text is string {
  return (
    typeof text === 'string' &&
    /^tidemark restore(?: (?:[\w@%+=:,./-]+|'[^'\p{Cc}]*'(?:\\''[^'\p{Cc}]*')*))*$/u.test(text)
  );
}

/** The command that makes the same plan again; without the narrowing options if the plan was not made by a command. */
export function planCommand({
  from,
  to,
  command,
}: {
  readonly from: { readonly ref: string; readonly run?: number };
  readonly to: { readonly source?: string };
  readonly command?: string | undefined;
}): string {
  if (command !== undefined) return command;
  const state = from.run === undefined ? from.ref : `run:${from.run}`;
  return `tidemark restore ${shellWord(state)}${to.source === undefined ? '' : ` --source ${shellWord(to.source)}`}`;
}

/** The command that restores the newest backup; its output says how to continue. */
export const RESTORE_HINT = 'restore a backup (`tidemark backup restore latest --to ./restored/mirror.db`)';

/** The same if a new mirror will do as well: not for one that is evidence, or that is gone. */
export const RESTORE_OR_NEW_HINT = `${RESTORE_HINT}, or move the mirror away and run \`tidemark sync\` for a new one (without history)`;

/** What to do about a damaged or altered mirror of a fleet. */
export const CELL_MIRROR_HINT =
  'docs/fleet.md, "A mirror that does not verify", says how the cell continues from an earlier stored one';

/** Stands for the newest backup. `backup restore` refuses it if there are backups of several mirrors. */
export const LATEST_BACKUP = 'latest';

/** Where a mirror is or was: its path, and the source if each has a mirror of its own. */
export interface MirrorPlace {
  readonly path: string;
  readonly owner: string | null;
  /** How its backups are configured; null if they have no target; missing if they are not encrypted. */
  readonly backups?: ConfiguredBackups | null;
}

/** The part of the section `backup` that hints depend on. */
export interface ConfiguredBackups {
  readonly isEncrypted: boolean;
}

/** The command that restores the mirror to its place. @param backup the name of the file, or `latest` */
export function restoreCommand({ path, owner, backups = null }: MirrorPlace, backup = LATEST_BACKUP): string {
  return withIdentity(
    `\`tidemark backup restore ${shellWord(backup)} --to ${shellWord(path)}${owner === null ? '' : ` --source ${owner}`}\``,
    backups?.isEncrypted ?? false,
  );
}

/**
 * Adds the option for the key, which the configuration does not have, to commands that restore an encrypted backup.
 * @param isEncrypted whether the latest backup is; for others, the name shows it
 */
function withIdentity(text: string, isEncrypted: boolean): string {
  return text.replaceAll(
    /`(tidemark backup restore ('[^']*'|\S+) [^`]*)`/g,
    (whole, command: string, name: string) => {
      const needsKey = name === LATEST_BACKUP ? isEncrypted : /\.age'?$/.test(name);
      return needsKey && !/ --identity\b/.test(command) ? `\`${command} --identity FILE\`` : whole;
    },
  );
}

/**
 * Replaces the latest backup by this one in commands that restore one, and adds the option for the key if it is
 * encrypted.
 * @param backup the name of the file, or `latest`; null if all known ones are of other mirrors, so that it must be
 * found
 * @param backups their configuration; null if they have no target, so that a copy of the file is to be restored
 */
export function namingBackup(text: string, backup: string | null, backups: ConfiguredBackups | null): string {
  if (backups === null) return text.replaceAll(RESTORE_ADVICE, NO_BACKUP_HINT);
  return backup === null
    ? text.replaceAll(RESTORE_ADVICE, SEARCH_HINT)
    : withIdentity(
        text.replaceAll(
          '`tidemark backup restore latest ',
          `\`tidemark backup restore ${shellWord(backup)} `,
        ),
        backups.isEncrypted,
      );
}

/** `RESTORE_HINT`, perhaps with further options. */
const RESTORE_ADVICE = /restore a backup \(`tidemark backup restore latest [^`]*`\)/g;

const NO_BACKUP_HINT = 'restore a copy of the file, if you have one (no backup target is configured)';

const SEARCH_HINT = 'look for a backup of it (`tidemark backup list`; the known ones are of other mirrors)';

/** What to do about a mirror that existed and is gone, the likeliest first. @param backup as for `namingBackup` */
export function goneHint(place: MirrorPlace, backup: string | null): string {
  const { backups = { isEncrypted: false } } = place;
  const restore =
    backups === null
      ? NO_BACKUP_HINT
      : namingBackup(`restore a backup (${restoreCommand({ ...place, backups: null })})`, backup, backups);
  return `mount the volume that it belongs to, or put the file back; if it is lost, ${restore}. A restart of the daemon, or \`tidemark sync\`, begins a new mirror instead, without history`;
}

/** What to do about a backup that is damaged, or is not what its manifest says. */
export const REFETCH_HINT =
  'fetch it again from where backups are kept, or take another one (`tidemark backup list`)';

/** What to do about a new backup that does not read back as it was written. */
export const BACKUP_DAMAGED_HINT =
  'check its disk, or the bucket and a proxy before it, and the space there; the mirror and earlier backups are not affected';

/** What to do about a sync that failed because the disk was full. */
export const DISK_FULL_HINT =
  'free space on the volume of the mirror; what was published before is intact, and the next sync continues from it';

/** For a job of the daemon, which nobody needs to run again. */
export const HELD_HINT =
  'no action needed: the daemon tries again; if this persists, stop the process that holds the mirror';

const BACKUP_HINTS: Partial<Record<ErrorCode, string>> = {
  disk_full: 'free space there, or enlarge the volume',
  backup_damaged: BACKUP_DAMAGED_HINT,
  rejected: 'check the credentials of the bucket, and what their policy allows',
  config_invalid: 'correct the section `backup` of the configuration, or the credentials of the bucket',
  read_only: 'check the owner and mode of that directory, and whether its disk is mounted read-only',
  file_system: 'check that the directory or bucket is there, and that its disk is mounted',
  unreachable: 'check the endpoint and the network',
  server_error: 'check that the storage works',
  timeout: 'check that the target works and can be reached from this machine',
};

/** What to do about a backup that failed with this code, before the next one; null for another code. */
export function backupHint(errorCode: string | null): string | null {
  return BACKUP_HINTS[errorCode as ErrorCode] ?? null;
}

/** What to do about a directory without any of the backups that were stored in it. */
export const EMPTIED_HINT =
  'mount the disk: the next complete run is backed up there. If it was emptied on purpose, is a new disk, or is the right one nevertheless, run `tidemark backup create`';

/** What to do if the mirror has no state of a source at the baseline: the source is newer, or retention dropped it. */
export const NEW_BASELINE_HINT =
  '`tidemark snapshots pin NAME --baseline` makes the latest state of all sources the baseline';

/** Commands that need `--source` if each source has a mirror of its own, some even if several share one. */
const OF_ONE_SOURCE =
  /^tidemark (?:restore|undo|restores show|runs show|drill|serve|backup restore|drift accept|drift unaccept|diff latest live)\b/;

/** Arguments that concern one mirror or source, so that commands for all mirrors need `--source` with them. */
const OF_ONE_MIRROR = /\brun:-?\d|--accept-removals\b/;

/** The text with `--source` added to the commands (`tidemark …` in backticks) that need it and do not have it. */
export function withSource(text: string, source: string): string {
  return text.replaceAll(/`(tidemark [^`]*)`/g, (_, command: string) => `\`${commandOf(command, source)}\``);
}

/** The command (`tidemark …`) with `--source`, if it needs it and does not have it. */
export function commandOf(command: string, source: string): string {
  const isNeeded = OF_ONE_SOURCE.test(command) || OF_ONE_MIRROR.test(command);
  return isNeeded && !/--(?:source|help)\b/.test(command) ? `${command} --source ${source}` : command;
}

/** The text with the option added at the end, or before a pipe, of each command that is to have it. */
export function withOption(text: string, option: string, isToHave: (command: string) => boolean): string {
  return text.replaceAll(/`tidemark [^`]*`/g, (command) =>
    isToHave(command) ? command.replace(/(?: \|.*)?`$/, (end) => `${option}${end}`) : command,
  );
}

/** The text with the configuration file added to its commands, so that they can be run as they are. */
export function withConfigOption(text: string, config: string | undefined): string {
  if (config === undefined) return text;
  return withOption(
    text,
    ` --config ${shellWord(config)}`,
    (command) => !/--(?:config|help)\b/.test(command),
  );
}

/**
 * What to do about a restore that was stopped or killed before its end.
 * @param owner the source if each has a mirror of its own, because then the number does not identify the restore
 */
export function resumeHint(restore: number, owner: string | null): string {
  const hint = `\`tidemark restores show ${restore}\` lists what was done; \`tidemark restore --resume ${restore}\` continues it; \`tidemark undo ${restore}\` takes back what it did; \`tidemark restore --abandon ${restore}\` leaves it as it is`;
  return owner === null ? hint : withSource(hint, owner);
}

// Advice of `sync`, `status` and `doctor` about requests refused with a key that works for others.

/** For a 401 although other requests accept the key. */
export const REFUSED_HERE =
  'other requests accept the key: it lacks a permission, a gateway refuses this path, or it was revoked just now';

/** For a 404 of the list of organizations. */
export const NO_ORGANIZATIONS = 'check baseUrl, and the ids under `organizations` where some are named';

export const OR_EXCLUDE = ', or exclude the kind in the configuration';

/** The permission in a message such as "API key missing required scope 'organization:read'". */
export function permissionIn(text: string): string | undefined {
  return /scopes?:? ['"`]?([a-z_*]+:[a-z_*]+)/i.exec(text)?.[1];
}

export function permissionAdvice(...permissions: readonly string[]): string {
  return `give the key the ${permissions.length === 1 ? 'permission' : 'permissions'} ${permissions.join(', ')}`;
}
