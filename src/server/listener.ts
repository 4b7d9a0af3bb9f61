/** Serves the API on a socket, with Hono on Node's HTTP server. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type HttpBindings, getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { type ListeningAt, listeningAt } from '../core/local-url.ts';
import type { Logger } from '../core/logger.ts';
import { isHost, TrustedProxies } from './client-address.ts';
import { createBoundedServer } from './http-server.ts';
import { type Interface, type WireAnswer, refusalAnswer } from './interface.ts';
import { bodyTooLarge, invalid, serverError, unavailable, WireError } from './wire-error.ts';

interface ListenAddress {
  /** E.g. `127.0.0.1`. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
}

interface Listener {
  /** Starts to listen; resolves with the base URL. Throws `port_in_use`, or `usage` if this machine does not have the address. */
  listen(address: ListenAddress): Promise<ListeningAt>;
  /** Stops: requests that have arrived are answered, uploads in progress are aborted. */
  close(): Promise<void>;
}

// A record with source code is the largest body; the API itself has no documented limit.
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * The API as a Hono application. It routes by the raw request line: with a router that decodes or resolves paths, `%2F`
 * and `..` could lead to other records.
 */
export function createApplication(
  serve: Interface,
  closing: AbortSignal,
  proxies: TrustedProxies,
): Hono<{ Bindings: HttpBindings }> {
  const application = new Hono<{ Bindings: HttpBindings }>();
  application.all('*', async (context) => {
    const { incoming, outgoing } = context.env;
    const answer = await serve({
      method: incoming.method ?? 'GET',
      target: incoming.url ?? '/',
      origin: proxies.originOf(incoming),
      host: incoming.headers.host,
      authorization: incoming.headers.authorization,
      contentType: incoming.headers['content-type'],
      body: () => readBody(incoming, closing),
    });
    send(incoming, outgoing, answer);
    return RESPONSE_ALREADY_SENT;
  });
  return application;
}

/** @param trustedProxies IP addresses and CIDR ranges whose forwarded headers are trusted */
export function createListener(
  serve: Interface,
  log: Logger,
  trustedProxies: readonly string[] = [],
): Listener {
  const closing = new AbortController();
  const application = createApplication(serve, closing.signal, new TrustedProxies(trustedProxies));
  const inHand = new Set<Promise<void>>();
  const handle = getRequestListener(application.fetch, {
    // Node's own Request and Response are not replaced: a client may run in this process.
    overrideGlobalObjects: false,
    errorHandler: (error) => {
      log.debug({ err: error }, 'a request could not be read');
      const refused = refusalAnswer(malformed());
      return new Response(refused.body, { status: refused.status, headers: { ...refused.headers } });
    },
  });
  const server = createBoundedServer((incoming, outgoing, isCrowded) => {
    const { host } = incoming.headers;
    if (isCrowded || (host !== undefined && !isHost(host))) {
      const refusal = isCrowded ? unavailable('Too many requests at once.', 1) : malformed();
      send(incoming, outgoing, refusalAnswer(refusal));
      return;
    }
    const answered = handle(incoming, outgoing).catch((error: unknown) => {
      log.error({ err: error }, 'an answer could not be sent');
      if (outgoing.headersSent) outgoing.destroy();
      else send(incoming, outgoing, refusalAnswer(serverError()));
    });
    inHand.add(answered);
    void answered.finally(() => inHand.delete(answered));
  });
  return {
    listen: async ({ host, port }) => {
      server.listen({ host, port });
      try {
        await once(server, 'listening');
      } catch (error) {
        throw listenError(error, host, port);
      }
      return listeningAt(host, server.address());
    },
    close: async () => {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      closing.abort(new Error('the server is closing'));
      await Promise.allSettled(inHand);
      server.closeAllConnections();
      await closed;
    },
  };
}

function listenError(error: unknown, host: string, port: number): TidemarkError {
  const known = asTidemarkError(error);
  if (known.code === 'port_in_use') {
    return new TidemarkError('port_in_use', `port ${port} of ${host} is taken by another program`, {
      hint: 'choose another port with --port, or 0 for any free one',
      cause: error,
    });
  }
  return new TidemarkError('usage', `cannot listen on ${host} port ${port}: ${known.message}`, {
    hint: 'choose an address of this machine with --host (127.0.0.1 is this machine only) and a port above 1023',
    cause: error,
  });
}

function malformed(): WireError {
  return invalid(null, 'invalid', 'The request line or its headers are not valid.');
}

async function readBody(incoming: IncomingMessage, closing: AbortSignal): Promise<Uint8Array> {
  if (Number(incoming.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw bodyTooLarge(MAX_BODY_BYTES);
  const cut = (): void => void incoming.destroy(new Error('the server is closing'));
  closing.addEventListener('abort', cut, { once: true });
  try {
    const chunks: Uint8Array[] = [];
    let received = 0;
    // Not destroyed if the loop ends early: the refusal is sent on the same socket.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
      received += chunk.byteLength;
      if (received > MAX_BODY_BYTES) throw bodyTooLarge(MAX_BODY_BYTES);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    // Any other error means that the client disconnected: a refusal, not a defect.
    throw error instanceof WireError ? error : invalid(null, 'invalid', 'The request body ended early.');
  } finally {
    closing.removeEventListener('abort', cut);
  }
}

function send(incoming: IncomingMessage, outgoing: ServerResponse, answer: WireAnswer): void {
  const headers: Record<string, string | number> = { ...answer.headers, 'Cache-Control': 'no-store' };
  const pieces = typeof answer.body === 'string' ? [Buffer.from(answer.body)] : (answer.body ?? []);
  if (answer.status !== 204) {
    headers['Content-Length'] = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  }
  outgoing.writeHead(answer.status, headers);
  // Everything in one system call.
  outgoing.cork();
  if (incoming.method !== 'HEAD') for (const piece of pieces) outgoing.write(piece);
  outgoing.end();
  outgoing.uncork();
  const { whenSent } = answer;
  if (whenSent !== undefined) outgoing.once('finish', whenSent);
}
