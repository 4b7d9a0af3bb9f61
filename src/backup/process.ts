/**
 * Makes backups in a child process, so that the daemon keeps answering, and the work can be stopped at any time:
 * copying and verifying read the entire mirror, and syncing the disk may take seconds. Not in a thread: terminating a
 * thread that has a SQLite file open can crash the entire process (WiseLibs/better-sqlite3, issue 1476).
 */
import { type ChildProcess, fork } from 'node:child_process';
import {
  type ErrorMessage,
  endCause,
  fromErrorMessage,
  nodeOptions,
  workInChild,
} from '../core/child-process.ts';
import { TidemarkError } from '../core/errors.ts';
import { workerFile } from '../core/package-root.ts';
import type { Environment } from './hook.ts';
import { fromStoredMessage, NoTargetError, type StoredMessage } from './stored-backup.ts';
import type { BackupWork, BackupWorkProgress, MadeBackup } from './work.ts';

/** A message of the child process: its progress, or its result. */
export type BackupMessage =
  | { readonly progress: BackupWorkProgress }
  | { readonly made: MadeMessage }
  /** `outcomes` if no target could take the backup. */
  | { readonly error: ErrorMessage; readonly outcomes?: readonly StoredMessage[] };

/** `MadeBackup` with its errors as messages carry them. */
type MadeMessage = Omit<MadeBackup, 'stored'> & { readonly stored: readonly StoredMessage[] };

interface BackupProcessOptions {
  /** The environment of this process. The child gets only the variables that it needs, and no key of the service. */
  readonly env: Environment;
  /** Called with the process id of the child. */
  readonly onStart?: (pid: number | undefined) => void;
}

const WORKER = 'backup/backup-worker';

/** Variables that Node, the dynamic loader and SQLite read. */
const INHERITED = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SQLITE_TMPDIR'],
  ...['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'LD_LIBRARY_PATH', 'LD_PRELOAD'],
];
/** Variables of the S3 client: credentials, region, endpoint. */
const OF_S3 = /^AWS_/;

/**
 * In MB, as for the program itself (`main.ts`). Measured peak of this process with 80,000 records: 220 MB with 1, where
 * rows gather in the old generation; 127 MB with 4; 150 MB with 8, where chunks of files gather.
 */
const YOUNG_GENERATION = '--max-semi-space-size=4';

/** Signals with which a terminal or the system stops an entire process group, including this process. */
const STOPPING: readonly unknown[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Makes backups, each in a child process. When the signal is aborted, the child is killed at once; when this process
 * ends, the child ends too.
 * @returns a function that throws as `createBackup`, `interrupted`, or `internal` if the child crashed; the caller
 * removes unfinished files
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
          const child = startProcess(
            env,
            job.targets.some(({ type }) => type === 's3'),
          );
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
        const cause = endCause(end, workerFile(WORKER));
        throw new TidemarkError(
          'internal',
          `the process that made the backup ${end.how}: the unfinished backup was removed`,
          {
            hint: ['run `tidemark backup create` again', ...(cause === null ? [] : [cause])].join('; '),
            isRetryable: true,
          },
        );
      }
      if ('error' in end.result) {
        const { error, outcomes } = end.result;
        const first = fromErrorMessage(error);
        throw outcomes === undefined ? first : new NoTargetError(first, outcomes.map(fromStoredMessage));
      }
      const { manifest, stored } = end.result.made;
      return { manifest, stored: stored.map(fromStoredMessage) };
    } finally {
      signal.removeEventListener('abort', stop);
    }
  };
}

function startProcess(env: Environment, isForS3: boolean): ChildProcess {
  const inherited = Object.entries(env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (INHERITED.includes(entry[0]) || (isForS3 && OF_S3.test(entry[0]))),
  );
  return fork(workerFile(WORKER), [], {
    env: Object.fromEntries(inherited),
    execArgv: [...nodeOptions(), YOUNG_GENERATION],
    // Only the dynamic loader and V8 write to stderr, when they end the process.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
}

function interrupted(): TidemarkError {
  return new TidemarkError('interrupted', 'the backup was interrupted: the unfinished backup was removed', {
    hint: 'run `tidemark backup create` again',
  });
}
