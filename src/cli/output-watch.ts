/**
 * Watches the stream of the results. Notes whether anything was written, since an error document must not follow a partial
 * result; and detects that it is closed: commands that only print end then, other work continues without output.
 */
import type { Writable } from 'node:stream';
import { systemErrorText } from '../core/errors.ts';

export interface WatchedOutput<Stream> {
  /** The same stream to its users. */
  readonly stream: Stream;
  /** True when one of them wrote. */
  hasBegun(): boolean;
  /** From now on, output that the stream does not take is dropped, and waiting writers continue. */
  readonly outlive: () => void;
  /** Why output was dropped, once all writes have ended; null if everything was written. */
  loss(): Promise<NodeJS.ErrnoException | null>;
}

/** `onLost` is called when the stream fails, unless `outlive` was called; without it, the stream emits its errors itself. */
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
      // Output is dropped, so the writer need not wait.
      else stream.emit('drain');
    });
  }
  const watched = new Proxy(stream, {
    get: (target, key) => {
      if (key === 'write' && lost !== null) return () => true;
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      if (key === 'write') hasBegun = true;
      // Bound: a stream's methods look for its private parts on itself.
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

/** True when the reader closed its end. */
export function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE';
}

/** One line on an output that could not be written. */
export function outputLostText({ code, message }: NodeJS.ErrnoException): string {
  return `tidemark: the output could not be written: ${systemErrorText(code ?? '')?.why ?? message}`;
}
