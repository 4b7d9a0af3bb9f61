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
import { begunByMistake, originOf } from '../backup/earlier.ts';
import { type Backup, type DueTarget, dueTargets, emptiedError, listBackups } from '../backup/list.ts';
import { directoryTarget } from '../backup/targets/directory.ts';
import { openTarget } from '../backup/targets/open.ts';
import type { BackupTarget } from '../backup/targets/target.ts';
import { withheldBy } from '../backup/hook.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import {
  clearProgress,
  isInteractive,
  print,
  printJson,
  printNote,
  printReason,
  type CommandContext,
  terminalWidth,
} from './context.ts';
import { errorDocument, errorLines } from './failure.ts';
import { renderTable } from '../report/table.ts';
import { keptText } from './config-check.ts';
import { backupsBelow, newerBelow } from './backups-below.ts';
import { age } from './export-notes.ts';
import { commandLog } from './command-log.ts';
import { backupResult, damageResult } from '../daemon/jobs/job-table.ts';
import { recordJob } from './record-job.ts';

interface ListOptions {
  readonly target?: string;
}

/** Exit 0, also if a backup is damaged (`backup verify` has an exit code for that); 3 if a target could not be listed, 1 if none could. */
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
  const own = withConfiguredMirror(context, (mirror) => originOf(mirror).id);
  const unlike = withConfiguredMirror(context, (mirror) =>
    contradicting(
      mirror,
      listed.flatMap(({ backups }) => backups),
    ),
  );
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.backups/1',
      mirror: own,
      targets: listed.map(({ target, error }) => ({
        address: target.address,
        error: error?.message ?? null,
      })),
      backups: listed.flatMap(({ backups }) => backups.map(backupDocument)),
      contradicting: unlike,
    });
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
  /** Why it could not be listed; null if it was. */
  readonly error: TidemarkError | null;
}

/** The backups in each target. If one cannot be listed, the others are listed nevertheless. */
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

/** Reports the targets that could not be listed, or could not take a backup. */
export function printUnread(context: CommandContext, unread: readonly TidemarkError[]): void {
  const { ofSeveral } = context;
  if (ofSeveral !== undefined) unread.forEach(ofSeveral.onShared);
  else for (const error of unread) printReason(context, errorLines(error));
}

/**
 * As `listBackups`; says that it waits if the target does not answer at once.
 * @throws TidemarkError `timeout` if it has not answered within a minute
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

/**
 * The same, compared with the configured mirror if that can be read: a backup whose manifest names another mirror may be of this one,
 * and the newest may be gone.
 */
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
  // The mirror is shown unless all backups are of the configured one.
  const mirrors = new Set([own ?? [], ...backups.map(({ manifest }) => manifest?.mirror ?? [])].flat());
  const isOfSeveral = mirrors.size > 1;
  const table = renderTable(
    ['file', 'made', 'run', 'size', 'encrypted', 'state', ...(isOfSeveral ? ['mirror', 'sources'] : [])],
    backups.map((backup) => [
      ...rowOf(backup),
      ...(isOfSeveral ? [mirrorName(backup, own), sourceNames(backup)] : []),
    ]),
    ['left', 'left', 'right', 'right'],
    // The file's name shows both.
    { width: terminalWidth(context), least: ['encrypted', 'run'] },
  );
  return `${address}\n${table}`;
}

/** The first characters of the mirror's id, and whether it is the configured one. */
export function mirrorName({ manifest }: Pick<Backup, 'manifest'>, own: string | null): string {
  if (manifest === null) return '·';
  return `${manifest.mirror.slice(0, 8)}${manifest.mirror === own ? ' (configured)' : ''}`;
}

/** Null if the configured mirror cannot be read: backups must work without it, as on an empty machine. */
export function withConfiguredMirror<T>(
  context: CommandContext,
  work: (mirror: Mirror, config: Config) => T,
): T | null {
  try {
    const config = readConfig(context, context.options, 'unused');
    using mirror = openConfiguredMirror(config, 'read', 'backup', context.pid);
    return work(mirror, config);
  } catch {
    return null;
  }
}

/** The target with this address, or the configured ones. @throws TidemarkError `usage` if there is none */
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

/** @throws TidemarkError `usage` if it is not an S3 address */
export function s3Config({ env }: Pick<CommandContext, 'env'>, address: string): S3TargetConfig {
  const config = parseS3Address(address);
  if (config !== null) return { ...config, objectLock: null, retention: null, proxies: proxySettings(env) };
  throw new TidemarkError('usage', `${address} is not an S3 address`, {
    hint: `give ${TARGET_ADDRESS}`,
  });
}

