/**
 * The overlap of pages that proves a list unbroken (design.md, The sync: anchored overlap). Each page begins before the
 * end of the one before it; a key that is in both is the anchor, and whatever rows came or went before it, nothing
 * between the two pages can have been missed. Pure.
 */

const LEAST_OVERLAP = 10;
const OVERLAP_SHARE = 0.05;

/** Rows that the next page repeats after one of `received` rows: at most half of it, so that it always advances. */
export function overlapFor(received: number): number {
  const wanted = Math.max(LEAST_OVERLAP, Math.ceil(received * OVERLAP_SHARE));
  return Math.min(wanted, Math.floor(received / 2));
}

/** The last keys of what has been read without a gap. */
export interface Tail {
  readonly keys: readonly string[];
  /** Position after the last of them, when it was read. */
  readonly end: number;
}

export interface Anchor {
  /** Index in the page of the last tail key that it holds; -1 where the page begins the list. */
  readonly index: number;
  /** By how many rows it moved since it was read: > 0 rows were put in before it, < 0 rows before it left. */
  readonly shift: number;
}

/** The anchor of a page that was asked for at `offset`; null when it holds none of the tail's keys. */
export function findAnchor(tail: Tail, offset: number, keys: readonly string[]): Anchor | null {
  const places = new Map<string, number>();
  for (const [index, key] of keys.entries()) if (!places.has(key)) places.set(key, index);
  for (let i = tail.keys.length - 1; i >= 0; i -= 1) {
    const key = tail.keys[i];
    const index = key === undefined ? undefined : places.get(key);
    if (index === undefined) continue;
    return { index, shift: offset + index - (tail.end - tail.keys.length + i) };
  }
  return null;
}

/**
 * How a page contradicts that the list is in the order in which its tail was read; null where it does not. Rows that
 * were read with the tail come together and as they were, and all that follow the anchor are new to the reading.
 * @param fresh keys of the page that the reading had not seen; null if unknown
 */
export function disorderAt(
  tail: Tail,
  anchor: Anchor,
  keys: readonly string[],
  fresh: number | null,
): string | null {
  const from = tail.keys.lastIndexOf(keys[anchor.index] ?? '');
  if (from !== tail.keys.length - 1) return 'rows at the end of a page were gone from the next one';
  for (let back = 1; back <= anchor.index && back <= from; back += 1)
    if (keys[anchor.index - back] !== tail.keys[from - back])
      return 'rows that two pages share came in another order, or with others between them';
  if (fresh === null) return null;
  const expected = keys.length - anchor.index - 1;
  if (fresh > expected) {
    const more = fresh - expected;
    return `${more} ${more === 1 ? 'row' : 'rows'} appeared before rows that had been read`;
  }
  if (fresh === expected) return null;
  const again = expected - fresh;
  return `${again} ${again === 1 ? 'row' : 'rows'} that had been read came once more`;
}

/** The tail after a page at `offset` that continues it from `anchor` on. */
export function extendTail(
  tail: Tail,
  anchor: Anchor,
  offset: number,
  keys: readonly string[],
  pageCap: number,
): Tail {
  const size = Math.max(LEAST_OVERLAP, Math.ceil(pageCap * OVERLAP_SHARE));
  const end = offset + keys.length;
  if (keys.length >= size) return { keys: keys.slice(-size), end };
  // A short page: the rows before the anchor are assumed to be still in the list's order.
  const anchorKey = keys[anchor.index];
  const before = anchorKey === undefined ? [] : tail.keys.slice(0, tail.keys.lastIndexOf(anchorKey));
  return { keys: [...before, ...keys.slice(Math.max(0, anchor.index))].slice(-size), end };
}
