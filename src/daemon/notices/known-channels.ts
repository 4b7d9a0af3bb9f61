/**
 * Channels and pings through which nothing is sent because a secret is missing. What counts is the environment of the process that sends:
 * the daemon, or the last call of `daemon --once`, stores for the others which channels can send.
 */
import { compareTexts } from '../../catalog/order.ts';
import type { Config } from '../../config/config.ts';
import { localTime, plural } from '../../core/wording.ts';
import type { ChannelRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';

/** A channel or the pings (`name`), why nothing is sent, and what to do about it if `why` does not show that. */
export interface SilentChannel {
  readonly name: string;
  readonly why: string;
  readonly hint?: string;
}

/** After this, notices that could not be delivered are a reason in the health. */
export const PENDING_LONG_MS = 15 * 60_000;

type Channels = Pick<Config, 'notices' | 'pings' | 'fileHash'>;

/** Each channel, and the pings, as this process has read them: stored for the other processes. */
export function channelRows(config: Channels, readBy: ChannelRow['readBy']): ChannelRow[] {
  const ofPings = config.pings.flatMap(({ problem }) => problem ?? []);
  return [
    ...config.notices.map(({ name, problem }) => ({ channel: `channel ${name}`, problem })),
    ...(config.pings.length === 0 ? [] : [{ channel: 'pings', problem: ofPings.join('; ') || null }]),
  ]
    .map((row) => ({ ...row, readBy, fileHash: config.fileHash }))
    .sort((a, b) => compareTexts(a.channel, b.channel));
}

/** The silent channels by the environment of this process. */
export function silentChannels(config: Channels): SilentChannel[] {
  return channelRows(config, 'daemon').flatMap(({ channel, problem }) =>
    problem === null ? [] : [{ name: channel, why: problem }],
  );
}

const READERS = { daemon: 'the daemon', once: 'the last call of `daemon --once`' } as const;
const ENVIRONMENT = 'in the environment';

/**
 * The silent channels for a process that sends nothing: as stored by the one that sends, if that has read this configuration; otherwise
 * by the own environment.
 */
export function recordedSilentChannels(config: Channels, rows: readonly ChannelRow[]): SilentChannel[] {
  const recorded = rows.filter(({ fileHash }) => fileHash === config.fileHash);
  if (recorded.length === 0)
    return silentChannels(config).map(({ name, why }) => ({
      ...{ name, why: why.replaceAll(ENVIRONMENT, 'in this shell') },
      hint: 'what counts is what the daemon or `daemon --once` has: none has read this configuration yet',
    }));
  return recorded.flatMap(({ channel, problem, readBy }) =>
    problem === null
      ? []
      : [
          {
            ...{
              name: channel,
              why: problem.replaceAll(ENVIRONMENT, `${ENVIRONMENT} of ${READERS[readBy]}`),
            },
            hint: `give it to what starts ${readBy === 'once' ? '`daemon --once`' : 'the daemon'}, such as in \`tidemark.env\` beside the configuration, which the cron line and the unit of \`init\` read`,
          },
        ],
  );
}

/** What to do about a channel that this process cannot use, although the sending process can; null for another channel. */
export function ownLack(
  { notices, fileHash }: Channels,
  rows: readonly ChannelRow[],
  name: string,
): { readonly why: string; readonly hint: string } | null {
  const problem = notices.find((each) => each.name === name)?.problem ?? null;
  const row = rows.find((each) => each.channel === `channel ${name}` && each.fileHash === fileHash);
  if (problem === null || row === undefined || row.problem !== null) return null;
  return {
    why: problem.replaceAll(ENVIRONMENT, 'in this shell'),
    hint: `${READERS[row.readBy]} had it, and sends: give it to this shell too, such as by \`set -a; . ./tidemark.env\``,
  };
}

/** A line for each channel that has just failed to deliver: it is not yet a reason in the health, and not known to be silent. */
export function retryingChannels(
  config: Channels,
  { daemon }: Pick<Mirror, 'daemon'>,
  now: number,
): string[] {
  const silent = recordedSilentChannels(config, daemon.channels()).map(({ name }) => name);
  const pending = Map.groupBy(daemon.pendingDeliveries(), ({ channel }) => channel);
  return [...pending].flatMap(([channel, own]) => {
    const since = own.map(({ about }) => about.at).sort()[0] ?? '';
    const error = own.findLast((each) => each.attempts > 0 && each.error !== null)?.error ?? null;
    if (error === null || silent.includes(`channel ${channel}`) || now - Date.parse(since) > PENDING_LONG_MS)
      return [];
    return `channel ${channel}: ${plural(own.length, 'notice')} ${own.length === 1 ? 'waits' : 'wait'} since ${localTime(since)}, the last attempt failed: ${error}`;
  });
}
