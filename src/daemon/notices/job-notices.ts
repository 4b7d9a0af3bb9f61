/** Writes down what a job that ended changed, with the notices of it. */
import type { ChannelConfig } from '../../config/notice-channel.ts';
import type { JobRow } from '../../mirror/daemon-jobs.ts';
import type { NoticeState } from '../../mirror/daemon-notices.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { channelsFor } from './routing.ts';
import type { JobDetails, Transition } from './job-observation.ts';
import { transitionsOf } from './transitions.ts';

interface JobNotices {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** States that were told though they could not be written down. */
  readonly assumed: readonly NoticeState[];
  /** ISO 8601. */
  readonly at: string;
}

/** The same job again changes nothing. `mirror` is open for writing. Returns how many notices there are to tell. */
export function recordJobNotices(
  mirror: Mirror,
  { job, details, assumed, at }: JobNotices,
  channels: readonly ChannelConfig[],
): number {
  const source = job.source ?? '';
  const states = [...mirror.daemonState().noticeStates(source), ...assumed];
  const held = job.name === 'sync' ? mirror.heldRemovals(source) : [];
  return recordTransition(mirror, transitionsOf(states, { job, details, held, at }), channels);
}

/** All of it or nothing. */
export function recordTransition(
  mirror: Mirror,
  { states, cleared, notices }: Transition,
  channels: readonly ChannelConfig[],
): number {
  if (states.length + cleared.length + notices.length > 0) {
    mirror.daemonState().recordNotices({
      states,
      cleared,
      notices: notices.map((notice) => ({ notice, channels: channelsFor(notice, channels) })),
    });
  }
  return notices.length;
}
