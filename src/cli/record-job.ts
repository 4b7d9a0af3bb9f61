/**
 * Records what a command did as the job that a daemon would have done, so that `status`, health, metrics and dashboard show
 * the latest of either.
 */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { commandActor, requestTrigger } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { TidemarkError, asTidemarkError } from '../core/errors.ts';
import { endOf } from '../daemon/jobs/job-log.ts';
import type { JobResult } from '../daemon/jobs/work.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import { ownerOf } from '../config/mirrors.ts';
import { channelsFor, recordJobNotices } from '../daemon/notices/notifier.ts';
import type { JobStart } from '../mirror/daemon.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';

/** How long to wait for another writer, and the interval of trying its lock. */
const WAIT_MS = 3_000;
const LOOK_MS = 200;

interface ManualJob {
  readonly name: 'verify' | 'drill';
  /** Null for the mirror as a whole. */
  readonly source: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly result: JobResult;
}

/**
 * If it cannot be recorded (a read-only disk, a sync under way), a note says so; the command's result is unchanged. That a
 * mirror is read-only, such as a copy under examination, is not news: only `--verbose` says it.
 */
export async function recordJob(context: CommandContext, config: Config, job: ManualJob): Promise<void> {
  try {
    const mirror = await openWhenFree(context, config, job.name);
    try {
      store(context, config, mirror, job);
    } finally {
      mirror.close();
    }
  } catch (error) {
    const { code, message } = asTidemarkError(error);
    if (code === 'read_only' && context.options.verbose !== true) return;
    const what = job.name === 'verify' ? 'verification' : 'drill';
    printNote(context, [`\`tidemark status\` will not know of this ${what}: ${message}`]);
  }
}

async function openWhenFree(
  context: CommandContext,
  config: Config,
  command: ManualJob['name'],
): Promise<Mirror> {
  const endMs = systemClock.monotonicMs() + WAIT_MS;
  for (;;) {
    try {
      return openConfiguredMirror(config, 'write', command, context.pid);
    } catch (error) {
      const isHeld = error instanceof TidemarkError && error.code === 'mirror_locked';
      if (!isHeld || systemClock.monotonicMs() >= endMs) throw error;
      await systemClock.sleep(LOOK_MS, context.signal);
    }
  }
}

function store(
  { pid }: CommandContext,
  config: Config,
  mirror: Mirror,
  { name, source, startedAt, result }: ManualJob,
): void {
  const state = mirror.daemon;
  const now = systemClock.now();
  const start: JobStart = {
    name,
    source,
    trigger: requestTrigger(commandActor().by),
    startedAt: isoTime(startedAt),
  };
  const end = endOf(result, isoTime(now));
  const job = state.beginJob(start);
  state.finishJob(job, end);
  // Without a running daemon no notice would be sent: the next daemon reports what it finds itself.
  if (findDaemon(config.mirror, { pid, host: hostname(), now }) === null) return;
  const row = { job, ...start, ...end };
  recordJobNotices(mirror, { job: row, details: {}, assumed: [], at: end.finishedAt }, (notice) =>
    channelsFor(notice, config.notices, ownerOf(config)),
  );
}
