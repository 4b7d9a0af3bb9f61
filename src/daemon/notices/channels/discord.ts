/** Discord's own webhooks. */
import {
  byTemplate,
  bodyLines,
  cut,
  factsLine,
  heading,
  jsonRequest,
  markdownText,
  post,
  type Sender,
} from './shared.ts';

/** Discord's limit of `content`: it refuses a longer one. */
const TEXT_LENGTH = 2000;

export const sendDiscord: Sender<'discord'> = (channel, message, signal, effects) => {
  const own = [
    `**${markdownText(heading(message))}**`,
    ...bodyLines(message).map(markdownText),
    factsLine(message),
  ];
  const text = byTemplate(channel.template, message, markdownText) ?? own.join('\n');
  // `parse: []`: not even a mention in the template notifies anybody.
  const body = { content: cut(text, TEXT_LENGTH), allowed_mentions: { parse: [] } };
  return post(effects, channel, jsonRequest(channel.url, message, body), signal);
};
