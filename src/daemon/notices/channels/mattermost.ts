/** Mattermost's incoming webhooks. */
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

/** Of a post; Mattermost would cut it, or refuse it where it is set lower than by default. */
const TEXT_LENGTH = 4000;

export const sendMattermost: Sender<'mattermost'> = (channel, message, signal, effects) => {
  const own = [
    `**${markdownText(heading(message))}**`,
    ...bodyLines(message).map(markdownText),
    factsLine(message),
  ];
  const text = byTemplate(channel.template, message, markdownText) ?? own.join('\n');
  return post(effects, channel, jsonRequest(channel.url, message, { text: cut(text, TEXT_LENGTH) }), signal);
};
