/** Opsgenie's Alert API: an alert is created and closed under one alias. */
import { Secret } from '../../../core/secret.ts';
import {
  actionsOf,
  bodyLines,
  byTemplate,
  cut,
  factsLine,
  incidentKey,
  jsonRequest,
  post,
  type Sender,
} from './shared.ts';

const MESSAGE_LENGTH = 130;
const DESCRIPTION_LENGTH = 15_000;
const PRIORITIES = { critical: 'P1', high: 'P2', medium: 'P3', low: 'P5' } as const;

export const sendOpsgenie: Sender<'opsgenie'> = async (channel, message, signal, effects) => {
  const alias = incidentKey(message);
  const alerts = `${channel.apiUrl}/v2/alerts`;
  const title = cut(byTemplate(channel.template, message, (value) => value) ?? message.title, MESSAGE_LENGTH);
  const text = [...bodyLines(message), factsLine(message)].join('\n');
  for (const action of actionsOf(message)) {
    const url =
      action === 'trigger' ? alerts : `${alerts}/${encodeURIComponent(alias)}/close?identifierType=alias`;
    const body =
      action === 'trigger'
        ? {
            message: title,
            alias,
            description: cut(text, DESCRIPTION_LENGTH),
            priority: PRIORITIES[message.severity],
            source: 'Tidemark',
            entity: message.source === '' ? 'mirror' : message.source,
            tags: [message.event],
          }
        : { source: 'Tidemark', note: cut(title, MESSAGE_LENGTH) };
    const request = jsonRequest(new Secret(url), message, body);
    const headers = { ...request.headers, authorization: `GenieKey ${channel.apiKey.reveal()}` };
    await post(effects, channel, { ...request, headers }, signal);
  }
};
