/**
 * What is sent of a daemon that a problem of this machine keeps from starting, as a full disk does: nothing can be stored, and
 * no job fails that would be reported.
 */
import type { ChannelConfig } from '../../config/channels.ts';
import { hasMirrorPerSource, type LoadedConfig, mirrorConfigs } from '../../config/mirrors.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, type ErrorCode, type TidemarkError } from '../../core/errors.ts';
import type { ScheduleRow } from '../../mirror/daemon-store.ts';
import type { DaemonEffects } from '../effects.ts';
import { markFailedStart, mayHaveDaemon, unmarkFailedStart } from '../lockfile.ts';
import { messageOf, noticeOf } from './message.ts';
import { channelsFor } from './notifier.ts';
import { failedStartOf } from './perhaps-open.ts';
import { causeText, localHint } from './run-transitions.ts';
import type { Send } from './sending.ts';

export interface FailedStart {
  readonly error: TidemarkError;
  /** Of `daemon --once`, which is started again and again: what is not due is not missed. */
  readonly isOnce: boolean;
  readonly effects: Pick<DaemonEffects, 'clock' | 'log' | 'openMirror' | 'pid' | 'host'>;
  readonly signal: AbortSignal;
}

/** What keeps a daemon from starting that is reported. */
export const START_CODES: readonly ErrorCode[] = ['disk_full', 'read_only', 'file_system'];

/** The sources of syncs that are missed, and whether a notice is due; null where nothing is to be sent. */
interface MissedWork {
  readonly sources: readonly string[];
  readonly isNoticeDue: boolean;
}

/** What a start that failed leaves undone. Null also where another daemon may be at work, which reports for itself. */
export function missedWork(config: LoadedConfig, { error, isOnce, effects }: FailedStart): MissedWork | null {
  if (!START_CODES.includes(error.code)) return null;
  const { clock, pid, host } = effects;
  const mirrors = mirrorConfigs(config);
  const looker = { pid, host, now: clock.now() };
  // On a full disk a lock of another process still refuses; without access to it nobody knows.
  const isLockKnown = error.code === 'disk_full';
  if (mirrors.some(({ mirror }) => mayHaveDaemon(mirror, looker, isLockKnown))) return null;
  const now = isoTime(clock.now());
  const isDue = (row: ScheduleRow | undefined): boolean => row === undefined || row.dueAt <= now;
  const due = mirrors.map((each) => {
    const rows = storedSchedules(effects, each);
    const sync = rows?.find(({ schedule }) => schedule === 'sync');
    const isSyncDue = each.schedules.sync !== null && isDue(sync);
    return {
      sources: isSyncDue ? each.schedules.sync.sources : [],
      isAnyDue: isSyncDue || rows === null || rows.some((row) => isDue(row)),
    };
  });
  return {
    sources: due.flatMap(({ sources }) => sources),
    isNoticeDue: !isOnce || due.some(({ isAnyDue }) => isAnyDue),
  };
}

/** Null where the mirror cannot be read: what is due is not known. */
function storedSchedules(
  { openMirror }: FailedStart['effects'],
  config: Parameters<DaemonEffects['openMirror']>[0],
): readonly ScheduleRow[] | null {
  try {
    // Not as the daemon, which would not read a full disk's mirror from a copy.
    const mirror = openMirror(config, 'read', 'failed start');
    try {
      return mirror.daemon.schedules();
    } finally {
      mirror.close();
    }
  } catch {
    // The start fails already, for a reason that is reported.
    return null;
  }
}

/**
 * Sends one notice through each channel that has its event, once until a daemon starts again. Never throws: what a receiver
 * refuses is logged.
 */
export async function notifyFailedStart(
  config: LoadedConfig,
  { error, isOnce, effects, signal }: FailedStart,
  send: Send,
): Promise<void> {
  const { clock, log } = effects;
  const isPerSource = hasMirrorPerSource(config);
  const names = config.sources.map(({ name }) => name);
  const about = failedStartOf(isPerSource ? names.slice(0, 1) : names);
  const { source } = about;
  const whole = { at: isoTime(clock.now()), ...about };
  const notice = noticeOf(
    { ...whole, event: 'run_failed' },
    {
      severity: 'high',
      title: `${source === '' || isPerSource ? 'mirror' : source}: the daemon could not start${causeText(error.code)}`,
      lines: [error.message],
      hint: localHint(error.code) ?? error.hint ?? null,
      error: { code: error.code, message: error.message },
    },
  );
  // It concerns all sources, whichever of them its incident is named after.
  const named = channelsFor({ ...notice, source: '' }, config.notices, null);
  const channels = config.notices.filter(({ name }) => named.includes(name));
  const [first] = mirrorConfigs(config);
  if (channels.length === 0 || first === undefined) return;
  const mark = markFailedStart(first.mirror);
  // What restarts a daemon every few seconds would notify as often, where nothing can be remembered.
  if (mark === 'marked before' || (mark === 'unknown' && !isOnce)) return;
  const attempt = async (channel: ChannelConfig): Promise<boolean> => {
    try {
      await send(channel, messageOf(0, notice, channel.severity, config.http.publicUrl), signal);
      return true;
    } catch (thrown) {
      const { code, message } = asTidemarkError(thrown);
      log.warn({ code, channel: channel.name }, `a notice was not delivered: ${message}`);
      return false;
    }
  };
  const delivered = await Promise.all(channels.map((channel) => attempt(channel)));
  if (mark === 'marked' && !delivered.includes(true)) unmarkFailedStart(first.mirror);
}
