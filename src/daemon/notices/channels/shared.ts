/** Shared by the channels: sending a POST, describing a refusal, and preventing mentions in text of records. */
import { neutralText } from '../../../api/neutral-text.ts';
import type { PostAnswer, Poster, PostRequest } from '../../../api/post.ts';
import { parseRetryAfter } from '../../../api/retry.ts';
import { type ChannelConfig, type ChannelOf, type ChannelType, secretsOf } from '../../../config/channels.ts';
import { IMPROVEMENTS, renderTemplate } from '../../../config/notice-events.ts';
import type { Clock } from '../../../core/clock.ts';
import { TidemarkError, type ErrorCode } from '../../../core/errors.ts';
import type { Logger } from '../../../core/logger.ts';
import { Secret } from '../../../core/secret.ts';
import { type Message, linesOf, templateValues } from '../message.ts';

export interface SendingEffects {
  readonly poster: Poster;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this process; commands get only a few harmless variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of the configuration file, if the command line named one: the commands in a message need it too. */
  readonly configFile?: string | undefined;
  /** Called if only some recipients get a message, with each of the others and what the server said. It is logged too. */
  readonly onRefused?: (channel: string, recipients: readonly string[]) => void;
}

/** Delivers a message, or throws a TidemarkError that holds no secret of the channel. */
export type Sender<T extends ChannelType> = (
  channel: ChannelOf<T>,
  message: Message,
  signal: AbortSignal,
  effects: SendingEffects,
) => Promise<void>;

/** Posts once. @throws TidemarkError for any response but 2xx; the abort reason if the signal is aborted */
export async function post(
  { poster, clock }: SendingEffects,
  channel: ChannelConfig,
  request: PostRequest,
  signal: AbortSignal,
): Promise<void> {
  const answer = await poster.post({ ...request, signal });
  requireAccepted(answer, secretsOf(channel), clock.now());
}

/** A request with a JSON body. The id lets a receiver recognize a repeated attempt. */
export function jsonRequest(url: Secret, message: Message, body: object): PostRequest {
  const headers = { 'content-type': 'application/json', 'idempotency-key': message.id };
  return { method: 'POST', url, body: JSON.stringify(body), headers };
}

/** The template with the message's values; null if the channel has no template. */
export function byTemplate(
  template: string | null,
  message: Message,
  escape: (value: string) => string,
): string | null {
  if (template === null) return null;
  const values = templateValues(message);
  // The template itself may contain the receiver's markup; the values must not.
  return renderTemplate(template, (name) => escape(values[name]));
}

/** The hint as a line; none without a hint. */
export function hintLines({ hint }: Message): string[] {
  return hint === null ? [] : [`→ ${hint}`];
}

/** The text below the title: lines, hint and the link to the dashboard. */
export function bodyLines(message: Message): string[] {
  const { link } = message;
  return [...linesOf(message), ...hintLines(message), ...(link === null ? [] : [link])];
}

/** Event, time and run on one line. */
export function factsLine({ event, at, run }: Message): string {
  return [event, at, ...(run === null ? [] : [`run ${run}`])].join(' · ');
}

const COLOURS = { critical: '🔴', high: '🟠', medium: '🟡', low: '🔵' } as const;
const IMPROVED = '🟢';

/** The title after a colour: green for an improvement, whatever its severity, unless a part of the problem is still open. */
export function heading({ event, severity, title, isResolved }: Message): string {
  return `${isResolved && IMPROVEMENTS.has(event) ? IMPROVED : COLOURS[severity]} ${title}`;
}

