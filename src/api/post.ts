/**
 * Sends text to URLs other than the service's: notice channels and pings. It has no access to the API key or the
 * clients of a source. It does not follow redirects, has a timeout for every phase, and keeps only the beginning of the
 * response.
 */
import type { Dispatcher } from 'undici';
import { proxyFor, type ProxySettings, shownProxy } from '../config/proxy.ts';
import { abortReason } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { hostAndPort, networkError, totalTimeout } from './network-error.ts';
import { openTunnels } from './proxied.ts';
import type { Timeouts } from './transport.ts';

const TIMEOUTS: Timeouts = {
  connectMs: 5_000,
  headersMs: 10_000,
  bodyMs: 5_000,
  totalMs: 15_000,
};

/** Only the reason in a response is of use, and that is short. */
const MAX_ANSWER_BYTES = 4096;

export interface PostRequest {
  readonly method: 'POST' | 'GET';
  /** http or https; user and password in it become an Authorization header. */
  readonly url: Secret;
  /** Sent with POST only. */
  readonly body: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export interface PostAnswer {
  readonly status: number;
  /** The beginning of the body; invalid UTF-8 is replaced. */
  readonly text: string;
  readonly retryAfter: string | undefined;
  readonly date: string | undefined;
}

export interface Poster {
  /**
   * Sends once and reads the beginning of the response, whatever its status.
   * @throws TidemarkError `unreachable`, `timeout` or `malformed`, with no part of the URL but host and port; the abort
   * reason if the signal is aborted
   */
  post(posting: PostRequest): Promise<PostAnswer>;
  close(): Promise<void>;
}

/**
 * Opens no connection until something is sent.
 * @param proxies returns the current settings; called whenever something is sent
 */
export function openPoster(proxies: () => ProxySettings, limits: Partial<Timeouts> = {}): Poster {
  const timeouts = { ...TIMEOUTS, ...limits };
  /** By the proxy's URL; '' for direct connections. */
  const opened = new Map<string, Promise<Dispatcher>>();
  const dispatcherFor = (proxy: URL | null): Promise<Dispatcher> => {
    const key = proxy?.href ?? '';
    const opening =
      opened.get(key) ?? (proxy === null ? openAgent(timeouts) : openTunnels(proxy, timeouts, null));
    opened.set(key, opening);
    return opening;
  };
  return {
    post: async (posting) => {
      const { signal } = posting;
      signal?.throwIfAborted();
      const url = new URL(posting.url.reveal());
      const host = hostAndPort(url);
      const proxy = proxyFor(url, proxies());
      const agent = await dispatcherFor(proxy);
      // Not a timer of Clock: like undici's own timeouts it guards real sockets, which a moved clock must not end.
      const limit = AbortSignal.timeout(timeouts.totalMs);
      try {
        return await exchange(agent, url, {
          ...posting,
          signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
        });
      } catch (error) {
        if (signal?.aborted === true) throw abortReason(signal);
        throw withoutUrl(
          limit.aborted
            ? totalTimeout(host, timeouts.totalMs)
            : networkError(error, host, timeouts, proxy === null ? null : shownProxy(proxy)),
        );
      }
    },
    close: async () => {
      for (const opening of opened.values()) await (await opening).destroy();
    },
  };
}

async function openAgent(timeouts: Timeouts): Promise<Dispatcher> {
  // The default export, and loaded on demand, as in transport.ts.
  const { default: undici } = await import('undici');
  return new undici.Agent({
    connect: { timeout: timeouts.connectMs },
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.bodyMs,
    // Notices are rare, so keeping a connection open for the next one would only hold a handle.
    keepAliveTimeout: 1_000,
    keepAliveMaxTimeout: 1_000,
    allowH2: false,
    pipelining: 1,
  });
}

async function exchange(
  agent: Dispatcher,
  url: URL,
  { method, body, headers, signal }: PostRequest & { readonly signal: AbortSignal },
): Promise<PostAnswer> {
  const answer = await agent.request({
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers: {
      accept: '*/*',
      'accept-encoding': 'identity',
      'user-agent': 'tidemark',
      ...authorization(url),
      ...headers,
    },
    ...(method === 'POST' ? { body } : {}),
    signal,
  });
  return {
    status: answer.statusCode,
    text: await beginningOf(answer.body),
    retryAfter: headerText(answer.headers['retry-after']),
    date: headerText(answer.headers['date']),
  };
}

function authorization({ username, password }: URL): { readonly authorization?: string } {
  if (username === '' && password === '') return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

async function beginningOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES).toString('utf8');
}

function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** The same error with a hint about channels, and without its cause, in which undici may quote the URL. */
function withoutUrl(error: TidemarkError): TidemarkError {
  return new TidemarkError(error.code, error.message, {
    hint: 'check the URL of the channel, and whether this machine reaches it; `tidemark notify test` tries it',
    isRetryable: true,
  });
}
