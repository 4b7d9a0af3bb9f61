/**
 * What the clients of one source share (transport, limiter, retry budget, counters), and how a request is sent,
 * counted, logged and retried.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { RateLimits } from '../config/config.ts';
import { NO_PROXIES, proxyFor, type ProxySettings } from '../config/proxy.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { answerError } from './error-body.ts';
import { Limiter, type RunOptions } from './limiter.ts';
import { timedOutWithoutStatus } from './network-error.ts';
import { neutralText, type NeutralText } from './neutral-text.ts';
import type { KeptThrottle, RateLog } from './rate-log.ts';
import { createRequestLog, type LoggedRequest, type RequestLog } from './request-log.ts';
import { createCounters, type RequestCounters, type RequestStats } from './request-stats.ts';
import { backoffMs, createRetryBudget, type RetryBudget, type RetryPolicy, retrying } from './retry.ts';
import {
  type Answer,
  DEFAULT_TIMEOUTS,
  type Get,
  openTransport,
  type OutgoingRequest,
  type Timeouts,
  type Transport,
} from './transport.ts';

export interface ConnectionOptions {
  /** A path in it is put before every request's. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** Where it was given, for errors: `apiKeyFile of the source`. */
  readonly keyPlace?: string;
  /** Name of the source, for the commands in errors. */
  readonly source?: string;
  /** HTTP proxies of the environment; left out: none. */
  readonly proxies?: ProxySettings;
  readonly rate: RateLimits;
  readonly retry: { readonly attempts: number; readonly maxWaitSeconds: number };
  /** The longest single wait for a window of the rate limit; `retry.maxWaitSeconds` when left out. */
  readonly maxWindowWaitSeconds?: number;
  readonly timeouts?: Partial<Timeouts>;
  readonly userAgent: string;
  readonly clock: Clock;
  /** Uniform in [0, 1), for jitter. */
  readonly random: () => number;
  readonly log: Logger;
  /** Shared by the processes of this machine; left out, the rate is kept by this client alone. Closed with it. */
  readonly rateLog?: RateLog;
  /** Where there is no log. */
  readonly keptThrottle?: KeptThrottle;
  /** Called right before each request is sent; nothing is sent if it throws, or ends the process. */
  readonly beforeSending?: () => void;
}

/** Opens nothing and sends nothing before the first request. */
export class Connection {
  /** Fails at once when the breaker is open. */
  readonly transport: Transport;
  readonly policy: RetryPolicy;
  readonly neutral: NeutralText;
  readonly clock: Clock;
  readonly log: Logger;
  /** The base URL's own path, without a slash at its end. */
  readonly prefix: string;
  readonly #breaker: Breaker;
  readonly #limiter: Limiter;
  readonly #budget: RetryBudget;
  readonly #counters: RequestCounters = createCounters();
  readonly #random: () => number;
  readonly #requestLog: RequestLog;
  readonly #beforeSending: () => void;
  readonly #keyPlace: string | undefined;
  /** Whether the service has answered a request with this key. */
  #isKeyAccepted = false;

  /** @throws TidemarkError `config_invalid` when the key cannot be in a header, or the proxy is none */
  constructor(options: ConnectionOptions) {
    const { baseUrl, apiKey, rate, retry, clock, log, rateLog, keptThrottle } = options;
    const sending = openTransport({
      baseUrl,
      apiKey,
      proxy: proxyFor(baseUrl, options.proxies ?? NO_PROXIES),
      userAgent: options.userAgent,
      concurrency: rate.concurrency,
      timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
      onBytes: (count) => {
        this.#counters.bytes += count;
      },
    });
    this.#breaker = withBreaker(sending, options.source);
    this.transport = this.#breaker.transport;
    this.policy = { attempts: retry.attempts, maxWaitMs: retry.maxWaitSeconds * 1000 };
    this.#budget = createRetryBudget(this.#counters);
    this.neutral = neutralText(apiKey);
    this.clock = clock;
    this.log = log;
    this.prefix = baseUrl.pathname.replace(/\/+$/, '');
    this.#random = options.random;
    this.#keyPlace = options.keyPlace;
    this.#beforeSending = options.beforeSending ?? (() => undefined);
    this.#requestLog = createRequestLog(log, this.neutral, clock);
    const maxWaitMs = (options.maxWindowWaitSeconds ?? retry.maxWaitSeconds) * 1000;
    const maxPauseMs = this.policy.maxWaitMs;
    this.#limiter = new Limiter({ rate, maxWaitMs, maxPauseMs, clock, log, rateLog, keptThrottle });
  }

