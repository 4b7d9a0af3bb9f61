/** `tidemark backup list` and `backup create`. */
import {
  CONTRADICTING_HINT,
  contradicting,
  contradictingText,
  lastStored,
  withMisattributed,
  withMissing,
} from '../backup/chain.ts';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { settlesWithin, systemClock } from '../core/clock.ts';
import { asTidemarkError, type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import { hasScheme, meantS3Address, parseS3Address, TARGET_ADDRESS } from '../config/backup-target.ts';
import type { Config, BackupConfig, S3TargetConfig } from '../config/config.ts';
import { proxySettings } from '../config/proxy.ts';
import { shellWord } from '../core/hints.ts';
import { duration, megabytes, plural } from '../core/wording.ts';
import { type BackupWriter, type BackupOutcome, createBackupWriter } from '../backup/writer.ts';
import { ANSWERS_MS, answered, type BackupPhase, backUpHere, QUIET_WAIT_MS } from '../backup/work.ts';
import { BackupCatalog } from '../backup/known-backups.ts';
import { begunByMistake, type MirrorOrigin, originOf } from '../backup/earlier.ts';
import { type Backup, type DueTarget, dueTargets, emptiedError, listBackups } from '../backup/list.ts';
import { directoryTarget } from '../backup/targets/directory.ts';
import { openTarget } from '../backup/targets/open.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { withheldBy } from '../backup/hook.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import {
  isInteractive,
  print,
  printNote,
  printReason,
  type CommandContext,
  terminalWidth,
} from './context.ts';
import { renderTable } from '../report/table.ts';
import { keptText } from './config-check.ts';
import { backupsBelow, newerBelow } from './backups-below.ts';
import { age } from './export-notes.ts';
import { commandLog } from './source-probe.ts';
import { backupResult, damageResult } from '../daemon/jobs/job-table.ts';
import { recordJob } from './record-job.ts';

export interface ListOptions {
  readonly target?: string;
}

/** Exit 0, also if a backup is damaged: `backup verify` decides. Exit 3 if a target could not be listed, 1 if none could. */
export async function listBackupsCommand(context: CommandContext, options: ListOptions): Promise<ExitCode> {
  const targets = await targetsOf(context, options.target);
  const listed = await listEach(context, targets);
  const failed = listed.flatMap(({ error }) => error ?? []);
  const [first] = failed;
  if (first !== undefined && failed.length === listed.length) throw first;
  const empty = listed.filter(({ backups, error }) => error === null && backups.length === 0);
  const elsewhere = await backupsBelow(
    empty.map(({ target }) => target),
    options.target ?? null,
    listHint,
  );
  if (elsewhere !== null && options.target !== undefined && empty.length === listed.length) throw elsewhere;
  const newer = await newerBelow(
    listed.flatMap(({ target, backups }) => {
      const newest = backups.find(({ state }) => state === 'whole');
      return newest === undefined ? [] : [{ target, newest }];
    }),
    options.target ?? null,
    listHint,
  );
  const own = configuredOrigin(context)?.id ?? null;
  const unlike = withConfiguredMirror(context, (mirror) =>
    contradicting(
      mirror,
      listed.flatMap(({ backups }) => backups),
    ),
  );
  if (context.options.json === true) {
    const document = {
      schema: 'tidemark.backups/1',
      mirror: own,
      targets: listed.map(({ target, error }) => ({
        address: target.address,
        error: error?.message ?? null,
      })),
      backups: listed.flatMap(({ backups }) => backups.map(backupDocument)),
      contradicting: unlike,
    };
    await print(context, `${JSON.stringify(document)}\n`);
  } else {
    const parts = listed.filter(({ error }) => error === null).map((each) => listText(each, own, context));
    await print(context, `${[...parts, ...keptLines(unlike ?? [])].join('\n\n')}\n`);
  }
  printUnread(context, [...[elsewhere ?? [], newer ?? []].flat(), ...failed]);
  return failed.length === 0 ? EXIT.done : EXIT.partial;
}

const listHint = (place: string): string => `\`tidemark backup list ${shellWord(place)}\` lists those`;

interface Listed {
  readonly target: BackupTarget;
  readonly backups: readonly Backup[];
  /** Why it could not be listed; null where it was. */
  readonly error: TidemarkError | null;
}

/** What each target holds; one that cannot be listed does not keep the others from it. */
export async function listEach(
  context: CommandContext,
  targets: readonly BackupTarget[],
): Promise<readonly Listed[]> {
  return await Promise.all(
    targets.map(async (target): Promise<Listed> => {
      try {
        return { target, backups: await listCompared(context, target), error: null };
      } catch (error) {
        return { target, backups: [], error: asTidemarkError(error) };
      }
    }),
  );
}

/** Names the targets that could not be listed, or take a backup, beside the result from the others. */
export function printUnread(context: CommandContext, unread: readonly TidemarkError[]): void {
  const { ofSeveral } = context;
  if (ofSeveral !== undefined) unread.forEach(ofSeveral.onShared);
  else
    for (const { message, hint } of unread)
      printReason(context, [message, ...(hint === undefined ? [] : [`  → ${hint}`])]);
}

/**
 * As `listBackups`; says that it waits where the target does not answer at once.
 * @throws TidemarkError `timeout` where it has not answered for a minute
 */
export async function listWaiting(
  context: Pick<CommandContext, 'stderr' | 'options'>,
  target: BackupTarget,
  clock = systemClock,
): Promise<Backup[]> {
  const listing = listBackups(target);
  if (!(await settlesWithin(listing, QUIET_WAIT_MS, clock)))
    printNote(context, [`${PHASE.waiting} ${target.address}`]);
  return await answered(target, listing, ANSWERS_MS, clock);
}

/** The same, compared with the configured mirror where it can be read: one whose manifest names another mirror may be its own, and the newest may be gone. */
export async function listCompared(
  context: CommandContext,
  target: BackupTarget,
): Promise<readonly Backup[]> {
  const backups = await listWaiting(context, target);
  const compared = (mirror: Mirror): Backup[] =>
    withMissing(target, withMisattributed(mirror, backups), lastStored(mirror, target.address));
  return withConfiguredMirror(context, compared) ?? backups;
}

function listText({ target, backups }: Listed, own: string | null, context: CommandContext): string {
  const address = escapeControlCharacters(target.address);
  if (backups.length === 0) return `no backups in ${address} yet`;
  // Which mirror a backup is of matters only if it is not the configured one of all of them.
  const mirrors = new Set([own ?? [], ...backups.map(({ manifest }) => manifest?.mirror ?? [])].flat());
  const isOfSeveral = mirrors.size > 1;
  const table = renderTable(
    ['file', 'made', 'run', 'size', 'encrypted', 'state', ...(isOfSeveral ? ['mirror', 'sources'] : [])],
    backups.map((backup) => [
      ...rowOf(backup),
      ...(isOfSeveral ? [mirrorName(backup, own), sourceNames(backup)] : []),
    ]),
    ['left', 'left', 'right', 'right'],
    // The name of the file has both.
    { width: terminalWidth(context), least: ['encrypted', 'run'] },
  );
  return `${address}\n${table}`;
}

/** The id of the mirror in a manifest, short, and whether it is the configured one. */
export function mirrorName({ manifest }: Pick<Backup, 'manifest'>, own: string | null): string {
  if (manifest === null) return '·';
  return `${manifest.mirror.slice(0, 8)}${manifest.mirror === own ? ' (configured)' : ''}`;
}

/** What identifies the backups of the configured mirror; null if it cannot be read, as on an empty machine. */
export function configuredOrigin(context: CommandContext): MirrorOrigin | null {
  return withConfiguredMirror(context, (mirror) => originOf(mirror));
}

/** Null if the configured mirror cannot be read: a damaged or missing one is what a backup is for. */
export function withConfiguredMirror<T>(
  context: CommandContext,
  work: (mirror: Mirror, config: Config) => T,
): T | null {
  try {
    const config = readConfig(context, context.options, 'unused');
    const mirror = openConfiguredMirror(config, 'read', 'backup', context.pid);
    try {
      return work(mirror, config);
    } finally {
      mirror.close();
    }
  } catch {
    return null;
  }
}

/** The target of this address, or those that are configured. @throws TidemarkError `usage` if there is none */
export async function targetsOf(
  context: CommandContext,
  address: string | undefined,
): Promise<readonly BackupTarget[]> {
  if (address !== undefined) {
    const meant = meantS3Address(address);
    if (meant !== undefined)
      throw new TidemarkError('usage', `${address} is not an S3 address`, { hint: `did you mean ${meant}?` });
    if (!hasScheme(address)) return [directoryTarget(resolve(context.cwd, address))];
    return [await openTarget(s3Config(context, address), systemClock)];
  }
  const { targets } = backupsOf(readConfig(context, context.options, 'unused'));
  return await Promise.all(targets.map((target) => openTarget(target, systemClock)));
}

/** @throws TidemarkError `usage` for an address that is none */
export function s3Config({ env }: Pick<CommandContext, 'env'>, address: string): S3TargetConfig {
  const config = parseS3Address(address);
  if (config !== null) return { ...config, objectLock: null, retention: null, proxies: proxySettings(env) };
  throw new TidemarkError('usage', `${address} is not an S3 address`, {
    hint: `give ${TARGET_ADDRESS}`,
  });
}

/** The configured backups; where they are off, says how to have some. */
export function backupsOf(config: Config): BackupConfig {
  if (config.backup !== null) return config.backup;
  throw new TidemarkError('usage', 'no target for backups is configured', {
    hint: 'set `backup.targets` (or TIDEMARK_BACKUP_TARGETS) to a directory on another disk, or to s3://BUCKET/PREFIX',
  });
}

function rowOf({
  name,
  madeAt,
  run,
  bytes,
  isEncrypted,
  state,
  reason,
  isOfOtherVersion,
  manifest,
}: Backup): string[] {
  const made = age(madeAt, systemClock.now());
  // Of a complete one only its size was compared: `backup verify` reads it.
  const word = state === 'whole' ? 'complete' : state;
  const version = isOfOtherVersion ? `, made by another version (${manifest?.versions.tidemark ?? ''})` : '';
  const how = reason === null ? word + version : `${word}: ${reason}${version}`;
  return [name, made, String(run), megabytes(bytes), isEncrypted ? 'yes' : 'no', how];
}

function sourceNames({ manifest }: Backup): string {
  const names = (manifest?.sources ?? []).map(({ source }) => source);
  return names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} more` : names.join(', ');
}

/** One backup in JSON documents. */
export function backupDocument({
  name,
  target,
  path,
  madeAt,
  run,
  bytes,
  isEncrypted,
  state,
  reason,
  isOfOtherVersion,
  manifest,
}: Backup): object {
  return {
    file: name,
    target: target.address,
    path,
    made_at: madeAt,
    run,
    bytes,
    is_encrypted: isEncrypted,
    state,
    reason,
    is_of_other_version: isOfOtherVersion,
    mirror: manifest?.mirror ?? null,
    root: manifest?.root ?? null,
    sha256: manifest?.sha256 ?? null,
    plain_bytes: manifest?.plain_bytes ?? null,
    sources: manifest?.sources ?? [],
  };
}

/** Exit 0 when done, 3 when there is a backup but a target could not take it, an old one could not be removed, or the command failed. */
export async function createBackupNow(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const writer = configuredBackupWriter(context, config);
  await warnOfEmptied(context, config);
  const startedAt = systemClock.now();
  let outcome: BackupOutcome;
  try {
    outcome = await writer.make(context.signal, progressOf(context));
  } catch (error) {
    // As of a verification: `status`, health and metrics go by what was found, whoever made the backup.
    const result = damageResult(error);
    if (result !== null)
      await recordJob(context, config, { name: 'backup', source: null, startedAt, result });
    throw error;
  } finally {
    if (isInteractive(context)) context.stderr.write('\r\u001b[K');
  }
  if (context.options.json === true) await print(context, `${JSON.stringify(documentOf(outcome))}\n`);
  else await print(context, `${linesOf(outcome, backupsOf(config)).join('\n')}\n`);
  // Not notes: they are why the command ends as partial.
  printUnread(context, outcome.errors);
  await warnOfEarlier(context, config);
  const result = backupResult({ made: outcome });
  await recordJob(context, config, { name: 'backup', source: null, startedAt, result });
  return outcome.errors.length === 0 ? EXIT.done : EXIT.partial;
}

/** The daemon refuses such a directory; a backup made by hand goes ahead, with a warning. */
async function warnOfEmptied(context: CommandContext, config: Config): Promise<void> {
  const { backup } = config;
  if (backup === null) return;
  let emptied: readonly DueTarget[];
  try {
    const mirror = openConfiguredMirror(config, 'read', 'backup create', context.pid);
    try {
      const targets = backup.targets.filter(({ type }) => type === 'directory');
      emptied = (await dueTargets(mirror, { backup: { ...backup, targets }, clock: systemClock })).filter(
        ({ isEmptied }) => isEmptied,
      );
    } finally {
      mirror.close();
    }
  } catch {
    // Making the backup fails with this error, and reports it.
    return;
  }
  for (const { config: target, holdsOthers } of emptied) {
    if (target.type !== 'directory') continue;
    printReason(context, [
      emptiedError(target.path, holdsOthers).message,
      '  → the backup is stored there nevertheless; if the disk should be mounted, mount it and run `tidemark backup create` again',
    ]);
  }
}

/** A directory may be on a network disk that hangs; this one has just taken a backup. */
const EARLIER_WAIT_MS = 3_000;

/** What was backed up may be a mirror that was begun by mistake, beside the backups of the true one. */
async function warnOfEarlier(context: CommandContext, config: Config): Promise<void> {
  const mirror = openConfiguredMirror(config, 'read', 'backup create', context.pid);
  try {
    const directories = (config.backup?.targets ?? []).filter(({ type }) => type === 'directory');
    const shown = await new BackupCatalog(systemClock).look(directories, mirror, EARLIER_WAIT_MS);
    const anew = begunByMistake(config, shown, mirror);
    if (anew !== null) printReason(context, [anew.message, `  → ${anew.hint}`]);
  } finally {
    mirror.close();
  }
}

function configuredBackupWriter(context: CommandContext, config: Config): BackupWriter {
  return createBackupWriter({
    backup: backupsOf(config),
    mirror: config.mirror,
    command: 'backup create',
    env: context.env,
    withheld: withheldBy(config),
    clock: systemClock,
    log: commandLog(context, 'silent'),
    host: hostname(),
    pid: context.pid,
    ...(context.isOneProcess === true ? { work: backUpHere(systemClock) } : {}),
  });
}

const PHASE: Readonly<Record<BackupPhase, string>> = {
  copying: 'copying the mirror',
  verifying: 'verifying the backup',
  packing: 'writing the file',
  checking: 'reading it back',
  storing: 'storing it in its targets',
  waiting: 'waiting for an answer of',
};

function progressOf(context: CommandContext): Parameters<BackupWriter['make']>[1] {
  const isDrawn = isInteractive(context);
  return ({ phase, share, target }) => {
    const text = PHASE[phase];
    if (isDrawn) context.stderr.write(`\r\u001b[K${text} ${target ?? `${Math.floor(share * 100)} %`} `);
    else if (target !== undefined) printNote(context, [`${text} ${target}`]);
  };
}

function linesOf({ manifest, targets, hook, seconds }: BackupOutcome, config: BackupConfig): string[] {
  const { run, bytes, plain_bytes: plain, encryption, checked, root } = manifest;
  const removed = targets.reduce((sum, each) => sum + each.removed.length, 0);
  const kept = [
    ...new Set(config.targets.flatMap(({ retention }) => (retention === null ? [] : [keptText(retention)]))),
  ];
  return [
    ...targets.flatMap(({ path }) =>
      path === null ? [] : [`run ${run} backed up to ${escapeControlCharacters(path)}`],
    ),
    `${megabytes(bytes)} for a mirror of ${megabytes(plain)}, ${encryption === null ? 'not encrypted' : 'encrypted with age'}, in ${duration(seconds * 1000)}`,
    `verified: ${plural(checked.records, 'record')}, ${plural(checked.revisions, 'revision')}, root hash ${root}`,
    ...(removed === 0 ? [] : [`${plural(removed, 'old backup')} removed by retention (${kept.join('; ')})`]),
    ...keptLines(targets.flatMap(({ contradicting: names }) => names)),
    ...(hook?.outcome === 'done' ? [`backup.command succeeded in ${duration(hook.seconds * 1000)}`] : []),
  ];
}

function keptLines(names: readonly string[]): string[] {
  const text = contradictingText(names);
  return text === null ? [] : [`${text}; ${CONTRADICTING_HINT}`];
}

function documentOf({ path, manifest, targets, hook, errors, seconds }: BackupOutcome): object {
  return {
    schema: 'tidemark.backup_create/1',
    path,
    manifest,
    removed: targets.flatMap(({ removed }) => removed),
    targets: targets.map((target) => ({
      address: target.address,
      path: target.path,
      error: target.error?.message ?? null,
      removed: target.removed,
      contradicting: target.contradicting,
    })),
    command: hook === null ? null : { outcome: hook.outcome, seconds: hook.seconds },
    errors: errors.map((error) => ({
      code: error.code,
      message: error.message,
      hint: error.hint ?? null,
    })),
    seconds,
  };
}