/** The configured backups. @throws TidemarkError `usage` if there are none */
export function backupsOf(config: Config): BackupConfig {
  if (config.backup !== null) return config.backup;
  throw new TidemarkError('usage', 'no target for backups is configured', {
    hint: 'set `backup.targets` (or TIDEMARK_BACKUP_TARGETS) to a directory on another disk, or to s3://BUCKET/PREFIX',
  });
}

function rowOf(backup: Backup): string[] {
  const { name, madeAt, run, bytes, isEncrypted, state, reason, isOfOtherVersion, manifest } = backup;
  const made = age(madeAt, systemClock.now());
  // Not `whole`: only the size was compared; `backup verify` reads the file.
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
export function backupDocument(backup: Backup): object {
  const { path, run, bytes, state, reason, manifest } = backup;
  return {
    file: backup.name,
    target: backup.target.address,
    path,
    made_at: backup.madeAt,
    run,
    bytes,
    is_encrypted: backup.isEncrypted,
    state,
    reason,
    is_of_other_version: backup.isOfOtherVersion,
    mirror: manifest?.mirror ?? null,
    root: manifest?.root ?? null,
    sha256: manifest?.sha256 ?? null,
    plain_bytes: manifest?.plain_bytes ?? null,
    sources: manifest?.sources ?? [],
  };
}

/** Exit 0 when done, 3 if a backup was made but a target could not take it, an old one could not be removed, or `backup.command` failed. */
export async function createBackupNow(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const writer = configuredBackupWriter(context, config);
  await warnOfEmptied(context, config);
  const startedAt = systemClock.now();
  let outcome: BackupOutcome;
  try {
    outcome = await writer.make(context.signal, progressOf(context));
  } catch (error) {
    // Recorded as by a verification: `status`, health and metrics use what was found, whoever made the backup.
    const result = damageResult(error);
    if (result !== null)
      await recordJob(context, config, { name: 'backup', source: null, startedAt, result });
    throw error;
  } finally {
    clearProgress(context);
  }
  if (context.options.json === true) await printJson(context, documentOf(outcome));
  else await print(context, `${linesOf(outcome, backupsOf(config)).join('\n')}\n`);
  printUnread(context, outcome.errors);
  await warnOfEarlier(context, config);
  const result = backupResult({ made: outcome });
  await recordJob(context, config, { name: 'backup', source: null, startedAt, result });
  return outcome.errors.length === 0 ? EXIT.done : EXIT.partial;
}

/** The daemon refuses a directory that lost its backups; a backup made by hand only warns. */
async function warnOfEmptied(context: CommandContext, config: Config): Promise<void> {
  const { backup } = config;
  if (backup === null) return;
  let emptied: readonly DueTarget[];
  try {
    using mirror = openConfiguredMirror(config, 'read', 'backup create', context.pid);
    const targets = backup.targets.filter(({ type }) => type === 'directory');
    emptied = (await dueTargets(mirror, { backup: { ...backup, targets }, clock: systemClock })).filter(
      ({ isEmptied }) => isEmptied,
    );
  } catch {
    // Making the backup fails with the same error.
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

/** Short, as the directory has just taken a backup; a network disk may hang. */
const EARLIER_WAIT_MS = 3_000;

/** Warns if the mirror may have been begun by mistake: then the target has backups of another one. */
async function warnOfEarlier(context: CommandContext, config: Config): Promise<void> {
  using mirror = openConfiguredMirror(config, 'read', 'backup create', context.pid);
  const directories = (config.backup?.targets ?? []).filter(({ type }) => type === 'directory');
  const shown = await new BackupCatalog(systemClock).look(directories, mirror, EARLIER_WAIT_MS);
  const anew = begunByMistake(config, shown, mirror);
  if (anew !== null) printReason(context, errorLines(anew));
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
      path === null ? [] : `run ${run} backed up to ${escapeControlCharacters(path)}`,
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
    targets: targets.map(({ address, path, error, removed, contradicting }) => ({
      ...{ address, path, error: error?.message ?? null, removed, contradicting },
    })),
    command: hook === null ? null : { outcome: hook.outcome, seconds: hook.seconds },
    errors: errors.map((error) => errorDocument(error)),
    seconds,
  };
}
