/**
 * The audit log: an entry for each acceptance, pin, restore and forget, with who did it, written in the transaction that
 * changes the row; and one for each backup that the mirror was restored from, which has no row. Each entry is chained to the one before and to the latest run; each run's root covers the latest entry.
 * So `verify` finds an entry, or a row, that was removed, altered or inserted. SQL as text: it defines what is hashed.
 */
import { createHash } from 'node:crypto';
import { and, desc, eq, isNotNull } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import type { AuditAction } from './audit-actions.ts';
import type { Connection } from './database.ts';
import { param, paramsOf, prepared } from './query.ts';
import { auditLog } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';

/** An entry with the hash that chains it. */
export type AuditEntry = typeof auditLog.$inferSelect;
/** The tables whose rows must be as the log has them. */
export type AuditedTable = Exclude<AuditEntry['about'], 'backups'>;

interface AuditedRows {
  /** The columns of its key, in the order of the member's JSON array. */
  readonly key: readonly string[];
  /** The rest of what is recorded: names with their SQL. */
  readonly facts: Readonly<Record<string, string>>;
}

const same = (...columns: string[]): Record<string, string> =>
  Object.fromEntries(columns.map((column) => [column, column]));
const hex = (...columns: string[]): Record<string, string> =>
  Object.fromEntries(columns.map((column) => [column, `hex(${column})`]));

const AUDITED: Readonly<Record<AuditedTable, AuditedRows>> = {
  acceptances: {
    key: ['source', 'kind', 'scope', 'remote_id', 'path'],
    facts: same('fingerprint', 'reason', 'accepted_at', 'accepted_by', 'until'),
  },
  snapshots: { key: ['name'], facts: same('run', 'pinned_at', 'pinned_by', 'is_baseline') },
  restores: {
    key: ['restore'],
    facts: {
      ...same(
        'source',
        'plan_hash',
        'from_ref',
        'undoes',
        'started_at',
        'started_by',
        'finished_at',
        'outcome',
      ),
      ...same('approved'),
      plan: 'sha256(plan)',
      // While it runs, its journal changes with every request.
      steps: `iif(outcome = 'running', NULL, (SELECT sha256(group_concat(json_array(step, outcome, status, new_id, verified,
        differences, digest, error_code, error, attempts, sent_at, ended_at, inverse), char(10) ORDER BY step))
        FROM restore_steps s WHERE s.restore = restores.restore))`,
    },
  },
  forgets: {
    key: ['forget'],
    facts: {
      ...same('at', 'forgotten_by', 'policy', 'sources', 'runs', 'run_count', 'tip_run'),
      ...hex('root_before', 'root_after', 'replaced_digest', 'link'),
    },
  },
};

export const AUDITED_TABLES = Object.keys(AUDITED) as readonly AuditedTable[];

/** A row as the log records it. */
interface RecordedRow {
  /** JSON array of its key. */
  readonly member: string;
  /** JSON object of the rest. */
  readonly row: string;
}

/** The rows of a table, or the one with `key`, as the log records them. */
export function recordedRows(
  connection: Connection,
  about: AuditedTable,
  key: readonly (string | number)[] = [],
): RecordedRow[] {
  const { key: columns, facts } = AUDITED[about];
  const named = Object.entries(facts).map(([name, text]) => `'${name}', ${text}`);
  const where = columns.map((column) => `${column} = ?`).join(' AND ');
  return connection
    .prepare<(string | number)[], RecordedRow>(
      `SELECT json_array(${columns.join(', ')}) AS member, json_object(${named.join(', ')}) AS row
       FROM ${about} WHERE ${key.length === 0 ? 'true' : where}`,
    )
    .all(...key);
}

interface Recorded {
  readonly action: AuditAction;
  /** ISO 8601. */
  readonly at: string;
  readonly about: AuditedTable;
  readonly key: readonly (string | number)[];
}

/** After these, there is no such row: they are recorded before it goes, with what it held. */
const ENDING: ReadonlySet<AuditAction> = new Set(['unaccept', 'unpin']);

/** True where the member's row is not in its table after this entry. */
export function isEnding({ action }: Pick<AuditEntry, 'action'>): boolean {
  return ENDING.has(action);
}

/** Writes an entry on a row as it is now; in the transaction that changes the row. */
export function recordAction(writer: Connection, actor: Actor, { key, ...recorded }: Recorded): void {
  const [found] = recordedRows(writer, recorded.about, key);
  if (found === undefined) throw new Error(`there is no row of ${recorded.about} to record`);
  addEntry(writer, actor, { ...recorded, ...found });
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

function addEntry(
  writer: Connection,
  { by, via }: Actor,
  recorded: Pick<AuditEntry, 'action' | 'at' | 'about' | 'member' | 'row'>,
): void {
  const before = LAST_ENTRY(writer).get();
  const root = LAST_ROOT(writer).get()?.root ?? null;
  const facts = { entry: (before?.entry ?? 0) + 1, by, via, ...recorded, root };
  ADD_ENTRY(writer).run({ ...facts, hash: entryHash(facts, before?.hash ?? null) });
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

/** SHA-256 over an entry and the hash of the entry before it. */
export function entryHash(entry: Omit<AuditEntry, 'hash'>, before: Buffer | null): Buffer {
  const { at, by, via, action, about, member, row, root } = entry;
  const facts = [entry.entry, at, by, via, action, about, member, row, root?.toString('hex') ?? null];
  const lines = ['tidemark.audit/1', before?.toString('hex') ?? '', JSON.stringify(facts)];
  return createHash('sha256').update(lines.join('\n')).digest();
}

/** True where a row is as the log last recorded it. */
export function isAsRecorded(
  connection: Connection,
  about: AuditedTable,
  key: readonly (string | number)[],
): boolean {
  const [found] = recordedRows(connection, about, key);
  if (found === undefined) return false;
  const last = LATEST_OF(connection).get({ about, member: found.member });
  return last !== undefined && !isEnding(last) && last.row === found.row;
}

const LATEST_OF = prepared((db) => {
  const { entry, about, member, row, action } = auditLog;
  return db
    .select({ row, action })
    .from(auditLog)
    .where(and(eq(about, param('about')), eq(member, param('member'))))
    .orderBy(desc(entry))
    .limit(1)
    .prepare();
});

/** The latest entry of a backup that the mirror was restored from. */
export interface RestoredBackupEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by'> {
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

/** Undefined where the mirror was never restored from one. Reads a damaged log too. */
export function lastRestoredBackup(connection: Connection): RestoredBackupEntry | undefined {
  return connection
    .prepare<[], RestoredBackupEntry>(
      `SELECT entry, at, "by", iif(json_valid(member), member ->> '$[0]', NULL) AS name, ${RUN_OF_BACKUP} AS run
       FROM audit_log log WHERE action = 'restore_backup' ORDER BY entry DESC LIMIT 1`,
    )
    .get();
}
