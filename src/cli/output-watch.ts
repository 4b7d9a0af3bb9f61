/**
 * Watches the stream that results go to. Notes whether anything was written: a failure then no longer stands in the place
 * of the result. And notices when it takes nothing more: what only prints ends then, other work goes on without.
 */
import type { Writable } from 'node:stream';
import { systemErrorText } from '../core/errors.ts';

export interface WatchedOutput<Stream> {
  /** The same stream to its users. */
  readonly stream: Stream;
  /** True when one of them wrote. */
  hasBegun(): boolean;
  /** From now on, what the stream does not take is dropped, and whoever waits for room goes on. */
  readonly outlive: () => void;
  /** Why something was dropped, after all that was written has met its fate; null where everything arrived. */
  loss(): Promise<NodeJS.ErrnoException | null>;
}

/** `onLost` is called when the stream fails, unless it is outlived; without it, failures stay the stream's own. */
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
      // There will be no room; but nothing is in the way either.
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
      // Failures arrive later than the writes that they are of.
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
