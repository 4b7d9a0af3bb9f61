/** Webhooks of chats: Slack (and compatible ones, such as Rocket.Chat), Mattermost, Discord, and Microsoft Teams (workflows). */
import type { PostRequest } from '../../../api/post.ts';
import type { ChannelOf } from '../../../config/channels.ts';
import { type Message, linesOf } from '../message.ts';
import {
  bodyLines,
  byTemplate,
  cut,
  factsLine,
  heading,
  hintLines,
  jsonRequest,
  markdownText,
  post,
  type Sender,
  withoutMentions,
} from './shared.ts';

// Slack's limits: 150 for a header, 3,000 for a section, 40,000 for `text`, of which it advises to keep to 4,000.
const SLACK_HEADER = 150;
const SLACK_SECTION = 3000;
const SLACK_TEXT = 4000;

export const sendSlack: Sender<'slack'> = (channel, message, signal, effects) =>
  post(effects, channel, slackRequest(channel, message), signal);

/** What is posted: `text` for notifications and for receivers that know no blocks, `blocks` for the message itself. @internal */
export function slackRequest({ url, template }: ChannelOf<'slack'>, message: Message): PostRequest {
  const text = byTemplate(template, message, escapedForSlack);
  return jsonRequest(url, message, text === null ? slackBlocks(message) : { text: cut(text, SLACK_TEXT) });
}

function slackBlocks(message: Message): object {
  const { link } = message;
  const lines = linesOf(message);
  const title = withoutMentions(heading(message));
  const hints = hintLines(message);
  const sections = [...(lines.length === 0 ? [] : [lines.join('\n')]), ...hints].map((text) =>
    slackMarkup(text),
  );
  const dashboard = { type: 'mrkdwn', text: `<${link}|dashboard>` };
  return {
    text: cut(escapedForSlack([title, ...lines, ...hints].join('\n')), SLACK_TEXT),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: cut(title, SLACK_HEADER), emoji: false } },
      ...sections.map((text) => ({ type: 'section', text })),
      { type: 'context', elements: [slackMarkup(factsLine(message)), ...(link === null ? [] : [dashboard])] },
    ],
  };
}

/** `verbatim`: Slack does not turn names and links of records into mentions and links. */
function slackMarkup(text: string): object {
  return { type: 'mrkdwn', text: cut(escapedForSlack(text), SLACK_SECTION), verbatim: true };
}

/** The text without mentions, and with the three characters of Slack's links and markup escaped. */
function escapedForSlack(text: string): string {
  return withoutMentions(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Mattermost cuts a longer post, or refuses it if its limit is lower than the default. */
const MATTERMOST_TEXT = 4000;

export const sendMattermost: Sender<'mattermost'> = (channel, message, signal, effects) => {
  const body = { text: cut(markdownForm(channel, message), MATTERMOST_TEXT) };
  return post(effects, channel, jsonRequest(channel.url, message, body), signal);
};

/** Discord refuses a longer `content`. */
const DISCORD_TEXT = 2000;

export const sendDiscord: Sender<'discord'> = (channel, message, signal, effects) => {
  // `parse: []`: not even a mention in the template notifies anybody.
  const body = {
    content: cut(markdownForm(channel, message), DISCORD_TEXT),
    allowed_mentions: { parse: [] },
  };
  return post(effects, channel, jsonRequest(channel.url, message, body), signal);
};

function markdownForm({ template }: ChannelOf<'mattermost' | 'discord'>, message: Message): string {
  const own = [
    `**${markdownText(heading(message))}**`,
    ...bodyLines(message).map(markdownText),
    factsLine(message),
  ];
  return byTemplate(template, message, markdownText) ?? own.join('\n');
}

/** Teams accepts 28 KB; in UTF-16, a character has two bytes. */
const TEAMS_TEXT = 6000;

export const sendTeams: Sender<'teams'> = (channel, message, signal, effects) =>
  post(effects, channel, jsonRequest(channel.url, message, teamsMessage(channel, message)), signal);

function teamsMessage({ template }: ChannelOf<'teams'>, message: Message): object {
  const { link } = message;
  const own = byTemplate(template, message, withoutMentions);
  const body =
    own !== null
      ? [textBlock(own)]
      : [
          textBlock(heading(message), { weight: 'Bolder', size: 'Medium' }),
          ...[...linesOf(message), ...hintLines(message)].map((line) => textBlock(line)),
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

/** Rich text without Markdown, so that text of records has no markup. */
function textBlock(text: string, style: Readonly<Record<string, string | boolean>> = {}): object {
  const run = { type: 'TextRun', text: cut(withoutMentions(text), TEAMS_TEXT), ...style };
  return { type: 'RichTextBlock', inlines: [run] };
}
