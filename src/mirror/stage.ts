/**
 * The stage: a second SQLite file in which a run collects what it reads, so that memory never grows with a collection.
 * It is attached to the writer's connection as `stage`, made anew for each run and deleted after it; nothing in it
 * matters once the process has died, so its journal is kept in memory and nothing is synced.
 */
import { rmSync } from 'node:fs';
import { type Connection, createPrivateFile } from './database.ts';

/** What happens to a record that the mirror knows. */
export const ACTION = { changed: 2, rewritten: 4, volatile: 5, returned: 6 } as const;
/** The verdict on a current record that the run did not see. */
export const VERDICT = { keep: 1, remove: 2, hold: 3 } as const;

const PAGE_SIZE = 8192;
const CACHE_KIB = 8000;

const TABLES = `
  CREATE TABLE stage.fresh_keys (   -- records that the mirror never had
    collection INTEGER NOT NULL,
    remote_id TEXT NOT NULL,
    n INTEGER NOT NULL,             -- order of arrival
    walk INTEGER NOT NULL,          -- the last walk that saw it
    hash BLOB NOT NULL,
    volatile INTEGER,
    PRIMARY KEY (collection, remote_id)) WITHOUT ROWID;
  CREATE TABLE stage.fresh_bodies (
    n INTEGER PRIMARY KEY,
    body TEXT NOT NULL);
  CREATE TABLE stage.moved (        -- records that the mirror has or had, and that are not as they were
    record INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    remote_id TEXT NOT NULL,
    action INTEGER NOT NULL,        -- ACTION
    hash BLOB NOT NULL,
    volatile INTEGER,
    body TEXT NOT NULL);
  CREATE TABLE stage.seen (         -- records that the mirror has or had, and that a walk saw
    record INTEGER PRIMARY KEY,
    walk INTEGER NOT NULL);         -- the last walk that saw it
  CREATE TABLE stage.verdicts (     -- current records that no walk saw
    record INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    verdict INTEGER NOT NULL);      -- VERDICT
  CREATE TABLE stage.checked (      -- parent records that were asked for one by one
    collection INTEGER NOT NULL,
    remote_id TEXT NOT NULL,
    PRIMARY KEY (collection, remote_id)) WITHOUT ROWID;`;

export function stagePath(mirrorPath: string): string {
  return `${mirrorPath}-stage`;
}

/** Deletes the stage of a run that is over, or has died. */
export function removeStage(mirrorPath: string): void {
  rmSync(stagePath(mirrorPath), { force: true });
  rmSync(`${stagePath(mirrorPath)}-journal`, { force: true });
}

/** Attaches an empty stage to the writer's connection. */
export function attachStage(writer: Connection, mirrorPath: string): void {
  removeStage(mirrorPath);
  createPrivateFile(stagePath(mirrorPath));
  writer.prepare('ATTACH ? AS stage').run(stagePath(mirrorPath));
  for (const setting of [
    `page_size = ${PAGE_SIZE}`,
    'synchronous = OFF',
    `cache_size = -${CACHE_KIB}`,
    'locking_mode = EXCLUSIVE',
  ]) {
    writer.pragma(`stage.${setting}`);
  }
  // Not OFF: SQLite ignores that in its defensive mode, in which better-sqlite3 opens files, and keeps a journal on disk.
  const journal = writer.pragma('stage.journal_mode = MEMORY', { simple: true });
  if (journal !== 'memory') throw new Error(`the stage has the journal mode ${String(journal)}`);
  writer.exec(TABLES);
}

export function isStageAttached(writer: Connection): boolean {
  const attached = writer.pragma('database_list') as { name: string }[];
  return attached.some(({ name }) => name === 'stage');
}

/** Lets go of the stage's file; `removeStage` deletes it. */
export function detachStage(writer: Connection): void {
  writer.exec('DETACH stage');
}
