/**
 * The audit log: an entry for each acceptance, pin, restore and forget, with who did it, written in the transaction that
 * changes the row; one for each backup that the mirror was restored from, and one for the removals that somebody accepted in a run: these have no row. Each entry is chained to the one before and to the latest run; each run's root covers the latest entry.
 * So `verify` finds an entry, or a row, that was removed, altered or inserted. SQL as text: it defines what is hashed.
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
import { damagedRow } from './stored-names.ts';
import { auditLog } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';

interface Recorded {
  readonly action: AuditAction;
  /** ISO 8601. */
  readonly at: string;
  readonly about: AuditedTable;
  readonly key: RowKey;
  /** Of an acceptance: what was accepted, as JSON. */
  readonly measured?: string;
  /** Of the withdrawal of an acceptance: why, as its author wrote it. */
  readonly reason?: string | undefined;
}

/**
 * Changes a row and writes an entry on it, in the caller's transaction.
 * @param change of an ending action: deletes the row, which is recorded before
 * @throws TidemarkError `mirror_corrupt` where the row that is there is not as the log has it: nothing is changed then
 */
export function recordAction(writer: Connection, actor: Actor, recorded: Recorded, change: () => void): void {
  requireAsRecorded(writer, recorded.about, recorded.key);
  if (!isEnding(recorded)) change();
  recordRow(writer, actor, recorded);
  if (isEnding(recorded)) change();
}

/** Writes an entry on a row as it is, of which the caller knows that it is as it must be. */
export function recordRow(
  writer: Connection,
  actor: Actor,
  { key, measured, reason, ...recorded }: Recorded,
): void {
  const [found] = recordedRows(writer, recorded.about, key);
  if (found === undefined) throw new Error(`there is no row of ${recorded.about} to record`);
  const { member } = found;
  const known = measured === undefined ? found.row : withMember(found.row, MEASURED, measured);
  // What ends is as the log has it, also with what was measured.
  const row = isEnding(recorded) ? (latestEntry(writer, recorded.about, key)?.row ?? known) : known;
  addEntry(writer, actor, { ...recorded, member, row: withReason(row, reason) });
}

function withReason(row: string, reason: string | undefined): string {
  return reason === undefined ? row : withMember(row, WITHDRAWAL_REASON, JSON.stringify(reason));
}

/**
 * Writes an ending action on a row that another program deleted, with what the log has of it last. Returns whether it did:
 * not of a row that is there, nor of one that was ended.
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

/** Writes that a snapshot, as the log has it last, is not there any more. @param at ISO 8601 */
export function recordUnpinned(
  writer: Connection,
  actor: Actor,
  at: string,
  last: Pick<AuditEntry, 'member' | 'row'>,
): void {
  addEntry(writer, actor, { ...last, action: 'unpin', at, about: 'snapshots' });
}

/** A backup that took the place of the mirror. */
export interface RestoredBackup {
  /** Of its file. */
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

/** What somebody accepted of one collection. */
export interface AcceptedCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Its records that were missing. */
  readonly accepted: number;
  /** Records below them, in other collections. */
  readonly below: number;
}

/** Removals that the limits held, and that somebody accepted for a run. */
export interface AcceptedRemovals {
  /** The most that they accepted. */
  readonly atMost: number;
  readonly collections: readonly AcceptedCollection[];
}

/** As `row` of an entry has it. */
export interface RecordedRemovals {
  readonly source: string;
  readonly at_most: number;
  /** `scope` as in `collections.scope`; `removed`: of the collection, in the run. */
  readonly collections: readonly (Omit<AcceptedCollection, 'kind' | 'scope'> &
    Readonly<Record<'kind' | 'scope', string>> & { readonly removed: number })[];
}

/** Writes the entry of the removals that were accepted in a run, in the transaction that publishes it and before its root. @param at ISO 8601 */
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

/** Who does something, as it is recorded: the log is append-only, so that a password in a given name could not be masked later. */
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
  // Such as by a trigger: what is not recorded is not done.
  if (added.changes !== 1)
    throw damagedRow('no entry can be added to the audit log: another program keeps it from that');
}

const LAST_ENTRY = prepared((db) => {
  const { entry, hash } = auditLog;
  return db.select({ entry, hash }).from(auditLog).orderBy(desc(entry)).limit(1).prepare();
});

/** The latest entry, which the root of a run covers. */
export function lastEntry(connection: Connection): Pick<AuditEntry, 'entry' | 'hash'> | undefined {
  return LAST_ENTRY(connection).get();
}

const LAST_ROOT = prepared((db) =>
  db
    .select({ root: runs.root })
    .from(runs)
    .where(isNotNull(runs.root))
    .orderBy(desc(runs.run))
    .limit(1)
    .prepare(),
);

const ADD_ENTRY = prepared((db) => db.insert(auditLog).values(paramsOf(auditLog)).prepare());

/** An entry of a backup that the mirror was restored from. */
export interface RestoredBackupEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by' | 'via'> {
  /** Null where the entry was damaged, as `run`. */
  readonly name: string | null;
  /** Null too where the mirror was moved since, and what it was moved into does not know the run. */
  readonly run: number | null;
}

/** The number of the backup's run, of an entry in `log`: after a move, which may give runs other numbers, by its root. */
const RUN_OF_BACKUP = `CASE
  WHEN NOT json_valid(log."row") THEN NULL
  WHEN NOT EXISTS (SELECT 1 FROM audit_log m WHERE m.action = 'move' AND m.entry > log.entry) THEN log."row" ->> '$.run'
  ELSE coalesce((SELECT run FROM runs WHERE root = unhex(log."row" ->> '$.root')),
    (SELECT run FROM replaced_roots WHERE root = unhex(log."row" ->> '$.root') ORDER BY forget LIMIT 1)) END`;

/** The number that the run has by now of the backup that an entry is about; null if it is not known any more. */
export function runOfBackup(connection: Connection, entry: number): number | null {
  const found = connection.prepare<[number], number | null>(
    `SELECT ${RUN_OF_BACKUP} FROM audit_log log WHERE entry = ?`,
  );
  return found.pluck().get(entry) ?? null;
}

/** The entries of all backups that the mirror was restored from, newest first. Reads a damaged log too. */
export function restoredBackups(connection: Connection): RestoredBackupEntry[] {
  return connection
    .prepare<[], RestoredBackupEntry>(
      `SELECT entry, at, "by", via, iif(json_valid(member), member ->> '$[0]', NULL) AS name, ${RUN_OF_BACKUP} AS run
       FROM audit_log log WHERE action = 'restore_backup' ORDER BY entry DESC`,
    )
    .all();
}
