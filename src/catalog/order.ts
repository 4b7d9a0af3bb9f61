/** The order of records in a state, also in the mirror: by kind as in the catalog, then by scope, then by id. */
import { type Scope, SCOPE_KEYS } from './definition.ts';
import { type Kind, KINDS } from './kinds.ts';

/** Identifies a collection of a source. */
export interface CollectionKey {
  readonly kind: Kind;
  readonly scope: Scope;
}

/** Identifies a record of a source. */
export interface RecordKey extends CollectionKey {
  readonly id: string;
}

const KIND_RANK: ReadonlyMap<Kind, number> = new Map(KINDS.map((kind, rank) => [kind, rank]));

/**
 * Negative if `a` comes first, 0 for the same key. Texts are compared by code points, as SQLite compares UTF-8 bytes
 * (the `<` of JavaScript would put U+1F600 before U+FFFD). A missing scope value comes before every text.
 */
export function compareKeys(a: RecordKey, b: RecordKey): number {
  if (a.kind !== b.kind) return (KIND_RANK.get(a.kind) ?? 0) - (KIND_RANK.get(b.kind) ?? 0);
  return compareScopes(a.scope, b.scope) || compareTexts(a.id, b.id);
}

/** Compares in catalog order, then by source and scope. */
export function compareCollections(
  a: CollectionKey & { readonly source: string },
  b: CollectionKey & { readonly source: string },
): number {
  return (
    (KIND_RANK.get(a.kind) ?? 0) - (KIND_RANK.get(b.kind) ?? 0) ||
    compareTexts(a.source, b.source) ||
    compareScopes(a.scope, b.scope)
  );
}

/** Like `compareKeys`, for scopes only. */
export function compareScopes(a: Scope, b: Scope): number {
  for (const key of SCOPE_KEYS) {
    const left = a[key];
    const right = b[key];
    if (left === right) continue;
    if (left === undefined) return -1;
    if (right === undefined) return 1;
    return compareTexts(left, right);
  }
  return 0;
}

/** Compares by code points. */
export function compareTexts(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** A surrogate is part of a code point beyond U+FFFF, so it comes after all other units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x1_0000 : unit;
}
