/** What several errors tell the reader to do. */
import type { ErrorCode } from './errors.ts';

/** As a POSIX shell takes it for one word, for commands that are printed: quoted only where it must be. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether the text is one `tidemark restore`, and a shell does nothing else with it: a plan that somebody edited may say otherwise. */
export function isRestoreCommand(text: unknown): text is string {
  return (
    typeof text === 'string' &&
    /^tidemark restore(?: (?:[\w@%+=:,./-]+|'[^'\p{Cc}]*'(?:\\''[^'\p{Cc}]*')*))*$/u.test(text)
  );
}

/** The command that plans the same again; of a plan that was not made by a command, without what narrowed it. */
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

/** The command that brings back the newest backup; it says itself how to continue from there. */
export const RESTORE_HINT = 'restore a backup (`tidemark backup restore latest --to ./restored/mirror.db`)';

/** The same where a new mirror will do as well: not for one that is evidence, or that is gone. */
export const RESTORE_OR_NEW_HINT = `${RESTORE_HINT}, or move the mirror away and run \`tidemark sync\` for a new one (without history)`;

/** What a person does about a fleet's mirror that is damaged or altered. */
export const CELL_MIRROR_HINT =
  'docs/fleet.md, "A mirror that does not verify", says how the cell continues from an earlier stored one';

/** Given in place of the name of a backup: the newest one. `backup restore` refuses it where backups of several mirrors are there. */
export const LATEST_BACKUP = 'latest';

/** Where a mirror is, or was: its path, and the source if each has a mirror of its own (a backup is restored for one of them). */
export interface MirrorPlace {
  readonly path: string;
  readonly owner: string | null;
  /** How its backups are configured; null where they have no target. Left out for not encrypted. */
  readonly backups?: ConfiguredBackups | null;
}

/** What a hint has to know of the section `backup`. */
export interface ConfiguredBackups {
  readonly isEncrypted: boolean;
}

/** The command that restores the mirror to its place. @param backup name of the file, or `latest` */
export function restoreCommand({ path, owner, backups = null }: MirrorPlace, backup = LATEST_BACKUP): string {
  return withIdentity(
    `\`tidemark backup restore ${shellWord(backup)} --to ${shellWord(path)}${owner === null ? '' : ` --source ${owner}`}\``,
    backups?.isEncrypted ?? false,
  );
}

/**
 * The text, with the option for the key in commands that restore an encrypted backup: the configuration does not have it.
 * @param isEncrypted whether the latest one is; of others their names say it
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
 * The text, with that backup in place of the latest in commands that restore one, and with the option for the key of an encrypted one.
 * @param backup name of its file, or `latest`; null if the known ones are of other mirrors: then it is to be looked for
 * @param backups how they are configured; null where they have no target: then a copy of the file is to be restored
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

/** `RESTORE_HINT`, perhaps with more options. */
const RESTORE_ADVICE = /restore a backup \(`tidemark backup restore latest [^`]*`\)/g;

const NO_BACKUP_HINT = 'restore a copy of the file, if you have one (no backup target is configured)';

const SEARCH_HINT = 'look for a backup of it (`tidemark backup list`; the known ones are of other mirrors)';

/** What to do about a mirror that was there and is gone: first what is likeliest. @param backup as for `namingBackup` */
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

/** What to do about a sync that failed as the disk was full. */
export const DISK_FULL_HINT =
  'free space on the volume of the mirror; what was published before is intact, and the next sync continues from it';

/** Of a job of the daemon: nobody runs it again by hand. */
export const HELD_HINT = 'nothing to do: the daemon tries again; if it stays so, end what holds the mirror';

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

/** What to do about a directory that has none of the backups that were stored in it. */
export const EMPTIED_HINT =
  'mount the disk: the next complete run is backed up there. If it was emptied on purpose, is a new disk, or is the right one nevertheless, run `tidemark backup create`';

/** What to do where the mirror has no state of a source as of the baseline: the source is newer, or retention dropped it. */
export const NEW_BASELINE_HINT =
  '`tidemark snapshots pin NAME --baseline` makes the latest state of all sources the baseline';

/** Commands that need `--source` where each source has a mirror of its own, and some where several share one. */
const OF_ONE_SOURCE =
  /^tidemark (?:restore|undo|restores show|runs show|drill|serve|backup restore|drift accept|drift unaccept|diff latest live)\b/;

/** Arguments that only one mirror has, or that are meant for one source: commands over all mirrors need it for them. */
const OF_ONE_MIRROR = /\brun:-?\d|--accept-removals\b/;

/** The text, with `--source` in the commands (`tidemark …` in backticks) that need it, and do not name their source. */
export function withSource(text: string, source: string): string {
  return text.replaceAll(/`(tidemark [^`]*)`/g, (_, command: string) => `\`${commandOf(command, source)}\``);
}

/** The command (`tidemark …`), with `--source` if it needs it, and does not name its source. */
export function commandOf(command: string, source: string): string {
  const isNeeded = OF_ONE_SOURCE.test(command) || OF_ONE_MIRROR.test(command);
  return isNeeded && !/--(?:source|help)\b/.test(command) ? `${command} --source ${source}` : command;
}

/** The text, with this at the end of each of its commands that is to have it, before a pipe. */
export function withOption(text: string, option: string, isToHave: (command: string) => boolean): string {
  return text.replaceAll(/`tidemark [^`]*`/g, (command) =>
    isToHave(command) ? command.replace(/(?: \|.*)?`$/, (end) => `${option}${end}`) : command,
  );
}

/** The text, with the configuration file in its commands, so that they can be run as they are. */
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
 * @param owner the source, where each has a mirror of its own: only there a number does not tell which restore is meant
 */
export function resumeHint(restore: number, owner: string | null): string {
  const hint = `\`tidemark restores show ${restore}\` lists what was done; \`tidemark restore --resume ${restore}\` continues it; \`tidemark undo ${restore}\` takes back what it did; \`tidemark restore --abandon ${restore}\` leaves it as it is`;
  return owner === null ? hint : withSource(hint, owner);
}

// What a key that works elsewhere is refused: `sync`, `status` and `doctor` give the same advice.

/** A 401 of a key that other requests accept. */
export const REFUSED_HERE =
  'other requests accept the key: it lacks a permission, a gateway refuses this path, or it was revoked just now';

/** Where the path of the root of everything answers 404. */
export const NO_ORGANIZATIONS = 'check baseUrl, and the ids under `organizations` where some are named';

export const OR_EXCLUDE = ', or exclude the kind in the configuration';

/** "API key missing required scope 'organization:read'" names the permission. */
export function permissionIn(text: string): string | undefined {
  return /scopes?:? ['"`]?([a-z_*]+:[a-z_*]+)/i.exec(text)?.[1];
}

export function permissionAdvice(...permissions: readonly string[]): string {
  return `give the key the ${permissions.length === 1 ? 'permission' : 'permissions'} ${permissions.join(', ')}`;
}
