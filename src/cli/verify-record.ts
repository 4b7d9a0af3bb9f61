/**
 * Keeps the result of `tidemark verify` in the mirror, where the daemon keeps those of its own: its health, metrics and
 * dashboard tell of the latest verification, whoever made it.
 */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { endOf } from '../daemon/jobs/job-end.ts';
import type { JobResult } from '../daemon/jobs/work.ts';
import { recordJobNotices } from '../daemon/notices/job-notices.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import type { JobStart } from '../mirror/daemon-jobs.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';

interface Verification {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly result: JobResult;
}

/** So long another writer is waited for, and between two looks at its lock. */
const WAIT_MS = 3_000;
const LOOK_MS = 200;

/** True where a daemon ever worked on this mirror. Any other one stays as it is: nobody would read the result there. */
export function isDaemons(mirror: Mirror): boolean {
  const state = mirror.daemonState();
  return state.schedules().length > 0 || state.jobs({ limit: 1 }).length > 0;
}

/** What keeps it from being kept (a read-only disk, a sync under way) is said, and changes nothing of the verification. */
export async function keepVerification(
  context: CommandContext,
  config: Config,
  verification: Verification,
): Promise<void> {
  try {
    const mirror = await openWhenFree(context, config);
    try {
      record(context, config, mirror, verification);
    } finally {
      mirror.close();
    }
  } catch (error) {
    printNote(context, [`the daemon will not know of this verification: ${asTidemarkError(error).message}`]);
  }
}

async function openWhenFree(context: CommandContext, config: Config): Promise<Mirror> {
  const endMs = systemClock.monotonicMs() + WAIT_MS;
  for (;;) {
    try {
      return openConfiguredMirror(config, 'write', 'verify', context.pid);
    } catch (error) {
      const isHeld = error instanceof TidemarkError && error.code === 'mirror_locked';
      if (!isHeld || systemClock.monotonicMs() >= endMs) throw error;
      await systemClock.sleep(LOOK_MS, context.signal);
    }
  }
}

function record(
  { pid }: CommandContext,
  { mirror: path, notices }: Config,
  mirror: Mirror,
  { startedAt, result }: Verification,
): void {
  const state = mirror.daemonState();
  const now = systemClock.now();
  const start: JobStart = {
    name: 'verify',
    source: null,
    trigger: 'request',
    startedAt: isoTime(startedAt),
  };
  const end = endOf(result, isoTime(now));
  const job = state.beginJob(start);
  state.finishJob(job, end);
  // Without a daemon nobody would send a notice: the next one tells what it finds itself.
  if (findDaemon(path, { pid, host: hostname(), now }) === null) return;
  const row = { job, ...start, ...end };
  recordJobNotices(mirror, { job: row, details: {}, assumed: [], at: end.finishedAt }, notices);
}
