/** Makes backups of the mirror when they are due, with retention in each target and the command after the backup. */
import { dirname } from 'node:path';
import type { BackupConfig, RetentionPolicy, TargetConfig } from '../config/config.ts';
import { type Clock, isoTime, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirror } from '../mirror/open.ts';
import { planRetention } from '../mirror/retention.ts';
import { CONTRADICTING_HINT, contradictingIn, contradictingText } from './chain.ts';
import { encryption, readRecipients } from './encryption.ts';
import { type Environment, type HookResult, runHook, type Withheld } from './hook.ts';
import { type Backup, dueTargets, emptiedError, isBackedUpAfter, listBackups } from './list.ts';
import type { BackupManifest } from './manifest.ts';
import { manifestName, parseBackupName } from './name.ts';
import { mirrorId } from './plain-backup.ts';
import { backUpInProcess } from './process.ts';
import { openTarget } from './targets/open.ts';
import { NoTargetError, type StoredBackup } from './stored-backup.ts';
import type { BackupJob, BackupWork, BackupWorkProgress } from './work.ts';
import { openWorkDirectory } from './work-directory.ts';

export interface BackupWriterOptions {
  readonly backup: BackupConfig;
  /** Path of the mirror. */
  readonly mirror: string;
  /** The command that holds the lock: shown to processes that wait for it. */
  readonly command: string;
  /** The environment of this process, for the child process that does the work, and for the command after each backup. */
  readonly env: Environment;
  /** What the command after the backup must not inherit. */
  readonly withheld: Withheld;
  readonly clock: Clock;
  readonly log: Logger;
  readonly host: string;
  readonly pid: number;
  /** Called with the address of a target that has not answered for some seconds, and with null once the work continues. */
  readonly onWait?: (address: string | null) => void;
  /** Default: in a child process. */
  readonly work?: BackupWork;
}

/** The outcome of the backup in one target. */
export interface TargetOutcome extends StoredBackup {
  /** Names of the backups that retention removed. */
  readonly removed: readonly string[];
  /** Names of the backups that are not in the chain of the mirror: retention keeps them. */
  readonly contradicting: readonly string[];
  /** The error at which retention stopped; null if there was none. */
  readonly cleanupError: TidemarkError | null;
}

export interface BackupOutcome {
  /** Path or address of the backup in the first target that has it. */
  readonly path: string;
  readonly manifest: BackupManifest;
  readonly targets: readonly TargetOutcome[];
  /** Null if no command was run. */
  readonly hook: HookResult | null;
  /** Errors that did not prevent the backup, in order: of targets, of retention, of the command. */
  readonly errors: readonly TidemarkError[];
  readonly seconds: number;
}

interface RefusedTarget {
  readonly address: string;
  readonly error: TidemarkError;
}

/** The result of `afterCompleteRun`. */
export interface DueOutcome {
  /** Null if no target has the backup. */
  readonly made: BackupOutcome | null;
  /**
   * Directories that have none of the backups that the daemon stored there: nothing is stored in them. If a directory
   * is found to be empty only while the backup is made, it is among the targets of `made`.
   */
  readonly emptied: readonly RefusedTarget[];
  /** If no backup was made, the other targets. */
  readonly failed: readonly RefusedTarget[];
  /** True if a backup was due only in some of the configured targets: the others have a recent one. */
  readonly isOfSome: boolean;
}

export interface BackupWriter {
  /**
   * Makes a backup in the targets where one is due, if one of these runs was complete; null if none is due.
   * @throws TidemarkError as `make`, but if no target could take the backup, that is part of the result
   */
  afterCompleteRun(mirror: Mirror, runs: readonly number[], signal: AbortSignal): Promise<DueOutcome | null>;
  /**
   * Makes a backup now. If it throws, existing backups are unchanged, and no file with the name of a backup was added.
   * Errors of single targets, of retention and of the command are part of the result, since the backup exists.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system` about a path, `mirror_locked` while another backup is
   *   made, `mirror_missing`, `mirror_corrupt`, `config_invalid` for recipients, `interrupted`, and as the first target
   *   does if none could take it
   */
  readonly make: (
    signal: AbortSignal,
    onProgress?: (progress: BackupWorkProgress) => void,
  ) => Promise<BackupOutcome>;
}

