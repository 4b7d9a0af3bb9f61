/**
 * Records the work of a command as a job, as if the daemon had done it, so that `status`, health, metrics and dashboard show
 * the latest of both.
 */
import { sourceLookup } from '../state/held-names.ts';
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { commandActor, requestTrigger } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError } from '../core/errors.ts';
import { endOf } from '../daemon/jobs/job-log.ts';
import type { JobResult } from '../daemon/jobs/work.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import { configuredBackups, ownerOf } from '../config/mirrors.ts';
import { LATEST_BACKUP, namingBackup } from '../core/hints.ts';
import { channelsFor, recordJobNotices } from '../daemon/notices/notifier.ts';
import type { JobStart } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import { noteRestoredViews, type Wait, whenFree } from './when-free.ts';

/** Waits without a note: the command has done its work. */
const WAIT: Wait = { mostMs: 3_000, retryMs: 200, quietMs: 0, note: null, undone: 'it was not recorded' };

interface ManualJob {
  readonly name: 'verify' | 'drill' | 'backup';
  /** Null for the mirror as a whole. */
  readonly source: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly result: JobResult;
}

/**
 * Records the job. If it cannot (a read-only disk, a sync under way), a note says so; the command's result is unchanged. For a
 * read-only mirror, such as a copy under examination, the user expects that: only `--verbose` says it.
 */
export async function recordJob(context: CommandContext, config: Config, job: ManualJob): Promise<void> {
  try {
    using mirror = await whenFree(context, WAIT, () =>
      noteRestoredViews(context, openConfiguredMirror(config, 'write', job.name, context.pid)),
    );
    store(context, config, mirror, job);
  } catch (error) {
    const { code, message } = asTidemarkError(error);
    if (code === 'read_only' && context.options.verbose !== true) return;
    printNote(context, [`${unrecordedText(job)}: ${message}`]);
  }
}

function unrecordedText({ name, result }: ManualJob): string {
  const isMade = result.outcome === 'done' || result.outcome === 'partial';
  switch (name) {
    case 'verify':
      return '`tidemark status` will not know of this verification';
    case 'drill':
      return '`tidemark status` will not know of this drill';
    case 'backup':
      // A backup that was made can be found in its targets.
      return isMade
        ? 'this backup is not recorded in the mirror, though `tidemark status` and the daemon find it in its target'
        : '`tidemark status` will not know that this backup failed';
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
    trigger: requestTrigger(commandActor()),
    startedAt: isoTime(startedAt),
  };
  const end = endOf(result, isoTime(now));
  const job = state.beginJob(start);
  state.finishJob(job, end);
  // Without a running daemon no notice would be sent: the next daemon reports what it finds itself.
  if (findDaemon(config.mirror, { pid, host: hostname(), now }) === null) return;
  const row = { job, ...start, ...end };
  recordJobNotices(
    mirror,
    {
      job: row,
      details: {},
      assumed: [],
      at: end.finishedAt,
      lookup: sourceLookup(config),
    },
    (notice) => channelsFor(notice, config.notices, ownerOf(config)),
    (hint) => namingBackup(hint, LATEST_BACKUP, configuredBackups(config)),
  );
}
