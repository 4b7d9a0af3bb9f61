/** Sends one message through one channel, whatever its type. */
import type { Poster } from '../../api/post.ts';
import type { ChannelConfig } from '../../config/notice-channel.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { commandInput, runCommand } from './command.ts';
import { mailOf, sendMail } from './email.ts';
import type { Message } from './message.ts';
import { slackRequest } from './slack.ts';
import { requireAccepted, webhookRequest } from './webhook.ts';

interface SendingEffects {
  readonly poster: Poster;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this process; commands get a few harmless variables of it. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Delivers or throws. */
export type Send = (channel: ChannelConfig, message: Message, signal: AbortSignal) => Promise<void>;

/**
 * The sender over real sockets, mail servers and processes. It throws a TidemarkError that holds no secret of the channel,
 * `isRetryable` false where the receiver refused this very message; the abort reason when the signal is aborted.
 */
export function createSend({ poster, clock, log, env }: SendingEffects): Send {
  return async (channel, message, signal) => {
    if (channel.trouble !== null) {
      throw new TidemarkError('config_invalid', channel.trouble, {
        hint: 'correct the configuration of the channel; `tidemark config check` reads it again',
        isRetryable: true,
      });
    }
    switch (channel.type) {
      case 'webhook': {
        const answer = await poster.post({ ...webhookRequest(channel, message, clock.now()), signal });
        const secrets = channel.secret === null ? [channel.url] : [channel.url, channel.secret];
        requireAccepted(answer, secrets, clock.now());
        return;
      }
      case 'slack': {
        const answer = await poster.post({ ...slackRequest(channel, message), signal });
        requireAccepted(answer, [channel.url], clock.now());
        return;
      }
      case 'email': {
        const refused = await sendMail(channel, mailOf(channel, message), signal);
        if (refused > 0)
          log.warn({ channel: channel.name, refused }, 'the mail server refused some recipients');
        return;
      }
      case 'command': {
        await runCommand(channel, commandInput(channel, message, env), signal, (output) => {
          if (output !== '') log.debug({ channel: channel.name, output }, 'the command said');
        });
        return;
      }
    }
  };
}
