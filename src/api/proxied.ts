/**
 * Requests through an HTTP proxy: every connection is a tunnel (CONNECT), so that the proxy sees neither the key nor a request
 * to an https:// service, and limits, redirects and answers are those of a direct connection.
 */
import type { Dispatcher } from 'undici';

/**
 * @param timeouts milliseconds, as of a direct connection
 * @param connections at most; null for no limit
 */
export async function openTunnels(
  proxy: URL,
  timeouts: { readonly connectMs: number; readonly headersMs: number; readonly bodyMs: number },
  connections: number | null,
): Promise<Dispatcher> {
  // By the default export, as in transport.ts.
  const { default: undici } = await import('undici');
  return new undici.ProxyAgent({
    uri: proxy.href,
    // Also to http:// services: one way to send, with one set of limits.
    proxyTunnel: true,
    connectTimeout: timeouts.connectMs,
    // Of the connections to the proxy itself: its answer to CONNECT is part of connecting.
    clientFactory: (origin, options) =>
      new undici.Pool(origin, { ...options, headersTimeout: timeouts.connectMs, bodyTimeout: 0 }),
    ...(connections === null ? {} : { connections }),
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.bodyMs,
    allowH2: false,
    pipelining: 1,
  });
}
