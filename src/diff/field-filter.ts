/** `--field /json/pointer`: only the changes at, below or above the named places. */
import { TidemarkError } from '../core/errors.ts';
import type { RecordChange } from './change.ts';
import { placeOf } from './compare.ts';
import { splitPointer } from '../core/json-pointer.ts';

/** Narrows a change to what the filter lets through; null when nothing is left of it. */
type FieldFilter = (change: RecordChange) => RecordChange | null;

/**
 * A filter for these pointers; without any, everything passes. A change above a named place passes as well: replacing
 * `/destination` changes `/destination/type`.
 * @throws TidemarkError `usage` when one is no RFC 6901 pointer
 */
export function fieldFilter(pointers: readonly string[]): FieldFilter {
  for (const pointer of pointers) {
    try {
      splitPointer(pointer);
    } catch (error) {
      throw new TidemarkError('usage', `not a JSON pointer: ${JSON.stringify(pointer)}`, {
        hint: 'write the field with a slash in front, for example --field /destination/config',
        cause: error,
      });
    }
  }
  if (pointers.length === 0) return (change) => change;
  return (change) => {
    // By the path as it is shown, or by the place that names elements by their ids.
    const fields = change.fields.filter((field) =>
      [field.path, placeOf(field)].some((path) => overlapsPointer(path, pointers)),
    );
    if (fields.length === 0) return null;
    return fields.length === change.fields.length ? change : { ...change, fields };
  };
}

/** True for a path at, below or above one of the pointers. */
export function overlapsPointer(path: string, pointers: readonly string[]): boolean {
  return pointers.some((pointer) => isPointerWithin(path, pointer) || isPointerWithin(pointer, path));
}

/** True for a pointer at or below another one. */
export function isPointerWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(`${outer}/`);
}
