/** Copies of the mirror in another place: when one is due, making it, what goes by retention, and the command after it. */
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { CopiesConfig } from '../../config/config.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { type TidemarkError, asTidemarkError } from '../../core/errors.ts';
import { asFileTrouble } from '../../core/file-errors.ts';
import type { Logger } from '../../core/logger.ts';
import { type Mirror, openMirror } from '../../mirror/mirror.ts';
import { isCopyDue } from './copy-due.ts';
import type { CopyProgress, CopyWork } from './copy-job.ts';
import { readCopies } from './copy-list.ts';
import { copiesToRemove } from './copy-retention.ts';
import { copyInProcess } from './copy-process.ts';
import { encryption, readRecipients } from './encryption.ts';
import type { Environment, Withheld } from './hook-environment.ts';
import { type HookResult, runHook } from './hook.ts';
import type { CopyManifest } from './manifest.ts';
import { manifestName } from './copy-name.ts';
import { mirrorId } from './plain-copy.ts';
import { removeCopy, sweepUnfinished } from './unfinished.ts';
import { openWorkplace } from './workplace.ts';

export interface CopierOptions {
  readonly copies: CopiesConfig;
  /** Path of the mirror. */
  readonly mirror: string;
  /** The command that holds the lock meanwhile, as whoever waits for it is told. */
  readonly command: string;
  /** Of this process: for the one that does the work, and the command after each copy. */
  readonly env: Environment;
  /** What must not reach that command. */
  readonly withheld: Withheld;
  readonly clock: Clock;
  readonly log: Logger;
  readonly host: string;
  readonly pid: number;
  /** Default: in a process of its own. */
  readonly work?: CopyWork;
}

export interface CopyOutcome {
  /** Absolute path of the copy. */
  readonly path: string;
  readonly manifest: CopyManifest;
  /** Names of the copies that retention removed. */
  readonly removed: readonly string[];
  /** What kept retention from removing more; null for nothing. */
  readonly untidy: TidemarkError | null;
  /** Null where no command is configured. */
  readonly hook: HookResult | null;
  readonly seconds: number;
}

export interface Copier {
  /**
   * Makes a copy when one of these runs was complete and the newest copy of this mirror is old enough; null when not.
   * @throws TidemarkError as `make` does
   */
  afterCompleteRun(mirror: Mirror, runs: readonly number[], signal: AbortSignal): Promise<CopyOutcome | null>;
  /**
   * Makes a copy now. When it throws, the copies that there are stand as they stood, and nothing that looks whole was
   * added. A failure of retention or of the command is part of the outcome: the copy is there.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system` about a path, `mirror_locked` while another copy is
   *   made, `mirror_missing`, `mirror_corrupt`, `config_invalid` for recipients, `interrupted`
   */
  readonly make: (signal: AbortSignal, onProgress?: (progress: CopyProgress) => void) => Promise<CopyOutcome>;
}

export function createCopier(options: CopierOptions): Copier {
  const make: Copier['make'] = (signal, onProgress = () => undefined) => makeOne(options, signal, onProgress);
  return {
    make,
    afterCompleteRun: async (mirror, runs, signal) => {
      const isWhole = (number: number): boolean => {
        const run = mirror.run(number);
        return run?.outcome === 'complete' && run.kinds === null;
      };
      if (!runs.some(isWhole)) return null;
      return (await isCopyDue(mirror, options)) ? await make(signal) : null;
    },
  };
}

async function makeOne(
  options: CopierOptions,
  signal: AbortSignal,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopyOutcome> {
  const { copies, clock, log } = options;
  const begun = clock.monotonicMs();
  const recipients = await recipientsOf(copies);
  await checkDirectory(copies.directory);
  const owner = ownerOf(options);
  const { command, host, pid, work = copyInProcess(options) } = options;
  const holder = { command, host, pid, since: isoTime(clock.now()) };
  const workplace = openWorkplace(options.mirror, 'copies', holder);
  try {
    await sweepUnfinished(copies.directory, owner);
    const job = {
      mirrorPath: options.mirror,
      workDirectory: workplace.directory,
      directory: copies.directory,
      recipients,
      owner,
    };
    const manifest = await withSweep(copies.directory, owner, () => work(job, { signal, onProgress }));
    const path = join(copies.directory, manifest.file);
    const made = { copy: manifest.file, run: manifest.run, bytes: manifest.bytes };
    log.info(made, 'the mirror was copied');
    const { removed, untidy } = await removeOld(options, manifest);
    if (removed.length > 0) log.info({ removed }, 'old copies were removed');
    if (untidy !== null) log.warn({ code: untidy.code }, untidy.message);
    const hook = await hookAfter(options, manifest, signal);
    if (hook?.error) log.error({ code: hook.error.code, copy: manifest.file }, hook.error.message);
    const seconds = Math.round(clock.monotonicMs() - begun) / 1000;
    return { path, manifest, removed, untidy, hook, seconds };
  } finally {
    workplace.close();
  }
}

/** @throws TidemarkError `config_invalid`, or as reading the file fails */
async function recipientsOf({ recipients, recipientsFile }: CopiesConfig): Promise<string[]> {
  const all = [...recipients, ...(recipientsFile === null ? [] : await readRecipients(recipientsFile))];
  const distinct = [...new Set(all)];
  // Before the work, and not in the middle of it.
  if (distinct.length > 0) encryption(distinct);
  return distinct;
}

async function checkDirectory(directory: string): Promise<void> {
  // Says best what is wrong with one that is not there.
  await readCopies(directory);
  try {
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw asFileTrouble(error, directory, 'written');
  }
}

function ownerOf({ mirror: path, command, clock }: CopierOptions): string {
  const mirror = openMirror(path, { mode: 'read', command, clock });
  try {
    return mirrorId(mirror);
  } finally {
    mirror.close();
  }
}

/** What failed leaves nothing in the directory. Where even that fails, the first failure is the one to tell. */
async function withSweep<T>(directory: string, owner: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await sweepUnfinished(directory, owner).catch(() => undefined);
    throw error;
  }
}

async function removeOld(
  { copies }: CopierOptions,
  { mirror, file }: CopyManifest,
): Promise<{ removed: string[]; untidy: TidemarkError | null }> {
  const removed: string[] = [];
  try {
    const all = await readCopies(copies.directory);
    for (const { name } of copiesToRemove(all, copies.retention, { mirror, justMade: file })) {
      await removeCopy(copies.directory, name, mirror);
      removed.push(name);
    }
    return { removed, untidy: null };
  } catch (error) {
    return { removed, untidy: asTidemarkError(error) };
  }
}

async function hookAfter(
  { copies, env, withheld, clock }: CopierOptions,
  { file }: CopyManifest,
  signal: AbortSignal,
): Promise<HookResult | null> {
  const { directory, command, commandTimeoutMs: timeoutMs } = copies;
  if (command === null) return null;
  const paths = { directory, file: join(directory, file), manifest: join(directory, manifestName(file)) };
  return await runHook({ command, paths, env, withheld, timeoutMs, clock, signal });
}
