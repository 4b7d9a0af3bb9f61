/**
 * Notifies people of jobs: notices of a job are stored under its lock, and sent after its release. If the mirror cannot be
 * written, a failure is still reported, once and immediately.
 */
import type { ChannelConfig } from '../../config/channels.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { Notice, JobRow, NoticeState } from '../../mirror/daemon.ts';
import { messageOf, noticeOf, subjectName } from './message.ts';
import { channelsFor, createNotifier, type Notifier } from './notifier.ts';
import type { Config } from '../../config/config.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type Freshness, isMirrorGone, readFreshness, readHealthSnapshot } from '../http/health-snapshot.ts';
import type { EndedJob, JobObserver, ObserverContext } from '../jobs/observers.ts';
import { unreadSweeps } from '../jobs/sync-job.ts';
import type { DaemonView } from '../view.ts';
import type { JobDetails } from './run-transitions.ts';
import type { Send } from './sending.ts';
import { transitionsOf } from './transitions.ts';

interface NoticeObserverOptions {
  /** The configuration in force. */
  readonly config: () => Config;
  /** Null until the daemon has started. */
  readonly view: () => DaemonView | null;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly send: Send;
}

/** Interval of checking whether a sync is overdue. */
const CHECK_MS = 60_000;
/** The first check, if no sync ends before: overdue syncs have started by then. */
const FIRST_CHECK_MS = 2 * 60_000;
/** How long a catch-up sync after the daemon was down may take before its source is reported as overdue. */
const CATCH_UP_MS = 15 * 60_000;

/** Longest time between two checks that read the mirror. */
const QUIET_MS = 60 * 60_000;
/** The same where backups are made. */
const BACKUP_QUIET_MS = 10 * 60_000;

/** Latest syncs that are searched for an earlier attempt. */
const ATTEMPTS_READ = 5;

export function createNoticeObserver(options: NoticeObserverOptions): JobObserver {
  return new NotifyingObserver(options);
}

class NotifyingObserver implements JobObserver {
  readonly name = 'notices';
  readonly #options: NoticeObserverOptions;
  readonly #notifier: Notifier;
  #context: ObserverContext | null = null;
  #checkAt: number;
  readonly #recorded = new WeakSet<JobRow>();
  /** States that were reported but could not be stored, by job and source. */
  readonly #unwritten = new Map<string, NoticeState>();
  readonly #absence: MissingMirrorAlert;
  /** When the next delivery is due, as the mirror had it when it was read last; null where it must be read again. */
  #nextDelivery: { readonly at: number | null; readonly isRead: boolean } | null = null;
  /** Until then no source becomes overdue and no backup, under this configuration: epoch milliseconds. */
  #quiet: { readonly until: number; readonly config: Config } | null = null;

