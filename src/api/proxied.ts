/**
 * Requests through an HTTP proxy. Every connection is a tunnel (CONNECT): the proxy sees neither the key nor the
 * requests to an https:// service, and limits, redirects and responses are as with a direct connection.
 */
import type { Dispatcher } from 'undici';

/**
 * @param timeouts as for a direct connection, milliseconds
 * @param connections the most connections; null for no limit
 */
export async function openTunnels(
  proxy: URL,
  timeouts: { readonly connectMs: number; readonly headersMs: number; readonly bodyMs: number },
  connections: number | null,
): Promise<Dispatcher> {
  // The default export, as in transport.ts.
  const { default: undici } = await import('undici');
  return new undici.ProxyAgent({
    uri: proxy.href,
    // Tunnels to http:// services too, so that all requests are sent in one way.
    proxyTunnel: true,
    connectTimeout: timeouts.connectMs,
    // For the connections to the proxy itself: waiting for its response to CONNECT is part of connecting.
    clientFactory: (origin, options) =>
      new undici.Pool(origin, { ...options, headersTimeout: timeouts.connectMs, bodyTimeout: 0 }),
    ...(connections === null ? {} : { connections }),
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.bodyMs,
    allowH2: false,
    pipelining: 1,
  });
}
