/**
 * Copying and verifying read the whole mirror, and the disk may take seconds to say that all of it is there: a process of
 * its own does that, so that the daemon goes on answering, and so that it can be stopped at any instant. Not a thread:
 * ending one that has a SQLite file open can end the whole process (WiseLibs/better-sqlite3, issue 1476).
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { afterRealTime } from '../../core/clock.ts';
import { type ErrorCode, asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { workerFile } from '../../core/worker-file.ts';
import type { CopyJob, CopyProgress, CopyWork } from './copy-job.ts';
import type { Environment } from './hook-environment.ts';
import type { CopyManifest } from './manifest.ts';

/** What the process says: how far it is, and once how it ended. */
export interface CopyMessage {
  readonly progress?: CopyProgress;
  readonly manifest?: CopyManifest;
  readonly failure?: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint: string | undefined;
    readonly isRetryable: boolean;
  };
}

interface CopyProcessOptions {
  /** Of this process: what the other one needs of it is handed on, and no key. */
  readonly env: Environment;
  /** Called when it was started, with its process id. */
  readonly onStart?: (pid: number | undefined) => void;
}

/** What Node, the system's loader and SQLite read. */
const HANDED_ON = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SQLITE_TMPDIR'],
  ...['NODE_OPTIONS', 'LD_LIBRARY_PATH', 'LD_PRELOAD'],
];

/** It only streams, and V8 would let its young generation grow to many times these MB out of laziness. */
const YOUNG_MB = 8;

/** A process that told how it ended has nothing left to do. */
const LEAVE_MS = 3_000;

/** By these a terminal or the system stops all of a group at once, the one that asked for the copy among them. */
const STOPPING: readonly unknown[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Makes copies, each in a process of its own. When the signal is aborted, the process is killed where it stands; when
 * this one dies, it ends by itself.
 * @returns what throws as `makeCopy` does, `interrupted`, and `internal` where the process died; unfinished files stay
 *   for the caller's sweep
 */
export function copyInProcess({ env, onStart }: CopyProcessOptions): CopyWork {
  return async (job, { signal, onProgress }) => {
    if (signal.aborted) throw interrupted();
    const child = startProcess(env);
    onStart?.(child.pid);
    const stop = (): void => void child.kill('SIGKILL');
    signal.addEventListener('abort', stop, { once: true });
    try {
      const { told, exit } = await talk(child, job, onProgress);
      return outcome(told, exit, signal.aborted);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  };
}

function startProcess(env: Environment): ChildProcess {
  const handedOn = HANDED_ON.flatMap((name): [string, string][] => {
    const value = env[name];
    return value === undefined ? [] : [[name, value]];
  });
  try {
    return fork(workerFile('daemon/copies/copy-worker'), [], {
      env: Object.fromEntries(handedOn),
      execArgv: [...process.execArgv, `--max-semi-space-size=${YOUNG_MB}`],
      // It says nothing by itself; where the system's loader or V8 ends it, that is worth reading.
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
  } catch (error) {
    throw unstarted(error);
  }
}

async function talk(
  child: ChildProcess,
  job: CopyJob,
  onProgress: (progress: CopyProgress) => void,
): Promise<{ readonly told: CopyMessage; readonly exit: unknown[] }> {
  let told: CopyMessage = {};
  child.on('message', (message: CopyMessage) => {
    if (message.progress !== undefined) {
      onProgress(message.progress);
      return;
    }
    told = message;
    child.once(
      'exit',
      afterRealTime(LEAVE_MS, () => child.kill('SIGKILL')),
    );
  });
  // One that cannot be sent to, or killed, is gone: its end tells more.
  child.on('error', () => undefined);
  const disconnected = child.connected ? once(child, 'disconnect') : Promise.resolve([]);
  // What is waited for is its exit: `disconnect` has nothing to add where it could not be started.
  disconnected.catch(() => undefined);
  const ended = once(child, 'exit');
  child.send(job, () => undefined);
  let exit: unknown[];
  try {
    exit = await ended;
  } catch (error) {
    throw unstarted(error);
  }
  // What it told last may still be on its way.
  await disconnected;
  return { told, exit };
}

function outcome(
  { manifest, failure }: CopyMessage,
  [code, signal]: unknown[],
  isAborted: boolean,
): CopyManifest {
  if (manifest !== undefined) return manifest;
  if (failure !== undefined) {
    const { code: errorCode, message, hint, isRetryable } = failure;
    throw new TidemarkError(errorCode, message, { ...(hint === undefined ? {} : { hint }), isRetryable });
  }
  if (isAborted || STOPPING.includes(signal)) throw interrupted();
  const how = typeof signal === 'string' ? `was ended by ${signal}` : `ended with ${String(code)}`;
  throw new TidemarkError('internal', `the process that made the copy ${how}: nothing is left of it`, {
    hint: 'run `tidemark copies make` again; a system that is short of memory ends processes like this',
    isRetryable: true,
  });
}

function unstarted(thrown: unknown): TidemarkError {
  const { code, message, hint } = asTidemarkError(thrown);
  return new TidemarkError(code, `the process that makes the copy could not be started: ${message}`, {
    ...(hint === undefined ? {} : { hint }),
    isRetryable: true,
    cause: thrown,
  });
}

function interrupted(): TidemarkError {
  return new TidemarkError('interrupted', 'the copy was interrupted: nothing is left of it', {
    hint: 'run `tidemark copies make` again',
  });
}
