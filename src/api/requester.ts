/** A GET with limiter, retries, counters, and parsing of the answer. */
import type { Kind } from '../catalog/kinds.ts';
import type { Clock } from '../core/clock.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Breaker } from './breaker.ts';
import { answerError } from './error-body.ts';
import type { RequestCounters } from './request-stats.ts';
import type { Limiter } from './limiter.ts';
import type { NeutralText } from './neutral-text.ts';
import type { RequestLog } from './request-log.ts';
import { backoffMs, retrying, type RetryBudget, type RetryPolicy } from './retry.ts';
import type { Answer, Get } from './transport.ts';

interface Request<T> {
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

export interface Requester {
  /** @throws TidemarkError once nothing more is to be tried; the abort reason when aborted */
  request<T>(request: Request<T>): Promise<T>;
  /** Makes a failure found after the fact (a record that cannot be stored) count as a retry. */
  takeRetry(cause: TidemarkError): void;
}

interface RequesterOptions {
  readonly get: Get;
  readonly limiter: Limiter;
  readonly breaker: Pick<Breaker, 'refusal'>;
  readonly policy: RetryPolicy;
  readonly budget: RetryBudget;
  readonly counters: RequestCounters;
  readonly neutral: NeutralText;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly requestLog: RequestLog;
}

export function createRequester(options: RequesterOptions): Requester {
  const { get, limiter, counters, clock, random, log, requestLog } = options;

  const send = (
    { logged, kind, signal }: Pick<Request<unknown>, 'logged' | 'kind' | 'signal'>,
    path: string,
    attempt: number,
  ): Promise<Answer> => {
    const succeeded = (answer: Answer, startedAt: number): Answer => {
      if (answer.status !== 429) limiter.onNotThrottled();
      if (answer.status >= 200 && answer.status < 300) return answer;
      const error = answerError(answer, options.neutral, clock.now());
      if (answer.status === 429) {
        counters.throttled += 1;
        // The header is missing when the wait is unknown (wire-notes.md, Rates): then the usual backoff is for all.
        limiter.onThrottled(startedAt, error.retryAfterMs ?? backoffMs(attempt + 1, random()));
      }
      throw error;
    };
    const task = (startedAt: number): Promise<Answer> => {
      const late = options.breaker.refusal();
      if (late !== null) return Promise.reject(late);
      counters.requests += 1;
      const request = { method: 'GET', path: logged ?? (() => path), kind, attempt } as const;
      return requestLog.log(request, get(path, signal)).then((answer) => succeeded(answer, startedAt));
    };
    const refusal = options.breaker.refusal();
    // Before its turn: nothing is to wait for the limits only to be refused.
    return refusal === null ? limiter.run(task, signal, { kind }) : Promise.reject(refusal);
  };

  return {
    takeRetry: (cause) => options.budget.take(cause),
    request: (request) => {
      const { path, logged, read, onFailure, signal } = request;
      return retrying(
        {
          policy: options.policy,
          budget: options.budget,
          clock,
          random,
          signal,
          onFailure,
          onRetry: (error, attempt, waitMs) =>
            log.debug(
              {
                path: requestLog.shownPath((logged ?? path)()),
                ...{ attempt, waitMs: Math.ceil(waitMs), code: error.code, status: error.status },
              },
              'request failed, trying again after the wait',
            ),
        },
        (attempt) => send(request, path(), attempt).then(read),
      );
    },
  };
}
