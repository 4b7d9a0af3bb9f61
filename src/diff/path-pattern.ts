/** Patterns over JSON pointers, for rules: `*` is one segment, `**` any number of them. */
import { type FieldChange, placeOf } from './compare.ts';
import { splitPointer } from '../core/json-pointer.ts';

/** Whether the pattern matches a pointer or a place above it. */
type PathPattern = (path: string) => boolean;

/**
 * A pattern is a JSON pointer in which a segment `*` stands for any one segment and `**` for any number of them, none
 * included. It matches the places it names and everything below them, never a place above: a rule for
 * `/destination/config` does not match a change that replaces `/destination`.
 * @throws RangeError when the text is not a pointer
 */
export function pathPattern(pattern: string): PathPattern {
  const parts = splitPointer(pattern);
  return (path) => matches(parts, splitPointer(path));
}

/** Asked for a change's place; `byIndex` is called for a pattern that matches only by an element's present index. */
export interface FieldPattern {
  readonly matches: (field: Pick<FieldChange, 'path' | 'place'>) => boolean;
  readonly byIndex: (field: Pick<FieldChange, 'path' | 'place'>) => boolean;
}

/**
 * A pattern over the places of changes: an element that is matched by its id is named by `[id=…]` or `*`. An index
 * never fits one, since another element may be there tomorrow.
 * @throws RangeError when the text is not a pointer
 */
export function fieldPattern(pattern: string): FieldPattern {
  const matchesPath = pathPattern(pattern);
  const matchesField: FieldPattern['matches'] = (field) => matchesPath(placeOf(field));
  return {
    matches: matchesField,
    byIndex: (field) => field.place !== undefined && matchesPath(field.path) && !matchesField(field),
  };
}

/** True where no segment of the pattern names anything: it fits every field, or every field so deep. */
export function isWidePattern(pattern: string): boolean {
  return splitPointer(pattern).every((part) => part === '*' || part === '**');
}

/** All positions of the pattern that can be reached are advanced together: no backtracking, whatever the pattern. */
function matches(parts: readonly string[], segments: readonly string[]): boolean {
  let positions = closure(parts, new Set([0]));
  for (const segment of segments) {
    if (positions.has(parts.length)) return true;
    const next = new Set<number>();
    for (const position of positions) {
      const part = parts[position];
      if (part === '**') next.add(position);
      else if (part === '*' || part === segment) next.add(position + 1);
    }
    positions = closure(parts, next);
  }
  return positions.has(parts.length);
}

/** Adds the positions behind each `**`, which may stand for nothing. */
function closure(parts: readonly string[], positions: Set<number>): Set<number> {
  for (const position of positions) if (parts[position] === '**') positions.add(position + 1);
  return positions;
}
