/** Mentions in what a record holds: shown by a chat, but notifying nobody. */

/** U+2060: shown as nothing, and part of no name, so that `@\u2060channel` reads as before and calls nobody. */
const WORD_JOINER = '\u2060';

/** An address such as `ann@example.com` is left as it is, to be copied; Discord finds its own words within one too. */
const MENTION = /@(?!\u2060)(?:(?=everyone|here|all\b|channel)|(?<![\w.+-]@)|(?![\w-]+\.\w))/giu;

/** Slack's and Discord's markup of mentions and channels: `<!here>`, `<@U123>`, `<#C123>`. */
const MARKUP = /<(?=[!@#])/gu;

/**
 * The text with a word joiner behind every `@` that a chat (Slack, Mattermost, Discord, Rocket.Chat) may take for a mention,
 * and behind every `<` that begins one. Changes nothing in a text that went through it before.
 */
export function withoutMentions(text: string): string {
  return text.replace(MENTION, `@${WORD_JOINER}`).replace(MARKUP, `<${WORD_JOINER}`);
}
