/** Webhooks: the notice as JSON or by a template, signed if a secret is configured. */
import { createHmac } from 'node:crypto';
import type { PostRequest } from '../../../api/post.ts';
import type { ChannelOf } from '../../../config/channels.ts';
import type { Secret } from '../../../core/secret.ts';
import { type Message, noticeDocument } from '../message.ts';
import { byTemplate, post, type Sender, withoutMentions } from './shared.ts';

export const sendWebhook: Sender<'webhook'> = (channel, message, signal, effects) =>
  post(effects, channel, webhookRequest(channel, message, effects.clock.now()), signal);

/** What is posted at a moment. The signature covers that moment, so that a recorded message cannot be sent again later. @internal */
export function webhookRequest(
  { url, secret, contentType, template }: ChannelOf<'webhook'>,
  message: Message,
  nowMs: number,
): PostRequest {
  // Escaped for the quotes around the placeholder in a JSON template. A template is text for people, often for a chat;
  // the document without a template stays exact.
  const escape = (value: string): string =>
    contentType.startsWith('application/json')
      ? JSON.stringify(withoutMentions(value)).slice(1, -1)
      : withoutMentions(value);
  const body = byTemplate(template, message, escape) ?? JSON.stringify(noticeDocument(message));
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
