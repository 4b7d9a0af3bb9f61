/** Plain SQL on a mirror, with the library that stands behind `sqlite3` for everybody else. */
import Database from 'better-sqlite3';
import type { Block } from './markdown.ts';
import { firstMisfit } from './script.ts';

export interface Answer {
  readonly columns: readonly string[];
  /** Cells joined by ` | `; NULL as nothing. */
  readonly rows: readonly string[];
}

export function openMirrorToRead(path: string, sql: string): Answer {
  const database = new Database(path, { readonly: true });
  try {
    const statement = database.prepare(sql).safeIntegers();
    return {
      columns: statement.columns().map(({ name }) => name),
      rows: statement
        .raw()
        .all()
        .map((row) =>
          (row as (string | number | bigint | null)[])
            .map((cell) => (cell === null ? '' : String(cell)))
            .join(' | '),
        ),
    };
  } finally {
    database.close();
  }
}

/** @throws Error where the answer is not as the table below the block shows it; `…` stands for any cells or rows */
export function checkTable({ line, table }: Block, { columns, rows }: Answer): void {
  if (table === null) throw new Error(`line ${line}: the answer is missing: a table below the query`);
  const [header = [], ...shown] = table;
  if (header.join(' | ') !== columns.join(' | '))
    throw new Error(`line ${line}: the columns are ${columns.join(' | ')}`);
  const expected = shown.map((row) =>
    row.every((cell) => cell === '…' || cell === '') ? '…' : row.join(' | '),
  );
  const misfit = firstMisfit(expected, rows);
  if (misfit !== null)
    throw new Error(
      `line ${line}: no row like: ${expected[misfit] ?? '(the end)'}\nbut:\n${rows.map((row) => `| ${row} |`).join('\n')}`,
    );
}
