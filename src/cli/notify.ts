/** `tidemark notify test`: sends one notice through each channel, whatever its filters; the mirror is not involved. */
import { openPoster } from '../api/post.ts';
import type { ChannelConfig } from '../config/channels.ts';
import { type LoadedConfig, hasMirrorPerSource, mirrorConfigs } from '../config/mirrors.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { type ExitCode, asTidemarkError, EXIT, TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { formatInteger } from '../core/wording.ts';
import { ownLack } from '../daemon/notices/known-channels.ts';
import { messageOf, noticeOf } from '../daemon/notices/message.ts';
import { type Send, createSend } from '../daemon/notices/sending.ts';
import type { ChannelRow } from '../mirror/daemon-store.ts';
import { readLoadedConfig } from '../wire.ts';
import { print, printReason, type CommandContext, terminalWidth, printJson } from './context.ts';
import { openToInspect } from './doctor-report.ts';
import { renderTable } from '../report/table.ts';
import { commandLog } from './command-log.ts';
import { errorLines, errorDocument } from './failure.ts';

interface Attempt {
  readonly channel: ChannelConfig;
  readonly ms: number;
  /** Null if it was delivered. */
  readonly error: TidemarkError | null;
}

interface Tried extends Attempt {
  /** Recipients that the server refused, each with its answer, although others got the message. */
  readonly refused: readonly string[];
}

/** Exit 0 if all were delivered, 3 if some were (or only to some recipients), 1 if none, 4 for an unknown channel or without channels. */
export async function notifyTest(
  context: CommandContext,
  options: { readonly channels?: readonly string[] },
): Promise<ExitCode> {
  const config = readLoadedConfig(context, context.options, 'unused');
  const channels = chosen(config.notices, options.channels ?? []);
  const log = commandLog(context);
  const poster = openPoster(() => config.proxies);
  const refused = new Map<string, readonly string[]>();
  const send = createSend({
    poster,
    clock: systemClock,
    log,
    env: context.env,
    onRefused: (channel, recipients) => void refused.set(channel, recipients),
  });
  try {
    const known = channels.some(({ problem }) => problem !== null) ? knownChannels(context, config) : [];
    const tried = await Promise.all(
      channels.map(async (channel) => {
        const { error, ...made } = await attempt(send, channel, config.http.publicUrl, context.signal);
        const lack = error === null ? null : ownLack(config, known, channel.name);
        const reported =
          lack === null ? error : new TidemarkError('config_invalid', lack.why, { hint: lack.hint });
        return { ...made, error: reported, refused: refused.get(channel.name) ?? [] };
      }),
    );
    if (context.options.json === true) await printJson(context, documentOf(tried));
    else await print(context, asText(tried, context));
    const failed = tried.filter(({ error }) => error !== null).length;
    printReason(
      context,
      tried.flatMap(({ channel, error, refused }) =>
        error === null
          ? refused.map((each) => `channel ${channel.name}: not delivered to ${each}`)
          : errorLines({
              message: `channel ${channel.name}: not delivered: ${error.message}`,
              hint: error.hint,
            }),
      ),
    );
    if (failed === 0 && refused.size === 0) return EXIT.done;
    return failed === tried.length ? EXIT.failed : EXIT.partial;
  } finally {
    await poster.close();
  }
}

/** The channels as the daemon read them; none if no mirror can be read, or each source has its own. */
function knownChannels(context: CommandContext, config: LoadedConfig): readonly ChannelRow[] {
  if (hasMirrorPerSource(config)) return [];
  const [own] = mirrorConfigs(config);
  using mirror = own === undefined ? null : openToInspect(context, own, 'notify test').mirror;
  return mirror?.daemon.channels() ?? [];
}

function chosen(channels: readonly ChannelConfig[], asked: readonly string[]): readonly ChannelConfig[] {
  const names = channels.map(({ name }) => name);
  if (names.length === 0) {
    throw new TidemarkError('config_invalid', 'no channel is configured: nobody would be notified', {
      hint: 'list channels under `notices` (docs/notices.md)',
    });
  }
  for (const name of asked) {
    if (names.includes(name)) continue;
    throw new TidemarkError('usage', `there is no channel ${name}${didYouMean(name, names)}`, {
      hint: `configured are: ${names.join(', ')}`,
    });
  }
  return asked.length === 0 ? channels : channels.filter(({ name }) => asked.includes(name));
}

/** Sends a test notice through one channel and measures how long it takes. */
export async function attempt(
  send: Send,
  channel: ChannelConfig,
  publicUrl: string | null,
  signal: AbortSignal,
): Promise<Attempt> {
  const at = isoTime(systemClock.now());
  const notice = noticeOf(
    { at, source: '', subject: 'test', event: 'test' },
    {
      severity: 'low',
      title: 'Tidemark: a test notice',
      lines: [`notices reach you through the channel ${channel.name}`],
    },
  );
  const begun = systemClock.monotonicMs();
  const sinceMs = (): number => Math.round(systemClock.monotonicMs() - begun);
  try {
    await send(channel, messageOf(0, notice, channel.severity, publicUrl), signal);
    return { channel, ms: sinceMs(), error: null };
  } catch (thrown) {
    signal.throwIfAborted();
    return { channel, ms: sinceMs(), error: asTidemarkError(thrown) };
  }
}

function asText(tried: readonly Tried[], context: CommandContext): string {
  const rows = tried.map(({ channel, ms, error, refused }) => {
    const isPartial = refused.length > 0;
    const delivered = `delivered ${isPartial ? 'to some ' : ''}in ${formatInteger(ms)} ms${isPartial ? `, not to ${refused.join('; ')}` : ''}`;
    return [
      channel.name,
      channel.type,
      error === null ? delivered : `failed (${error.code}): ${error.message}`,
    ];
  });
  const hints = new Set(tried.flatMap(({ error }) => (error?.hint === undefined ? [] : [`→ ${error.hint}`])));
  const table = renderTable(['channel', 'type', 'outcome'], rows, [], { width: terminalWidth(context) });
  return `${[table, ...hints].join('\n')}\n`;
}

function documentOf(tried: readonly Tried[]): object {
  const channels = tried.map(({ channel, ms, error, refused }) => ({
    channel: channel.name,
    type: channel.type,
    outcome: error !== null ? 'failed' : refused.length > 0 ? 'partial' : 'delivered',
    refused,
    milliseconds: ms,
    error: errorDocument(error),
  }));
  return { schema: 'tidemark.notify/1', channels };
}
