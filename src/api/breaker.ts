/**
 * A circuit breaker around the requests of one client. A service that accepts connections and never answers costs every
 * request its whole limit of time, and a run has hundreds of requests: after a few such limits nothing more is sent.
 */
import { TidemarkError } from '../core/errors.ts';
import { timedOutWithoutStatus } from './network-error.ts';
import type { OutgoingRequest, Transport } from './transport.ts';

/**
 * Time-outs in a row that open it. As many as one request has attempts by default: a list whose page size is halved after
 * each of them has been asked for a sixteenth of a page by then, so that a service which is merely slow has answered.
 */
const MOST_TIMEOUTS = 5;

export interface Breaker {
  /** The transport, which fails at once with `unresponsive` when the breaker is open. */
  readonly transport: Transport;
  /** Why nothing more is sent; null as long as the service may be asked. Once open it stays open. */
  refusal(): TidemarkError | null;
}

/**
 * Watches what becomes of a transport's requests. Any status resets the count. Requests that were under way at the same
 * time count as one: how many they are is our choice and says nothing about the service.
 */
export function withBreaker(transport: Transport): Breaker {
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
    refusal ??= unresponsive(error, unanswered);
    // Its cause shows whether this request was sent: a write must know.
    return unresponsive(error, unanswered, error.cause);
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
function unresponsive(last: TidemarkError, requests: number, cause?: unknown): TidemarkError {
  return new TidemarkError(
    'unresponsive',
    `${requests} requests in a row had no answer, so no more are sent; the last: ${last.message}`,
    {
      hint: 'run `tidemark doctor` to see whether the service answers, then run again; the rest was not requested',
      isRetryable: true,
      ...(cause === undefined ? {} : { cause }),
    },
  );
}
