/** Notices for the daemon: what a job changed is written down with its notices, and delivered afterwards. */
import { isoTime } from '../../core/clock.ts';
import type { JobRow } from '../../mirror/daemon-jobs.ts';
import type { NoticeState } from '../../mirror/daemon-notices.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type Freshness, freshnessTransition } from './freshness.ts';
import { recordJobNotices, recordTransition } from './job-notices.ts';
import { type OutboxOptions, Outbox } from './outbox.ts';
import { type JobDetails, type Transition, joined } from './job-observation.ts';

export type NotifierOptions = OutboxOptions;

export interface Notifier {
  /**
   * Writes down what a job that ended changed, in one transaction with the notices of it; sends nothing. The same job
   * again changes nothing.
   * @returns how many notices there are to tell
   * @throws TidemarkError whatever keeps the mirror from being written: then nothing of it is told, and the next job tells
   */
  afterJob(job: JobRow, details?: JobDetails): Promise<number>;
  /**
   * The same within a writer that is open already.
   * @param assumed states that were told though they could not be written down
   */
  recordJob(mirror: Mirror, job: JobRow, details?: JobDetails, assumed?: readonly NoticeState[]): number;
  /** Looks whether a sync is overdue, or no longer; writes only where that changed. Call it now and then. */
  checkFreshness(sources: readonly Freshness[]): Promise<number>;
  /** As `Outbox.deliverDue`. Need not be awaited. */
  deliverDue(signal: AbortSignal): Promise<void>;
  /** As `Outbox.nextDueAt`. */
  nextDueAt(): number | null;
  /** Ends what is being sent, without counting it as an attempt, and writes down what was delivered. */
  close(): Promise<void>;
}

export function createNotifier(options: NotifierOptions): Notifier {
  const { channels, clock, openWriter } = options;
  const outbox = new Outbox(options);
  const closing = new AbortController();

  const recordJob = (
    mirror: Mirror,
    job: JobRow,
    details: JobDetails = {},
    assumed: readonly NoticeState[] = [],
  ): number => recordJobNotices(mirror, { job, details, assumed, at: isoTime(clock.now()) }, channels());
  const freshness = (mirror: Mirror, sources: readonly Freshness[]): Transition =>
    joined(
      sources.map((each) =>
        freshnessTransition(mirror.daemonState().noticeStates(each.source), each, clock.now()),
      ),
    );

  return {
    afterJob: (job, details) => openWriter((mirror) => recordJob(mirror, job, details)),
    recordJob,
    checkFreshness: async (sources) => {
      if (sources.length === 0) return 0;
      const { states, cleared } = freshness(options.mirror(), sources);
      if (states.length + cleared.length === 0) return 0;
      return openWriter((mirror) => recordTransition(mirror, freshness(mirror, sources), channels()));
    },
    deliverDue: (signal) => outbox.deliverDue(AbortSignal.any([signal, closing.signal])),
    nextDueAt: () => outbox.nextDueAt(),
    close: async () => {
      closing.abort(new Error('closed'));
      await outbox.settled();
    },
  };
}
