/** What a diff leaves out: collections that could not be read on one of the sides. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Skipped } from './change.ts';
import { type RecordKey, compareScopes } from './order.ts';

/** True for records of collections that one of these leaves out. Remembers its last answer: records come by collection. */
export function skipTest(skipped: readonly Skipped[]): (key: RecordKey) => boolean {
  const collections = skipped.filter((entry) => entry.name === undefined);
  if (collections.length === 0) return () => false;
  let last: { kind: Kind; scope: Scope; isSkipped: boolean } | undefined;
  return ({ kind, scope }) => {
    if (last?.kind === kind && compareScopes(last.scope, scope) === 0) return last.isSkipped;
    const isSkipped = collections.some((entry) => entry.kind === kind && contains(scope, entry.scope));
    last = { kind, scope, isSkipped };
    return isSkipped;
  };
}

function contains(scope: Scope, part: Scope): boolean {
  return Object.entries(part).every(([key, value]) => scope[key as keyof Scope] === value);
}
