/** What one source's clients share: one transport, one limiter, one budget of retries, one set of counters. */
import type { RateLimits } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { withBreaker, type Breaker } from './breaker.ts';
import { createCounters, type RequestCounters, type RequestStats } from './request-stats.ts';
import { Limiter } from './limiter.ts';
import { neutralText, type NeutralText } from './neutral-text.ts';
import type { RateLog } from './rate-log.ts';
import { createRequestLog, type RequestLog } from './request-log.ts';
import { createRetryBudget, type RetryBudget, type RetryPolicy } from './retry.ts';
import { DEFAULT_TIMEOUTS, openTransport, type Timeouts, type Transport } from './transport.ts';

export interface ConnectionOptions {
  /** A path in it is put before every request's. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
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
}

export interface Connection {
  /** Fails at once when the breaker is open. */
  readonly transport: Transport;
  readonly breaker: Breaker;
  readonly limiter: Limiter;
  readonly policy: RetryPolicy;
  readonly budget: RetryBudget;
  readonly counters: RequestCounters;
  readonly neutral: NeutralText;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly requestLog: RequestLog;
  /** The base URL's own path, without a slash at its end. */
  readonly prefix: string;
  stats(): RequestStats;
  close(): Promise<void>;
}

/**
 * Opens the connection of one source. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot be in a header
 */
export function openConnection(options: ConnectionOptions): Connection {
  const { baseUrl, apiKey, rate, retry, clock, random, log, rateLog } = options;
  const counters = createCounters();
  const sending = openTransport({
    baseUrl,
    apiKey,
    userAgent: options.userAgent,
    concurrency: rate.concurrency,
    timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
    onBytes: (count) => {
      counters.bytes += count;
    },
  });
  const breaker = withBreaker(sending);
  const { transport } = breaker;
  const maxWaitMs = retry.maxWaitSeconds * 1000;
  const neutral = neutralText(apiKey);
  const limiter = new Limiter({
    rate,
    maxWaitMs: (options.maxWindowWaitSeconds ?? retry.maxWaitSeconds) * 1000,
    maxPauseMs: maxWaitMs,
    clock,
    log,
    rateLog,
  });
  return {
    transport,
    breaker,
    limiter,
    policy: { attempts: retry.attempts, maxWaitMs },
    budget: createRetryBudget(counters),
    counters,
    neutral,
    clock,
    random,
    log,
    requestLog: createRequestLog(log, neutral, clock),
    prefix: baseUrl.pathname.replace(/\/+$/, ''),
    stats: () => {
      const { askedToWaitUntil, ...counted } = counters;
      const waitingUntil = Math.max(
        limiter.waitingUntil() ?? 0,
        askedToWaitUntil > clock.now() ? askedToWaitUntil : 0,
      );
      const { kinds, ...ofKey } = limiter.use();
      return {
        ...counted,
        ...ofKey,
        ...(kinds.length === 0 ? {} : { kinds }),
        ...(waitingUntil === 0 ? {} : { waitingUntil }),
      };
    },
    close: async () => {
      try {
        limiter.close();
      } finally {
        await transport.close();
      }
    },
  };
}
