/**
 * The only module that sends requests with the key: to the configured origin and nowhere else, with limits on time and
 * size. Redirects are not followed. Paths are sent byte for byte, because a URL parser would resolve `%2E%2E`.
 */
import { isAscii } from 'node:buffer';
import type { Dispatcher } from 'undici';
import type { Method } from '../catalog/definition.ts';
import { shownProxy } from '../config/proxy.ts';
import { whenAborted } from '../core/aborted.ts';
import { abortReason, RealTimeLimits } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { hostAndPort, networkError, totalTimeout } from './network-error.ts';
import { openTunnels } from './proxied.ts';

/** Limits of one request, milliseconds. */
export interface Timeouts {
  /** Until the connection is established, TLS included. */
  readonly connectMs: number;
  /** From the request to the last header of the response. */
  readonly headersMs: number;
  /** Between two parts of the body. */
  readonly bodyMs: number;
  /** From start to end, however slowly data arrives. */
  readonly totalMs: number;
}

export const DEFAULT_TIMEOUTS: Timeouts = {
  connectMs: 10_000,
  headersMs: 60_000,
  // The same as `headersMs`: if they differ, undici creates new timers for every response instead of reusing one.
  bodyMs: 60_000,
  totalMs: 180_000,
};

/** A page of 1,000 records of 100 kB each. Larger ones must be requested as smaller pages. */
const MAX_BODY_BYTES = 100 * 1024 * 1024;
/** The concurrency if the configuration sets no limit, since undici needs a number. */
export const UNLIMITED_REQUESTS = 32;
/**
 * Connections per concurrent request. undici reuses a connection one turn of the event loop after its response. Without
 * a second one, a request that follows immediately would wait in the pool's queue for two more turns.
 */
const CONNECTIONS_PER_REQUEST = 2;

interface TransportOptions {
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** The proxy for all requests; null for none. */
  readonly proxy: URL | null;
  readonly userAgent: string;
  /** The most requests at a time; 0 for no limit. */
  readonly concurrency: number;
  readonly timeouts: Timeouts;
  readonly maxBodyBytes?: number;
  /** Called with the size of every part of a body on arrival. */
  readonly onBytes?: (count: number) => void;
}

/** One request below the base URL. */
export interface OutgoingRequest {
  readonly method: Method;
  /** Path and query, beginning with a slash, below the path of the base URL. */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
}

/** A complete response. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** Bytes of the body. */
  readonly bytes: number;
  readonly contentType: string;
  readonly retryAfter: string | undefined;
  readonly date: string | undefined;
  readonly location: string | undefined;
  /** The configured origin. */
  readonly origin: string;
  /** All headers of the response, for the log; they may contain secrets. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  /** The headers of the request, without the key. */
  readonly sentHeaders?: Readonly<Record<string, string>>;
}

export interface Transport {
  /**
   * Sends one request and reads the entire response, whatever its status.
   * @throws TidemarkError `unreachable`, `timeout` or `malformed`; the abort reason if the signal is aborted
   */
  send(ask: OutgoingRequest): Promise<Answer>;
  close(): Promise<void>;
}

/** The part of a transport that is given to reading code. */
export type Get = (path: string, signal?: AbortSignal) => Promise<Answer>;

/** Restricts a transport to GET: code with the result cannot send anything else (design.md, invariant 3). */
export function getOnly(transport: Transport): Get {
  return (path, signal) => transport.send({ method: 'GET', path, signal });
}

/**
 * Prepares a pool of connections to one origin. Opens and sends nothing yet.
 * @throws TidemarkError `config_invalid` if the key cannot be sent in a header
 */
