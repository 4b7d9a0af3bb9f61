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
  /** A path in it is prefixed to the path of every request. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** Where the key was given, for error messages: `apiKeyFile of the source`. */
  readonly keyPlace?: string;
  /** Name of the source, for the commands that error messages suggest. */
  readonly source?: string;
  /** The HTTP proxies that the environment sets; default: none. */
  readonly proxies?: ProxySettings;
  readonly rate: RateLimits;
  readonly retry: { readonly attempts: number; readonly maxWaitSeconds: number };
  /** The longest single wait for a rate-limit window; default: `retry.maxWaitSeconds`. */
  readonly maxWindowWaitSeconds?: number;
  readonly timeouts?: Partial<Timeouts>;
  readonly userAgent: string;
  readonly clock: Clock;
  /** Uniform in [0, 1), for jitter. */
  readonly random: () => number;
  readonly log: Logger;
  /** Shared by the processes of this machine; closed with the client. Without it, this client limits the rate alone. */
  readonly rateLog?: RateLog;
  /** Used if there is no rate log. */
  readonly keptThrottle?: KeptThrottle;
  /** Called right before each request is sent. If it throws or ends the process, the request is not sent. */
  readonly beforeSending?: () => void;
}

/** Opens no connection before the first request. */
export class Connection {
  /** Fails immediately while the circuit breaker is open. */
  readonly transport: Transport;
  readonly policy: RetryPolicy;
  readonly neutral: NeutralText;
  readonly clock: Clock;
  readonly log: Logger;
  /** The path of the base URL, without a trailing slash. */
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

  /** @throws TidemarkError `config_invalid` if the key cannot be sent in a header or the proxy's URL is invalid */
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
   * @param path as shown in logs
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
   * One attempt: waits for the limits, sends, counts and logs. Resolves to a 2xx response; throws for any other.
   * @param send may throw to end the attempt before anything is sent
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
        // If the service does not name a wait (wire-notes.md, Rates), all requests pause for the usual backoff.
        limiter.onThrottled(startedAt, error.retryAfterMs ?? backoffMs(request.attempt + 1, this.#random()));
      }
      // A longer pause may concern a single endpoint, so it must not stop requests to the others.
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
    // Checked before queueing, so that a request does not wait for the limits only to be refused.
    const refusal = this.#breaker.refusal();
    return refusal === null ? limiter.run(task, signal, options) : Promise.reject(refusal);
  }

  /** Counts a retry for a failure found after the response was read, such as a record that cannot be stored. */
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
  /** Path and query of the next attempt, which may request a smaller page. */
  readonly path: () => string;
  /** The path as shown in logs, if different. */
  readonly logged?: () => string;
  /** The kind requested, since some kinds have limits of their own. */
  readonly kind?: Kind;
  /** Parses a 2xx response. A retryable error that it throws is retried like any other. */
  readonly read: (answer: Answer) => T;
  /** Called after every failed attempt, including the last. */
  readonly onFailure?: (error: TidemarkError) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a GET within the limits, retries it, and parses the response.
 * @throws TidemarkError after the last attempt; the abort reason if aborted
 */
export type Request = <T>(request: ReadRequest<T>) => Promise<T>;

/** @param get the only way in which the requests can send anything */
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
// runs into its timeout, and a run has hundreds of requests. So after a few timeouts in a row nothing more is sent.

/**
 * Timeouts in a row that open the breaker: the default number of attempts of a request. The page size of a list is
 * halved after each timeout, so a service that is only slow would have answered the last attempt.
 */
const MOST_TIMEOUTS = 5;

/** When a client with the default limits gives up on a service that does not answer, in words. */
export const GIVES_UP_AFTER = `${MOST_TIMEOUTS} requests without one, up to ${DEFAULT_TIMEOUTS.headersMs / 1000} s each`;

interface Breaker {
  /** Fails immediately with `unresponsive` while the breaker is open. */
  readonly transport: Transport;
  /** Why nothing more is sent; null while the breaker is closed. Once open, it stays open. */
  refusal(): TidemarkError | null;
}

/**
 * Observes the results of a transport's requests. A response with any status resets the count. Timeouts of concurrent
 * requests count as one, because the concurrency is our choice and says nothing about the service.
 */
function withBreaker(transport: Transport, source: string | undefined): Breaker {
  /** Timeouts since the last response, counted as described above. */
  let timeouts = 0;
  /** Requests that ended without a response since the last one. */
  let unanswered = 0;
  /** Incremented by each response and each counted timeout. Timeouts of requests begun in an earlier turn do not count. */
  let turn = 0;
  let refusal: TidemarkError | null = null;

  const answered = (): void => {
    timeouts = 0;
    unanswered = 0;
    turn += 1;
  };
  /** Returns the error with which the request fails. */
  const failed = (error: unknown, begunIn: number): unknown => {
    if (!(error instanceof TidemarkError)) return error;
    if (!timedOutWithoutStatus(error)) {
      // An unreadable response is a response too. A failed or lost connection says nothing either way.
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
    // A write looks at the cause to find out whether it was sent.
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

/** @param last the latest timeout, whose message begins with the host */
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
