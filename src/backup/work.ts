/**
 * Copying and verifying read the whole mirror, and syncing the disk may take seconds: a child process does that, so that
 * the daemon keeps answering, and the work can be stopped at any time. Not a thread: terminating one that has a SQLite
 * file open can crash the whole process (WiseLibs/better-sqlite3, issue 1476).
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ErrorMessage, fromErrorMessage, workInChild } from '../core/child-process.ts';
import { type Clock, isoTime, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { programVersion, workerFile } from '../core/package-root.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { Backup } from './list.ts';
import { backupName, manifestName, partialName } from './name.ts';
import type { Environment } from './hook-environment.ts';
import { type BackupManifest, MANIFEST_SCHEMA, manifestText } from './manifest.ts';
import { type Digests, damaged, digestOf, pack, unpack } from './packing.ts';
import { takePlainBackup, type PlainFacts } from './plain-backup.ts';
import { finish } from './unfinished.ts';

/** A message of the process: its progress, and once its result. */
export type BackupMessage =
  | { readonly progress: BackupWorkProgress }
  | { readonly manifest: BackupManifest }
  | { readonly error: ErrorMessage };

interface BackupProcessOptions {
  /** Of this process: the child gets the variables that it needs, and no key. */
  readonly env: Environment;
  /** Called when it was started, with its process id. */
  readonly onStart?: (pid: number | undefined) => void;
}

/** Variables that Node, the system's loader and SQLite read. */
const INHERITED = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SQLITE_TMPDIR'],
  ...['NODE_OPTIONS', 'LD_LIBRARY_PATH', 'LD_PRELOAD'],
];