  constructor(options: NoticeObserverOptions) {
    this.#options = options;
    this.#checkAt = options.clock.now() + FIRST_CHECK_MS;
    this.#absence = new MissingMirrorAlert(options.clock);
    this.#notifier = createNotifier({
      ...options,
      channels: () => options.config().notices,
      publicUrl: () => options.config().http.publicUrl,
      mirror: () => this.#view().mirror(),
      openWriter: (work) => this.#write(work),
    });
  }

  recorded(ended: EndedJob, mirror: Mirror): void {
    const { row } = ended;
    const key = keyOf(row);
    const assumed = this.#unwritten.get(key);
    this.#notifier.recordJob(mirror, row, detailsOf(ended), assumed === undefined ? [] : [assumed]);
    this.#nextDelivery = null;
    this.#recorded.add(row);
    if (row.outcome !== 'interrupted') this.#unwritten.delete(key);
  }

  async ended(ended: EndedJob, context: ObserverContext): Promise<void> {
    const { row } = ended;
    this.#context = context;
    this.#quiet = null;
    if (!this.#recorded.has(row)) await this.#reportAtOnce(row, detailsOf(ended), context.signal);
    if (this.#options.view() !== null) await this.#tellAbsence(this.#options.clock.now(), context.signal);
    await this.#whereThere(context, async () => {
      // The others are checked once a minute (`wake`).
      if (row.name === 'sync' && row.source !== null) await this.#checkFreshness([row.source]);
      await this.#deliverDue(context.signal);
    });
  }

  async finish(context: ObserverContext): Promise<void> {
    this.#context = context;
    await this.#whereThere(context, async () => {
      await this.#checkFreshness();
      await this.#deliverDue(context.signal);
    });
  }

  wakeAt(): number | null {
    const view = this.#options.view();
    if (view === null) return null;
    const absenceAt = this.#absence.dueAt(isMirrorGone(view), this.#options.config().notices);
    return Math.min(this.#dueAt() ?? this.#checkAt, this.#checkAt, absenceAt ?? this.#checkAt);
  }

  async wake(context: ObserverContext): Promise<void> {
    this.#context = context;
    const now = this.#options.clock.now();
    await this.#tellAbsence(now, context.signal);
    // Also after the clock was set back.
    const isCheckDue = now >= this.#checkAt || this.#checkAt - now > FIRST_CHECK_MS;
    if (isCheckDue) this.#checkAt = now + CHECK_MS;
    if (isCheckDue && this.#nextDelivery?.isRead === false) this.#nextDelivery = null;
    await this.#whereThere(context, async () => {
      if (isCheckDue && !this.#isQuiet(now)) {
        await this.#checkFreshness();
        this.#nextDelivery = null;
      }
      const dueAt = this.#dueAt();
      if (dueAt !== null && dueAt <= now) await this.#deliverDue(context.signal);
    });
  }

  /** Runs the work if there is a mirror: not before the first sync, nor while it is gone, which is reported separately. */
  async #whereThere({ mirrorAccess }: ObserverContext, work: () => Promise<void>): Promise<void> {
    if (this.#options.view() === null || !mirrorAccess.isThere()) return;
    try {
      await work();
    } catch (error) {
      if (mirrorAccess.isThere()) throw error;
    }
  }

  async #deliverDue(signal: AbortSignal): Promise<void> {
    try {
      await this.#notifier.deliverDue(signal);
    } finally {
      this.#nextDelivery = null;
    }
  }

  /** Read from the mirror only where it may have changed: with many mirrors they are not all open. */
  #dueAt(): number | null {
    try {
      this.#nextDelivery ??= { at: this.#notifier.nextDueAt(), isRead: true };
      return this.#nextDelivery.at;
    } catch {
      // Tried again with the next check.
      this.#nextDelivery = { at: null, isRead: false };
      // Health and the jobs report an unreadable mirror: here it only means that nothing can be sent yet.
      return null;
    }
  }

  #view(): DaemonView {
    const view = this.#options.view();
    if (view === null) throw new TidemarkError('internal', 'notices were asked for before the daemon lived');
    return view;
  }

  /** Of these sources, or of all. */
  async #checkFreshness(names?: readonly string[]): Promise<void> {
    const now = this.#options.clock.now();
    const view = this.#view();
    const known = readFreshness(view, names);
    if (known === null) return;
    const checked = known.sources.filter((each) => !isCatchingUp(view, known.mirror, each, now));
    await this.#notifier.checkFreshness(checked);
    if (names !== undefined) return;
    const config = view.config();
    const overdueAt = known.sources.map(({ completeAt, expectedSince, allowedMs }) => {
      return Date.parse(completeAt ?? expectedSince) + allowedMs;
    });
    // A source that is overdue already may be mirrored by another process; a backup depends on more than time.
    const isOver = checked.length < known.sources.length || overdueAt.some((at) => at < now);
    const until = Math.min(...overdueAt, now + (config.backup === null ? QUIET_MS : BACKUP_QUIET_MS));
    this.#quiet = isOver ? null : { until, config };
    const { reasons } = config.backup === null ? { reasons: [] } : readHealthSnapshot(view, now).health;
    await this.#notifier.checkBackups(reasons.find(({ code }) => code === 'backup_overdue') ?? null);
  }

  /** True where the last check tells that this one would find nothing. */
  #isQuiet(now: number): boolean {
    const quiet = this.#quiet;
    if (quiet === null || quiet.config !== this.#view().config()) return false;
    // Also after the clock was set back.
    return now <= quiet.until && quiet.until - now <= QUIET_MS;
  }

  async #tellAbsence(now: number, signal: AbortSignal): Promise<void> {
    const { config } = this.#options;
    const isGone = isMirrorGone(this.#view());
    const { notices: channels } = config();
    for (const { notice, names } of this.#absence.takeDue(isGone, channels, now)) {
      const delivered = await this.#sendAtOnce(notice, names, signal);
      this.#absence.markNotified(delivered);
    }
  }

  async #write<T>(work: (mirror: Mirror) => T): Promise<T> {
    if (this.#context === null) throw new TidemarkError('internal', 'notices were written before any job');
    const { mirrorAccess, signal } = this.#context;
    this.#nextDelivery = null;
    if (!signal.aborted) return await mirrorAccess.write('daemon notices', signal, work);
    const done: { readonly value: T }[] = [];
    mirrorAccess.writeNow('daemon notices', null, (mirror) => void done.push({ value: work(mirror) }));
    const [first] = done;
    if (first === undefined)
      throw new TidemarkError('mirror_locked', 'the mirror is held while the daemon ends');
    return first.value;
  }

  /** Reports the failure of a job that could not be stored, unless it was reported before. */
  async #reportAtOnce(row: JobRow, details: JobDetails, signal: AbortSignal): Promise<void> {
    const { config, clock } = this.#options;
    // That is reported separately.
    if (row.errorCode === 'mirror_missing' && isMirrorGone(this.#view())) return;
    const known = this.#unwritten.get(keyOf(row));
    const seen = { job: row, details, held: [], at: isoTime(clock.now()) };
    const { states, notices } = transitionsOf(known === undefined ? [] : [known], seen);
    const failed = states.find(({ subject }) => subject === 'run' || subject === `job:${row.name}`);
    if (failed === undefined) return;
    this.#unwritten.set(keyOf(row), failed);
    for (const notice of notices.filter(({ subject }) => subject === failed.subject)) {
      await this.#sendAtOnce(notice, channelsFor(notice, config().notices), signal);
    }
  }

  /** One attempt through each of these channels, without the mirror's queue. Returns the names of those that accepted it. */
  async #sendAtOnce(notice: Notice, names: readonly string[], signal: AbortSignal): Promise<string[]> {
    const { config, log, send } = this.#options;
    const channels = config().notices.filter(({ name }) => names.includes(name));
    const delivered = await Promise.all(
      channels.map(async (channel) => {
        try {
          await send(channel, messageOf(0, notice, channel.severity, config().http.publicUrl), signal);
          return [channel.name];
        } catch (thrown) {
          if (signal.aborted) return [];
          const { code, message } = asTidemarkError(thrown);
          log.error(
            { channel: channel.name, event: notice.event, code },
            `a notice was neither written down nor delivered: ${message}`,
          );
          return [];
        }
      }),
    );
    return delivered.flat();
  }
}

