/** What shape a list's answer has (wire-notes.md, Lists). Pure. */

/**
 * `envelope`: count, next, results, as documented. `uncounted`: with `next`, but without a count.
 * `results`: the records in an object, and neither. `array`: the records alone.
 */
export type ListShape = 'envelope' | 'uncounted' | 'results' | 'array';

/** The shape of an answer that was read as a list. */
export function listShapeOf(text: string): ListShape {
  const body: unknown = JSON.parse(text);
  if (Array.isArray(body) || typeof body !== 'object' || body === null) return 'array';
  const names = new Set(Object.keys(body));
  const tellsEnd = ['next', 'has_next', 'next_cursor'].some((name) => names.has(name));
  const tellsCount = ['count', 'total_count', 'total'].some((name) => names.has(name));
  if (tellsCount && tellsEnd) return 'envelope';
  return tellsEnd ? 'uncounted' : 'results';
}