/** Signals by which a terminal or the system stops a whole process group, this process included. */
const STOPPING: readonly unknown[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Makes backups, each in a child process. When the signal is aborted, the child is killed at once; when this process ends,
 * the child ends too.
 * @returns a function that throws as `createBackup` does, `interrupted`, and `internal` if the child crashed; the caller
 *   removes unfinished files
 */
export function backUpInProcess({ env, onStart }: BackupProcessOptions): BackupWork {
  return async (job, { signal, onProgress }) => {
    const isAborted = (): boolean => signal.aborted;
    if (isAborted()) throw interrupted();
    let kill = (): void => undefined;
    const stop = (): void => kill();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const end = await workInChild({
        name: 'the process that makes the backup',
        start: () => {
          const child = startProcess(env);
          kill = () => void child.kill('SIGKILL');
          onStart?.(child.pid);
          return child;
        },
        order: job,
        receive: (message: BackupMessage) => {
          if (!('progress' in message)) return message;
          onProgress(message.progress);
          return undefined;
        },
      });
      if (end.result === undefined) {
        if (isAborted() || STOPPING.includes(end.signal)) throw interrupted();
        throw new TidemarkError(
          'internal',
          `the process that made the backup ${end.how}: nothing is left of it`,
          {
            hint: 'run `tidemark backup create` again; a system that is short of memory ends processes like this',
            isRetryable: true,
          },
        );
      }
      if ('error' in end.result) throw fromErrorMessage(end.result.error);
      return end.result.manifest;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  };
}

function startProcess(env: Environment): ChildProcess {
  const inherited = INHERITED.flatMap((name): [string, string][] => {
    const value = env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return fork(workerFile('backup/backup-worker'), [], {
    env: Object.fromEntries(inherited),
    // Only the system's loader and V8 write to stderr, when they end the process.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
}

function interrupted(): TidemarkError {
  return new TidemarkError('interrupted', 'the backup was interrupted: nothing is left of it', {
    hint: 'run `tidemark backup create` again',
  });
}

// The work on one backup, from the mirror to the finished files. It runs in a child process.

/** Plain values only: it is sent to another process. */
export interface BackupJob {
  readonly mirrorPath: string;
  /** For the plain SQLite file. */
  readonly workDirectory: string;
  readonly directory: string;
  readonly recipients: readonly string[];
  /** Whose unfinished files these are: `mirrorId`. */
  readonly owner: string;
}

export type BackupPhase = 'copying' | 'verifying' | 'packing' | 'checking';

export interface BackupWorkProgress {
  readonly phase: BackupPhase;
  /** From 0 to 1. */
  readonly share: number;
}

interface BackupEffects {
  readonly clock: Clock;
  readonly onProgress: (progress: BackupWorkProgress) => void;
}

/** Does the work of one backup: `backUpInProcess`, except in tests. */
export type BackupWork = (
  job: BackupJob,
  options: Omit<BackupEffects, 'clock'> & { readonly signal: AbortSignal },
) => Promise<BackupManifest>;

/**
 * Makes a backup: takes it, verifies it by opening it, packs it, reads what was packed back, and only then gives it its
 * name. Returns its manifest.
 * @throws TidemarkError as its steps do; unfinished files may stay, which the next sweep removes
 */
export async function createBackup(
  job: BackupJob,
  { clock, onProgress }: BackupEffects,
): Promise<BackupManifest> {
  const plainPath = join(job.workDirectory, 'backup.db');
  const share = (phase: BackupPhase) => (done: number, of: number) =>
    onProgress({ phase, share: of === 0 ? 1 : Math.min(1, done / of) });
  const copying = share('copying');
  const verifying = share('verifying');
  const madeAt = clock.now();
  const facts = await takePlainBackup(job.mirrorPath, plainPath, {
    clock,
    onBackup: ({ pages, pagesLeft }) => copying(pages - pagesLeft, pages),
    onVerify: ({ records, of }) => verifying(records, of),
  });
  const name = freeName(job, madeAt, facts.run);
  const partial = join(job.directory, partialName(name, job.owner));
  const digests = await pack(plainPath, partial, { recipients: job.recipients });
  onProgress({ phase: 'packing', share: 1 });
  await readBack(partial, digests, job.recipients.length > 0);
  onProgress({ phase: 'checking', share: 1 });
  const manifest = manifestOf(job, { name, madeAt, facts, digests });
  const manifestPath = join(job.directory, partialName(manifestName(name), job.owner));
  try {
    await writeFile(manifestPath, manifestText(manifest), { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    throw asFileError(error, manifestPath, 'written');
  }
  await finish(job.directory, name, job.owner);
  return manifest;
}

/** A free name: a second backup within one second is named after the next second; its manifest has the true time. */
function freeName({ directory, recipients }: BackupJob, madeAt: number, run: number): string {
  for (let at = madeAt; ; at += 1000) {
    const name = backupName(at, run, recipients.length > 0);
    if (!existsSync(join(directory, name)) && !existsSync(join(directory, manifestName(name)))) return name;
  }
}

/** Checks that the disk has what was written and, without encryption, that it unpacks to what was verified. */
async function readBack(path: string, written: Digests, isEncrypted: boolean): Promise<void> {
  const packed = isEncrypted ? await digestOf(path) : (await unpack(path, null, { identities: [] })).packed;
  if (packed.sha256 !== written.packed.sha256) throw damaged(path);
}

function manifestOf(
  { recipients }: BackupJob,
  { name, madeAt, facts, digests }: { name: string; madeAt: number; facts: PlainFacts; digests: Digests },
): BackupManifest {
  const { schema, ...contents } = facts;
  return {
    schema: MANIFEST_SCHEMA,
    file: name,
    made_at: isoTime(madeAt),
    ...contents,
    bytes: digests.packed.bytes,
    sha256: digests.packed.sha256,
    plain_bytes: digests.plain.bytes,
    plain_sha256: digests.plain.sha256,
    compression: 'zstd',
    encryption: recipients.length === 0 ? null : 'age',
    versions: { tidemark: programVersion(), schema },
  };
}

// The existing backups, for pages and health checks. Their directory may be on a network disk, or on one that does not
// respond: a page waits for it a moment only, and shows what is known.

export interface BackupsShown {
  /** Whole ones of this mirror, newest first. */
  readonly whole: readonly Pick<Backup, 'madeAt' | 'run' | 'bytes' | 'isEncrypted' | 'manifest'>[];
  /** Of this mirror or unknown whose, and not what their manifests say. */
  readonly damaged: number;
  /** Why the directory could not be read; null where it was. */
  readonly problem: string | null;
}

const FRESH_MS = 30_000;
const WAIT_MS = 250;

export class BackupCatalog {
  readonly #clock: Clock;
  #directory = '';
  #shown: BackupsShown | null = null;
  #readAtMs = -Infinity;
  #reading: Promise<void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Waits a moment where the directory has to be read. Null while it has not answered yet. */
  async look(directory: string, mirror: Mirror): Promise<BackupsShown | null> {
    const reading = this.#refresh(directory, mirror);
    if (reading === null) return this.#shown;
    await settlesWithin(reading, WAIT_MS, this.#clock);
    return this.#shown;
  }

  /** What is known now; starts reading again if that is outdated. Null as in `look`. */
  known(directory: string, mirror: Mirror): BackupsShown | null {
    void this.#refresh(directory, mirror);
    return this.#shown;
  }

  /** Null while what is known is fresh. */
  #refresh(directory: string, mirror: Mirror): Promise<void> | null {
    if (directory !== this.#directory) {
      this.#directory = directory;
      this.#shown = null;
      this.#readAtMs = -Infinity;
      this.#reading = null;
    }
    if (this.#clock.monotonicMs() - this.#readAtMs < FRESH_MS) return null;
    this.#reading ??= this.#read(directory, mirror);
    return this.#reading;
  }

  async #read(directory: string, mirror: Mirror): Promise<void> {
    const shown = await readShown(directory, mirror);
    if (directory !== this.#directory) return;
    this.#shown = shown;
    this.#readAtMs = this.#clock.monotonicMs();
    this.#reading = null;
  }
}

async function readShown(directory: string, mirror: Mirror): Promise<BackupsShown> {
  try {
    // Loaded only if there are backups.
    const [{ listBackups }, { mirrorId }] = await Promise.all([
      import('./list.ts'),
      import('./plain-backup.ts'),
    ]);
    const owner = mirrorId(mirror);
    const own = (await listBackups(directory)).filter(
      ({ manifest }) => manifest === null || manifest.mirror === owner,
    );
    const whole = own.filter(({ state }) => state === 'whole');
    return { whole, damaged: own.length - whole.length, problem: null };
  } catch (error) {
    return { whole: [], damaged: 0, problem: asTidemarkError(error).message };
  }
}
