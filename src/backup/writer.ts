/** Backups of the mirror: when one is due, making it, retention, and the command after it. */
import type { ChildProcess } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { BackupConfig } from '../config/config.ts';
import { aborted } from '../core/aborted.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { TidemarkError, asTidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import type { Logger } from '../core/logger.ts';
import { type Mirror } from '../mirror/mirror.ts';
import { openMirror } from '../mirror/open.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { planRetention } from '../mirror/retention.ts';
import {
  type ProgramEnd,
  closeOutput,
  endProgram,
  endText,
  programEnd,
  startProgram,
  startError,
} from '../core/program.ts';
import { isBackupDue } from './due.ts';
import type { BackupWorkProgress, BackupWork } from './work.ts';
import { listBackups, type Backup } from './list.ts';
import { manifestName } from './name.ts';
import { backUpInProcess } from './work.ts';
import { encryption, readRecipients } from './encryption.ts';
import { type Environment, type Withheld, hookEnvironment } from './hook-environment.ts';
import type { BackupManifest } from './manifest.ts';
import { mirrorId } from './plain-backup.ts';
import { removeBackup, sweepUnfinished } from './unfinished.ts';
import { openWorkDirectory } from './work-directory.ts';

export interface BackupWriterOptions {
  readonly backup: BackupConfig;
  /** Path of the mirror. */
  readonly mirror: string;
  /** The command by which this process holds the lock: shown to processes that wait for it. */
  readonly command: string;
  /** Of this process: for the child process that does the work, and the command after each backup. */
  readonly env: Environment;
  /** Variables that the command must not inherit. */
  readonly withheld: Withheld;
  readonly clock: Clock;
  readonly log: Logger;
  readonly host: string;
  readonly pid: number;
  /** Default: in a child process. */
  readonly work?: BackupWork;
}

export interface BackupOutcome {
  /** Absolute path of the backup. */
  readonly path: string;
  readonly manifest: BackupManifest;
  /** Names of the backups that retention removed. */
  readonly removed: readonly string[];
  /** The error that kept retention from removing more; null without one. */
  readonly cleanupError: TidemarkError | null;
  /** Null where no command is configured. */
  readonly hook: HookResult | null;
  readonly seconds: number;
}

export interface BackupWriter {
  /**
   * Makes a backup when one of these runs was complete and the newest backup of this mirror is old enough; null when not.
   * @throws TidemarkError as `make` does
   */
  afterCompleteRun(
    mirror: Mirror,
    runs: readonly number[],
    signal: AbortSignal,
  ): Promise<BackupOutcome | null>;
  /**
   * Makes a backup now. When it throws, existing backups are unchanged, and no file with the name of a backup was added. An
   * error of retention or of the command is part of the result: the backup exists.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system` about a path, `mirror_locked` while another backup is
   *   made, `mirror_missing`, `mirror_corrupt`, `config_invalid` for recipients, `interrupted`
   */
  readonly make: (
    signal: AbortSignal,
    onProgress?: (progress: BackupWorkProgress) => void,
  ) => Promise<BackupOutcome>;
}

export function createBackupWriter(options: BackupWriterOptions): BackupWriter {
  const make: BackupWriter['make'] = (signal, onProgress = () => undefined) =>
    makeOne(options, signal, onProgress);
  return {
    make,
    afterCompleteRun: async (mirror, runs, signal) => {
      const isWhole = (number: number): boolean => {
        const run = mirror.runs.get(number);
        return run?.outcome === 'complete' && run.kinds === null;
      };
      if (!runs.some(isWhole)) return null;
      return (await isBackupDue(mirror, options)) ? await make(signal) : null;
    },
  };
}