export function openTransport(options: TransportOptions): Transport {
  const { baseUrl, timeouts, apiKey } = options;
  // Checked here because undici would quote the entire header in its error.
  if (!/^[\x21-\x7e]+$/.test(apiKey.reveal())) {
    throw new TidemarkError(
      'config_invalid',
      'the API key is empty or holds a character that no header may carry',
      {
        hint: 'check apiKey or apiKeyFile of the source: one line of visible ASCII characters',
      },
    );
  }
  const host = hostAndPort(baseUrl);
  const prefix = baseUrl.pathname.replace(/\/+$/, '');
  const maxBytes = options.maxBodyBytes ?? MAX_BODY_BYTES;
  const onTotal = (): TidemarkError => totalTimeout(host, timeouts.totalMs);
  let opening: Promise<Dispatcher> | undefined;
  let pool: Dispatcher | undefined;

  const shownHeaders = {
    accept: 'application/json',
    // The size limit applies to the bytes received; a compressed body would need a second limit.
    'accept-encoding': 'identity',
    'user-agent': options.userAgent,
  };
  const headers = { ...shownHeaders, authorization: `Bearer ${apiKey.reveal()}` };
  const headersWithBody = { ...headers, 'content-type': 'application/json' };
  const totals = new RealTimeLimits(timeouts.totalMs);

  const answerOf = ({ status, headers, chunks }: Received): Answer => {
    const isSuccess = status >= 200 && status < 300;
    const encoding = headerText(headers, 'content-encoding') ?? 'identity';
    if (isSuccess && encoding !== '' && encoding !== 'identity')
      throw unreadable(`the response is compressed, although the request does not accept that`);
    const [only] = chunks;
    const body = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
    return {
      status,
      text: isSuccess ? decodeStrictly(body) : body.toString('utf8', 0, MAX_ERROR_BYTES),
      bytes: body.length,
      contentType: headerText(headers, 'content-type') ?? '',
      retryAfter: headerText(headers, 'retry-after'),
      date: headerText(headers, 'date'),
      location: headerText(headers, 'location'),
      origin: baseUrl.origin,
      headers,
      sentHeaders: shownHeaders,
    };
  };

  const opened = async (): Promise<Dispatcher> => {
    pool = await (opening ??= openPool(options));
    return pool;
  };

  const masked = (error: unknown): Error =>
    error instanceof TidemarkError
      ? error
      : networkError(error, host, timeouts, options.proxy === null ? null : shownProxy(options.proxy));
  const { onBytes } = options;
  const receiving = { maxBytes, totals, onTotal, read: answerOf, masked, onBytes };

  const { origin } = baseUrl;
  const sendBy = (by: Dispatcher, { method, path, body, signal }: OutgoingRequest): Promise<Answer> => {
    const request =
      body === undefined
        ? { origin, method, path: prefix + path, headers }
        : { origin, method, path: prefix + path, headers: headersWithBody, body };
    return receive((incoming) => by.dispatch(request, incoming), receiving, signal);
  };

  return {
    send: (ask) => {
      const { signal } = ask;
      if (signal?.aborted === true) return Promise.reject(abortReason(signal));
      return pool === undefined ? opened().then((each) => sendBy(each, ask)) : sendBy(pool, ask);
    },
    close: async () => {
      if (opening !== undefined) await (await opening).destroy();
    },
  };
}

/** Loads undici on demand: it is the larger half of the program, and most commands send nothing. */
async function openPool({ baseUrl, proxy, concurrency, timeouts }: TransportOptions): Promise<Dispatcher> {
  const connections = concurrency === 0 ? UNLIMITED_REQUESTS : concurrency * CONNECTIONS_PER_REQUEST;
  if (proxy !== null) return await openTunnels(proxy, timeouts, connections);
  // undici is CommonJS, and the bundler provides only the default export of a module loaded on demand.
  const { default: undici } = await import('undici');
  return new undici.Pool(baseUrl.origin, {
    connections,
    connect: { timeout: timeouts.connectMs },
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.bodyMs,
    // One response per connection at a time is easier to limit and abort, and streams gain nothing for so few.
    allowH2: false,
    pipelining: 1,
  });
}

function headerText(
  headers: Record<string, string | string[] | undefined>,
  name: string,
): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

// The text of a response body.

// Fatal, because a record with replaced characters would look changed, and a restore would write it wrong.
const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

/** @throws TidemarkError `malformed` when it is not valid UTF-8 */
function decodeStrictly(bytes: Buffer): string {
  // Most records are ASCII, and a Latin-1 string is parsed in half the time.
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return strictUtf8.decode(bytes);
  } catch (error) {
    throw unreadable('the answer is not valid UTF-8', error);
  }
}

/** The error for a response that cannot be used. Another attempt may succeed. */
function unreadable(what: string, cause?: unknown): TidemarkError {
  return new TidemarkError('malformed', what, {
    hint: 'check that baseUrl of the source points at the API; run again later',
    isRetryable: true,
    ...(cause === undefined ? {} : { cause }),
  });
}

