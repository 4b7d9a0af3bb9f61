/** `--field` of `drift accept` and `drift unaccept`: a pointer as reports show it, by index or by `[id=…]`, or one above. */
import type { JsonValue } from '../core/json.ts';
import { elementSegment, isElementSegment } from '../diff/elements.ts';
import { isPointerWithin } from '../diff/field-filter.ts';
import { pointerTo, resolvePointer, splitPointer } from '../diff/pointer.ts';

/** True for a place at or below one of the pointers, by any of the names that the place goes by. */
export function isAskedFor(names: readonly string[], pointers: readonly string[] | undefined): boolean {
  return (
    pointers === undefined || pointers.some((pointer) => names.some((name) => isPointerWithin(name, pointer)))
  );
}

/**
 * The place by the indexes at which its elements stand in a body, as `drift accept` takes them; null where one of them
 * stands nowhere in it.
 */
export function placeByIndex(place: string, body: JsonValue): string | null {
  const segments: string[] = [];
  for (const segment of splitPointer(place)) {
    const list = isElementSegment(segment) ? resolvePointer(body, pointerTo(segments)) : undefined;
    if (!Array.isArray(list)) {
      segments.push(segment);
      continue;
    }
    const index = list.findIndex((element) => elementSegment(element) === segment);
    if (index === -1) return null;
    segments.push(String(index));
  }
  return pointerTo(segments);
}
