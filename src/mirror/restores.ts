/**
 * Restores, their journal and the id map. What is written before a request and after its answer has reached the disk
 * when it returns, so that it is known after a power cut too (design.md, Never broken 6).
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { Connection } from './database.ts';

export type RestoreOutcome = 'running' | 'complete' | 'partial' | 'failed' | 'interrupted';

/** `sent`: the request may have been sent; its result is not known; every other one but `planned` is final until it is resumed. */
type StepOutcome = 'planned' | 'sent' | 'applied' | 'failed' | 'skipped' | 'blocked' | 'manual';

/** One restore, as `restores list` shows it. */
export interface RestoreRow {
  readonly restore: number;
  /** Name of the source. */
  readonly source: string;
  readonly planHash: string;
  /** The `tidemark.plan/1` document as approved. */
  readonly plan: string;
  /** The reference that the desired state came from. */
  readonly from: string;
  /** The restore that this one undoes; null for an ordinary one. */
  readonly undoes: number | null;
  readonly startedAt: string;
  /** Null while it runs, and for one whose process died. */
  readonly finishedAt: string | null;
  readonly outcome: RestoreOutcome;
  /** What the user approved beside the plan (`maxRemovals`, `sendEmail` …). */
  readonly approved: Readonly<Record<string, JsonValue>>;
}

