/** `tidemark fleet work`: runs a worker of a fleet until it is stopped or drained. */
import { fork } from 'node:child_process';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readIdentities } from '../backup/encryption.ts';
import { openTarget } from '../backup/targets/open.ts';
import type { FleetConfig } from '../config/config.ts';
import { nodeOptions } from '../core/child-process.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { makeDirectory } from '../core/file-errors.ts';
import type { Logger } from '../core/logger.ts';
import { programVersion } from '../core/package-root.ts';
import type { Secret } from '../core/secret.ts';
import { duration } from '../core/wording.ts';
import type { StartCellProcess } from '../fleet/cell-process.ts';
import { cellStorage } from '../fleet/orders.ts';
import { GroupQueue } from '../fleet/queue.ts';
import type { WorkerOverview } from '../fleet/registry/overview.ts';
import { Registry } from '../fleet/registry/registry.ts';
import { secretReader } from '../fleet/secret-reference.ts';
import { DEFAULT_LIMITS, Worker } from '../fleet/worker.ts';
import { acquireWriterLock, type WriterLock } from '../mirror/lock.ts';
import { readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonLog } from './daemon-effects.ts';

/** How long a start waits for an answer of the storage. */
const STORAGE_CHECK_MS = 60_000;
/** How often the registry is asked for a sign of life of a worker with the same name. */
const NAME_CHECK_MS = 1_000;

/**
 * Exit 0 after a stop.
 * @throws TidemarkError for a configuration without database or storage, a storage that refuses, a name that another worker has, and
 *   if the database, the storage or the cache cannot be opened
 */
export async function fleetWork(
  context: CommandContext,
  { name = hostname() }: { readonly name?: string },
): Promise<ExitCode> {
  const config = readLoadedConfig(context, context.options, 'unused');
  const { fleet, secretVariables } = config;
  const { database, storage } = requireFleet(fleet);
  const log = daemonLog(context, config.log.level);
  const hangup = new AbortController();
  const signal = AbortSignal.any([context.signal, hangup.signal]);
  context.onHangup?.(() => {
    if (signal.aborted) return;
    log.info({}, 'SIGHUP received: the worker stops, and reads its configuration when it is started again');
    hangup.abort();
  });
  const identities = fleet.identityFile === null ? [] : await readIdentities(fleet.identityFile);
  await checkStorage(storage, signal);
  const cache = join(fleet.cache, encodeURIComponent(name));
  const lock = lockCache(cache, name, context.pid);
  try {
    const registry = await Registry.open(database, { maxConnections: fleet.slots + 2 });
    const heartbeatSeconds = Math.ceil(fleet.heartbeatMs / 1000);
    const queue = await GroupQueue.open({ registry, database, heartbeatSeconds, log });
    const worker = new Worker({
      registry,
      queue,
      description: { name, host: hostname(), version: programVersion() },
      slots: fleet.slots,
      storage,
      recipients: fleet.recipients,
      identities,
      cache,
      limits: {
        ...DEFAULT_LIMITS,
        heartbeatMs: fleet.heartbeatMs,
        cellMs: fleet.timeLimitMs,
        graceMs: fleet.stopTimeoutMs,
      },
      startProcess: await processStarter(context),
      readSecret: secretReader({ env: context.env, own: secretVariables, keyDirectory: fleet.keyDirectory }),
      clock: systemClock,
      random: Math.random,
      log,
    });
    try {
      if (!(await isNameFree(registry, { name, heartbeatMs: fleet.heartbeatMs, signal, log })))
        return EXIT.done;
      await worker.start();
      const stop = (): void => void worker.stop();
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
      await worker.done;
      return EXIT.done;
    } finally {
      await queue.close();
      await registry.close();
    }
  } finally {
    lock.release();
  }
}

/** The database and the storage of the fleet. @throws TidemarkError `config_invalid` if one is not configured */
export function requireFleet({ database, databaseProblem, storage }: FleetConfig): {
  readonly database: Secret;
  readonly storage: NonNullable<FleetConfig['storage']>;
} {
  if (database === null) {
    throw new TidemarkError('config_invalid', databaseProblem ?? 'fleet.database is not configured', {
      hint: 'set fleet.database to the URL of a PostgreSQL database (docs/fleet.md)',
    });
  }
  if (storage === null) {
    throw new TidemarkError('config_invalid', 'fleet.storage is not configured', {
      hint: 'set fleet.storage to an s3:// address, or a directory that all workers share (docs/fleet.md)',
    });
  }
  return { database, storage };
}

