/** Microsoft Teams, by the webhook of a workflow: an adaptive card. */
import type { ChannelOf } from '../../../config/channels.ts';
import {
  byTemplate,
  cut,
  factsLine,
  heading,
  jsonRequest,
  post,
  type Sender,
  withoutMentions,
} from './shared.ts';
import { linesOf, type Message } from '../message.ts';

/** Teams takes 28 KB, in UTF-16 twice as much as the characters. */
const TEXT_LENGTH = 6000;

export const sendTeams: Sender<'teams'> = (channel, message, signal, effects) =>
  post(effects, channel, jsonRequest(channel.url, message, teamsMessage(channel, message)), signal);

function teamsMessage({ template }: ChannelOf<'teams'>, message: Message): object {
  const { hint, link } = message;
  const own = byTemplate(template, message, withoutMentions);
  const body =
    own !== null
      ? [textBlock(own)]
      : [
          textBlock(heading(message), { weight: 'Bolder', size: 'Medium' }),
          ...[...linesOf(message), ...(hint === null ? [] : [`→ ${hint}`])].map((line) => textBlock(line)),
          textBlock(factsLine(message), { isSubtle: true, size: 'Small' }),
        ];
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body,
    ...(link === null ? {} : { actions: [{ type: 'Action.OpenUrl', title: 'Dashboard', url: link }] }),
  };
  return {
    type: 'message',
    attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content }],
  };
}

/** Rich text knows no Markdown: what a record holds stays text. */
function textBlock(text: string, style: Readonly<Record<string, string | boolean>> = {}): object {
  const run = { type: 'TextRun', text: cut(withoutMentions(text), TEXT_LENGTH), ...style };
  return { type: 'RichTextBlock', inlines: [run] };
}
