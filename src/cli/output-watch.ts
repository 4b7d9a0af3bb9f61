/**
 * Watches stdout. Records whether anything was written, since an error document must not follow a partial result; and detects
 * that it was closed: commands that only print then end, other work continues without output.
 */
import type { Writable } from 'node:stream';
import { systemErrorText } from '../core/errors.ts';

interface WatchedOutput<Stream> {
  /** The stream to write to. */
  readonly stream: Stream;
  /** True once something was written. */
  hasBegun(): boolean;
  /** From now on, output that cannot be written is dropped, and waiting writers continue. */
  readonly outlive: () => void;
  /** Waits until all writes have ended. Why output was dropped; null if everything was written. */
  loss(): Promise<NodeJS.ErrnoException | null>;
}

/** @param onLost called when the stream fails, unless `outlive` was called; if left out, nobody listens to the stream's errors */
export function watchOutput<Stream extends Writable>(
  stream: Stream,
  onLost?: (error: NodeJS.ErrnoException) => void,
): WatchedOutput<Stream> {
  let hasBegun = false;
  let isOutlived = false;
  let lost: NodeJS.ErrnoException | null = null;
  if (onLost !== undefined) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      lost ??= error;
      if (!isOutlived) onLost(error);
      // The writer need not wait for output that is dropped.
      else stream.emit('drain');
    });
  }
  const watched = new Proxy(stream, {
    get: (target, key) => {
      if (key === 'write' && lost !== null) return () => true;
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      if (key === 'write') hasBegun = true;
      // Bound to the stream itself: its methods use private fields, which a proxy does not have.
      return value.bind(target) as unknown;
    },
  });
  return {
    stream: watched,
    hasBegun: () => hasBegun,
    outlive: () => {
      isOutlived = true;
    },
    loss: async () => {
      // Errors arrive later than the writes that caused them.
      if (isOutlived && hasBegun && lost === null)
        await new Promise<void>((done) => stream.write('', () => done()));
      return lost;
    },
  };
}

/** True if the reader closed the pipe. */
export function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE';
}

/** The line for stderr about output that could not be written. */
export function outputLostText({ code, message }: NodeJS.ErrnoException): string {
  return `tidemark: the output could not be written: ${systemErrorText(code ?? '')?.why ?? message}`;
}
