/** The HTTP server of the daemon: health, metrics, JSON, dashboard and replica (docs/http.md). */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type HttpBindings, getRequestListener } from '@hono/node-server';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { isLoopback, type ListeningAt, listeningAt } from '../../core/local-url.ts';
import { isHost } from '../../server/client-address.ts';
import { createBoundedServer } from '../../server/http-server.ts';
import type { DaemonCells } from '../cells.ts';
import { publicPathOf, withoutPublicPath, withPublicPath } from './public-path.ts';
import { withStrictHeaders, Refusal, refusalDocument } from './request.ts';
import { DriftNow } from '../health/drift-now.ts';
import { createMetrics } from './metrics.ts';
import { createRoutes, type HttpOptions } from './routes.ts';
import type { Application, ShellOptions } from './shell.ts';

export interface RunningHttpServer {
  readonly url: string;
  /** Finishes the answers under way, and closes all connections. */
  close(): Promise<void>;
}

/**
 * Starts the server.
 * @throws TidemarkError `config_invalid` for an address that is not loopback without a token, `port_in_use`, `usage` for
 * an address that is not of this machine
 */
export async function startHttp(cells: DaemonCells, options: HttpOptions): Promise<RunningHttpServer> {
  const drift = new DriftNow();
  const metrics = createMetrics(cells, drift);
  try {
    const routes = createRoutes(cells, options, metrics, drift);
    const server = await listen(routes.application, options);
    options.log.info(
      { url: server.url, ...(server.isEverywhere ? { on: 'every address' } : {}) },
      'the daemon listens',
    );
    return {
      url: server.url,
      close: async () => {
        await server.close(async () => routes.close());
        metrics.close();
      },
    };
  } catch (error) {
    metrics.close();
    throw error;
  }
}

/**
 * Listens for an application. Before `close` closes the last connections, it calls `beforeLast`, which waits for the answers under way.
 * @throws TidemarkError as `startHttp`
 */
export async function listen(
  application: Application,
  { host, port, token, publicUrl, log }: ShellOptions,
): Promise<ListeningAt & { close(beforeLast: () => Promise<void>): Promise<void> }> {
  if (token === null && !isLoopback(host)) {
    throw new TidemarkError(
      'config_invalid',
      `${host} is not a loopback address: everybody who reaches it could read the mirror`,
      { hint: 'set http.token or http.tokenFile, or listen on 127.0.0.1' },
    );
  }
  const path = publicPathOf(publicUrl);
  const handle = getRequestListener(
    async (request: Request, bindings: unknown) =>
      withPublicPath(await application.fetch(request, bindings as HttpBindings), path),
    {
      // Node's own Request and Response must stay as they are: a client runs in this process too.
      overrideGlobalObjects: false,
      errorHandler: (error) => {
        log.debug({ err: error }, 'a request could not be read');
        return new Response(null, { status: 400 });
      },
    },
  );
  const server = createBoundedServer((incoming, outgoing, isCrowded) => {
    const { host: asked } = incoming.headers;
    incoming.url = withoutPublicPath(incoming.url ?? '/', path);
    // The check that decides whether this process is restarted is always answered.
    if (isCrowded && incoming.url !== '/healthz') {
      refuse(outgoing, CROWDED);
      return;
    }
    // Checked before a URL is made of it.
    if (asked !== undefined && !isHost(asked)) {
      refuse(outgoing, MALFORMED);
      return;
    }
    handle(incoming, outgoing).catch((error: unknown) => {
      log.error({ err: error }, 'an answer could not be sent');
      outgoing.destroy();
    });
  });
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw listenError(error, host, port);
  }
  server.on('error', (error) => log.error({ err: error }, 'the HTTP server has problems'));
  return {
    ...listeningAt(host, server.address()),
    close: async (beforeLast) => {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      await beforeLast();
      server.closeAllConnections();
      await closed;
    },
  };
}

const CROWDED = new Refusal(503, 'throttled', 'too many requests at once', 'try again in a second', {
  'Retry-After': '1',
});
const MALFORMED = new Refusal(
  400,
  'usage',
  'the Host header is not a host',
  'send the name or address of the daemon',
);

function refuse(outgoing: ServerResponse, refusal: Refusal): void {
  const body = JSON.stringify(refusalDocument(refusal));
  const headers = new Headers({
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
    ...refusal.headers,
  });
  withStrictHeaders(headers);
  outgoing.writeHead(refusal.httpStatus, Object.fromEntries(headers));
  outgoing.end(body);
}

function listenError(error: unknown, host: string, port: number): TidemarkError {
  const known = asTidemarkError(error);
  if (known.code === 'port_in_use') {
    return new TidemarkError('port_in_use', `port ${port} of ${host} is taken by another program`, {
      hint: 'choose another one in http.listen, or 0 for any free one',
      cause: error,
    });
  }
  return new TidemarkError('usage', `cannot listen on ${host} port ${port}: ${known.message}`, {
    hint: 'choose an address of this machine in http.listen, and a port above 1023',
    cause: error,
  });
}
