/**
 * The process in which a worker works on cells, one after the other (`cli/fleet-cell.ts`): started when it is needed,
 * kept for the next cell, and killed if a cell takes too long. A kill loses nothing.
 */
import type { EventEmitter } from 'node:events';
import { type Clock, settlesWithin } from '../core/clock.ts';
import { toErrorMessage } from '../core/child-process.ts';
import { asTidemarkError, EXIT, type ErrorCode, TidemarkError } from '../core/errors.ts';
import { duration } from '../core/wording.ts';
import type { CellOrder, CellResult, FromCellProcess, LeaseEnd, ToCellProcess } from './cell.ts';

/** The part of a `ChildProcess` that is used. */
export interface CellChild extends EventEmitter {
  readonly connected: boolean;
  send(message: ToCellProcess, onSent: () => void): unknown;
  disconnect(): void;
  kill(signal: 'SIGKILL'): unknown;
}

/** Starts the program's own `fleet-cell`, with a channel to it. */
export type StartCellProcess = () => CellChild;

interface CellProcessOptions {
  readonly start: StartCellProcess;
  readonly clock: Clock;
  /** After this many cells, a new process is started, so that memory is returned to the system. */
  readonly cellsPerProcess: number;
}

interface PerformOptions {
  readonly timeLimitMs: number;
  /** Whether the registry knows a run of the cell with that root hash. */
  readonly isKnown: (root: string) => Promise<boolean>;
  /** Ends the work early, within `STOP_MS`. */
  readonly signal: AbortSignal;
}

/** How long work may take to stop before its process is killed. */
export const STOP_MS = 10_000;

interface Running {
  readonly child: CellChild;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>;
  cells: number;
}

export class CellProcess {
  readonly #options: CellProcessOptions;
  #running: Running | null = null;
  #lease: LeaseEnd | null = null;

  constructor(options: CellProcessOptions) {
    this.#options = options;
  }

  /** Passes the lease of the group to the process. */
  renew(lease: LeaseEnd): void {
    this.#lease = lease;
    if (this.#running !== null) this.#send(this.#running, { type: 'lease', ...lease });
  }

  /** Works on one cell. Errors of the process are part of the result. */
  async perform(order: CellOrder, options: PerformOptions): Promise<CellResult> {
    let running: Running;
    try {
      running = await this.#started();
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      return failed('left', code, `the process for cells could not be started: ${message}`);
    }
    running.cells += 1;
    const { timeLimitMs, signal } = options;
    const over = new AbortController();
    const result = this.#resultOf(running, order, options);
    // The caller gets the error from `result`; here only the end matters.
    const settled = result.catch(() => undefined).finally(() => over.abort());
    const stop = (): void => void this.#stop(running, settled);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    const { clock } = this.#options;
    const time = { isUp: false };
    void clock.sleep(timeLimitMs, over.signal).then(
      () => {
        time.isUp = true;
        stop();
      },
      () => undefined,
    );
    try {
      const ended = await result;
      if (time.isUp) {
        return failed(
          'failed',
          'timeout',
          `${order.cell} was not done after ${duration(timeLimitMs)}, and was given up`,
        );
      }
      return ended;
    } finally {
      signal.removeEventListener('abort', stop);
      over.abort();
      if (running.cells >= this.#options.cellsPerProcess) this.#leave(running);
    }
  }

  /** Ends the process. */
  async close(): Promise<void> {
    const running = this.#running;
    if (running === null) return;
    this.#leave(running);
    const { clock } = this.#options;
    if (!(await settlesWithin(running.exited, STOP_MS, clock))) running.child.kill('SIGKILL');
    await running.exited;
  }

  async #resultOf(running: Running, order: CellOrder, { isKnown }: PerformOptions): Promise<CellResult> {
    const { child, exited } = running;
    let onResult: (result: CellResult) => void = () => undefined;
    const result = new Promise<CellResult>((resolve) => (onResult = resolve));
    const listen = (message: FromCellProcess): void => {
      if (message.type === 'result') onResult(message.result);
      if (message.type !== 'is known') return;
      isKnown(message.root).then(
        (known) => this.#send(running, { type: 'known', isKnown: known }),
        // The registry does not answer: the cell is tried again.
        (error: unknown) => {
          onResult({ status: 'left', error: toErrorMessage(error) });
          child.kill('SIGKILL');
        },
      );
    };
    child.on('message', listen);
    try {
      if (this.#lease !== null) this.#send(running, { type: 'lease', ...this.#lease });
      this.#send(running, { type: 'order', order });
      return await Promise.race([
        result,
        exited.then(({ code, signal }) => {
          if (this.#running === running) this.#running = null;
          return code === EXIT.interrupted
            ? failed('left', 'interrupted', 'the lease of the group ended before the work did')
            : failed(
                'failed',
                'internal',
                `the process that worked on ${order.cell} ${signal === null ? `ended with ${code}` : `was ended by ${signal}`}`,
              );
        }),
      ]);
    } finally {
      child.off('message', listen);
    }
  }

  async #started(): Promise<Running> {
    if (this.#running !== null) return this.#running;
    const child = this.#options.start();
    const exited = new Promise<Awaited<Running['exited']>>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code: number | null, signal: string | null) => resolve({ code, signal }));
    });
    // Whoever waits for `exited` reports the error.
    exited.catch(() => undefined);
    const ready = new Promise<void>((resolve) => child.once('message', () => resolve()));
    const running: Running = { child, exited, cells: 0 };
    await Promise.race([
      ready,
      exited.then(({ code, signal }) => {
        throw new TidemarkError('internal', `it ended at once with ${signal ?? code}`);
      }),
    ]);
    child.on('error', () => undefined);
    this.#running = running;
    void exited.then(() => {
      if (this.#running === running) this.#running = null;
    });
    return running;
  }

  async #stop(running: Running, over: Promise<unknown>): Promise<void> {
    this.#send(running, { type: 'stop' });
    if (!(await settlesWithin(over, STOP_MS, this.#options.clock))) running.child.kill('SIGKILL');
  }

  /** Closes the channel to the process, which then exits. */
  #leave(running: Running): void {
    if (this.#running === running) this.#running = null;
    if (running.child.connected) running.child.disconnect();
  }

  #send({ child }: Running, message: ToCellProcess): void {
    // If it cannot be sent, the process has ended, and its exit is reported.
    if (child.connected) child.send(message, () => undefined);
  }
}

function failed(status: 'failed' | 'left', code: ErrorCode, message: string): CellResult {
  return { status, error: { code, message, hint: null, isRetryable: true } };
}
