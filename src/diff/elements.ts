/** Matches the elements of two arrays of objects with ids (design.md, Comparison). */
import { type JsonObject, type JsonValue, getOwn, isJsonObject, isRawNumber } from '../core/json.ts';
import { canonicalText, canonicalNumber, numberText } from './canonical.ts';

/** An element of both sides whose position among the common ones differs: its index in FROM and in TO. */
export interface MovedElement {
  readonly from: number;
  readonly to: number;
}

interface ElementPairing {
  /** Elements that both sides have, in the order of TO. */
  readonly matched: readonly { readonly fromIndex: number; readonly toIndex: number }[];
  /** Indexes in FROM of elements that TO lacks, ascending. */
  readonly removed: readonly number[];
  /** Indexes in TO of elements that FROM lacks, ascending. */
  readonly added: readonly number[];
  /** The fewest matched elements without which the rest is in the same order on both sides; in the order of TO. */
  readonly moved: readonly MovedElement[];
}

/**
 * Pairs the elements of two arrays by `id`. Null if an element is not an object, has no string or number as `id`, or shares it with
 * another one of its side; also for two empty arrays.
 */
export function pairElements(from: readonly JsonValue[], to: readonly JsonValue[]): ElementPairing | null {
  if (from.length === 0 && to.length === 0) return null;
  const fromIndexes = indexById(from);
  const toIndexes = indexById(to);
  if (fromIndexes === null || toIndexes === null) return null;
  const matched: { fromIndex: number; toIndex: number }[] = [];
  const added: number[] = [];
  for (const [id, toIndex] of toIndexes) {
    const fromIndex = fromIndexes.get(id);
    if (fromIndex === undefined) {
      added.push(toIndex);
      continue;
    }
    matched.push({ fromIndex, toIndex });
  }
  const removed = [...fromIndexes].filter(([id]) => !toIndexes.has(id)).map(([, index]) => index);
  const staying = longestRise(matched.map(({ fromIndex }) => fromIndex));
  const moved = matched.flatMap(({ fromIndex, toIndex }, index) =>
    staying.has(index) ? [] : [{ from: fromIndex, to: toIndex }],
  );
  return { matched, removed, added, moved };
}

/** Positions of a longest rising subsequence; the values are distinct. Patience sorting: n log n. */
function longestRise(values: readonly number[]): ReadonlySet<number> {
  // For each length, the position at which a rising sequence of that length has the smallest end; for each position, the one before it.
  const ends: number[] = [];
  const before: (number | undefined)[] = [];
  for (const [position, value] of values.entries()) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((values[ends[middle] ?? 0] ?? 0) < value) low = middle + 1;
      else high = middle;
    }
    before[position] = ends[low - 1];
    ends[low] = position;
  }
  const rise = new Set<number>();
  for (let at = ends.at(-1); at !== undefined; at = before[at]) rise.add(at);
  return rise;
}

function indexById(elements: readonly JsonValue[]): Map<string, number> | null {
  const indexes = new Map<string, number>();
  for (const [index, element] of elements.entries()) {
    const id = isJsonObject(element) ? elementId(element) : undefined;
    if (id === undefined || indexes.has(id)) return null;
    indexes.set(id, index);
  }
  return indexes;
}

/** The string "7" and the number 7 are two ids. */
function elementId(element: JsonObject): string | undefined {
  const id = getOwn(element, 'id');
  if (typeof id === 'string') return `s${id}`;
  if (typeof id === 'number' || isRawNumber(id)) return `n${canonicalNumber(numberText(id))}`;
  return undefined;
}

/**
 * The path segment that names an element by its id instead of its index: `[id=alice]`. A text that looks like a number, or begins
 * with a quote, is written in quotes, so that no two ids share a segment.
 */
export function elementSegment(element: JsonValue | undefined): string {
  const id = element !== undefined && isJsonObject(element) ? getOwn(element, 'id') : undefined;
  if (typeof id === 'number' || isRawNumber(id))
    return `[id=${plainNumber(canonicalNumber(numberText(id)))}]`;
  const text = typeof id === 'string' ? id : '';
  return `[id=${/^"|^-?\d+(?:e-?\d+)?$/.test(text) ? JSON.stringify(text) : text}]`;
}

/** The id that such a segment names, as JSON text. */
export function elementIdText(segment: string): string {
  const text = segment.slice('[id='.length, -1);
  return /^"|^-?\d+(?:e-?\d+)?$/.test(text) ? text : JSON.stringify(text);
}

/** `7e0` as `7`, as users write it in rules. */
function plainNumber(canonical: string): string {
  const whole = /^(-?\d+)e(\d{1,2})$/.exec(canonical);
  return whole === null ? canonical : `${whole[1] ?? ''}${'0'.repeat(Number(whole[2]))}`;
}

/** True for a segment that `elementSegment` could have made. */
export function isElementSegment(segment: string): boolean {
  return segment.startsWith('[id=') && segment.endsWith(']');
}

/** True if both arrays have the same values the same number of times, in any order. */
export function equalUnordered(from: readonly JsonValue[], to: readonly JsonValue[]): boolean {
  if (from.length !== to.length) return false;
  const toTexts = to.map(canonicalText).sort();
  return from
    .map(canonicalText)
    .sort()
    .every((text, index) => text === toTexts[index]);
}
