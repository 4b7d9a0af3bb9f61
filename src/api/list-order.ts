/**
 * Evidence that a page continues the list as read so far: rows that both contain, and an order that never changes
 * (design.md, The sync: the walk). Pure.
 */
import { copyText, type ScannedRecord } from '../core/json-scan.ts';

// Anchored overlap: each page begins before the end of the previous one. A key that is on both is the anchor. Whatever
// rows were added or removed before it, no row between the two pages can have been missed.

const LEAST_OVERLAP = 10;
const OVERLAP_SHARE = 0.05;

/** How many rows of a page with `received` rows the next page repeats: at most half, so that the walk advances. */
export function overlapFor(received: number): number {
  const wanted = Math.max(LEAST_OVERLAP, Math.ceil(received * OVERLAP_SHARE));
  return Math.min(wanted, Math.floor(received / 2));
}

/** The last keys of the part of the list that has been read without a gap. */
export interface Tail {
  readonly keys: readonly string[];
  /** The position after the last key, as of when it was read. */
  readonly end: number;
}

export interface Anchor {
  /** Index in the page of the last tail key on it; -1 if the page begins the list. */
  readonly index: number;
  /** By how many rows it has moved since it was read: > 0 if rows were inserted before it, < 0 if rows were removed. */
  readonly shift: number;
}

/** The anchor of the page requested at `offset`; null if the page has none of the tail's keys. */
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
 * How a page contradicts the order of the tail read before it; null if it does not. Rows of the tail must be adjacent
 * and in the same order, and all rows after the anchor must be new in this pass.
 * @param fresh how many keys of the page are new in this pass; null if unknown
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

/** The new tail after the page at `offset`, which continues the old one from `anchor` on. */
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
  // After a short page the rows before the anchor are assumed to keep their order.
  const anchorKey = keys[anchor.index];
  const before = anchorKey === undefined ? [] : tail.keys.slice(0, tail.keys.lastIndexOf(anchorKey));
  return { keys: [...before, ...keys.slice(Math.max(0, anchor.index))].slice(-size), end };
}

// Whether a list is sorted by id or creation time, which never change. Rows of such a list cannot move: if the value
// ranges of its pages overlap, they contain every record that existed throughout the walk, whatever was created or
// removed meanwhile.

/** Fewer rows could be sorted by chance. */
const LEAST_ROWS = 8;

/** One way in which the list may be sorted. Values are compared as text, since any fixed order will do. */
class Sorting {
  readonly #valueOf: (record: ScannedRecord) => string | undefined;
  readonly #compare: (a: string, b: string) => number;
  /** Whether no two records share a value. */
  readonly #isUnique: boolean;
  /** 1 = ascending, -1 = descending, 0 = not seen yet. */
  #direction = 0;
  #isBroken = false;
  #rows = 0;
  /** Every record with a value before this one has been listed, if it existed throughout the walk. */
  #reached: string | null = null;

  constructor(
    valueOf: (record: ScannedRecord) => string | undefined,
    compare: (a: string, b: string) => number,
    isUnique: boolean,
  ) {
    this.#valueOf = valueOf;
    this.#compare = compare;
    this.#isUnique = isUnique;
  }

  get direction(): number {
    return this.#isBroken || this.#rows < LEAST_ROWS ? 0 : this.#direction;
  }

