/** Runs one piece of work in a Node.js child process, which receives an order and sends messages and one result. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { afterRealTime } from './clock.ts';
import { asTidemarkError, type ErrorCode, TidemarkError } from './errors.ts';

/**
 * The Node.js options of a child that runs this program: those of this process, and one so that SIGUSR1 does not open a
 * debugger, because whoever reaches its port can do everything that the child can.
 */
export function nodeOptions(): string[] {
  return [...process.execArgv, '--disable-sigusr1'];
}

/** How long a child may take to exit after it sent its result. */
const EXIT_MS = 3_000;

interface ChildWork<Message, Result> {
  /** The name for errors, such as `the process that makes the backup`. */
  readonly name: string;
  readonly start: () => ChildProcess;
  readonly order: object;
  /** Handles a message of the child. Returns undefined, or the result, after which no message is expected. */
  readonly receive: (message: Message) => Result | undefined;
}

interface ChildEnd<Result> {
  /** Undefined if the child ended before it sent one. */
  readonly result: Result | undefined;
  /** The signal that ended it; null if it exited. */
  readonly signal: string | null;
  /** How it ended, such as `ended with 1`. */
  readonly how: string;
}

/**
 * Starts a child, sends it the order, and waits until it has exited. The child disconnects or, after its result, this
 * side does and the child exits. So no message is lost.
 * @throws TidemarkError if it could not be started
 */
export async function workInChild<Message, Result>({
  name,
  start,
  order,
  receive,
}: ChildWork<Message, Result>): Promise<ChildEnd<Result>> {
  let result: Result | undefined;
  try {
    const child = start();
    child.on('message', (message) => {
      result = receive(message as Message);
      if (result === undefined) return;
      const cancel = afterRealTime(EXIT_MS, () => child.kill('SIGKILL'));
      child.once('exit', cancel);
      if (child.connected) child.disconnect();
    });
    // If sending to the child or killing it fails, it has ended, and its exit says more.
    child.on('error', () => undefined);
    // Its last messages may arrive after its exit.
    const disconnected = child.connected ? once(child, 'disconnect') : Promise.resolve([]);
    // If it cannot be started, `exit` fails too, and that error is reported.
    disconnected.catch(() => undefined);
    const exited = once(child, 'exit');
    if (child.connected) child.send(order, () => undefined);
    const [code, signal] = (await exited) as [number | null, string | null];
    await disconnected;
    return { result, signal, how: signal === null ? `ended with ${code}` : `was ended by ${signal}` };
  } catch (error) {
    const { code, message, hint } = asTidemarkError(error);
    throw new TidemarkError(code, `${name} could not be started: ${message}`, {
      ...(hint === undefined ? {} : { hint }),
      isRetryable: true,
      cause: error,
    });
  }
}

/**
 * What may have ended a child that sent no result, for a hint; null if only its output on stderr shows that.
 * @param entry the file that it ran
 */
export function endCause({ signal }: Pick<ChildEnd<unknown>, 'signal'>, entry: string): string | null {
  if (signal !== null) return 'a system that is short of memory ends processes like this';
  if (existsSync(entry)) return null;
  return `the program at ${entry} is no longer there or was replaced: restart the daemon`;
}

/** An error as part of a message. */
export interface ErrorMessage {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly isRetryable: boolean;
  /** Missing if false. */
  readonly isOfAuditLog?: true;
}

export function toErrorMessage(thrown: unknown): ErrorMessage {
  const { code, message, hint, isRetryable, isOfAuditLog } = asTidemarkError(thrown);
  const what = isOfAuditLog ? { isOfAuditLog } : {};
  return { code, message, hint: hint ?? null, isRetryable, ...what };
}

export function fromErrorMessage({ code, message, hint, ...more }: ErrorMessage): TidemarkError {
  return new TidemarkError(code, message, { ...(hint === null ? {} : { hint }), ...more });
}