/** A writer of backups for one mirror. */
export function createBackupWriter(options: BackupWriterOptions): BackupWriter {
  const { backup } = options;
  return {
    make: (signal, onProgress = () => undefined) =>
      makeOne(options, { targets: backup.targets, mustHaveSome: [] }, signal, onProgress),
    afterCompleteRun: async (mirror, runs, signal) => {
      if (!runs.some((run) => isBackedUpAfter(mirror, run))) return null;
      const due = await dueTargets(mirror, options);
      if (due.length === 0) return null;
      const isOfSome = due.length < backup.targets.length;
      const emptied = due.flatMap(({ config, isEmptied, holdsOthers }) =>
        isEmptied && config.type === 'directory'
          ? [{ address: config.path, error: emptiedError(config.path, holdsOthers) }]
          : [],
      );
      const targets = due.filter(({ isEmptied }) => !isEmptied).map(({ config }) => config);
      const mustHaveSome = due.flatMap(({ config, hadSome }) =>
        hadSome && config.type === 'directory' ? [config.path] : [],
      );
      if (targets.length === 0) return { made: null, emptied, failed: [], isOfSome };
      try {
        const made = await makeOne(options, { targets, mustHaveSome }, signal, () => undefined);
        return { made, emptied, failed: [], isOfSome };
      } catch (error) {
        if (!(error instanceof NoTargetError)) throw error;
        const refused = error.outcomes.flatMap((each) =>
          each.error === null ? [] : [{ ...each, error: each.error }],
        );
        const lost = [...emptied, ...refused.filter(({ isEmptied }) => isEmptied)];
        const failed = refused.filter(({ isEmptied }) => !isEmptied);
        // The job reports the first error itself.
        for (const each of lost.length === 0 ? failed.slice(1) : failed)
          options.log.error({ target: each.address, code: each.error.code }, each.error.message);
        return { made: null, emptied: lost, failed, isOfSome };
      }
    },
  };
}

async function makeOne(
  options: BackupWriterOptions,
  { targets, mustHaveSome }: Required<Pick<BackupJob, 'targets' | 'mustHaveSome'>>,
  signal: AbortSignal,
  onProgress: (progress: BackupWorkProgress) => void,
): Promise<BackupOutcome> {
  const { backup, clock, log } = options;
  const begun = clock.monotonicMs();
  const recipients = await recipientsOf(backup);
  const owner = ownerOf(options);
  const { command, host, pid, work = backUpInProcess(options) } = options;
  const holder = { command, host, pid, since: isoTime(clock.now()) };
  const workDirectory = openWorkDirectory(options.mirror, 'backups', holder);
  try {
    const job = {
      ...{ mirrorPath: options.mirror, workDirectory: workDirectory.directory },
      ...{ targets, mustHaveSome, recipients, owner },
    };
    const report = (progress: BackupWorkProgress): void => {
      const { phase, target } = progress;
      if (phase === 'waiting') log.info({ target }, 'waiting for a target of the backup to answer');
      options.onWait?.(phase === 'waiting' ? (target ?? null) : null);
      onProgress(progress);
    };
    const { manifest, stored } = await withSweep(options, targets, owner, () =>
      work(job, { signal, onProgress: report }),
    );
    const outcomes: TargetOutcome[] = [];
    for (const [index, each] of stored.entries()) {
      const config = targets[index];
      if (each.error !== null) log.error({ target: each.address, code: each.error.code }, each.error.message);
      const kept = { removed: [], contradicting: [], cleanupError: null };
      outcomes.push({
        ...each,
        ...(config === undefined || each.error !== null
          ? kept
          : await removeOldBackups(config, manifest, { clock, mirrorPath: options.mirror })),
      });
    }
    const { file, run, bytes } = manifest;
    const where = outcomes.filter(({ error }) => error === null).map(({ address }) => address);
    log.info({ file, run, bytes, targets: where }, 'the mirror was backed up');
    for (const { address, removed, contradicting: unlike, cleanupError } of outcomes) {
      const kept = contradictingText(unlike);
      if (kept !== null) log.warn({ target: address, backups: unlike, hint: CONTRADICTING_HINT }, kept);
      if (removed.length > 0) log.info({ target: address, removed }, 'old backups were removed');
      if (cleanupError !== null) log.warn({ target: address, code: cleanupError.code }, cleanupError.message);
    }
    const hook = await hookAfter(options, outcomes, targets, signal);
    if (hook?.error) log.error({ code: hook.error.code, backup: file }, hook.error.message);
    return {
      path: outcomes.find(({ error }) => error === null)?.path ?? file,
      manifest,
      targets: outcomes,
      hook,
      errors: [
        ...outcomes.map(({ error }) => error),
        ...outcomes.map(({ cleanupError }) => cleanupError),
        hook?.error ?? null,
      ].filter((error) => error !== null),
      seconds: Math.round(clock.monotonicMs() - begun) / 1000,
    };
  } finally {
    workDirectory.close();
  }
}

