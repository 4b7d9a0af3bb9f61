/** Services that keep incidents: PagerDuty (Events API v2) and Opsgenie (Alert API). One key opens and closes an incident. */
import type { ChannelOf } from '../../../config/channels.ts';
import { Secret } from '../../../core/secret.ts';
import { firstNames, type Message, textOf, subjectName } from '../message.ts';
import {
  actionsOf,
  bodyLines,
  byTemplate,
  cut,
  factsLine,
  jsonRequest,
  post,
  type Sender,
} from './shared.ts';

const PAGERDUTY_SUMMARY = 1024;
const PAGERDUTY_SEVERITY = { critical: 'critical', high: 'error', medium: 'warning', low: 'info' } as const;

export const sendPagerDuty: Sender<'pagerduty'> = async (channel, message, signal, effects) => {
  const url = new Secret(`${channel.apiUrl}/v2/enqueue`);
  for (const incident of message.incidents) {
    for (const action of actionsOf(message)) {
      const event = pagerDutyEvent(channel, message, action, incident);
      await post(effects, channel, jsonRequest(url, message, event), signal);
    }
  }
};

function pagerDutyEvent(
  { routingKey, template }: ChannelOf<'pagerduty'>,
  message: Message,
  action: 'trigger' | 'resolve',
  incident: string,
): object {
  const { link, title, severity, at, event, hint, run } = message;
  return {
    routing_key: routingKey.reveal(),
    event_action: action,
    dedup_key: incident,
    client: 'Tidemark',
    ...(link === null ? {} : { client_url: link, links: [{ href: link, text: 'Dashboard' }] }),
    payload: {
      summary: cut(byTemplate(template, message, (value) => value) ?? title, PAGERDUTY_SUMMARY),
      source: subjectOf(message),
      severity: PAGERDUTY_SEVERITY[severity],
      timestamp: at,
      component: 'tidemark',
      class: event,
      custom_details: { text: textOf(message), hint, run },
    },
  };
}

/** What an incident is about: a source, the mirror, or the first sources of a group. */
function subjectOf({ source, group }: Message): string {
  return group === null ? subjectName(source) : firstNames(group.sources);
}

const OPSGENIE_MESSAGE = 130;
const OPSGENIE_DESCRIPTION = 15_000;
const OPSGENIE_PRIORITY = { critical: 'P1', high: 'P2', medium: 'P3', low: 'P5' } as const;

export const sendOpsgenie: Sender<'opsgenie'> = async (channel, message, signal, effects) => {
  const alerts = `${channel.apiUrl}/v2/alerts`;
  const title = cut(
    byTemplate(channel.template, message, (value) => value) ?? message.title,
    OPSGENIE_MESSAGE,
  );
  const text = [...bodyLines(message), factsLine(message)].join('\n');
  for (const alias of message.incidents) {
    for (const action of actionsOf(message)) {
      const url =
        action === 'trigger' ? alerts : `${alerts}/${encodeURIComponent(alias)}/close?identifierType=alias`;
      const body =
        action === 'trigger'
          ? {
              message: title,
              alias,
              description: cut(text, OPSGENIE_DESCRIPTION),
              priority: OPSGENIE_PRIORITY[message.severity],
              source: 'Tidemark',
              entity: subjectOf(message),
              tags: [message.event],
            }
          : { source: 'Tidemark', note: cut(title, OPSGENIE_MESSAGE) };
      const request = jsonRequest(new Secret(url), message, body);
      const headers = { ...request.headers, authorization: `GenieKey ${channel.apiKey.reveal()}` };
      await post(effects, channel, { ...request, headers }, signal);
    }
  }
};