/** The text without mentions, and with the characters of Markdown's markup escaped. */
export function markdownText(text: string): string {
  return withoutMentions(text).replace(/[\\`*_~|>#[\]()]/g, '\\$&');
}

/** What an incident service is to do. A test does both. */
export function actionsOf({ event, isResolved }: Message): readonly ('trigger' | 'resolve')[] {
  if (event === 'test') return ['trigger', 'resolve'];
  return [isResolved ? 'resolve' : 'trigger'];
}

/** Cuts the text to this number of UTF-16 units, never inside a character or an escape. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text
    .slice(0, length - 1)
    .replace(/(&[a-z]{0,3}|\\)$/, '')
    .replace(/[\ud800-\udbff]$/, '')}…`;
}

const CODES: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  410: 'not_found',
  429: 'throttled',
};

/** @throws TidemarkError with the status and what the receiver said, for any response but 2xx */
export function requireAccepted(answer: PostAnswer, secrets: readonly Secret[], nowMs: number): void {
  const { status, text, retryAfter, date } = answer;
  if (status >= 200 && status < 300) return;
  const isRedirect = status >= 300 && status < 400;
  const code = isRedirect ? 'redirected' : status >= 500 ? 'server_error' : (CODES[status] ?? 'rejected');
  const said = scrubbed(text, secrets);
  const retryAfterMs = parseRetryAfter(retryAfter, date, nowMs);
  throw new TidemarkError(code, `the receiver answered ${status}${said === '' ? '' : `: ${said}`}`, {
    hint: isRedirect
      ? 'redirects are not followed: give the channel the address that it leads to'
      : 'check the URL of the channel, and what the receiver wants; `tidemark notify test` tries it',
    status,
    isRetryable: status === 429 || status === 408 || status === 425 || status >= 500,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

// Values of records may contain mentions: a chat shows them, but must not notify anybody.

/** U+2060 is invisible and not part of any name, so that `@\u2060channel` looks the same and notifies nobody. */
const WORD_JOINER = '\u2060';

/** An address such as `ann@example.com` is left unchanged, so that it can be copied; but Discord finds its own words within one too. */
const MENTION = /@(?!\u2060)(?:(?=everyone|here|all\b|channel)|(?<![\w.+-]@)|(?![\w-]+\.\w))/giu;

/** Slack's and Discord's markup of mentions and channels: `<!here>`, `<@U123>`, `<#C123>`. */
const MARKUP = /<(?=[!@#])/gu;

/**
 * The text with a word joiner after every `@` that a chat (Slack, Mattermost, Discord, Rocket.Chat) may take for a mention, and after
 * every `<` that starts one. Applying it again changes nothing.
 */
export function withoutMentions(text: string): string {
  return text.replace(MENTION, `@${WORD_JOINER}`).replace(MARKUP, `<${WORD_JOINER}`);
}

// Removes the secrets of a channel from what receivers and libraries say about it.

/** Shorter parts of a URL are not secrets, and hiding them would hide words. */
const SHORTEST = 6;
/** The same of a user's name. A password is hidden however short it is. */
const SHORTEST_NAME = 4;

/** The text as one short line without control characters, secrets, and parts of a URL that could be secret. */
export function scrubbed(text: string, secrets: readonly Secret[]): string {
  const parts = secrets.flatMap((secret) => partsOf(secret.reveal()));
  // Longest first: then shorter parts of it are gone too.
  return [...new Set(parts)]
    .sort((a, b) => b.length - a.length)
    .reduce((line, part) => neutralText(new Secret(part))(line), neutralText(new Secret(''))(text));
}

function partsOf(value: string): string[] {
  if (value === '') return [];
  const url = /^[a-z]+:\/\//i.test(value) ? URL.parse(value) : null;
  if (url === null) return [value];
  const inside = [url.pathname + url.search, ...url.pathname.split('/'), ...url.searchParams.values()];
  const both = (text: string): string[] => [text, decoded(text)];
  return [
    value,
    url.href,
    ...inside.filter(({ length }) => length >= SHORTEST),
    ...both(url.username).filter(({ length }) => length >= SHORTEST_NAME),
    ...both(url.password).filter((each) => each !== ''),
  ];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not percent-encoded: the text is taken literally.
    return text;
  }
}
