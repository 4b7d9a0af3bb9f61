/** The backup that a command names, and what opens it. */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, resolve } from 'node:path';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import type { Secret } from '../core/secret.ts';
import { isS3Address } from '../config/backup-target.ts';
import { mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { plural } from '../core/wording.ts';
import { type Backup, readBackup } from '../backup/list.ts';
import { parseBackupName } from '../backup/name.ts';
import { begunByMistake, earlierBackups, originOf } from '../backup/earlier.ts';
import type { BackupManifest } from '../backup/manifest.ts';
import { readIdentities } from '../backup/encryption.ts';
import type { OpenOptions } from '../backup/opened-backup.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { directoryTarget } from '../backup/targets/directory.ts';
import { openTarget } from '../backup/targets/open.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { readLoadedConfig } from '../wire.ts';
import { isInteractive, printNote, printReason, type CommandContext } from './context.ts';
import {
  listCompared,
  listEach,
  mirrorName,
  printUnread,
  s3Config,
  targetsOf,
  withConfiguredMirror,
} from './backup.ts';
import { backupsBelow, newerBelow } from './backups-below.ts';
import { age } from './export-notes.ts';

export interface RestoreOptions {
  readonly file: string;
  readonly to?: string;
  readonly identity?: readonly string[];
  readonly as?: string;
}

export function restoreCommand(file: string, { to = '', identity = [], as }: RestoreOptions): string {
  const words = [
    '--to',
    to,
    ...identity.flatMap((each) => ['--identity', each]),
    ...(as === undefined ? [] : ['--as', as]),
  ];
  return `\`tidemark backup restore ${[file, ...words].map(shellWord).join(' ')}\``;
}

interface NamedBackup {
  readonly backup: Backup;
  /** For `latest`: the targets that could not be listed. Any of them may have a newer backup. */
  readonly unread: readonly UnreadTarget[];
  /** If the newest was asked for: newer backups that are, or may be, of the same mirror, and are damaged, gone or without manifest. */
  readonly passedOver: readonly Backup[];
  /** If the newest was asked for: the error of `noneOfConfigured`. */
  readonly noneOfOwn: TidemarkError | null;
  /** The same backup in other targets, by name and checksum. */
  readonly copies: readonly Backup[];
}

interface UnreadTarget {
  readonly address: string;
  readonly error: TidemarkError;
}

export function errorsOf(unread: readonly UnreadTarget[]): TidemarkError[] {
  return unread.map(({ error }) => error);
}

/**
 * `latest` is the newest complete backup in all targets that can be listed. A bare name is looked for in the targets, then in the
 * current directory. A path or an address `s3://…` is that of a backup, or of a place with backups, of which the newest is used.
 */
export async function backupNamed(
  context: CommandContext,
  file: string,
  restore: RestoreOptions | null = null,
): Promise<NamedBackup> {
  const isToRestore = restore !== null;
  const hint = (place: string): string =>
    restore === null
      ? `\`tidemark backup verify ${shellWord(place)}\` verifies the newest`
      : `${restoreCommand(place, restore)} restores the newest`;
  const list: ListTarget = (target) =>
    listCompared(context, target).catch((thrown: unknown) => {
      throw isToRestore ? thrown : notListed(thrown);
    });
  const newestIn = async (target: BackupTarget, address: string): Promise<NamedBackup> => {
    const backups = await list(target);
    const elsewhere = backups.length > 0 ? null : await backupsBelow([target], address, hint);
    if (elsewhere !== null) throw elsewhere;
    const newest = newestOf(context, backups, { where: target.address, isToRestore });
    const newer = await newerBelow([{ target, newest }], address, hint);
    if (newer !== null) throw newer;
    return {
      ...{ backup: newest, unread: [], passedOver: passedOver(newest, backups) },
      noneOfOwn: noneOfConfigured(context, newest, { backups, where: target.address }),
      copies: [],
    };
  };
  if (file === 'latest') return await latestOfTargets(context, isToRestore, hint);
  if (isS3Address(file)) return await backupAt(context, file, { list, newestIn });
  const isName = parseBackupName(file) !== undefined && basename(file) === file;
  const named = isName
    ? (await configuredBackups(context, list)).filter(({ name, state }) => name === file && state !== 'gone')
    : [];
  const mirrors = Map.groupBy(named, ({ manifest }) => manifest?.mirror);
  if (mirrors.size > 1) throw ofSeveralMirrors(file, named);
  const [inTarget] = named;
  if (inTarget !== undefined) return { ...onlyThis(inTarget), copies: copiesOf(inTarget, named) };
  const path = resolve(context.cwd, file);
  const isPlace =
    statSync(path, { throwIfNoEntry: false })?.isDirectory() === true || isTarget(context, path);
  if (!isPlace) return onlyThis(await readBackup(path));
  return await newestIn(directoryTarget(path), file);
}

function onlyThis(backup: Backup): NamedBackup {
  return { backup, unread: [], passedOver: [], noneOfOwn: null, copies: [] };
}

function copiesOf({ name, path, manifest }: Backup, backups: readonly Backup[]): Backup[] {
  if (manifest === null) return [];
  return backups.filter(
    (each) =>
      each.path !== path &&
      each.state === 'whole' &&
      each.name === name &&
      each.manifest?.sha256 === manifest.sha256,
  );
}

/**
 * Opens a backup or, while it turns out to be damaged, the next of its copies, and prints which file is damaged.
 * @returns also the backup that was opened
 * @throws TidemarkError of `open`, of the last copy if all are damaged
 */
export async function openIntact<Opened>(
  context: CommandContext,
  { backup, copies }: Pick<NamedBackup, 'backup' | 'copies'>,
  open: (backup: Backup) => Promise<Opened>,
): Promise<{ readonly opened: Opened; readonly backup: Backup }> {
  const [next, ...others] = copies;
  try {
    return { opened: await open(backup), backup };
  } catch (error) {
    if (next === undefined || asTidemarkError(error).code !== 'mirror_corrupt') throw error;
    printReason(context, [
      asTidemarkError(error).message,
      `  → reading the same backup at ${next.path} instead`,
    ]);
    return await openIntact(context, { backup: next, copies: others }, open);
  }
}

/** True for a configured directory, or the one that has those of all sources: it may be missing, and is never a backup itself. */
function isTarget(context: CommandContext, place: string): boolean {
  return mirrorConfigs(readLoadedConfig(context, context.options, 'unused')).some(({ backup }) =>
    backup?.targets.some(
      (target) => target.type === 'directory' && (target.path === place || target.within === place),
    ),
  );
}

type ListTarget = (target: BackupTarget) => Promise<readonly Backup[]>;

/** The error as a verification reports it: no backup was looked at, so none was found damaged. */
function notListed(thrown: unknown): TidemarkError {
  const error = asTidemarkError(thrown);
  const code = exitCodeFor(error.code);
  if (code === EXIT.usage || code === EXIT.interrupted) return error;
  const { message, hint, isRetryable } = error;
  return new TidemarkError('target_unread', message, { hint, isRetryable, cause: error });
}

/** The errors of several targets as one. @param first has the code of the result */
function combined(errors: readonly TidemarkError[], first: TidemarkError): TidemarkError {
  if (errors.length === 1) return first;
  const hints = [...new Set(errors.flatMap(({ hint }) => hint ?? []))];
  return new TidemarkError(first.code, errors.map(({ message }) => message).join('; '), {
    hint: hints.length === 0 ? undefined : hints.join('; '),
    isRetryable: first.isRetryable,
    cause: first,
  });
}

async function latestOfTargets(
  context: CommandContext,
  isToRestore: boolean,
  hint: (place: string) => string,
): Promise<NamedBackup> {
  const listed = await listEach(context, await targetsOf(context, undefined));
  const unread = listed.flatMap(({ target: { address }, error }) =>
    error === null ? [] : [{ address, error }],
  );
  const all = listed.flatMap(({ backups }) => backups);
  const [first] = unread;
  if (first !== undefined && all.every(({ state }) => state !== 'whole')) {
    const error = combined(errorsOf(unread), first.error);
    if (isToRestore) throw error;
    // A damaged backup is reported below.
    if (all.every(({ state }) => state !== 'damaged')) throw notListed(error);
  }
  const read = listed.filter(({ error }) => error === null);
  const where = read.map(({ target }) => target.address).join(' or ');
  try {
    const targets = read.map(({ target }) => target);
    const elsewhere = all.length > 0 ? null : await backupsBelow(targets, null, hint);
    if (elsewhere !== null) throw elsewhere;
    const newest = newestOf(context, all, { where, isToRestore });
    // Any of the targets may have the newer ones.
    const newer = await newerBelow(
      targets.map((target) => ({ target, newest })),
      null,
      hint,
    );
    if (newer !== null) throw newer;
    const noneOfOwn = noneOfConfigured(context, newest, { backups: all, where });
    return {
      ...{ backup: newest, unread, passedOver: passedOver(newest, all), noneOfOwn },
      copies: copiesOf(newest, all),
    };
  } catch (error) {
    // The error asks the user to name a backup: these targets may have others.
    printUnread(context, errorsOf(unread));
    throw error;
  }
}

function ofSeveralMirrors(name: string, backups: readonly Backup[]): TidemarkError {
  const places = backups.map(({ path }) => path);
  return new TidemarkError('usage', `backups of several mirrors are named ${name}: ${namesOf(places)}`, {
    hint: 'give the path of the one that you mean, or its source with --source',
  });
}

/** The backups in the targets of all configured mirrors, as far as these answer. @throws the error of a target if nothing was found */
async function configuredBackups(context: CommandContext, list: ListTarget): Promise<readonly Backup[]> {
  const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  const targets = configs.flatMap(({ backup }) => backup?.targets ?? []);
  const listed = await Promise.allSettled(
    targets.map(async (target) => await list(await openTarget(target, systemClock))),
  );
  const [failed] = listed.filter((each) => each.status === 'rejected');
  const found = listed.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  if (found.length === 0 && failed !== undefined) throw failed.reason;
  return found;
}

async function backupAt(
  context: CommandContext,
  address: string,
  {
    list,
    newestIn,
  }: {
    readonly list: ListTarget;
    readonly newestIn: (target: BackupTarget, address: string) => Promise<NamedBackup>;
  },
): Promise<NamedBackup> {
  const config = s3Config(context, address);
  const last = config.prefix.split('/').at(-1) ?? '';
  const isFile = parseBackupName(last) !== undefined;
  const prefix = isFile || last === 'latest' ? config.prefix.slice(0, -last.length - 1) : config.prefix;
  const target = await openTarget({ ...config, prefix }, systemClock);
  if (!isFile) return await newestIn(target, address.replace(/\/latest(?=\?|$)/, ''));
  const named = (await list(target)).find(({ name }) => name === last);
  if (named !== undefined) return onlyThis(named);
  throw new TidemarkError('reference_unknown', `there is no backup ${last} in ${target.address}`, {
    hint: `\`tidemark backup list ${shellWord(target.address)}\` lists them`,
  });
}

/**
 * The newest complete backup of the configured mirror; without one, of the only mirror that has backups there.
 * @throws TidemarkError `usage` if several mirrors have backups there and none is the configured one. For a restore also if the
 *   configured mirror may have been begun by mistake (the backup of another one is then wanted), or if an older backup has a later run
 */
function newestOf(
  context: CommandContext,
  backups: readonly Backup[],
  { where, isToRestore }: { readonly where: string; readonly isToRestore: boolean },
): Backup {
  const complete = backups
    .filter(({ state }) => state === 'whole')
    .toSorted((a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run);
  // Read alone: a damaged mirror may still have its id.
  const owner = withConfiguredMirror(context, mirrorId);
  const isBegunAnew =
    withConfiguredMirror(context, (mirror, config) => {
      const earlier = earlierBackups(complete, originOf(mirror));
      return begunByMistake(config, [{ address: where, earlier }], mirror) !== null;
    }) ?? false;
  const own = complete.filter(({ manifest }) => manifest?.mirror === owner);
  const [latest] = own.length > 0 ? own : complete;
  const [damaged, ...others] = backups.filter(({ state }) => state === 'damaged');
  if (latest === undefined && damaged !== undefined) {
    const more = others.length === 0 ? '' : `, and ${plural(others.length, 'other backup')} too`;
    throw new TidemarkError(
      'mirror_corrupt',
      `no backup in ${where} is complete: ${damaged.name} is damaged (${damaged.reason ?? ''})${more}`,
      { hint: '`tidemark backup list` lists the backups; `tidemark backup create` makes another one' },
    );
  }
  if (latest === undefined) {
    throw new TidemarkError('reference_unknown', `there is no complete backup in ${where}`, {
      hint: '`tidemark backup list` lists the backups; `tidemark backup create` makes one',
    });
  }
  const newestOfMirrors = [...Map.groupBy(complete, ({ manifest }) => manifest?.mirror).values()].flatMap(
    ([newest]) => newest ?? [],
  );
  const severalMirrors = (why: string): TidemarkError =>
    new TidemarkError(
      'usage',
      `${where} has backups of several mirrors${why}: ${choiceText(newestOfMirrors, owner)}`,
      {
        hint: 'name the one that you mean instead of `latest`; `tidemark backup list` lists them all',
      },
    );
  if (own.length === 0 && newestOfMirrors.length > 1) throw severalMirrors('');
  if (isToRestore && own.length > 0 && isBegunAnew)
    throw severalMirrors(', and the configured one was begun after backups of another one had been made');
  const later = laterRun(latest, complete);
  if (later === null) return latest;
  const text = `${latest.name} is the newest by its time, but ${later.name} has a later run: an older backup was restored between the two, the clock was wrong, or somebody altered a time`;
  if (isToRestore)
    throw new TidemarkError('usage', text, {
      hint: 'name the one that you mean; `tidemark backup list` lists them. `latest` works again once the other one and its manifest are moved away',
    });
  printNote(context, [text]);
  return latest;
}

/** The error if the configured mirror has no complete backup there, and the newest is of another one; null otherwise, or if that mirror cannot be read. */
function noneOfConfigured(
  context: CommandContext,
  newest: Backup,
  { backups, where }: { readonly backups: readonly Backup[]; readonly where: string },
): TidemarkError | null {
  const owner = withConfiguredMirror(context, mirrorId);
  if (owner === null || newest.manifest?.mirror === owner) return null;
  const text = `${where} has no complete backup of the configured mirror, only ${choiceText([newest], owner)}`;
  const damaged = backups.find((each) => each.state === 'damaged' && mayBeOf(each, owner));
  if (damaged !== undefined)
    return new TidemarkError(
      'mirror_corrupt',
      `${text}; ${damaged.name} is damaged (${damaged.reason ?? ''})`,
      {
        hint: '`tidemark backup list` lists the backups; `tidemark backup create` makes another one',
      },
    );
  return new TidemarkError('reference_unknown', text, {
    hint: `\`tidemark backup verify ${shellWord(newest.path)}\` verifies that one; \`tidemark backup create\` makes one of the configured mirror`,
  });
}

/** The backup of the same mirror with the latest run, if that is later than the run of the newest one: times prove nothing. */
function laterRun(newest: Backup, complete: readonly Backup[]): Backup | null {
  // A higher fence is that of a later worker of a fleet, which may have lost runs. Only two fences can be compared.
  const isReplaced = ({ fence }: Backup): boolean =>
    fence !== null && newest.fence !== null && fence < newest.fence;
  const isLater = (each: Backup): boolean =>
    each.manifest?.mirror === newest.manifest?.mirror && each.run > newest.run && !isReplaced(each);
  const [later = null] = complete.filter(isLater).toSorted((a, b) => b.run - a.run);
  return later;
}

/** Newer backups that are not complete and are, or may be, of the same mirror. */
function passedOver(newest: Backup, backups: readonly Backup[]): Backup[] {
  return backups.filter(
    (each) =>
      each.state !== 'whole' &&
      mayBeOf(each, newest.manifest?.mirror) &&
      (each.run > newest.run || Date.parse(each.madeAt) > Date.parse(newest.madeAt)),
  );
}

/** True also for a backup whose manifest is missing, or names the wrong mirror. */
function mayBeOf({ manifest, isMisattributed }: Backup, owner: string | undefined): boolean {
  return isMisattributed === true || (manifest?.mirror ?? owner) === owner;
}

/** Printed also with --quiet: a newer state was stored than the backup has. */
export function printPassedOver(context: CommandContext, { backup, passedOver: newer }: NamedBackup): void {
  if (newer.length === 0) return;
  printReason(context, [
    ...newer.map(
      ({ name, state, reason }) => `${name} is newer than ${backup.name}, and is ${state} (${reason ?? ''})`,
    ),
    '  → `tidemark backup create` makes another one; `tidemark backup list` lists what is there',
  ]);
}

const CHOICES_SHOWN = 4;

/** The newest backup of each mirror, with what distinguishes a long history from one that has just begun. */
function choiceText(newest: readonly Backup[], owner: string | null): string {
  const shown = newest.slice(0, CHOICES_SHOWN).map((backup) => {
    const { name, madeAt, manifest } = backup;
    // A manifest may lack what a backup does not need.
    const { checked, sources = [] }: Partial<BackupManifest> = manifest ?? {};
    const held = checked === undefined ? '' : `, ${plural(checked.runs, 'run')}`;
    const of = sources.map(({ source }) => source).join(', ');
    return `${name} of mirror ${mirrorName(backup, owner)}, ${of}${held}, made ${age(madeAt, systemClock.now())}`;
  });
  const more = newest.length - shown.length;
  return `${shown.join('; ')}${more > 0 ? `; and of ${plural(more, 'other mirror')}` : ''}`;
}

export async function identitiesOf(
  { cwd }: CommandContext,
  files: readonly string[] | undefined,
): Promise<readonly Secret[]> {
  return (await Promise.all((files ?? []).map((file) => readIdentities(resolve(cwd, file))))).flat();
}

export function openOptions(context: CommandContext, identities: readonly Secret[]): OpenOptions {
  const options = { identities, clock: systemClock, signal: context.signal };
  if (!isInteractive(context)) return options;
  return {
    ...options,
    onProgress: (phase, share) => {
      context.stderr.write(`\r\u001b[K${phase} ${Math.floor(share * 100)} % `);
    },
  };
}

export function holder({ pid }: CommandContext, command: string) {
  return { command, pid, host: hostname(), since: isoTime(systemClock.now()) };
}
