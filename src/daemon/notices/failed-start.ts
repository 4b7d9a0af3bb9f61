/** Notices of a daemon that cannot start because of a problem of this machine, such as a full disk: nothing can be stored, and no job runs. */
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

/** A start that failed. */
export interface FailedStart {
  readonly error: TidemarkError;
  /** True for `daemon --once`, which is started again and again: only due jobs are missed. */
  readonly isOnce: boolean;
  readonly effects: Pick<DaemonEffects, 'clock' | 'log' | 'openMirror' | 'pid' | 'host'>;
  readonly signal: AbortSignal;
}

/** The errors for which a failed start is reported. */
export const START_CODES: readonly ErrorCode[] = ['disk_full', 'read_only', 'file_system'];

/**
 * The sources of syncs that a failed start misses, and whether a notice is due. Null if nothing is to be sent, also because another daemon
 * may be running, which reports for itself.
 */
export function missedWork(
  config: LoadedConfig,
  { error, isOnce, effects }: FailedStart,
): { readonly sources: readonly string[]; readonly isNoticeDue: boolean } | null {
  if (!START_CODES.includes(error.code)) return null;
  const { clock, pid, host } = effects;
  const mirrors = mirrorConfigs(config);
  const looker = { pid, host, now: clock.now() };
  // On a full disk, the lock can still be checked; without access to its file, it cannot.
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

/** Null if the mirror cannot be read: then it is not known what is due. */
function storedSchedules(
  { openMirror }: FailedStart['effects'],
  config: Parameters<DaemonEffects['openMirror']>[0],
): readonly ScheduleRow[] | null {
  try {
    // Not as `daemon`: that would not read the mirror from a copy if the disk is full.
    const mirror = openMirror(config, 'read', 'failed start');
    try {
      return mirror.daemon.schedules();
    } finally {
      mirror.close();
    }
  } catch {
    // The error of the start is reported.
    return null;
  }
}

/** Sends one notice through each channel that has its event, once until a daemon starts again. Errors of receivers are logged, not thrown. */
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
  // It concerns all sources, although its incident is named after one of them.
  const named = channelsFor({ ...notice, source: '' }, config.notices, null);
  const channels = config.notices.filter(({ name }) => named.includes(name));
  const [first] = mirrorConfigs(config);
  if (channels.length === 0 || first === undefined) return;
  const mark = markFailedStart(first.mirror);
  // If the mark cannot be written, a daemon that is restarted every few seconds would send as many notices.
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
