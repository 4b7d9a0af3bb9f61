/** What is wrong with a file that is too damaged to be opened as a mirror. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { formatInteger } from '../core/grouped.ts';
import { type Connection, connect, sqliteCode } from './database.ts';

/** Findings asked for: each can name a page of thousands. */
const FINDINGS = 20;
/** SQLite's file format, section 1.3: the database header, and where page size and number of pages stand in it. */
const HEADER = { bytes: 100, pageSizeAt: 16, pagesAt: 28 } as const;

/**
 * One line each, as SQLite says it, beginning with where in the file; that it was cut, where it is shorter than it says.
 * Nothing where its structure is sound.
 * @throws what opening the file throws, other than that it is damaged
 */
export function fileDamage(path: string): string[] {
  const cut = cutText(path);
  return [...(cut === null ? [] : [cut]), ...structureDamage(path)];
}

function structureDamage(path: string): string[] {
  let connection: Connection | null = null;
  try {
    connection = connect(path, { isReadonly: true });
    const rows = connection.prepare<[], string>(`PRAGMA integrity_check(${FINDINGS})`).pluck().all();
    return rows
      .flatMap((row) => row.split('\n'))
      .filter((line) => line !== 'ok' && line.trim() !== '' && !line.startsWith('***'));
  } catch (error) {
    if (sqliteCode(error)?.startsWith('SQLITE_CORRUPT') !== true) throw error;
    return [`its first pages, which say what is where, cannot be read (${(error as Error).message})`];
  } finally {
    connection?.close();
  }
}

/** The header counts what was checkpointed: later pages stand in the write-ahead log, and their count with them. */
function cutText(path: string): string | null {
  const file = openSync(path, 'r');
  try {
    const header = Buffer.alloc(HEADER.bytes);
    if (readSync(file, header, 0, HEADER.bytes, 0) < HEADER.bytes) return 'it ends within its header';
    const size = header.readUInt16BE(HEADER.pageSizeAt);
    const expected = (size === 1 ? 65_536 : size) * header.readUInt32BE(HEADER.pagesAt);
    const { size: found } = fstatSync(file);
    if (found >= expected) return null;
    return `it was cut: ${formatInteger(found)} bytes are there of ${formatInteger(expected)}`;
  } finally {
    closeSync(file);
  }
}