/**
 * Lists storage in S3 once, to find a wrong bucket, policy or credentials. A service that does not answer may come back, and a directory
 * may be mounted later: the worker waits for these.
 * @throws TidemarkError if the storage refuses
 */
async function checkStorage(
  storage: NonNullable<FleetConfig['storage']>,
  signal: AbortSignal,
): Promise<void> {
  if (storage.type !== 's3') return;
  // A place that no cell has, so the list is empty.
  const target = await openTarget(cellStorage(storage, '.start'), systemClock);
  const listed = target.list().catch((thrown: unknown) => {
    const { message, hint, isRetryable } = asTidemarkError(thrown);
    if (!isRetryable) throw new TidemarkError('rejected', `fleet.storage: ${message}`, { hint });
  });
  const over = new AbortController();
  const stopped = AbortSignal.any([signal, over.signal]);
  const limit = systemClock.sleep(STORAGE_CHECK_MS, stopped).catch((error: unknown) => {
    if (!stopped.aborted) throw error;
  });
  try {
    await Promise.race([listed, limit]);
  } finally {
    over.abort();
  }
}

/**
 * True if no other worker of this name is alive; false if this one is stopped first. A worker with a sign of life within the heartbeat may
 * have been killed since: it counts as alive only after another one.
 * @throws TidemarkError `mirror_locked` if there is such a worker
 */
async function isNameFree(
  registry: Registry,
  {
    name,
    heartbeatMs,
    signal,
    log,
  }: {
    readonly name: string;
    readonly heartbeatMs: number;
    readonly signal: AbortSignal;
    readonly log: Logger;
  },
): Promise<boolean> {
  let first: WorkerOverview | null = null;
  while (!signal.aborted) {
    const other = (await registry.workers()).find((worker) => worker.name === name);
    if (other === undefined || other.seenAgeMs >= heartbeatMs) return true;
    if (first === null) {
      first = other;
      log.info(
        { worker: name },
        `a worker ${name} on ${other.host} was heard of ${duration(other.seenAgeMs)} ago: waiting whether it is there still`,
      );
    } else if (other.seenAt !== first.seenAt) {
      const message = `a worker with the name ${name} runs on ${other.host} already`;
      throw new TidemarkError('mirror_locked', message, {
        hint: 'give each worker a name of its own with --name',
      });
    }
    await systemClock.sleep(NAME_CHECK_MS, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
  return false;
}

/** Two workers with the same name would write the same mirrors. */
function lockCache(cache: string, name: string, pid: number): WriterLock {
  makeDirectory(cache);
  try {
    const holder = { command: 'fleet work', pid, host: hostname(), since: isoTime(systemClock.now()) };
    return acquireWriterLock(join(cache, 'worker'), holder);
  } catch (error) {
    if (!(error instanceof TidemarkError) || error.code !== 'mirror_locked') throw error;
    throw new TidemarkError('mirror_locked', `a worker with the name ${name} runs on this machine already`, {
      hint: 'give each worker of a machine a name of its own with --name',
      cause: error,
    });
  }
}

/** Variables that Node, the system's loader, SQLite and the S3 client read. They do not include the keys of cells. */
const INHERITED =
  /^(PATH|HOME|LANG|LC_ALL|TZ|TMPDIR|SQLITE_TMPDIR|NODE_OPTIONS|NODE_EXTRA_CA_CERTS|LD_LIBRARY_PATH|LD_PRELOAD|HTTPS?_PROXY|NO_PROXY|AWS_\w+)$/i;

async function processStarter(context: CommandContext): Promise<StartCellProcess> {
  const { entry, execPath, cwd } = context;
  const env = Object.fromEntries(Object.entries(context.env).filter(([name]) => INHERITED.test(name)));
  if (context.isOneProcess === true) {
    const { startCellsHere } = await import('./fleet-cell.ts');
    return () => startCellsHere({ ...context, env, options: {} });
  }
  return () =>
    fork(entry, ['fleet-cell'], {
      ...{ execPath, execArgv: nodeOptions(), cwd, env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
}
