/**
 * One answer as it comes in, within limits of size and time. By undici's dispatch and not by its `request`: a stream, a
 * signal and a timer of its own for every answer cost more than all the rest of a small one.
 */
import { whenAborted } from '../core/aborted.ts';
import { type RealTimeLimits, abortReason } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';

/** Of an answer that is no success only the beginning is of use. */
export const MAX_ERROR_BYTES = 64 * 1024;

export interface Received {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  /** Of an answer that is no success perhaps only the beginning. */
  readonly chunks: readonly Buffer[];
}

/** What holds for all answers of a transport. */
interface Receiving<T> {
  /** Of a success; one that is larger is refused. */
  readonly maxBytes: number;
  /** From the request to the end of its answer. */
  readonly totals: RealTimeLimits;
  readonly onTotal: () => TidemarkError;
  readonly read: (received: Received) => T;
  /** What went wrong, in our words. */
  readonly told: (error: unknown) => Error;
}

/** The request, as long as it is under way. */
interface Controller {
  abort(reason: Error): void;
}

/**
 * Resolves to what was made of the whole answer.
 * @param dispatch sends the request, and tells what comes back
 * @throws what `told` makes of it; the abort reason when aborted
 */
export function receive<T>(
  dispatch: (incoming: Incoming<T>) => void,
  receiving: Receiving<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const incoming = new Incoming(receiving, signal, resolve, reject);
    try {
      dispatch(incoming);
    } catch (error) {
      incoming.fail(error);
    }
  });
}

/** The handler of one dispatch: a method each for what undici tells. */
class Incoming<T> {
  readonly #receiving: Receiving<T>;
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
    receiving: Receiving<T>,
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
    this.#reject(signal?.aborted === true ? abortReason(signal) : this.#receiving.told(error));
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    // Given up while it waited for a connection.
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
    const { maxBytes } = this.#receiving;
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
    const { read, told } = this.#receiving;
    try {
      this.#resolve(read({ status: this.#status, headers: this.#headers, chunks }));
    } catch (error) {
      this.#reject(told(error));
    }
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.fail(error);
  }

  /** Ends it from our side: nothing more of this connection is of use. */
  #giveUp(error: Error): void {
    this.fail(error);
    this.#controller?.abort(error);
  }

  #end(): void {
    this.#isOver = true;
    // The connection may hold on to its last handler for longer than the page is of use.
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
