/** Plain SQL on a mirror, with the library that stands behind `sqlite3` for everybody else. */
import Database from 'better-sqlite3';

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
