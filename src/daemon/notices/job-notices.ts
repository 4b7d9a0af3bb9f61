/** Writes down what a job that ended changed, with the notices of it. */
import { SEVERITIES } from '../../catalog/definition.ts';
import type { ChannelConfig } from '../../config/channels.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { JobRow, NoticeState, Notice } from '../../mirror/daemon.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { JobDetails, Transition } from './run-transitions.ts';
import { contentOf } from './message.ts';
import { transitionsOf } from './transitions.ts';

interface JobNotices {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** States that were reported though they could not be written down. */
  readonly assumed: readonly NoticeState[];
  /** ISO 8601. */
  readonly at: string;
}

/** The same job again changes nothing. `mirror` is open for writing. Returns how many notices there are to send. */
export function recordJobNotices(
  mirror: Mirror,
  { job, details, assumed, at }: JobNotices,
  channels: readonly ChannelConfig[],
): number {
  const source = job.source ?? '';
  const states = [...mirror.daemon.noticeStates(source), ...assumed];
  const held = job.name === 'sync' ? mirror.runs.heldRemovals(source) : [];
  return recordTransition(mirror, transitionsOf(states, { job, details, held, at }), channels);
}

/** All of it or nothing. */
export function recordTransition(
  mirror: Mirror,
  { states, cleared, notices }: Transition,
  channels: readonly ChannelConfig[],
): number {
  if (states.length + cleared.length + notices.length > 0) {
    mirror.daemon.recordNotices({
      states,
      cleared,
      notices: notices.map((notice) => ({ notice, channels: channelsFor(notice, channels) })),
    });
  }
  return notices.length;
}

// The channels that receive a notice.

/** Names of the channels, in the order of the configuration. */
export function channelsFor(notice: Notice, channels: readonly ChannelConfig[]): string[] {
  return channels.filter((channel) => isFor(channel, notice)).map(({ name }) => name);
}

function isFor({ on, sources, severity }: ChannelConfig, notice: Notice): boolean {
  if (!on.some((event) => event === notice.event)) return false;
  if (notice.source !== '' && sources !== null && !sources.includes(notice.source)) return false;
  const { severities } = contentOf(notice);
  if (severities === null) return true;
  return SEVERITIES.some((each) => severities[each] > 0 && compareSeverities(each, severity) <= 0);
}
