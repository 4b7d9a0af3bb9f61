/**
 * The stage: a second SQLite file in which a run collects what it reads, so that memory does not grow with a collection.
 * It is attached to the writer's connection as `stage`, created for each run and deleted after it. It is worthless once
 * the process has ended, so its journal is in memory and nothing is synced. Its statements are SQL as text: the query
 * builder cannot name tables of an attached file.
 */
import { rmSync } from 'node:fs';
import { type Connection, createPrivateFile } from './database.ts';

/** What a record is to the run; `fresh`: the mirror never had it; `returned`: it was removed earlier. */
export type StagedAction = 'fresh' | 'returned' | 'changed' | 'rewritten' | 'volatile';
/** The verdict on a current record that the run did not see. */
export type Verdict = 'keep' | 'remove' | 'hold';

const PAGE_SIZE = 8192;
const CACHE_KIB = 8000;

const TABLES = `
  CREATE TABLE stage.records (      -- what is not as the mirror has it, one row for each record
    collection INTEGER NOT NULL,
    remote_id TEXT NOT NULL,
    record INTEGER,                 -- its number in the mirror; NULL for a fresh one
    action TEXT NOT NULL,           -- StagedAction
    pass INTEGER NOT NULL,          -- the last pass that saw it
    hash BLOB NOT NULL,
    volatile INTEGER,
    body TEXT NOT NULL);
  CREATE UNIQUE INDEX stage.records_key ON records (collection, remote_id);
  CREATE INDEX stage.records_known ON records (record) WHERE record IS NOT NULL;
  CREATE TABLE stage.verdicts (     -- current records that no pass saw
    record INTEGER PRIMARY KEY,
    collection INTEGER NOT NULL,
    verdict TEXT NOT NULL,          -- Verdict
    held_at TEXT);                  -- since when it waits, ISO 8601; NULL: since the run's end
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
 * For each record that the mirror has or had, the last pass of the run that saw it. In memory, four bytes for each record number:
 * as rows, they would be the only thing that a run without changes writes. In SQL: `wasSeen`.
 */
export class SeenRecords {
  #passes = new Uint32Array(1024);

  /** Undefined if no pass saw the record. */
  passOf(record: number): number | undefined {
    const pass = this.#passes[record];
    return pass === 0 ? undefined : pass;
  }

  /** @param pass from 1 on */
  mark(record: number, pass: number): void {
    if (record >= this.#passes.length) {
      const larger = new Uint32Array(Math.max(record + 1, this.#passes.length * 2));
      larger.set(this.#passes);
      this.#passes = larger;
    }
    this.#passes[record] = pass;
  }
}

const PASS_OF = 'tidemark_pass_of';

/** SQL that is true if a pass of this run saw the record whose number is in this column. */
export function wasSeen(record: string): string {
  return `(${PASS_OF}(${record}) IS NOT NULL)`;
}

/** SQL that is true if this run removes the current record in this column: that is the verdict, and no later pass saw it. */
export function willBeRemoved(record: string): string {
  return `(EXISTS (SELECT 1 FROM stage.verdicts v WHERE v.record = ${record} AND v.verdict = 'remove')
    AND NOT ${wasSeen(record)})`;
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
  // Not OFF: better-sqlite3 opens files in SQLite's defensive mode, which ignores OFF and keeps a journal on disk.
  const journal = writer.pragma('stage.journal_mode = MEMORY', { simple: true });
  if (journal !== 'memory') throw new Error(`the stage has the journal mode ${String(journal)}`);
  writer.exec(TABLES);
  const seen = new SeenRecords();
  writer.function(PASS_OF, (record: number) => seen.passOf(record) ?? null);
  return seen;
}

export function isStageAttached(writer: Connection): boolean {
  const attached = writer.pragma('database_list') as { name: string }[];
  return attached.some(({ name }) => name === 'stage');
}

/** Detaches the stage; `removeStage` deletes its file. */
export function detachStage(writer: Connection): void {
  writer.exec('DETACH stage');
  writer.function(PASS_OF, () => null);
}

// The prepared statements behind staging: they run once per record, a million times in a run.

/** What a comparison needs of a record in the mirror. */
export interface KnownRecord {
  readonly record: number;
  readonly run: number;
  /** Null for a removed record, as is its body. */
  readonly hash: Buffer | null;
  readonly body: string | null;
}

interface StagedRow {
  readonly action: StagedAction;
  readonly pass: number;
  readonly body: string;
}

export type StageStatements = ReturnType<typeof prepareStageStatements>;

export function prepareStageStatements(writer: Connection) {
  const isMatch = 'collection = ? AND remote_id = ? AND hash = ? AND volatile IS ?';
  return {
    /** The number of the current record with this key and content. */
    matching: writer
      .prepare<[number, string, Buffer, number | null], number>(
        `SELECT record FROM main.records WHERE ${isMatch}`,
      )
      .pluck(),
    /** The same, if its current revision is of that run or a later one. */
    matchingSince: writer
      .prepare<[number, string, Buffer, number | null, number], number>(
        `SELECT record FROM main.records WHERE ${isMatch} AND run >= ?`,
      )
      .pluck(),
    /** The record with this key, current or removed. */
    known: writer.prepare<[number, string], KnownRecord>(
      `SELECT record, run, hash, body FROM main.records WHERE collection = ? AND remote_id = ?`,
    ),
    /** Whether SQLite accepts the text as JSON: each column of a kind's view depends on that. */
    isJson: writer.prepare<[string], number>(`SELECT json_valid(?)`).pluck(),
    /** Does nothing if a record with this key is staged already. */
    stage: writer.prepare<
      [number, string, number | null, StagedAction, number, Buffer, number | null, string]
    >(
      `INSERT OR IGNORE INTO stage.records (collection, remote_id, record, action, pass, hash, volatile, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    staged: writer.prepare<[number, string], StagedRow>(
      `SELECT action, pass, body FROM stage.records WHERE collection = ? AND remote_id = ?`,
    ),
    restage: writer.prepare<[number, Buffer, number | null, string, number, string]>(
      `UPDATE stage.records SET pass = ?, hash = ?, volatile = ?, body = ? WHERE collection = ? AND remote_id = ?`,
    ),
    unstage: writer.prepare<[number, string]>(
      `DELETE FROM stage.records WHERE collection = ? AND remote_id = ?`,
    ),
    /** Ids of staged records that the mirror does not have now, and that no pass from this one on saw. */
    addedBefore: writer
      .prepare<[number, number], string>(
        `SELECT remote_id FROM stage.records
         WHERE collection = ? AND pass < ? AND action IN ('fresh', 'returned')`,
      )
      .pluck(),
    putVerdict: writer.prepare<[number, number, Verdict]>(
      `INSERT OR REPLACE INTO stage.verdicts VALUES (?, ?, ?, NULL)`,
    ),
    /** The current record with this key, if the run removes it. */
    going: writer
      .prepare<[number, string], number>(
        `SELECT r.record FROM main.records r WHERE r.collection = ? AND r.remote_id = ? AND ${willBeRemoved('r.record')}`,
      )
      .pluck(),
    putChecked: writer.prepare<[number, string]>(`INSERT OR IGNORE INTO stage.checked VALUES (?, ?)`),
  };
}
