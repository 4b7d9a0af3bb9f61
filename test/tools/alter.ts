/** Alters a mirror's file past Tidemark, as somebody with a SQLite shell would: foreign keys are not enforced there. */
import Database from 'better-sqlite3';
import { expect } from 'vitest';

/** Runs statements. */
export function alterFile(path: string, sql: string): void {
  const file = new Database(path);
  file.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
  file.close();
}

/** Runs one statement that has to change just one row. */
export function alterRow(path: string, sql: string, ...values: readonly unknown[]): void {
  const file = new Database(path);
  file.pragma('foreign_keys = OFF');
  const { changes } = file.prepare(sql).run(...values);
  file.close();
  expect(changes, sql).toBe(1);
}
