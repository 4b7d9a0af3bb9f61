/** Mirrors whose calls a test intercepts. */
import type { Mirror } from '../../src/mirror/mirror.ts';

/** A call of a method of a mirror, or of one of its stores. */
export interface MirrorCall {
  /** `close`, or with the store: `restores.journal`. */
  readonly name: string;
  readonly run: () => unknown;
}

/** The mirror with `intercept` in the place of each call; it returns what the caller gets. */
export function interceptedMirror(mirror: Mirror, intercept: (call: MirrorCall) => unknown): Mirror {
  return intercepted(mirror, '', intercept);
}

function intercepted<T extends object>(
  target: T,
  prefix: string,
  intercept: (call: MirrorCall) => unknown,
): T {
  return new Proxy(target, {
    get: (own, key) => {
      const value: unknown = Reflect.get(own, key, own);
      const name = `${prefix}${String(key)}`;
      if (typeof value === 'object' && value !== null && prefix === '')
        return intercepted(value, `${name}.`, intercept);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]): unknown =>
        intercept({ name, run: () => Reflect.apply(value, own, given) as unknown });
    },
  });
}
