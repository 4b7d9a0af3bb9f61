/** Channels as the configuration gives them, with only what a test cares about. */
import type {
  CommandChannel,
  EmailChannel,
  SlackChannel,
  WebhookChannel,
} from '../../../src/config/notice-channel.ts';
import { NOTICE_EVENTS } from '../../../src/config/notice-channel.ts';
import { Secret } from '../../../src/core/secret.ts';

const shared = {
  on: NOTICE_EVENTS,
  sources: null,
  severity: 'low',
  template: null,
  problem: null,
} as const;

export function webhook(name: string, url: string, more: Partial<WebhookChannel> = {}): WebhookChannel {
  return {
    ...shared,
    name,
    type: 'webhook',
    url: new Secret(url),
    secret: null,
    contentType: 'application/json',
    ...more,
  };
}

export function slack(name: string, url: string, more: Partial<SlackChannel> = {}): SlackChannel {
  return { ...shared, name, type: 'slack', url: new Secret(url), ...more };
}

export function email(name: string, smtpUrl: string, more: Partial<EmailChannel> = {}): EmailChannel {
  return {
    ...shared,
    name,
    type: 'email',
    smtpUrl: new Secret(smtpUrl),
    from: 'Tidemark <tidemark@example.com>',
    to: ['ops@example.com'],
    subject: null,
    ...more,
  };
}

export function command(
  name: string,
  words: readonly string[],
  more: Partial<CommandChannel> = {},
): CommandChannel {
  return {
    ...shared,
    name,
    type: 'command',
    command: words.map((word) => new Secret(word)),
    timeoutMs: 10_000,
    env: {},
    directory: '/',
    ...more,
  };
}
