/**
 * Writes the audit log: an entry, with who did it, for each acceptance, pin, restore and forget, in the transaction that changes
 * the row; and entries without a row, for a backup that the mirror was restored from and for removals that somebody accepted in a
 * run. Each entry is chained to the one before it and to the latest run, and each run's root covers the latest entry. So `verify`
 * finds an entry or a row that was removed, altered or inserted. SQL as text, because it defines what is hashed.
 */
import { desc, isNotNull } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import type { Actor } from '../core/actor.ts';
import type { AuditAction } from './audit-actions.ts';
import {
  type AuditedTable,
  type AuditEntry,
  type RowKey,
  entryHash,
  goneRow,
  isEnding,
  latestEntry,
  MEASURED,
  recordedRows,
  requireAsRecorded,
  WITHDRAWAL_REASON,
  withMember,
} from './audited-rows.ts';
import type { Connection } from './database.ts';
import { paramsOf, prepared } from './query.ts';
import { DamagedRow } from './stored-names.ts';
import { auditLog } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';

interface Recorded {
  readonly action: AuditAction;
  /** ISO 8601. */
  readonly at: string;
  readonly about: AuditedTable;
  readonly key: RowKey;
  /** For an acceptance: what was accepted, as JSON. */
  readonly measured?: string;
  /** For the withdrawal of an acceptance: why, as its author wrote it. */
  readonly reason?: string | undefined;
}

/**
 * Changes a row and writes an entry about it, in the caller's transaction.
 * @param change changes the row; for an ending action deletes it, after it was recorded
 * @throws TidemarkError `mirror_corrupt` if the row is not as the log has it; nothing is changed then
 */
export function recordAction(writer: Connection, actor: Actor, recorded: Recorded, change: () => void): void {
  requireAsRecorded(writer, recorded.about, recorded.key);
  if (!isEnding(recorded)) change();
  recordRow(writer, actor, recorded);
  if (isEnding(recorded)) change();
}

/** Writes an entry about a row as it is now. The caller has checked the row against the log. */
export function recordRow(
  writer: Connection,
  actor: Actor,
  { key, measured, reason, ...recorded }: Recorded,
): void {
  const [found] = recordedRows(writer, recorded.about, key);
  if (found === undefined) throw new Error(`there is no row of ${recorded.about} to record`);
  const { member } = found;
  const known = measured === undefined ? found.row : withMember(found.row, MEASURED, measured);
  // An ending action repeats the latest entry's row, which also has what was measured.
  const row = isEnding(recorded) ? (latestEntry(writer, recorded.about, key)?.row ?? known) : known;
  addEntry(writer, actor, { ...recorded, member, row: withReason(row, reason) });
}

function withReason(row: string, reason: string | undefined): string {
  return reason === undefined ? row : withMember(row, WITHDRAWAL_REASON, JSON.stringify(reason));
}

/**
 * Writes an ending action about a row that another program deleted, with the row as the log has it. Returns false, and writes
 * nothing, for a row that is there or was ended.
 */
export function recordEndOfGone(
  writer: Connection,
  actor: Actor,
  { key, reason, ...recorded }: Recorded,
): boolean {
  const gone = goneRow(writer, recorded.about, key);
  if (gone !== null) addEntry(writer, actor, { ...recorded, ...gone, row: withReason(gone.row, reason) });
  return gone !== null;
}

/** Writes that a snapshot was unpinned. @param last its latest entry @param at ISO 8601 */
export function recordUnpinned(
  writer: Connection,
  actor: Actor,
  at: string,
  last: Pick<AuditEntry, 'member' | 'row'>,
): void {
  addEntry(writer, actor, { ...last, action: 'unpin', at, about: 'snapshots' });
}

/** A backup that replaced the mirror. */
export interface RestoredBackup {
  /** The name of its file. */
  readonly name: string;
  /** The latest run in it, and that run's root in hex. */
  readonly run: number;
  readonly root: string;
  /** When it was made, ISO 8601. */
  readonly madeAt: string;
  /** The names of the sources in it. */
  readonly sources: readonly string[];
}

/** Writes the entry of the backup that this mirror was restored from. @param at ISO 8601 */
export function recordRestoredBackup(
  writer: Connection,
  actor: Actor,
  at: string,
  { name, run, root, madeAt, sources }: RestoredBackup,
): void {
  const row = JSON.stringify({ run, root, made_at: madeAt, sources });
  addEntry(writer, actor, {
    action: 'restore_backup',
    at,
    about: 'backups',
    member: JSON.stringify([name]),
    row,
  });
}

