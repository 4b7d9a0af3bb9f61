/**
 * Through which channels and pings nothing is sent, since a secret of theirs is missing. What counts is the environment of
 * the process that sends: the daemon, or the last call of `daemon --once`, writes it down for the others.
 */
import { compareTexts } from '../../catalog/order.ts';
import type { Config } from '../../config/config.ts';
import { localTime, plural } from '../../core/wording.ts';
import type { ChannelRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';

/** A channel or the pings (`name`), why nothing is sent, and what to do about it if that is not plain. */
export interface SilentChannel {
  readonly name: string;
  readonly why: string;
  readonly hint?: string;
}

/** After so long, notices that could not be delivered are a reason of the health. */
export const PENDING_LONG_MS = 15 * 60_000;

type Channels = Pick<Config, 'notices' | 'pings' | 'fileHash'>;

/** For the other processes: each channel, and the pings, as this one has read them. */
export function channelRows(config: Channels, readBy: ChannelRow['readBy']): ChannelRow[] {
  const ofPings = config.pings.flatMap(({ problem }) => problem ?? []);
  return [
    ...config.notices.map(({ name, problem }) => ({ channel: `channel ${name}`, problem })),
    ...(config.pings.length === 0 ? [] : [{ channel: 'pings', problem: ofPings.join('; ') || null }]),
  ]
    .map((row) => ({ ...row, readBy, fileHash: config.fileHash }))
    .sort((a, b) => compareTexts(a.channel, b.channel));
}

/** By the environment of this process. */
export function silentChannels(config: Channels): SilentChannel[] {
  return channelRows(config, 'daemon').flatMap(({ channel, problem }) =>
    problem === null ? [] : [{ name: channel, why: problem }],
  );
}

const READERS = { daemon: 'the daemon', once: 'the last call of `daemon --once`' } as const;
const ENVIRONMENT = 'in the environment';

/** For a process that sends nothing: as the one that sends read this configuration; by its own environment if none did. */
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

/** What to do about a channel that this process cannot use while the one that sends has what it lacks; null for another one. */
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

/** Of each channel that has just failed to deliver, in one line: not yet a reason of the health, and not one that is known to send nothing. */
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
