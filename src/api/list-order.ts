/**
 * Whether a list is sorted by ids or creation times, which never change. Rows of such a list cannot move, so pages whose
 * ranges of values overlap have shown every record that existed during the walk, whatever was created or removed
 * meanwhile (design.md, The sync: the walk). Pure.
 */
import type { ScannedRecord } from '../core/json-scan.ts';

/** Fewer rows than this may be sorted by chance. */
const LEAST_ROWS = 8;

/** One way in which the list may be sorted. Values are compared as text: any fixed order suffices. */
class Sorting {
  readonly #valueOf: (record: ScannedRecord) => string | undefined;
  readonly #compare: (a: string, b: string) => number;
  /** Whether no two records share a value. */
  readonly #isUnique: boolean;
  /** 1 = ascending, -1 = descending, 0 = not seen yet. */
  #direction = 0;
  #isBroken = false;
  #rows = 0;
  /** Every record with a value before this one was shown, if it existed all the time. */
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
   * True where the page begins at or before the value reached; strictly before it where records may share a value, since
   * those come in any order.
   */
  reaches(records: readonly ScannedRecord[]): boolean {
    const first = records[0] === undefined ? undefined : this.#valueOf(records[0]);
    if (this.#isBroken || this.#direction === 0 || first === undefined || this.#reached === null)
      return false;
    const place = this.#compare(first, this.#reached) * this.#direction;
    return this.#isUnique ? place <= 0 : place < 0;
  }

  /** Takes the first page of the list, or one that continues from the value reached. */
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
      this.#reached = value;
  }

  /** Checks that the rows of a page are sorted, wherever it is in the list. */
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

  /** True while every page so far shows the list sorted by something that does not change. */
  get isProven(): boolean {
    return this.#sortings.some(({ direction }) => direction !== 0);
  }

  /** True where new records come at the head, by the order. */
  get growsAtHead(): boolean {
    return this.#sortings[0]?.direction === -1 || this.#sortings[2]?.direction === -1;
  }

  /** Whether the page continues from what was read without a gap, by its values. */
  reaches(records: readonly ScannedRecord[]): boolean {
    return this.#sortings.some((sorting) => sorting.reaches(records));
  }

  /** Takes the first page of the list, or one that continues from what was read. */
  take(records: readonly ScannedRecord[], isHead: boolean): void {
    for (const sorting of this.#sortings) sorting.take(records, isHead);
  }

  /** Checks the head when it is read again: a row that moved there is out of order. */
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

/** Compares numbers of any length by value, and names that end in a number by the text before it, then the number. */
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