/** Removals in one collection that somebody accepted. */
export interface AcceptedCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  /** How many of its records were missing. */
  readonly accepted: number;
  /** How many records of other collections were below them. */
  readonly below: number;
}

/** Removals that the limits held, and that somebody accepted for a run. */
export interface AcceptedRemovals {
  /** The largest number of removals that was accepted. */
  readonly atMost: number;
  readonly collections: readonly AcceptedCollection[];
}

/** Accepted removals as the entry's `row` has them. */
export interface RecordedRemovals {
  readonly source: string;
  readonly at_most: number;
  /** `scope` as in `collections.scope`; `removed`: of the collection, in the run. */
  readonly collections: readonly (Omit<AcceptedCollection, 'kind' | 'scope'> &
    Readonly<Record<'kind' | 'scope', string>> & { readonly removed: number })[];
}

/** Writes the entry for removals that were accepted in a run, in the transaction that publishes the run and before its root. @param at ISO 8601 */
export function recordAcceptedRemovals(
  writer: Connection,
  actor: Actor,
  { run, at, ...removals }: RecordedRemovals & { readonly run: number; readonly at: string },
): void {
  addEntry(writer, actor, {
    ...{ action: 'accept_removals', at, about: 'removals' },
    member: JSON.stringify([run]),
    row: JSON.stringify(removals),
  });
}

/** The actor without passwords in URLs: the log is append-only, so that they could not be masked later. */
export function recordedActor({ by, via }: Actor): Actor {
  return { by: withoutUrlSecrets(by, MASK), via };
}

function addEntry(
  writer: Connection,
  actor: Actor,
  recorded: Pick<AuditEntry, 'action' | 'at' | 'about' | 'member' | 'row'>,
): void {
  const before = LAST_ENTRY(writer).get();
  const root = LAST_ROOT(writer).get()?.root ?? null;
  const facts = { entry: (before?.entry ?? 0) + 1, ...recordedActor(actor), ...recorded, root };
  const added = ADD_ENTRY(writer).run({ ...facts, hash: entryHash(facts, before?.hash ?? null) });
  // A trigger of another program, for instance, can prevent it.
  if (added.changes !== 1)
    throw new DamagedRow('no entry can be added to the audit log: another program prevents it');
}

const LAST_ENTRY = prepared((db) => {
  const { entry, hash } = auditLog;
  return db.select({ entry, hash }).from(auditLog).orderBy(desc(entry)).limit(1);
});

/** The latest entry: the next run's root covers it. */
export function lastEntry(connection: Connection): Pick<AuditEntry, 'entry' | 'hash'> | undefined {
  return LAST_ENTRY(connection).get();
}

const LAST_ROOT = prepared((db) =>
  db.select({ root: runs.root }).from(runs).where(isNotNull(runs.root)).orderBy(desc(runs.run)).limit(1),
);

const ADD_ENTRY = prepared((db) => db.insert(auditLog).values(paramsOf(auditLog)));

/** The entry for a backup that the mirror was restored from. */
export interface RestoredBackupEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by' | 'via'> {
  /** Null if the entry is damaged. */
  readonly name: string | null;
  /** Null if the entry is damaged, or the mirror was moved since into one that does not know the run. */
  readonly run: number | null;
}

/** SQL for the present number of the backup's run, for an entry `log`: by its root after a move, which may renumber runs. */
const RUN_OF_BACKUP = `CASE
  WHEN NOT json_valid(log."row") THEN NULL
  WHEN NOT EXISTS (SELECT 1 FROM audit_log m WHERE m.action = 'move' AND m.entry > log.entry) THEN log."row" ->> '$.run'
  ELSE coalesce((SELECT run FROM runs WHERE root = unhex(log."row" ->> '$.root')),
    (SELECT run FROM replaced_roots WHERE root = unhex(log."row" ->> '$.root') ORDER BY forget LIMIT 1)) END`;

/** The present number of the latest run in the backup that an entry is about; null if it is no longer known. */
export function runOfBackup(connection: Connection, entry: number): number | null {
  const found = connection.prepare<[number], number | null>(
    `SELECT ${RUN_OF_BACKUP} FROM audit_log log WHERE entry = ?`,
  );
  return found.pluck().get(entry) ?? null;
}

/** The entries for all backups that the mirror was restored from, newest first. Reads a damaged log too. */
export function restoredBackups(connection: Connection): RestoredBackupEntry[] {
  return connection
    .prepare<[], RestoredBackupEntry>(
      `SELECT entry, at, "by", via, iif(json_valid(member), member ->> '$[0]', NULL) AS name, ${RUN_OF_BACKUP} AS run
       FROM audit_log log WHERE action = 'restore_backup' ORDER BY entry DESC`,
    )
    .all();
}
