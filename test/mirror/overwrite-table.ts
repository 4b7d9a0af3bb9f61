/** A mirror that is damaged where opening it does not show it. */
import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';

/** Overwrites the first page of a table, which nobody has open: reading the table fails then, opening the file does not. */
export function overwriteTable(path: string, table: string): void {
  const file = new Database(path);
  file.pragma('wal_checkpoint(TRUNCATE)');
  const size = file.pragma('page_size', { simple: true }) as number;
  const root = file
    .prepare<[string], number>('SELECT rootpage FROM sqlite_master WHERE name = ?')
    .pluck()
    .get(table);
  file.close();
  if (root === undefined) throw new Error(`no table ${table}`);
  const bytes = readFileSync(path);
  bytes.fill(0xa5, (root - 1) * size, root * size);
  writeFileSync(path, bytes);
}