  get limiter(): Pick<Limiter, 'reserve' | 'withSlot'> {
    return this.#limiter;
  }

  /**
   * Tries until an attempt succeeds (see `retrying`).
   * @param path as logs show it
   * @param message logged before each retry
   */
  retried<T>(
    attempt: (number: number) => Promise<T>,
    path: () => string,
    message: string,
    signal: AbortSignal | undefined,
    onFailure?: (error: TidemarkError) => void,
  ): Promise<T> {
    const onRetry = (error: TidemarkError, number: number, waitMs: number): void =>
      this.log.debug(
        {
          path: this.#requestLog.shownPath(path()),
          ...{ attempt: number, waitMs: Math.ceil(waitMs), code: error.code, status: error.status },
        },
        message,
      );
    const { policy, clock } = this;
    const shared = { policy, clock, budget: this.#budget, random: this.#random };
    const pause = (ms: number, until?: AbortSignal): Promise<void> => this.#limiter.pause(ms, until);
    return retrying({ ...shared, signal, pause, onFailure, onRetry }, attempt);
  }

  /**
   * One attempt: waits for the limits, sends, counts and logs. Resolves to a 2xx answer; any other is thrown.
   * @param send may throw what is to end the attempt unsent
   */
  attempt(
    request: LoggedRequest,
    send: () => Promise<Answer>,
    signal: AbortSignal | undefined,
    options: RunOptions,
  ): Promise<Answer> {
    const limiter = this.#limiter;
    const counters = this.#counters;
    const checked = (answer: Answer, startedAt: number): Answer => {
      if (answer.status !== 429) limiter.onNotThrottled();
      if (answer.status >= 200 && answer.status < 300) {
        this.#isKeyAccepted = true;
        return answer;
      }
      const keyPlace = this.#isKeyAccepted ? null : this.#keyPlace;
      const error = answerError(answer, this.neutral, this.clock.now(), keyPlace);
      if (answer.status === 429) {
        counters.throttled += 1;
        // The header is missing when the wait is unknown (wire-notes.md, Rates): then the usual backoff is for all.
        limiter.onThrottled(startedAt, error.retryAfterMs ?? backoffMs(request.attempt + 1, this.#random()));
      }
      // A longer wait is not waited for here: that may be one endpoint's, which must not keep the others from being read.
      const { retryAfterMs = Number.POSITIVE_INFINITY } = error;
      if (answer.status === 503 && retryAfterMs <= this.policy.maxWaitMs) limiter.onOutage(retryAfterMs);
      throw error;
    };
    const task = (startedAt: number): Promise<Answer> => {
      const refusal = this.#breaker.refusal();
      if (refusal !== null) return Promise.reject(refusal);
      this.#beforeSending();
      const sending = send();
      counters.requests += 1;
      return this.#requestLog.log(request, sending).then((answer) => checked(answer, startedAt));
    };
    // Before its turn: nothing is to wait for the limits only to be refused.
    const refusal = this.#breaker.refusal();
    return refusal === null ? limiter.run(task, signal, options) : Promise.reject(refusal);
  }

  /** Makes a failure found after the fact (a record that cannot be stored) count as a retry. */
  takeRetry(cause: TidemarkError): void {
    this.#budget.take(cause);
  }

  stats(): RequestStats {
    const { askedToWaitUntil, ...counted } = this.#counters;
    const asked = askedToWaitUntil > this.clock.now() ? askedToWaitUntil : 0;
    const waitingUntil = Math.max(this.#limiter.waitingUntil() ?? 0, asked);
    const { kinds, pausedUntil, ...ofKey } = this.#limiter.use();
    return {
      ...counted,
      ...ofKey,
      ...(kinds.length === 0 ? {} : { kinds }),
      ...(waitingUntil === 0 ? {} : { waitingUntil }),
      ...(pausedUntil > this.clock.now() ? { pausedUntil } : {}),
    };
  }

  async close(): Promise<void> {
    try {
      this.#limiter.close();
    } finally {
      await this.transport.close();
    }
  }
}

interface ReadRequest<T> {
  /** Path and query of the next attempt; a page may be asked for smaller than before. */
  readonly path: () => string;
  /** The path as logs show it, where that is another. */
  readonly logged?: () => string;
  /** What it asks for: some kinds have limits of their own. */
  readonly kind?: Kind;
  /** Takes a 2xx answer apart; what it throws as retryable is tried again like any failure. */
  readonly read: (answer: Answer) => T;
  /** Called after every failed attempt, the last one too. */
  readonly onFailure?: (error: TidemarkError) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A GET with limits, retries and the reading of its answer.
 * @throws TidemarkError once nothing more is to be tried; the abort reason when aborted
 */
export type Request = <T>(request: ReadRequest<T>) => Promise<T>;

/** @param get everything that the requests can send */
export function requestOver(connection: Connection, get: Get): Request {
  return ({ path, logged = path, kind, read, onFailure, signal }) =>
    connection.retried(
      (attempt) => {
        const asked = path();
        const request = { method: 'GET', path: () => logged(), kind, attempt } as const;
        return connection.attempt(request, () => get(asked, signal), signal, { kind }).then(read);
      },
      logged,
      'request failed, trying again after the wait',
      signal,
      onFailure,
    );
}

// A circuit breaker for the requests of one client. If a service accepts connections but never answers, every request
// takes until its timeout, and a run has hundreds of requests: after a few timeouts in a row nothing more is sent.

/**
 * Timeouts in a row that open it, as many as one request has attempts by default. By then a list whose page size is
 * halved after each timeout has been requested with a sixteenth of the page, so a service that is only slow would have
 * answered.
 */
const MOST_TIMEOUTS = 5;

/** When a client with the usual limits gives up a service that does not answer, for people. */
export const GIVES_UP_AFTER = `${MOST_TIMEOUTS} requests without one, up to ${DEFAULT_TIMEOUTS.headersMs / 1000} s each`;

interface Breaker {
  /** The transport, which fails at once with `unresponsive` when the breaker is open. */
  readonly transport: Transport;
  /** Why nothing more is sent; null as long as the service may be asked. Once open it stays open. */
  refusal(): TidemarkError | null;
}

/**
 * Observes the results of a transport's requests. A response of any status resets the count. Timeouts of requests that
 * ran at the same time count as one: their number is our choice and says nothing about the service.
 */
function withBreaker(transport: Transport, source: string | undefined): Breaker {
  /** Time-outs since the last answer that count. */
  let timeouts = 0;
  /** Requests since the last answer that ended without one. */
  let unanswered = 0;
  /** Goes up with each answer and each time-out that counts: a request that began before says nothing new. */
  let turn = 0;
  let refusal: TidemarkError | null = null;

  const answered = (): void => {
    timeouts = 0;
    unanswered = 0;
    turn += 1;
  };
  /** What the request is to fail with. */
  const failed = (error: unknown, begunIn: number): unknown => {
    if (!(error instanceof TidemarkError)) return error;
    if (!timedOutWithoutStatus(error)) {
      // What could not be read is an answer too; what was never connected, or cut off, says neither.
      if (error.code === 'malformed' || error.code === 'timeout') answered();
      return error;
    }
    unanswered += 1;
    if (begunIn === turn) {
      timeouts += 1;
      turn += 1;
    }
    if (timeouts < MOST_TIMEOUTS && refusal === null) return error;
    refusal ??= unresponsive(error, unanswered, source);
    // Its cause shows whether this request was sent: a write must know.
    return unresponsive(error, unanswered, source, error.cause);
  };

  const send = async (ask: OutgoingRequest) => {
    if (refusal !== null) throw refusal;
    const begunIn = turn;
    try {
      const answer = await transport.send(ask);
      answered();
      return answer;
    } catch (error) {
      throw failed(error, begunIn);
    }
  };
  return { transport: { send, close: () => transport.close() }, refusal: () => refusal };
}

/** @param last the last time-out, whose message begins with the host */
function unresponsive(
  last: TidemarkError,
  requests: number,
  source: string | undefined,
  cause?: unknown,
): TidemarkError {
  const doctor = `tidemark doctor${source === undefined ? '' : ` --source ${source}`}`;
  return new TidemarkError(
    'unresponsive',
    `${requests} requests in a row had no answer, so no more are sent; the last: ${last.message}`,
    {
      hint: `run \`${doctor}\` to see whether the service answers, then run again; the rest was not requested`,
      isRetryable: true,
      ...(cause === undefined ? {} : { cause }),
    },
  );
}
