/** A JSON value as text, for ids that may be numbers, and names that may be anything. */
import { type JsonValue, isRawNumber } from '../core/json.ts';

/** Strings unchanged, numbers digit by digit, everything else as JSON; empty for undefined. */
export function valueText(value: JsonValue | undefined): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  return isRawNumber(value) ? value.rawJSON : JSON.stringify(value);
}
