/** Webhooks: the notice as JSON or by a template, signed where there is a secret. */
import { createHmac } from 'node:crypto';
import { neutralText } from '../../api/neutral-text.ts';
import type { PostRequest, PostAnswer } from '../../api/post.ts';
import { parseRetryAfter } from '../../api/retry.ts';
import type { WebhookChannel } from '../../config/notice-channel.ts';
import { renderTemplate } from '../../config/notice-rules.ts';
import { TidemarkError, type ErrorCode } from '../../core/errors.ts';
import { Secret } from '../../core/secret.ts';
import { type Message, noticeDocument, templateValues } from './message.ts';

/** What is posted at a moment. The signature covers that moment, so that a recorded message cannot be sent again later. */
export function webhookRequest(
  { url, secret, contentType, template }: WebhookChannel,
  message: Message,
  nowMs: number,
): PostRequest {
  const body =
    template === null
      ? JSON.stringify(noticeDocument(message))
      : filled(template, message, contentType.startsWith('application/json'));
  return {
    method: 'POST',
    url,
    body,
    headers: {
      'content-type': contentType,
      'idempotency-key': message.id,
      'x-tidemark-event': message.event,
      ...(secret === null ? {} : { 'x-tidemark-signature': signature(secret, body, nowMs) }),
    },
  };
}

/** `t=SECONDS,v1=HEX`: HMAC-SHA-256 under the secret over `SECONDS.BODY`. */
function signature(secret: Secret, body: string, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000);
  const mac = createHmac('sha256', secret.reveal()).update(`${seconds}.${body}`).digest('hex');
  return `t=${seconds},v1=${mac}`;
}

function filled(template: string, message: Message, isJson: boolean): string {
  const values = templateValues(message);
  // A template is a text for people, often for a chat (Discord, Teams); the document without one stays exact.
  return renderTemplate(template, (name) => {
    const value = withoutMentions(values[name]);
    // Within the quotes that are around the place.
    return isJson ? JSON.stringify(value).slice(1, -1) : value;
  });
}

const CODES: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  410: 'not_found',
  429: 'throttled',
};

/**
 * Returns for 2xx.
 * @throws TidemarkError with the status and what the receiver said, for any other answer
 */
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

// Mentions in values of records: a chat shows them, but must not notify anybody.

/** U+2060 is invisible and part of no name, so that `@\u2060channel` looks the same and notifies nobody. */
const WORD_JOINER = '\u2060';

/**
 * An address such as `ann@example.com` is left unchanged, to be copied; Discord finds its own words within one too.
 */
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

// Keeps the secrets of a channel out of what receivers and libraries say about it.

/** Shorter parts of a URL are no secrets, and hiding them would hide words. */
const SHORTEST = 6;
/** A user's name. The password beside it is hidden however short it is. */
const SHORTEST_NAME = 4;

/** One short line without control characters, secrets, and parts of a URL that could be secret. */
export function scrubbed(text: string, secrets: readonly Secret[]): string {
  const parts = secrets.flatMap((secret) => partsOf(secret.reveal()));
  // Longest first: a part of what was already hidden is no longer there.
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
    // Not percent-encoded after all: the text is taken literally.
    return text;
  }
}
