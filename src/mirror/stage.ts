/**
 * The stage: a second SQLite file in which a run collects what it reads, so that memory never grows with a collection.
 * It is attached to the writer's connection as `stage`, created for each run and deleted after it. It is worthless once
 * the process has ended, so its journal is kept in memory and nothing is synced. What reads it is SQL as text: the query
 * builder has no name for tables of an attached file.
 */
import { rmSync } from 'node:fs';
import type { Kind } from '../catalog/kinds.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import { type Connection, createPrivateFile } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';

/** What happens to a record that the mirror knows. */
export const STAGED_ACTION = { changed: 2, rewritten: 4, volatile: 5, returned: 6 } as const;
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
    action INTEGER NOT NULL,        -- STAGED_ACTION
    hash BLOB NOT NULL,
    volatile INTEGER,
    body TEXT NOT NULL);
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

/** Deletes the stage of a run that has ended or was killed. */
export function removeStage(mirrorPath: string): void {
  rmSync(stagePath(mirrorPath), { force: true });
  rmSync(`${stagePath(mirrorPath)}-journal`, { force: true });
}

/**
 * The last walk of the run that saw each record which the mirror has or had. In memory, four bytes for each record number:
 * as rows these were all that a run without changes wrote. SQL asks by `wasSeen` and `walkOf`.
 */
export class SeenRecords {
  #walks = new Uint32Array(1024);

  /** Undefined if no walk saw the record. */
  walkOf(record: number): number | undefined {
    const walk = this.#walks[record];
    return walk === 0 ? undefined : walk;
  }

