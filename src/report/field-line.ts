/** One change of one field as a line without markup. */
import { plural } from '../core/wording.ts';
import type { FieldChange } from '../diff/compare.ts';
import { elementSegment } from '../diff/elements.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { pathText, nameText } from './sections.ts';
import { foldedValues } from './value-text.ts';

/** E.g. `/paused: false → true`; each side folded to `limit` characters. */
export function fieldLine(field: FieldChange, limit: number): string {
  if (isMaskedChange(field)) return `${pathText(field)}: ${MASKED_CHANGE}`;
  const moves = movedText(field);
  if (moves !== null) return `${pathText(field)}: ${moves}`;
  const [from, to] = foldedValues(field.from, field.to, limit);
  return `${pathText(field)}: ${from} → ${to}`;
}

// Moved elements of an array: listed one by one, so that readers need not compare two arrays.

const MOVES_SHOWN = 10;

/**
 * E.g. `[id=1] moved 0 → 3, [id=4] moved 2 → 0`, indexes of FROM and TO; null for a change of another sort, and where the
 * array itself is masked. Ids are read from the value that is shown: masked there, they are masked here.
 */
export function movedText(field: FieldChange): string | null {
  const { moved = [], to } = field;
  if (moved.length === 0 || !Array.isArray(to) || isMaskedChange(field)) return null;
  const moves = moved
    .slice(0, MOVES_SHOWN)
    .map((each) => `${nameText(elementSegment(to[each.to]))} moved ${each.from} → ${each.to}`);
  const more = moved.length - moves.length;
  return `${moves.join(', ')}${more > 0 ? `, and ${plural(more, 'more move')}` : ''}`;
}
