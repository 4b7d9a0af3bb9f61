/** What the audit log says about restores: when each was begun or resumed, by whom, and what happened afterwards. */
import { and, asc, desc, eq, gt, inArray, max, min, ne, or, sql } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import type { AuditAction } from './audit-actions.ts';
import { madeVia } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import { auditLog } from './schema/retention-tables.ts';
import { restoreSteps, restores } from './schema/restore-tables.ts';
import type { RestoreOutcome } from './restores.ts';
import type { RunRow } from './run-rows.ts';
import { runs } from './schema/run-tables.ts';

/** The begin or resumption of a restore. */
export interface RestoreBegin {
  readonly restore: number;
  /** Number of its entry in the audit log: the order of these events. */
  readonly entry: number;
  /** ISO 8601. */
  readonly at: string;
}

const SENT_AFTER = prepared((db) => {
  const { entry, about, member, action } = auditLog;
  const { restore, source, finishedAt, outcome } = restores;
  const known = db
    .select({ entry: sql`coalesce(${runs.lastEntry}, 0)` })
    .from(runs)
    .where(eq(runs.run, param('run')));
  // The run may know what was sent before the restore was resumed.
  const isAfter = or(ne(action, 'resume'), gt(restoreSteps.sentAt, param('until')));
  const applied = sql<number>`max(${eq(restoreSteps.outcome, 'applied')})`;
  const endedAt = sql<string | null>`coalesce(${finishedAt}, max(${restoreSteps.sentAt}))`;
  return db
    .select({ restore, endedAt, outcome, applied })
    .from(auditLog)
    .innerJoin(restores, eq(member, sql`json_array(${restore})`))
    .innerJoin(
      restoreSteps,
      and(eq(restoreSteps.restore, restore), inArray(restoreSteps.outcome, ['applied', 'sent']), isAfter),
    )
    .where(
      and(
        gt(entry, sql`(${known})`),
        eq(about, 'restores'),
        inArray(action, ['restore', 'undo', 'resume']),
        eq(source, param('source')),
      ),
    )
    .groupBy(restore)
    .orderBy(desc(restore));
});

/**
 * Restores and undos that changed, or may have changed, the service after a published run had read it, newest first. Decided by
 * the order of the audit log, as no run reads while a restore sends. `endedAt` of one without an end: when it last sent something.
 */
export function readSentAfter(
  connection: Connection,
  { run, source, finishedAt }: RunRow,
): {
  readonly restore: number;
  readonly endedAt: string | null;
  readonly outcome: RestoreOutcome;
  readonly isApplied: boolean;
}[] {
  return SENT_AFTER(connection)
    .all({ run, source, until: finishedAt })
    .map(({ applied, ...row }) => ({ ...row, isApplied: applied > 0 }));
}

const BEGINS = prepared((db) => {
  const { entry, at, about, member, action } = auditLog;
  const { restore, source } = restores;
  return db
    .select({ restore, entry, at })
    .from(auditLog)
    .innerJoin(restores, eq(member, sql`json_array(${restore})`))
    .where(
      and(eq(about, 'restores'), inArray(action, ['restore', 'undo', 'resume']), eq(source, param('source'))),
    )
    .orderBy(asc(entry));
});

/** When each restore of a source was begun and resumed, in the order of the audit log, whatever the clock said. */
export function readBegins(connection: Connection, source: string): RestoreBegin[] {
  return BEGINS(connection).all({ source });
}

const RESUMED_BY = prepared((db) => {
  const { entry, by, via, about, member, action } = auditLog;
  const startedVia = sql.raw(madeVia('restores', 'audit_log.member'));
  const isOther = or(ne(restores.by, by), sql`${via} IS NOT ${startedVia}`);
  return db
    .select({ by, via })
    .from(auditLog)
    .innerJoin(restores, and(eq(restores.restore, param('restore')), isOther))
    .where(and(eq(about, 'restores'), eq(member, sql`json_array(${restores.restore})`), eq(action, 'resume')))
    .groupBy(by, via)
    .orderBy(asc(min(entry)));
});

/** The people who resumed a restore that somebody else had started, in the order of their first resumption. */
export function readResumedBy(connection: Connection, restore: number): Actor[] {
  return RESUMED_BY(connection).all({ restore });
}

/** The latest backup that the mirror was restored from after the last of these actions on a restore. */
const backupAfter = (...actions: AuditAction[]) =>
  prepared((db) => {
    const { entry, about, member, action, row } = auditLog;
    const last = db
      .select({ entry: max(entry) })
      .from(auditLog)
      .where(and(eq(about, 'restores'), eq(member, param('member')), inArray(action, actions)));
    return db
      .select({ madeAt: sql<string | null>`iif(json_valid(${row}), ${row} ->> '$.made_at', NULL)` })
      .from(auditLog)
      .where(and(eq(action, 'restore_backup'), sql`${entry} > (${last})`))
      .orderBy(desc(entry))
      .limit(1);
  });

const BACKUP_SINCE = backupAfter('restore', 'undo');
const BACKUP_SINCE_RESUMED = backupAfter('restore', 'undo', 'resume');

/**
 * When the backup was made (ISO 8601) that replaced the mirror after this restore had begun: the journal lacks what the restore did
 * after that time. Null if none did.
 */
export function readBackupSince(connection: Connection, restore: number): string | null {
  return BACKUP_SINCE(connection).get({ member: JSON.stringify([restore]) })?.madeAt ?? null;
}

/** The same, but also null if the restore was resumed in the mirror from the backup: the journal has what was done since then. */
export function readBackupSinceResumed(connection: Connection, restore: number): string | null {
  return BACKUP_SINCE_RESUMED(connection).get({ member: JSON.stringify([restore]) })?.madeAt ?? null;
}

const LAST_ACTION = prepared((db) => {
  const { entry, by, via, about, member, action } = auditLog;
  return db
    .select({ action, by, via })
    .from(auditLog)
    .where(
      // Without `move`, which changes nothing about the restore.
      and(eq(about, 'restores'), eq(member, param('member')), inArray(action, ['resume', 'end', 'abandon'])),
    )
    .orderBy(desc(entry))
    .limit(1);
});

/** Who abandoned a restore; null if nobody did, or it was resumed since. */
export function readAbandonedBy(connection: Connection, restore: number): Actor | null {
  const last = LAST_ACTION(connection).get({ member: JSON.stringify([restore]) });
  return last?.action === 'abandon' ? { by: last.by, via: last.via } : null;
}
