/** Sends one message through one channel, whatever its type. */
import type { ChannelConfig, ChannelType } from '../../config/channels.ts';
import { TidemarkError } from '../../core/errors.ts';
import { sendDiscord, sendMattermost, sendSlack, sendTeams } from './channels/chat.ts';
import { sendByCommand } from './channels/command.ts';
import { sendEmail } from './channels/email.ts';
import { sendOpsgenie, sendPagerDuty } from './channels/incident.ts';
import type { Sender, SendingEffects } from './channels/shared.ts';
import { sendWebhook } from './channels/webhook.ts';
import { type Message, withConfigFile } from './message.ts';

/** A sender for each row of `config/channels.ts`. */
const SENDERS: { readonly [T in ChannelType]: Sender<T> } = {
  webhook: sendWebhook,
  slack: sendSlack,
  teams: sendTeams,
  mattermost: sendMattermost,
  discord: sendDiscord,
  pagerduty: sendPagerDuty,
  opsgenie: sendOpsgenie,
  email: sendEmail,
  command: sendByCommand,
};

/** Delivers or throws. */
export type Send = (channel: ChannelConfig, message: Message, signal: AbortSignal) => Promise<void>;

/**
 * The sender over real sockets, mail servers and processes. It throws a TidemarkError that holds no secret of the channel,
 * `isRetryable` false where the receiver refused this very message; the abort reason when the signal is aborted.
 */
export function createSend(effects: SendingEffects): Send {
  return async (channel, message, signal) => {
    if (channel.problem !== null) {
      throw new TidemarkError('config_invalid', channel.problem, {
        hint: 'correct the configuration of the channel; `tidemark config check` reads it again',
        isRetryable: true,
      });
    }
    // By its type it is the channel that this sender takes.
    const sender = SENDERS[channel.type] as Sender<ChannelType>;
    await sender(channel, withConfigFile(message, effects.configFile), signal, effects);
  };
}
