/**
 * Tells people of jobs: what a job changed is written down under its lock, and sent once that is given back. Where the
 * mirror cannot be written, a failure is told all the same, once and at once: that is when it matters.
 */
import type { Config } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobRow, NoticeState } from '../../mirror/daemon-state.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunReport } from '../../sync/run.ts';
import { readSituation } from '../http/health-facts.ts';
import type { JobObserver, ObserverContext } from '../jobs/observer.ts';
import { troubledSweeps } from '../jobs/troubled-sweeps.ts';
import type { DaemonView } from '../view.ts';
import type { Freshness } from './freshness.ts';
import { messageOf } from './message.ts';
import type { Notifier } from './notifier.ts';
import { createNotifier } from './notifier.ts';
import { channelsFor } from './routing.ts';
import type { JobDetails } from './seen.ts';
import type { Send } from './sending.ts';
import { transitionsOf } from './transitions.ts';

export interface NoticeObserverOptions {
  /** The configuration in force. */
  readonly config: () => Config;
  /** Null until the daemon lives. */
  readonly view: () => DaemonView | null;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly send: Send;
}

/** Between two looks whether a sync is overdue. */
const LOOK_MS = 60_000;
/** What was missed while the daemon was down is made up for first. */
const FIRST_LOOK_MS = 15 * 60_000;

export function createNoticeObserver(options: NoticeObserverOptions): JobObserver {
  return new NoticeObserver(options);
}

class NoticeObserver implements JobObserver {
  readonly name = 'notices';
  readonly #options: NoticeObserverOptions;
  readonly #notifier: Notifier;
  #context: ObserverContext | null = null;
  #lookAt: number;
  readonly #recorded = new WeakSet<JobRow>();
  /** What was told though it could not be written down, by job and source. */
  readonly #unwritten = new Map<string, NoticeState>();

  constructor(options: NoticeObserverOptions) {
    this.#options = options;
    this.#lookAt = options.clock.now() + FIRST_LOOK_MS;
    this.#notifier = createNotifier({
      ...options,
      channels: () => options.config().notices,
      mirror: () => this.#view().mirror(),
      openWriter: (work) => this.#write(work),
    });
  }

  recorded(
    { row, report }: { readonly row: JobRow; readonly report: RunReport | null },
    mirror: Mirror,
  ): void {
    const key = keyOf(row);
    const assumed = this.#unwritten.get(key);
    this.#notifier.recordJob(mirror, row, detailsOf(report), assumed === undefined ? [] : [assumed]);
    this.#recorded.add(row);
    if (row.outcome !== 'interrupted') this.#unwritten.delete(key);
  }

  async ended(
    { row, report }: { readonly row: JobRow; readonly report: RunReport | null },
    context: ObserverContext,
  ): Promise<void> {
    this.#context = context;
    if (!this.#recorded.has(row)) await this.#tellAtOnce(row, detailsOf(report), context.signal);
    // Told when the first sync has made it.
    if (context.keeper.isThere() && this.#options.view() !== null)
      await this.#notifier.deliverDue(context.signal);
  }

  wakeAt(): number | null {
    if (this.#options.view() === null) return null;
    return Math.min(this.#dueAt() ?? this.#lookAt, this.#lookAt);
  }

  async wake(context: ObserverContext): Promise<void> {
    this.#context = context;
    const now = this.#options.clock.now();
    // Also after a clock that stepped back.
    if (now >= this.#lookAt || this.#lookAt - now > FIRST_LOOK_MS) {
      this.#lookAt = now + LOOK_MS;
      await this.#notifier.checkFreshness(this.#freshness(now));
    }
    const dueAt = this.#dueAt();
    if (dueAt !== null && dueAt <= now) await this.#notifier.deliverDue(context.signal);
  }

  #dueAt(): number | null {
    try {
      return this.#notifier.nextDueAt();
    } catch {
      // That the mirror cannot be read is told by health and by the jobs: here it only means that nothing can be sent yet.
      return null;
    }
  }

  #view(): DaemonView {
    const view = this.#options.view();
    if (view === null) throw new TidemarkError('internal', 'notices were asked for before the daemon lived');
    return view;
  }

  #freshness(now: number): Freshness[] {
    const view = this.#view();
    return readSituation(view, now).health.sources.flatMap(({ source, lastCompleteAt, allowedMs }) =>
      allowedMs === null
        ? []
        : [{ source, completeAt: lastCompleteAt, expectedSince: view.startedAt, allowedMs }],
    );
  }

  async #write<T>(work: (mirror: Mirror) => T): Promise<T> {
    if (this.#context === null) throw new TidemarkError('internal', 'notices were written before any job');
    const { keeper, signal } = this.#context;
    const lease = signal.aborted
      ? keeper.leaseNow('daemon notices')
      : await keeper.lease('daemon notices', false, signal);
    if (lease === null) throw new TidemarkError('mirror_locked', 'the mirror is held while the daemon ends');
    try {
      return work(lease.mirror);
    } finally {
      lease.release();
    }
  }

  /** Tells of a job that could not be written down, where it failed and that was not told before. */
  async #tellAtOnce(row: JobRow, details: JobDetails, signal: AbortSignal): Promise<void> {
    const { config, clock, log, send } = this.#options;
    const known = this.#unwritten.get(keyOf(row));
    const seen = { job: row, details, held: [], at: isoTime(clock.now()) };
    const { states, notices } = transitionsOf(known === undefined ? [] : [known], seen);
    const failed = states.find(({ subject }) => subject === 'run' || subject === `job:${row.name}`);
    if (failed === undefined) return;
    this.#unwritten.set(keyOf(row), failed);
    const channels = config().notices;
    for (const notice of notices.filter(({ subject }) => subject === failed.subject)) {
      const names = channelsFor(notice, channels);
      await Promise.all(
        channels
          .filter(({ name }) => names.includes(name))
          .map(async (channel) => {
            try {
              await send(channel, messageOf(0, notice, channel.severity), signal);
            } catch (thrown) {
              if (signal.aborted) return;
              const { code, message } = asTidemarkError(thrown);
              log.error(
                { channel: channel.name, event: notice.event, code },
                `a notice was neither written down nor delivered: ${message}`,
              );
            }
          }),
      );
    }
  }
}

function keyOf({ name, source }: JobRow): string {
  return `${name} ${source ?? ''}`;
}

function detailsOf(report: RunReport | null): JobDetails {
  return report === null ? {} : { troubled: troubledSweeps(report.sweeps) };
}
