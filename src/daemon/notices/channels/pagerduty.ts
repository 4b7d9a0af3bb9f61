/** PagerDuty's Events API v2: an incident is triggered and resolved under one key. */
import type { ChannelOf } from '../../../config/channels.ts';
import { Secret } from '../../../core/secret.ts';
import { type Message, linesOf } from '../message.ts';
import { actionsOf, byTemplate, cut, incidentKey, jsonRequest, post, type Sender } from './shared.ts';

const SUMMARY_LENGTH = 1024;
const SEVERITIES = { critical: 'critical', high: 'error', medium: 'warning', low: 'info' } as const;

export const sendPagerDuty: Sender<'pagerduty'> = async (channel, message, signal, effects) => {
  const url = new Secret(`${channel.apiUrl}/v2/enqueue`);
  for (const action of actionsOf(message))
    await post(effects, channel, jsonRequest(url, message, eventOf(channel, message, action)), signal);
};

function eventOf(
  { routingKey, template }: ChannelOf<'pagerduty'>,
  message: Message,
  action: 'trigger' | 'resolve',
): object {
  const { link, title, source, severity, at, event, hint, run } = message;
  return {
    routing_key: routingKey.reveal(),
    event_action: action,
    dedup_key: incidentKey(message),
    client: 'Tidemark',
    ...(link === null ? {} : { client_url: link, links: [{ href: link, text: 'Dashboard' }] }),
    payload: {
      summary: cut(byTemplate(template, message, (value) => value) ?? title, SUMMARY_LENGTH),
      source: source === '' ? 'mirror' : source,
      severity: SEVERITIES[severity],
      timestamp: at,
      component: 'tidemark',
      class: event,
      custom_details: { text: linesOf(message).join('\n'), hint, run },
    },
  };
}