  /** @param walk from 1 on */
  mark(record: number, walk: number): void {
    if (record >= this.#walks.length) {
      const larger = new Uint32Array(Math.max(record + 1, this.#walks.length * 2));
      larger.set(this.#walks);
      this.#walks = larger;
    }
    this.#walks[record] = walk;
  }
}

const WALK_OF = 'tidemark_walk_of';

/** SQL for the number of the last walk that saw the record of this column; NULL if none did. */
function walkOf(record: string): string {
  return `${WALK_OF}(${record})`;
}

/** SQL that is true if a walk of this run saw the record of this column. */
export function wasSeen(record: string): string {
  return `(${walkOf(record)} IS NOT NULL)`;
}

/** Attaches an empty stage to the writer's connection. */
export function attachStage(writer: Connection, mirrorPath: string): SeenRecords {
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
  const seen = new SeenRecords();
  writer.function(WALK_OF, (record: number) => seen.walkOf(record) ?? null);
  return seen;
}

export function isStageAttached(writer: Connection): boolean {
  const attached = writer.pragma('database_list') as { name: string }[];
  return attached.some(({ name }) => name === 'stage');
}

/** Detaches the stage's file; `removeStage` deletes it. */
export function detachStage(writer: Connection): void {
  writer.exec('DETACH stage');
  writer.function(WALK_OF, () => null);
}

// What the stages of a run's collections share.

export interface StageContext {
  readonly writer: Connection;
  readonly path: string;
  readonly statements: StageStatements;
  readonly seen: SeenRecords;
  readonly shapes: RunShapes;
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** As in `RunOptions`. */
  readonly redact: ((kind: Kind, record: ScannedRecord) => ScannedRecord) | undefined;
  /** A number that no other walk of the run has. */
  readonly nextWalk: () => number;
  /** Likewise for new records. */
  readonly nextFresh: () => number;
  /** Throws once the run has ended, and when the stage is broken. */
  readonly check: () => void;
  /** Marks the stage as broken by a failed write: nothing of it may be published. */
  readonly breakStage: (cause: unknown) => void;
}

// The prepared statements behind staging: they run once per record, a million times in a run.

type ActionName = keyof typeof STAGED_ACTION;

export type StageStatements = ReturnType<typeof prepareStageStatements>;

export function prepareStageStatements(writer: Connection) {
  const current = perKind((kind) =>
    writer.prepare<[number, string], CurrentRow>(
      `SELECT k.record AS record, k.hash_start AS hashStart, t._run AS run, t.body AS body
       FROM record_keys k JOIN "${kind}" t ON t._record = k.record WHERE k.collection = ? AND k.remote_id = ?`,
    ),
  );
  const matchingSince = perKind((kind) =>
    writer
      .prepare<[number, string, Buffer, number | null, number], number>(
        `SELECT k.record FROM record_keys k JOIN "${kind}" t ON t._record = k.record
         WHERE k.collection = ? AND k.remote_id = ? AND k.hash_start = ? AND k.volatile IS ? AND t._run >= ?`,
      )
      .pluck(),
  );
  return {
    /** Number of the current record with this key and content. */
    matching: writer
      .prepare<[number, string, Buffer, number | null], number>(
        `SELECT record FROM record_keys WHERE collection = ? AND remote_id = ? AND hash_start = ? AND volatile IS ?`,
      )
      .pluck(),
    /** The same, of those whose current revision is of that run or a later one. */
    matchingSince,
    /** The current record with this key. */
    current,
    /** Number of the removed record with this key. */
    removed: writer
      .prepare<[number, string], number>(`SELECT record FROM removed WHERE collection = ? AND remote_id = ?`)
      .pluck(),
    /** Whether SQLite's own functions take the text as JSON: every generated column asks them. */
    isJson: writer.prepare<[string], number>(`SELECT json_valid(?)`).pluck(),
    addFreshKey: writer.prepare<[number, string, number, number, Buffer, number | null]>(
      `INSERT OR IGNORE INTO stage.fresh_keys (collection, remote_id, n, walk, hash, volatile) VALUES (?, ?, ?, ?, ?, ?)`,
    ),
    addFreshBody: writer.prepare<[number, string]>(`INSERT INTO stage.fresh_bodies VALUES (?, ?)`),
    fresh: writer.prepare<[number, string], { n: number; walk: number }>(
      `SELECT n, walk FROM stage.fresh_keys WHERE collection = ? AND remote_id = ?`,
    ),
    freshBody: writer.prepare<[number], string>(`SELECT body FROM stage.fresh_bodies WHERE n = ?`).pluck(),
    replaceFreshKey: writer.prepare<[number, Buffer, number | null, number, string]>(
      `UPDATE stage.fresh_keys SET walk = ?, hash = ?, volatile = ? WHERE collection = ? AND remote_id = ?`,
    ),
    replaceFreshBody: writer.prepare<[string, number]>(`UPDATE stage.fresh_bodies SET body = ? WHERE n = ?`),
    /** Ids of new records that no walk from this one on saw. */
    freshBefore: writer
      .prepare<[number, number], string>(
        `SELECT remote_id FROM stage.fresh_keys WHERE collection = ? AND walk < ?`,
      )
      .pluck(),
    dropFreshKey: writer.prepare<[number, string]>(
      `DELETE FROM stage.fresh_keys WHERE collection = ? AND remote_id = ?`,
    ),
    dropFreshBody: writer.prepare<[number]>(`DELETE FROM stage.fresh_bodies WHERE n = ?`),
    /** The same of records that an earlier run removed and this one read again. */
    returnedBefore: writer
      .prepare<[number, number], number>(
        `SELECT m.record FROM stage.moved m
         WHERE m.collection = ? AND m.action = ${STAGED_ACTION.returned} AND ${walkOf('m.record')} < ?`,
      )
      .pluck(),
    changedAction: writer
      .prepare<[number], number>(`SELECT action FROM stage.moved WHERE record = ?`)
      .pluck(),
    dropChanged: writer.prepare<[number]>(`DELETE FROM stage.moved WHERE record = ?`),
    putChanged: writer.prepare<[number, number, string, number, Buffer, number | null, string]>(
      `INSERT INTO stage.moved VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    putVerdict: writer.prepare<[number, number, number]>(
      `INSERT OR REPLACE INTO stage.verdicts VALUES (?, ?, ?)`,
    ),
    /** The current record with this key, where the run removes it. */
    going: writer
      .prepare<[number, string], number>(
        `SELECT k.record FROM record_keys k JOIN stage.verdicts v ON v.record = k.record AND v.verdict = ${VERDICT.remove}
         WHERE k.collection = ? AND k.remote_id = ? AND NOT ${wasSeen('k.record')}`,
      )
      .pluck(),
    putChecked: writer.prepare<[number, string]>(`INSERT OR IGNORE INTO stage.checked VALUES (?, ?)`),
    actionName: (action: number): ActionName => {
      const name = (Object.keys(STAGED_ACTION) as ActionName[]).find((key) => STAGED_ACTION[key] === action);
      if (name === undefined) throw new Error(`no staged action has the number ${action}`);
      return name;
    },
    actionNumber: (name: ActionName): number => STAGED_ACTION[name],
  };
}

/** Prepares a statement for a kind when it is first needed. */
export function perKind<T>(prepare: (kind: Kind) => T): (kind: Kind) => T {
  const prepared = new Map<Kind, T>();
  return (kind) => {
    const known = prepared.get(kind);
    if (known !== undefined) return known;
    const made = prepare(kind);
    prepared.set(kind, made);
    return made;
  };
}

/** A current record, as far as a comparison needs it. */
export interface CurrentRow {
  readonly record: number;
  /** The first bytes of its hash. */
  readonly hashStart: Buffer;
  readonly run: number;
  readonly body: string;
}
