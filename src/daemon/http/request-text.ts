/** What a request carries: read only once it is known who asks, and no further than any request of ours goes. */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import { Refusal } from './refusal.ts';

/** No request of ours is larger. */
const MAX_BODY_BYTES = 16 * 1024;

/**
 * The body as text; empty where there is none. From the socket itself: a length may be missing, or untrue.
 * @throws Refusal 413 for one that is too large, 400 for one that ends early
 */
export async function requestText(context: Context): Promise<string> {
  const { incoming } = context.env as HttpBindings;
  if (Number(incoming.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let received = 0;
  try {
    // Not to be destroyed when the loop ends early: the refusal still has to be sent on the same socket.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
      received += chunk.byteLength;
      if (received > MAX_BODY_BYTES) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    // Anything else is a socket that went away in the middle: the caller's affair, no defect.
    throw error instanceof Refusal
      ? error
      : new Refusal(400, 'usage', 'the request ended early', 'send all of it');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(): Refusal {
  return new Refusal(413, 'usage', `the request is larger than ${MAX_BODY_BYTES} bytes`, 'send less');
}
