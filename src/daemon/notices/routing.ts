/** Which channels are to hear of a notice. */
import { SEVERITIES } from '../../catalog/severities.ts';
import type { ChannelConfig } from '../../config/notice-channel.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { Notice } from '../../mirror/daemon-notices.ts';
import { contentOf } from './notice-content.ts';

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