async function makeOne(
  options: BackupWriterOptions,
  signal: AbortSignal,
  onProgress: (progress: BackupWorkProgress) => void,
): Promise<BackupOutcome> {
  const { backup, clock, log } = options;
  const begun = clock.monotonicMs();
  const recipients = await recipientsOf(backup);
  await checkDirectory(backup.directory);
  const owner = ownerOf(options);
  const { command, host, pid, work = backUpInProcess(options) } = options;
  const holder = { command, host, pid, since: isoTime(clock.now()) };
  const workDirectory = openWorkDirectory(options.mirror, 'backups', holder);
  try {
    await sweepUnfinished(backup.directory, owner);
    const job = {
      mirrorPath: options.mirror,
      workDirectory: workDirectory.directory,
      directory: backup.directory,
      recipients,
      owner,
    };
    const manifest = await withSweep(backup.directory, owner, () => work(job, { signal, onProgress }));
    const path = join(backup.directory, manifest.file);
    const made = { file: manifest.file, run: manifest.run, bytes: manifest.bytes };
    log.info(made, 'the mirror was backed up');
    const { removed, cleanupError } = await removeOld(options, manifest);
    if (removed.length > 0) log.info({ removed }, 'old backups were removed');
    if (cleanupError !== null) log.warn({ code: cleanupError.code }, cleanupError.message);
    const hook = await hookAfter(options, manifest, signal);
    if (hook?.error) log.error({ code: hook.error.code, backup: manifest.file }, hook.error.message);
    const seconds = Math.round(clock.monotonicMs() - begun) / 1000;
    return { path, manifest, removed, cleanupError, hook, seconds };
  } finally {
    workDirectory.close();
  }
}

/** @throws TidemarkError `config_invalid`, or as reading the file fails */
async function recipientsOf({ recipients, recipientsFile }: BackupConfig): Promise<string[]> {
  const all = [...recipients, ...(recipientsFile === null ? [] : await readRecipients(recipientsFile))];
  const distinct = [...new Set(all)];
  // Checked before the work begins.
  if (distinct.length > 0) encryption(distinct);
  return distinct;
}

async function checkDirectory(directory: string): Promise<void> {
  // Throws the most specific error for a missing directory.
  await listBackups(directory);
  try {
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw asFileError(error, directory, 'written');
  }
}

function ownerOf({ mirror: path, command, clock }: BackupWriterOptions): string {
  const mirror = openMirror(path, { mode: 'read', command, clock });
  try {
    return mirrorId(mirror);
  } finally {
    mirror.close();
  }
}

/** Removes unfinished files after a failure. If that fails too, the first error is thrown. */
async function withSweep<T>(directory: string, owner: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // The error of the work is the one to report; the next backup sweeps again.
    await sweepUnfinished(directory, owner).catch(() => undefined);
    throw error;
  }
}

async function removeOld(
  { backup }: BackupWriterOptions,
  { mirror, file }: BackupManifest,
): Promise<{ removed: string[]; cleanupError: TidemarkError | null }> {
  const removed: string[] = [];
  try {
    const all = await listBackups(backup.directory);
    for (const { name } of backupsToRemove(all, backup.retention, { mirror, justMade: file })) {
      await removeBackup(backup.directory, name, mirror);
      removed.push(name);
    }
    return { removed, cleanupError: null };
  } catch (error) {
    return { removed, cleanupError: asTidemarkError(error) };
  }
}

async function hookAfter(
  { backup, env, withheld, clock }: BackupWriterOptions,
  { file }: BackupManifest,
  signal: AbortSignal,
): Promise<HookResult | null> {
  const { directory, command, commandTimeoutMs: timeoutMs } = backup;
  if (command === null) return null;
  const paths = { directory, file: join(directory, file), manifest: join(directory, manifestName(file)) };
  return await runHook({ command, paths, env, withheld, timeoutMs, clock, signal });
}

// Which backups retention keeps: pure. The rules are those of runs, applied to each mirror's backups separately.

/**
 * The backups of one mirror to remove, oldest last. Only complete ones count and are removed: damaged ones, and those
 * without a manifest, are left to the user. The newest complete one is always kept, and so is `justMade`, whatever the
 * times of the others.
 * @throws TidemarkError `usage` for a policy that keeps nothing
 */
export function backupsToRemove(
  backups: readonly Backup[],
  policy: RetentionPolicy,
  { mirror, justMade }: { readonly mirror: string; readonly justMade: string | null },
): Backup[] {
  const own = backups
    .filter(({ state, manifest }) => state === 'whole' && manifest?.mirror === mirror)
    .toSorted((a, b) => Date.parse(a.madeAt) - Date.parse(b.madeAt) || a.run - b.run);
  const { forgotten } = planRetention({
    // Numbered by age: a mirror that was restored from a backup uses run numbers again.
    runs: own.map(({ madeAt }, index) => ({
      run: index,
      source: mirror,
      outcome: 'complete',
      startedAt: madeAt,
      finishedAt: madeAt,
    })),
    snapshots: [],
    policy,
  });
  return forgotten.flatMap(({ run }) => own[run] ?? []).filter(({ name }) => name !== justMade);
}

