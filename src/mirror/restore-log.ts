/** What the audit log says about restores: when each was begun or resumed, by whom, and what happened afterwards. */
import { and, asc, desc, eq, gt, inArray, max, min, ne, or, sql } from 'drizzle-orm';
import type { AuditAction } from './audit-actions.ts';
import { madeVia } from './audited-rows.ts';
import { param, prepared } from './query.ts';
import { auditLog } from './schema/retention-tables.ts';
import { restoreSteps, restores } from './schema/restore-tables.ts';
import { runs } from './schema/run-tables.ts';

/** The begin or resumption of a restore. */
export interface RestoreBegin {
  readonly restore: number;
  /** Number of its entry in the audit log: the order of these events. */
  readonly entry: number;
  /** ISO 8601. */
  readonly at: string;
}

export const SENT_AFTER = prepared((db) => {
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

export const BEGINS = prepared((db) => {
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

export const RESUMED_BY = prepared((db) => {
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

export const BACKUP_SINCE = backupAfter('restore', 'undo');
export const BACKUP_SINCE_RESUMED = backupAfter('restore', 'undo', 'resume');

export const LAST_ACTION = prepared((db) => {
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