/** @throws TidemarkError `config_invalid`, or as reading the file fails */
async function recipientsOf({ recipients, recipientsFile }: BackupConfig): Promise<string[]> {
  const all = [...recipients, ...(recipientsFile === null ? [] : await readRecipients(recipientsFile))];
  const distinct = [...new Set(all)];
  // Checked before the work begins.
  if (distinct.length > 0) await encryption(distinct);
  return distinct;
}

function ownerOf({ mirror: path, command, clock }: BackupWriterOptions): string {
  const mirror = openMirror(path, { mode: 'read', command, clock });
  try {
    return mirrorId(mirror);
  } finally {
    mirror.close();
  }
}

/** The limit for removing unfinished files from a directory: a network disk may hang. */
const SWEEP_MS = 10_000;

/** Does the work, and removes unfinished files if it fails. Throws the error of the work, even if that fails too. */
async function withSweep<T>(
  { clock }: BackupWriterOptions,
  targets: readonly TargetConfig[],
  owner: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    for (const config of targets) {
      // The storage ends unfinished uploads, and the next backup removes them.
      if (config.type !== 'directory') continue;
      // An error is ignored: the next backup sweeps again.
      const swept = openTarget(config, clock).then((target) => target.sweep(owner));
      await settlesWithin(
        swept.catch(() => undefined),
        SWEEP_MS,
        clock,
      );
    }
    throw error;
  }
}

/**
 * After a backup was stored in a target, removes the backups that its retention does not keep.
 * @param options.mirrorPath backups that are not in the chain of this mirror are kept. Null for a cell of a fleet,
 * where a higher fence replaces backups of a lower one
 * @param options.fence backups with a higher one are not removed
 */
export async function removeOldBackups(
  config: TargetConfig,
  { mirror, file }: BackupManifest,
  {
    clock,
    mirrorPath,
    fence = null,
  }: { readonly clock: Clock; readonly mirrorPath: string | null; readonly fence?: number | null },
): Promise<Pick<TargetOutcome, 'removed' | 'contradicting' | 'cleanupError'>> {
  const removed: string[] = [];
  let unlike: readonly string[] = [];
  if (config.retention === null && mirrorPath === null)
    return { removed, contradicting: unlike, cleanupError: null };
  try {
    const target = await openTarget(config, clock);
    const listed = await listBackups(target);
    const all =
      fence === null ? listed : listed.filter(({ name }) => (parseBackupName(name)?.fence ?? 0) <= fence);
    if (mirrorPath !== null) unlike = contradictingIn(mirrorPath, all, { command: 'backup create', clock });
    if (config.retention === null) return { removed, contradicting: unlike, cleanupError: null };
    const left = new Set(unlike);
    const known = all.filter(({ name }) => !left.has(name));
    for (const { name } of backupsToRemove(known, config.retention, { mirror, justMade: file })) {
      await target.remove(name, mirror);
      removed.push(name);
    }
    return { removed, contradicting: unlike, cleanupError: null };
  } catch (error) {
    return { removed, contradicting: unlike, cleanupError: asTidemarkError(error) };
  }
}

/**
 * Runs the command after the backup, with paths in the first directory that has the backup; null if there is no command
 * or directory.
 */
async function hookAfter(
  { backup, env, withheld, clock }: BackupWriterOptions,
  outcomes: readonly TargetOutcome[],
  targets: readonly TargetConfig[],
  signal: AbortSignal,
): Promise<HookResult | null> {
  const { command, commandTimeoutMs: timeoutMs } = backup;
  if (command === null) return null;
  const file = outcomes.find(
    ({ path }, index) => path !== null && targets[index]?.type === 'directory',
  )?.path;
  // If no directory has it, there is no file for the command; the targets' errors are reported.
  if (file === undefined || file === null) return null;
  const paths = { directory: dirname(file), file, manifest: manifestName(file) };
  return await runHook({ command, paths, env, withheld, timeoutMs, clock, signal });
}

/**
 * The backups of one mirror that retention removes, by the same rules as for runs. Only complete backups count and are
 * removed: damaged ones, and those without a manifest, are left to the user. The newest complete backup is always kept,
 * and so is `justMade`, whatever the times of the others.
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
    // Numbered by age: a mirror that was restored from a backup may use run numbers again.
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
