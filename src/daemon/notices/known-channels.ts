/**
 * Through which channels and pings nothing is sent, since a secret of theirs is missing. What counts is the environment of
 * the process that sends: the daemon, or the last call of `daemon --once`, writes it down for the others.
 */
import type { Config } from '../../config/config.ts';
import type { ChannelRow } from '../../mirror/daemon-store.ts';

/** A channel or the pings (`name`), why nothing is sent, and what to do about it if that is not plain. */
export interface SilentChannel {
  readonly name: string;
  readonly why: string;
  readonly hint?: string;
}

type Channels = Pick<Config, 'notices' | 'pings' | 'fileHash'>;

/** For the other processes: each channel, and the pings, as this one has read them. */
export function channelRows(config: Channels, readBy: ChannelRow['readBy']): ChannelRow[] {
  const ofPings = config.pings.flatMap(({ problem }) => problem ?? []);
  return [
    ...config.notices.map(({ name, problem }) => ({ channel: `channel ${name}`, problem })),
    ...(config.pings.length === 0 ? [] : [{ channel: 'pings', problem: ofPings.join('; ') || null }]),
  ]
    .map((row) => ({ ...row, readBy, fileHash: config.fileHash }))
    .sort((a, b) => (a.channel < b.channel ? -1 : 1));
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
