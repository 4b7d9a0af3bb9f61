/** One change of one field as a line without markup. */
import type { FieldChange } from '../diff/compare.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { movedText } from './moved-text.ts';
import { pathText } from './sections.ts';
import { foldedValues } from './value-text.ts';

/** E.g. `/paused: false → true`; each side folded to `limit` characters. */
export function fieldLine(field: FieldChange, limit: number): string {
  if (isMaskedChange(field)) return `${pathText(field)}: ${MASKED_CHANGE}`;
  const moves = movedText(field);
  if (moves !== null) return `${pathText(field)}: ${moves}`;
  const [from, to] = foldedValues(field.from, field.to, limit);
  return `${pathText(field)}: ${from} → ${to}`;
}