/** What the service keeps differently from what was sent, at one place. Secrets are left out. */
interface StoredDifference {
  readonly path: string;
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** A step's row in the journal. */
export interface RestoreStepRow {
  readonly restore: number;
  /** The step's number in the plan. */
  readonly n: number;
  readonly outcome: StepOutcome;
  /** HTTP status of the last answer; null where none came. */
  readonly status: number | null;
  /** The id that the service gave to a created record. */
  readonly newId: string | null;
  /** Whether the record, read back, held what was sent; null while that is not known. */
  readonly verified: boolean | null;
  readonly differences: readonly StoredDifference[];
  /** Digest of the record's managed fields as read back; null where it was not read. */
  readonly digest: string | null;
  readonly errorCode: string | null;
  readonly error: string | null;
  /** Writes sent for it so far. */
  readonly attempts: number;
  readonly sentAt: string | null;
  readonly endedAt: string | null;
  /** What puts back what it overwrote; null where there is nothing. */
  readonly inverse: JsonValue | null;
}

export interface RestoreStart {
  readonly source: string;
  readonly planHash: string;
  readonly plan: string;
  readonly from: string;
  readonly undoes?: number;
  readonly approved: Readonly<Record<string, JsonValue>>;
  readonly startedAt: string;
  /** Records that the plan found under other ids: with it they are the same ones. */
  readonly mappings?: readonly Omit<IdMapping, 'restore'>[];
  /** Every step of the plan with its first outcome: `planned`, `blocked` or `manual`. */
  readonly steps: readonly Pick<RestoreStepRow, 'n' | 'outcome' | 'inverse' | 'errorCode' | 'error'>[];
}

/** A record that came back under another id or in another place. */
export interface IdMapping {
  readonly source: string;
  readonly kind: Kind;
  readonly oldScope: Scope;
  readonly oldId: string;
  readonly newScope: Scope;
  readonly newId: string;
  /** The restore that created it. */
  readonly restore: number;
  /** ISO 8601. */
  readonly at: string;
}

/** A step's new row, and the new id that it gave: of the record as it was desired, and as an earlier restore left it. */
export interface JournalEntry {
  readonly row: RestoreStepRow;
  readonly mappings?: readonly IdMapping[] | undefined;
}

/**
 * `disk`: outlives a power cut; `process`: outlives the process, and a power cut once the journal has settled.
 */
export type Durability = 'disk' | 'process';

export interface RestoreFilter {
  readonly source?: string;
  readonly limit?: number;
}

interface StoredRestore extends Omit<RestoreRow, 'approved'> {
  approved: string;
}

const RESTORE = `restore, source, plan_hash AS planHash, plan, from_ref AS "from", undoes, started_at AS startedAt,
  finished_at AS finishedAt, outcome, approved`;

/** Newest first. */
export function readRestores(
  connection: Connection,
  filter: RestoreFilter & { restore?: number },
): RestoreRow[] {
  return connection
    .prepare<{ source: string | null; restore: number | null; limit: number }, StoredRestore>(
      `SELECT ${RESTORE} FROM restores
       WHERE (:source IS NULL OR source = :source) AND (:restore IS NULL OR restore = :restore)
       ORDER BY restore DESC LIMIT :limit`,
    )
    .all({ source: filter.source ?? null, restore: filter.restore ?? null, limit: filter.limit ?? -1 })
    .map((row) => ({ ...row, approved: parseLossless(row.approved) as RestoreRow['approved'] }));
}

interface StoredStep extends Omit<RestoreStepRow, 'differences' | 'inverse' | 'verified'> {
  differences: string;
  inverse: string | null;
  verified: number | null;
}

const STEP = `restore, step AS n, outcome, status, new_id AS newId, verified, differences, digest,
  error_code AS errorCode, error, attempts, sent_at AS sentAt, ended_at AS endedAt, inverse`;

/** In the order of the plan. */
export function readRestoreSteps(connection: Connection, restore: number): RestoreStepRow[] {
  return connection
    .prepare<[number], StoredStep>(`SELECT ${STEP} FROM restore_steps WHERE restore = ? ORDER BY step`)
    .all(restore)
    .map((row) => ({
      ...row,
      verified: row.verified === null ? null : row.verified === 1,
      differences: parseLossless(row.differences) as unknown as StoredDifference[],
      inverse: row.inverse === null ? null : parseLossless(row.inverse),
    }));
}

/** Oldest first, so that a later one follows what it continues. */
export function readIdMap(connection: Connection, source: string): IdMapping[] {
  return connection
    .prepare<[string], Omit<IdMapping, 'oldScope' | 'newScope'> & { oldScope: string; newScope: string }>(
      `SELECT source, kind, old_scope AS oldScope, old_id AS oldId, new_scope AS newScope, new_id AS newId, restore, at
       FROM id_map WHERE source = ? ORDER BY restore, at, kind, new_scope, new_id`,
    )
    .all(source)
    .map((row) => ({
      ...row,
      oldScope: JSON.parse(row.oldScope) as Scope,
      newScope: JSON.parse(row.newScope) as Scope,
    }));
}

/** The new restore's number; its steps are in the journal. */
export function beginRestore(writer: Connection, start: RestoreStart): number {
  return inOneDurably(writer, () => {
    const { lastInsertRowid } = writer
      .prepare(
        `INSERT INTO restores (source, plan_hash, plan, from_ref, undoes, started_at, outcome, approved)
         VALUES (?, ?, ?, ?, ?, ?, 'running', ?)`,
      )
      .run(
        ...[start.source, start.planHash, start.plan, start.from, start.undoes ?? null],
        ...[start.startedAt, JSON.stringify(start.approved)],
      );
    const restore = Number(lastInsertRowid);
    const insert = writer.prepare(
      `INSERT INTO restore_steps (restore, step, outcome, differences, attempts, inverse, error_code, error)
       VALUES (?, ?, ?, '[]', 0, ?, ?, ?)`,
    );
    for (const { n, outcome, inverse, errorCode, error } of start.steps) {
      insert.run(restore, n, outcome, inverse === null ? null : JSON.stringify(inverse), errorCode, error);
    }
    const map = writer.prepare(STORE_MAPPING);
    for (const mapping of start.mappings ?? []) map.run(...mappingRow({ ...mapping, restore }));
    return restore;
  });
}

/**
 * Takes an ended restore up again.
 * @throws TidemarkError `reference_unknown`
 */
export function resumeRestore(writer: Connection, restore: number): void {
  changeOne(
    writer,
    restore,
    `UPDATE restores SET outcome = 'running', finished_at = NULL WHERE restore = ?`,
    [restore],
  );
}

export const STORE_MAPPING = `INSERT OR REPLACE INTO id_map VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

/** The parameters of `STORE_MAPPING`. */
export function mappingRow({ source, kind, oldScope, oldId, newScope, newId, restore, at }: IdMapping) {
  return [source, kind, scopeKey(oldScope), oldId, scopeKey(newScope), newId, restore, at] as const;
}

/** @throws TidemarkError `reference_unknown` */
export function finishRestore(
  writer: Connection,
  restore: number,
  outcome: Exclude<RestoreOutcome, 'running'>,
  at: string,
): void {
  changeOne(writer, restore, `UPDATE restores SET outcome = ?, finished_at = ? WHERE restore = ?`, [
    outcome,
    at,
    restore,
  ]);
}

/** Restores whose process crashed. The caller holds the writer lock, so no other process can be applying one. */
export function endDeadRestores(writer: Connection): void {
  writer.prepare(`UPDATE restores SET outcome = 'interrupted' WHERE outcome = 'running'`).run();
}

function changeOne(writer: Connection, restore: number, statement: string, values: unknown[]): void {
  inOneDurably(writer, () => {
    if (writer.prepare(statement).run(...values).changes !== 1) throw unknownRestore(restore, 'restore');
  });
}

/**
 * Commits that are on the disk when it returns. Elsewhere a commit may be lost with the power, and is made again by the
 * next sync; a request that was sent cannot be.
 */
export function durably<T>(writer: Connection, commit: () => T): T {
  writer.pragma('synchronous = FULL');
  try {
    return commit();
  } finally {
    writer.pragma('synchronous = NORMAL');
  }
}

/** `work` in one such transaction. */
function inOneDurably<T>(writer: Connection, work: () => T): T {
  return durably(writer, () => writer.transaction(work).immediate());
}

export function unknownRestore(restore: number, what: string): TidemarkError {
  return new TidemarkError('reference_unknown', `there is no ${what} ${restore}`, {
    hint: '`tidemark restores list` lists them',
  });
}
