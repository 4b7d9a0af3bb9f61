/** Slack's incoming webhooks, and what understands the same, such as Rocket.Chat. */
import type { PostRequest } from '../../../api/post.ts';
import type { ChannelOf } from '../../../config/channels.ts';
import { type Message, linesOf } from '../message.ts';
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

// Slack's limits: 150 for a header, 3,000 for a section, 40,000 for `text`, of which it advises to keep to 4,000.
const HEADER_LENGTH = 150;
const SECTION_LENGTH = 3000;
const TEXT_LENGTH = 4000;

export const sendSlack: Sender<'slack'> = (channel, message, signal, effects) =>
  post(effects, channel, slackRequest(channel, message), signal);

/** What is posted: `text` for notifications and for receivers that know no blocks, `blocks` for the message itself. @internal */
export function slackRequest({ url, template }: ChannelOf<'slack'>, message: Message): PostRequest {
  const text = byTemplate(template, message, escaped);
  return jsonRequest(url, message, text === null ? ownForm(message) : { text: cut(text, TEXT_LENGTH) });
}

function ownForm(message: Message): object {
  const { hint, link } = message;
  const lines = linesOf(message);
  const title = withoutMentions(heading(message));
  const hints = hint === null ? [] : [`→ ${hint}`];
  const sections = [...(lines.length === 0 ? [] : [lines.join('\n')]), ...hints].map((text) => markup(text));
  const dashboard = { type: 'mrkdwn', text: `<${link}|dashboard>` };
  return {
    text: cut(escaped([title, ...lines, ...hints].join('\n')), TEXT_LENGTH),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: cut(title, HEADER_LENGTH), emoji: false } },
      ...sections.map((text) => ({ type: 'section', text })),
      { type: 'context', elements: [markup(factsLine(message)), ...(link === null ? [] : [dashboard])] },
    ],
  };
}

/** `verbatim`: names and links that a record holds are not made to work. */
function markup(text: string): object {
  return { type: 'mrkdwn', text: cut(escaped(text), SECTION_LENGTH), verbatim: true };
}

/** Without mentions, and without the three characters by which Slack knows links and markup. */
function escaped(text: string): string {
  return withoutMentions(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
