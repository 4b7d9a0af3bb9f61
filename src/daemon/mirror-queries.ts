/**
 * Questions in SQL to the mirror, where its own methods would read more than a page or a scrape needs. Values are written
 * as numbers or as hexadecimal text, so that none of them can be anything but a value.
 */
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Mirror } from '../mirror/mirror.ts';

type SqlValue = string | number | null;

/** The rows as objects by column name. */
export function selectRows<Row extends Record<keyof Row, SqlValue>>(
  mirror: Mirror,
  statement: string,
): Row[] {
  const { columns, rows } = mirror.query(statement);
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])) as Row);
}

/** A text as an SQL expression, whatever it holds. */
export function sqlText(text: string): string {
  return `CAST(x'${Buffer.from(text.toWellFormed()).toString('hex')}' AS TEXT)`;
}

/** A whole number as an SQL literal. @throws RangeError for anything else */
export function sqlNumber(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number: ${value}`);
  return String(value);
}

/** The kind of a row; null for one that a newer version wrote and this one does not know. */
export function kindOf(text: string): Kind | null {
  return isKind(text) ? text : null;
}
