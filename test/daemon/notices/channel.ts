/** Channels as the configuration gives them, with only what a test cares about. */
import type { ChannelOf } from '../../../src/config/channels.ts';
import { NOTICE_EVENTS } from '../../../src/config/notice-events.ts';
import { Secret } from '../../../src/core/secret.ts';

const shared = {
  on: NOTICE_EVENTS,
  sources: null,
  severity: 'low',
  template: null,
  group: true,
  perMinute: 0,
  problem: null,
  directory: '/',
} as const;

export function webhook(
  name: string,
  url: string,
  more: Partial<ChannelOf<'webhook'>> = {},
): ChannelOf<'webhook'> {
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

export function slack(name: string, url: string, more: Partial<ChannelOf<'slack'>> = {}): ChannelOf<'slack'> {
  return { ...shared, name, type: 'slack', url: new Secret(url), ...more };
}

export function email(
  name: string,
  smtpUrl: string,
  more: Partial<ChannelOf<'email'>> = {},
): ChannelOf<'email'> {
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
  more: Partial<ChannelOf<'command'>> = {},
): ChannelOf<'command'> {
  return {
    ...shared,
    name,
    type: 'command',
    command: words.map((word) => new Secret(word)),
    timeout: 10_000,
    env: {},
    ...more,
  };
}

/** A channel that has a secret URL and nothing else. */
export function chat(
  type: 'teams' | 'mattermost' | 'discord',
  url: string,
  template: string | null = null,
): ChannelOf<'teams' | 'mattermost' | 'discord'> {
  return { ...shared, name: type, type, url: new Secret(url), template };
}

export function pagerduty(apiUrl: string): ChannelOf<'pagerduty'> {
  return { ...shared, name: 'pager', type: 'pagerduty', routingKey: new Secret('R0UTING-KEY'), apiUrl };
}

export function opsgenie(apiUrl: string): ChannelOf<'opsgenie'> {
  return { ...shared, name: 'genie', type: 'opsgenie', apiKey: new Secret('GEN1E-KEY'), apiUrl };
}
