/** The prepared statements behind staging: they run once per record, a million times in a run. */
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import type { CurrentRow } from './classify-record.ts';
import { ACTION, VERDICT } from './stage.ts';

type ActionName = keyof typeof ACTION;

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
    see: writer.prepare<[number, number]>(`INSERT OR IGNORE INTO stage.seen VALUES (?, ?)`),
    seeAgain: writer.prepare<[number, number]>(`INSERT OR REPLACE INTO stage.seen VALUES (?, ?)`),
    seenWalk: writer.prepare<[number], number>(`SELECT walk FROM stage.seen WHERE record = ?`).pluck(),
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
    movedAction: writer.prepare<[number], number>(`SELECT action FROM stage.moved WHERE record = ?`).pluck(),
    dropMoved: writer.prepare<[number]>(`DELETE FROM stage.moved WHERE record = ?`),
    putMoved: writer.prepare<[number, number, string, number, Buffer, number | null, string]>(
      `INSERT INTO stage.moved VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    putVerdict: writer.prepare<[number, number, number]>(
      `INSERT OR REPLACE INTO stage.verdicts VALUES (?, ?, ?)`,
    ),
    /** The current record with this key, where the run removes it. */
    going: writer
      .prepare<[number, string], number>(
        `SELECT k.record FROM record_keys k JOIN stage.verdicts v ON v.record = k.record AND v.verdict = ${VERDICT.remove}
         WHERE k.collection = ? AND k.remote_id = ? AND NOT EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = k.record)`,
      )
      .pluck(),
    putChecked: writer.prepare<[number, string]>(`INSERT OR IGNORE INTO stage.checked VALUES (?, ?)`),
    actionName: (action: number): ActionName => {
      const name = (Object.keys(ACTION) as ActionName[]).find((key) => ACTION[key] === action);
      if (name === undefined) throw new Error(`no staged action has the number ${action}`);
      return name;
    },
    actionNumber: (name: ActionName): number => ACTION[name],
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
