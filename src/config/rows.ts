/** The options table as a flat list, with the environment variable of each row. */
import type { MapOf, Option, OptionNode, Section } from './option.ts';

export interface OptionRow {
  /** Keys that lead to it; `[]` stands for every element of a list. */
  readonly keys: readonly string[];
  /** E.g. `sources[].rate.perMinute`. */
  readonly text: string;
  /** E.g. `TIDEMARK_RATE_PER_MINUTE`. */
  readonly variable: string;
  /** True for options of a source: their variables define the one source that there is. */
  readonly isOfSource: boolean;
  readonly node: Option<unknown> | MapOf;
}

/** Every row of a table in its order; what is below a map (`definitions`) is one row. */
export function rowsOf(table: Section, keys: readonly string[] = []): OptionRow[] {
  return Object.entries(table.options).flatMap(([name, node]) => rowsBelow(node, [...keys, name]));
}

function rowsBelow(node: OptionNode, keys: readonly string[]): OptionRow[] {
  if (node.node === 'section') return rowsOf(node, keys);
  if (node.node === 'list') return rowsOf(node.of, [...keys, '[]']);
  const isOfSource = keys[0] === 'sources';
  return [
    {
      keys,
      text: keys.join('.').replaceAll('.[]', '[]'),
      variable: variableOf(isOfSource ? keys.slice(2) : keys),
      isOfSource,
      node,
    },
  ];
}

/** `['rate', 'perMinute']` → `TIDEMARK_RATE_PER_MINUTE` (design.md, Configuration). */
function variableOf(keys: readonly string[]): string {
  return `TIDEMARK_${keys.map((key) => key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()).join('_')}`;
}
