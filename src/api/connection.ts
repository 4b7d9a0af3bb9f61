/** What one source's clients share: one transport, one limiter, one budget of retries, one set of counters. */
import type { Kind } from '../catalog/definition.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { withBreaker } from './breaker.ts';
import type { Breaker } from './breaker.ts';
import { createCounters } from './figures.ts';
import type { RequestCounters, RequestFigures } from './figures.ts';
import { createLimiter } from './limiter.ts';
import type { Limiter, RateLimits } from './limiter.ts';
import { neutralText } from './neutral-text.ts';
import type { NeutralText } from './neutral-text.ts';
import { createRetryBudget } from './retry.ts';
import type { RetryBudget, RetryPolicy } from './retry.ts';
import type { RateLog } from './start-windows.ts';
import { DEFAULT_TIMEOUTS, openTransport } from './transport.ts';
import type { Timeouts, Transport } from './transport.ts';

export interface ConnectionOptions {
  /** A path in it is put before every request's. */
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  readonly rate: RateLimits;
  readonly retry: { readonly attempts: number; readonly maxWaitSeconds: number };
  readonly timeouts?: Partial<Timeouts>;
  readonly userAgent: string;
  readonly clock: Clock;
  /** Uniform in [0, 1), for jitter. */
  readonly random: () => number;
  readonly log: Logger;
  readonly rateLog?: RateLog;
  /** The same for the limit of that name (`rate.kinds`). */
  readonly kindRateLog?: (name: Kind) => RateLog;
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
  /** The base URL's own path, without a slash at its end. */
  readonly prefix: string;
  figures(): RequestFigures;
  close(): Promise<void>;
}

/**
 * Opens the connection of one source. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot stand in a header
 */
export function openConnection(options: ConnectionOptions): Connection {
  const { baseUrl, apiKey, rate, retry, clock, random, log, rateLog, kindRateLog } = options;
  const sending = openTransport({
    baseUrl,
    apiKey,
    userAgent: options.userAgent,
    concurrency: rate.concurrency,
    timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
  });
  const breaker = withBreaker(sending);
  const { transport } = breaker;
  const maxWaitMs = retry.maxWaitSeconds * 1000;
  const counters = createCounters();
  const limiter = createLimiter({
    rate,
    maxWaitMs,
    clock,
    log,
    ...(rateLog === undefined ? {} : { rateLog }),
    ...(kindRateLog === undefined ? {} : { kindRateLog }),
  });
  return {
    transport,
    breaker,
    limiter,
    policy: { attempts: retry.attempts, maxWaitMs },
    budget: createRetryBudget(counters),
    counters,
    neutral: neutralText(apiKey),
    clock,
    random,
    log,
    prefix: baseUrl.pathname.replace(/\/+$/, ''),
    figures: () => {
      const waitingUntil = limiter.waitingUntil();
      const kinds = limiter.kinds();
      return {
        ...counters,
        perMinute: limiter.perMinute(),
        perHour: limiter.perHour(),
        ...(kinds.length === 0 ? {} : { kinds }),
        ...(waitingUntil === undefined ? {} : { waitingUntil }),
      };
    },
    close: async () => {
      try {
        limiter.flush();
      } finally {
        await transport.close();
      }
    },
  };
}
