/** Webhooks: the notice as JSON or by a template, signed where there is a secret. */
import { createHmac } from 'node:crypto';
import type { PostRequest, PostAnswer } from '../../api/post.ts';
import { parseRetryAfter } from '../../api/retry-after.ts';
import type { WebhookChannel } from '../../config/notice-channel.ts';
import { renderTemplate } from '../../config/notice-template.ts';
import { TidemarkError, type ErrorCode } from '../../core/errors.ts';
import type { Secret } from '../../core/secret.ts';
import { withoutMentions } from './mentions.ts';
import { type Message, noticeDocument, templateValues } from './message.ts';
import { scrubbed } from './scrub.ts';

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
    // Within the quotes that stand around the place.
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