function keyOf({ name, source }: JobRow): string {
  return `${name} ${source ?? ''}`;
}

function detailsOf({ report, kinds }: EndedJob): JobDetails {
  return { kinds, ...(report === null ? {} : { unread: unreadSweeps(report.sweeps) }) };
}

/** True while a recently started daemon runs the first sync since the source became overdue. */
function isCatchingUp(
  view: DaemonView,
  mirror: Mirror,
  { source, completeAt, expectedSince, allowedMs }: Freshness,
  now: number,
): boolean {
  if (now - Date.parse(view.startedAt) >= CATCH_UP_MS) return false;
  const isUnderWay = [...view.running(), ...view.queued()].some(
    (job) => job.name === 'sync' && job.source === source,
  );
  if (!isUnderWay) return false;
  const overdueAt = isoTime(Date.parse(completeAt ?? expectedSince) + allowedMs);
  return !mirror.daemon
    .jobs({ name: 'sync', source, limit: ATTEMPTS_READ })
    .some(({ outcome, startedAt }) => outcome !== 'running' && startedAt > overdueAt);
}

/** Between two attempts through a channel that failed. */
const RETRY_MS = 60_000;

interface Telling {
  readonly notice: Notice;
  /** Channels that took it. */
  readonly delivered: Set<string>;
  dueAt: number;
}

class MissingMirrorAlert {
  readonly #clock: Clock;
  /** Of the state that was found last; null before the mirror was ever missed. */
  #telling: Telling | null = null;
  #isGone = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** When there is something to report, epoch milliseconds; null for nothing. */
  dueAt(isGone: boolean, channels: readonly ChannelConfig[]): number | null {
    if (isGone !== this.#isGone) return this.#clock.now();
    return this.#telling === null || this.#names(this.#telling, channels).length === 0
      ? null
      : this.#telling.dueAt;
  }

  /** What is to be tried now, and through which channels. */
  takeDue(
    isGone: boolean,
    channels: readonly ChannelConfig[],
    now: number,
  ): readonly { readonly notice: Notice; readonly names: readonly string[] }[] {
    if (isGone !== this.#isGone) {
      this.#isGone = isGone;
      this.#telling = { notice: isGone ? gone(now) : back(now), delivered: new Set(), dueAt: now };
    }
    const telling = this.#telling;
    if (telling === null || telling.dueAt > now) return [];
    telling.dueAt = now + RETRY_MS;
    const names = this.#names(telling, channels);
    return names.length === 0 ? [] : [{ notice: telling.notice, names }];
  }

  markNotified(names: readonly string[]): void {
    for (const name of names) this.#telling?.delivered.add(name);
  }

  #names({ notice, delivered }: Telling, channels: readonly ChannelConfig[]): string[] {
    return channelsFor(notice, channels).filter((name) => !delivered.has(name));
  }
}

function gone(now: number): Notice {
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' },
    {
      severity: 'critical',
      title: `${subjectName('')}: it is gone from its place`,
      lines: ['its file is gone: nothing is synced, and no new mirror is created automatically'],
      hint: 'put a copy in its place (`tidemark backup restore`), or restart the daemon to begin a new one, without history',
    },
  );
}

function back(now: number): Notice {
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_back' },
    { severity: 'low', title: `${subjectName('')}: it is in its place again` },
  );
}
