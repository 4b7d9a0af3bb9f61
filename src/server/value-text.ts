/** A JSON value where text is wanted: ids that may be numbers, names that may be anything. */
import { type JsonValue, isRawNumber } from '../core/json.ts';

/** Strings as they are, numbers digit by digit, everything else as JSON; empty for an absent value. */
export function valueText(value: JsonValue | undefined): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value;
  return isRawNumber(value) ? value.rawJSON : JSON.stringify(value);
}