  /**
   * True if the page begins at or before the value reached, or strictly before it if records may share a value: those
   * can be listed in any order.
   */
  reaches(records: readonly ScannedRecord[]): boolean {
    const first = records[0] === undefined ? undefined : this.#valueOf(records[0]);
    if (this.#isBroken || this.#direction === 0 || first === undefined || this.#reached === null)
      return false;
    const place = this.#compare(first, this.#reached) * this.#direction;
    return this.#isUnique ? place <= 0 : place < 0;
  }

  /** Adds the first page of the list, or one that continues from the value reached. */
  take(records: readonly ScannedRecord[], isHead: boolean): void {
    if (this.#isBroken) return;
    if (!isHead && !this.reaches(records)) {
      this.#isBroken = true;
      return;
    }
    const isSorted = this.check(records);
    const last = records.at(-1);
    const value = last === undefined ? undefined : this.#valueOf(last);
    if (!isSorted || value === undefined) return;
    this.#rows += records.length;
    if (this.#reached === null || this.#compare(value, this.#reached) * this.#direction > 0)
      this.#reached = copyText(value);
  }

  /** Whether the rows of a page are sorted, wherever the page is in the list. */
  check(records: readonly ScannedRecord[]): boolean {
    let previous: string | undefined;
    for (const record of records) {
      const value = this.#valueOf(record);
      if (value === undefined) {
        this.#isBroken = true;
        return false;
      }
      const step = previous === undefined ? 0 : Math.sign(this.#compare(value, previous));
      if (step !== 0 && this.#direction === 0) this.#direction = step;
      if (step !== 0 && step !== this.#direction) {
        this.#isBroken = true;
        return false;
      }
      previous = value;
    }
    return true;
  }
}

export class ListOrder {
  readonly #sortings = [
    new Sorting((record) => record.createdAtText, compareText, false),
    new Sorting((record) => record.id, compareText, true),
    new Sorting((record) => (endsInDigit(record.id) ? record.id : undefined), compareNumbered, true),
  ];

  /** True while all pages so far are sorted by a value that never changes. */
  get isProven(): boolean {
    return this.#sortings.some(({ direction }) => direction !== 0);
  }

  /** True if, by this order, new records are added at the head. */
  get growsAtHead(): boolean {
    return this.#sortings[0]?.direction === -1 || this.#sortings[2]?.direction === -1;
  }

  /** Whether, by its values, the page continues the part read so far without a gap. */
  reaches(records: readonly ScannedRecord[]): boolean {
    return this.#sortings.some((sorting) => sorting.reaches(records));
  }

  /** Adds the first page of the list, or one that continues the part read so far. */
  take(records: readonly ScannedRecord[], isHead: boolean): void {
    for (const sorting of this.#sortings) sorting.take(records, isHead);
  }

  /** Checks the head when it is read again: a row that has moved there is out of order. */
  check(records: readonly ScannedRecord[]): void {
    for (const sorting of this.#sortings) sorting.check(records);
  }
}

function endsInDigit(id: string | undefined): id is string {
  const code = id?.charCodeAt(id.length - 1) ?? 0;
  return code >= 0x30 && code <= 0x39;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Compares numbers of any length by value, and names that end in a number first by their text, then by that number. */
function compareNumbered(a: string, b: string): number {
  const first = numberStart(a);
  const second = numberStart(b);
  const name = compareText(a.slice(0, first), b.slice(0, second));
  if (name !== 0) return name;
  return a.length - first - (b.length - second) || compareText(a, b);
}

function numberStart(id: string): number {
  let at = id.length;
  while (at > 0 && id.charCodeAt(at - 1) >= 0x30 && id.charCodeAt(at - 1) <= 0x39) at -= 1;
  return at;
}

/**
 * Checks by a top-level timestamp that a feed is sorted newest first: only then does a known page imply that everything
 * after it is known too. Pages overlap and may shift, so a page is compared with the start of the previous one.
 */
export class HeadOrder {
  readonly #member: string | null;
  #isOrdered: boolean;
  #earlierStart = Number.POSITIVE_INFINITY;

  /** @param member the timestamp; null if the kind has none, and then no order can be relied on */
  constructor(member: string | null) {
    this.#member = member;
    this.#isOrdered = member !== null;
  }

  /** Adds the next page. False from the first record on that has no timestamp, or a newer one than a record before it. */
  take(records: readonly ScannedRecord[]): boolean {
    if (!this.#isOrdered || this.#member === null) return false;
    let previous = this.#earlierStart;
    for (const [index, { text }] of records.entries()) {
      const at = timeOf(text, this.#member);
      if (at === null || at > previous) {
        this.#isOrdered = false;
        return false;
      }
      previous = at;
      if (index === 0) this.#earlierStart = at;
    }
    return true;
  }
}

/** Epoch milliseconds; null if the record has no timestamp, which leaves the order unknown. */
function timeOf(text: string, member: string): number | null {
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    const value = Object.hasOwn(body, member) ? body[member] : undefined;
    const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
    return Number.isNaN(at) ? null : at;
  } catch (error) {
    // The sink decides whether the record can be stored.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