// Receives a response within limits of size and time. Uses undici's `dispatch`, because `request` creates a stream and
// needs a signal for every response. With `request` the same tests pass with 120 lines less, but `npm run bench --
// restore` falls from 71 to 94 % of a bare loop (three runs) to 42 to 59 %, below its bound of 60 %.

/** Only the beginning of an error response is of use. */
const MAX_ERROR_BYTES = 64 * 1024;

interface Received {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  /** The body; of an error response perhaps only the beginning. */
  readonly chunks: readonly Buffer[];
}

/** Options for all responses of a transport. */
interface ReceiveOptions<T> {
  /** A larger successful response is refused. */
  readonly maxBytes: number;
  /** Limits the time from the request to the end of the response. */
  readonly totals: RealTimeLimits;
  readonly onTotal: () => TidemarkError;
  readonly onBytes: ((count: number) => void) | undefined;
  readonly read: (received: Received) => T;
  /** Turns a failure into our own error. */
  readonly masked: (error: unknown) => Error;
}

/** undici's handle of a request in progress. */
interface Controller {
  abort(reason: Error): void;
}

/**
 * Receives a complete response and resolves to the parsed result.
 * @param dispatch sends the request and reports the response
 * @throws the error that `masked` returns; the abort reason if aborted
 */
function receive<T>(
  dispatch: (incoming: ResponseHandler<T>) => void,
  receiving: ReceiveOptions<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const incoming = new ResponseHandler(receiving, signal, resolve, reject);
    try {
      dispatch(incoming);
    } catch (error) {
      incoming.fail(error);
    }
  });
}

/** The handler of one dispatch, with a method for each event of undici. */
class ResponseHandler<T> {
  readonly #receiving: ReceiveOptions<T>;
  readonly #signal: AbortSignal | undefined;
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: Error) => void;
  readonly #cancelTotal: () => void;
  readonly #unhear: (() => void) | undefined;
  #chunks: Buffer[] = [];
  #length = 0;
  #status = 0;
  #headers: Received['headers'] = {};
  #controller: Controller | null = null;
  #isOver = false;

  constructor(
    receiving: ReceiveOptions<T>,
    signal: AbortSignal | undefined,
    resolve: (value: T) => void,
    reject: (error: Error) => void,
  ) {
    this.#receiving = receiving;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#cancelTotal = receiving.totals.begin(() => this.#giveUp(receiving.onTotal()));
    this.#unhear =
      signal === undefined ? undefined : whenAborted(signal, () => this.#giveUp(abortReason(signal)));
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#end();
    const signal = this.#signal;
    this.#reject(signal?.aborted === true ? abortReason(signal) : this.#receiving.masked(error));
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    // It was given up while it waited for a connection.
    if (this.#isOver) controller.abort(new Error('given up before it was sent'));
  }

  onResponseStart(_controller: Controller, status: number, headers: Received['headers']): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#isOver) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const { maxBytes, onBytes } = this.#receiving;
    onBytes?.(chunk.length);
    const isSuccess = this.#status >= 200 && this.#status < 300;
    if (this.#length <= (isSuccess ? maxBytes : MAX_ERROR_BYTES)) return;
    if (isSuccess) {
      this.#giveUp(tooLarge(maxBytes));
    } else {
      this.onResponseEnd();
      controller.abort(new Error('the rest is of no use'));
    }
  }

  onResponseEnd(): void {
    if (this.#isOver) return;
    const chunks = this.#chunks;
    this.#end();
    const { read, masked } = this.#receiving;
    try {
      this.#resolve(read({ status: this.#status, headers: this.#headers, chunks }));
    } catch (error) {
      this.#reject(masked(error));
    }
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.fail(error);
  }

  /** Ends the request from our side, and with it the connection. */
  #giveUp(error: Error): void {
    this.fail(error);
    this.#controller?.abort(error);
  }

  #end(): void {
    this.#isOver = true;
    // The connection may keep its last handler, and with it the page, in memory.
    this.#chunks = [];
    this.#cancelTotal();
    this.#unhear?.();
  }
}

function tooLarge(maxBytes: number): TidemarkError {
  const size = Math.round(maxBytes / 1024 / 1024);
  return new TidemarkError('malformed', `the answer is larger than ${size} MiB`, {
    hint: 'set a smaller pageSize',
    isRetryable: true,
    status: 413,
  });
}
