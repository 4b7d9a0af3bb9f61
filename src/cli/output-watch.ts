/** Notes whether anything was written to a stream: a failure then no longer stands in the place of the result. */
import type { Writable } from 'node:stream';

/** The same stream to its users; `hasBegun` tells whether one of them wrote. */
export function watchOutput<Stream extends Writable>(
  stream: Stream,
): { readonly stream: Stream; hasBegun(): boolean } {
  let hasBegun = false;
  const watched = new Proxy(stream, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      if (key === 'write') hasBegun = true;
      // Bound: a stream's methods look for its private parts on itself.
      return value.bind(target) as unknown;
    },
  });
  return { stream: watched, hasBegun: () => hasBegun };
}