// The command after each backup, such as restic or rclone: a program with its arguments, never a shell.

interface HookPaths {
  readonly file: string;
  readonly manifest: string;
  readonly directory: string;
}

export interface HookOptions {
  readonly command: readonly string[];
  readonly paths: HookPaths;
  /** Of this process. */
  readonly env: Environment;
  readonly withheld: Withheld;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface HookResult {
  readonly outcome: 'done' | 'failed';
  readonly seconds: number;
  /** Why it failed; null if it did not. */
  readonly error: TidemarkError | null;
}

/** Time between asking the program to end and killing it. */
const END_GRACE_MS = 5000;
/** How long to wait for its last output: a background process that it started may keep it open. */
const OUTPUT_GRACE_MS = 500;
/** Characters of the program's last output that are kept. */
const TAIL_CHARACTERS = 2000;

/** Runs the command to its end. Never throws: a failure is part of the result, and the backup is valid anyway. */
export async function runHook(options: HookOptions): Promise<HookResult> {
  const { clock } = options;
  const begun = clock.monotonicMs();
  const error = await failureOf(options);
  const seconds = Math.round(clock.monotonicMs() - begun) / 1000;
  return { outcome: error === null ? 'done' : 'failed', seconds, error };
}

async function failureOf(options: HookOptions): Promise<TidemarkError | null> {
  const { clock, signal, timeoutMs } = options;
  const [program = '', ...args] = filled(options.command, options.paths);
  if (signal.aborted) return failed(program, 'was not started: Tidemark is ending');
  const child = startProgram(program, args, {
    cwd: options.paths.directory,
    env: environmentOf(options),
    stdin: 'ignore',
  });
  let tail = '';
  const keep = (text: string): void => void (tail = (tail + text).slice(-TAIL_CHARACTERS));
  child.stdout?.setEncoding('utf8').on('data', keep);
  child.stderr?.setEncoding('utf8').on('data', keep);
  const over = new AbortController();
  const ended = endOf(child, clock).finally(() => over.abort());
  const why = await Promise.race([
    ended.then(() => null),
    clock.sleep(timeoutMs, over.signal).then(
      () => `took longer than ${timeoutMs / 1000} s and was ended`,
      () => null,
    ),
    aborted(signal, over.signal).then(() => 'was ended: Tidemark is ending'),
  ]);
  if (why !== null) {
    // Ends early once the program has ended.
    const grace = clock.sleep(END_GRACE_MS, over.signal).catch(() => undefined);
    await endProgram(child, ended, grace);
    return failed(program, why);
  }
  const end = await ended;
  if (end.error !== null)
    return failed(program, `could not be started: ${startError(end.error, end.error.message)}`);
  if (end.code === 0) return null;
  return failed(program, endText(end) + lastLine(tail));
}

async function endOf(child: ChildProcess, clock: Clock): Promise<ProgramEnd> {
  const closed = new AbortController();
  child.once('close', () => closed.abort());
  const end = await programEnd(child);
  // Ends early once its output is closed.
  if (!closed.signal.aborted) await clock.sleep(OUTPUT_GRACE_MS, closed.signal).catch(() => undefined);
  closeOutput(child);
  return end;
}

/** Replaces `{file}` and the like in the arguments in one pass, so that text in a path is never taken for a placeholder. */
function filled(command: readonly string[], paths: HookPaths): string[] {
  return command.map((word) =>
    word.replaceAll(/\{(file|manifest|directory)\}/g, (_all, name: keyof HookPaths) => paths[name]),
  );
}

function environmentOf({ env, withheld, paths }: HookOptions): Record<string, string> {
  return {
    ...hookEnvironment(env, withheld),
    TIDEMARK_BACKUP_FILE: paths.file,
    TIDEMARK_BACKUP_MANIFEST: paths.manifest,
    TIDEMARK_BACKUP_DIRECTORY: paths.directory,
  };
}

function lastLine(tail: string): string {
  const line = tail
    .split('\n')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .at(-1);
  return line === undefined ? '' : `: ${line.slice(0, 300)}`;
}

function failed(program: string, why: string): TidemarkError {
  return new TidemarkError('file_system', `the command after the backup (${program}) ${why}`, {
    hint: 'the backup itself is whole; start the command by hand to see what it needs (`backup.command`)',
  });
}
