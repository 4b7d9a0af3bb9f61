/** What an entry of the audit log can say that somebody did, as in docs/security.md. */
export const AUDIT_ACTIONS = [
  'accept',
  'unaccept',
  'pin',
  'unpin',
  'baseline',
  /** Another snapshot is the baseline now. */
  'not_baseline',
  'restore',
  'resume',
  /** Of a restore. */
  'end',
  /** Of an interrupted restore: nobody is to continue it. */
  'abandon',
  /** Before an undo: what the restore did, where its journal did not have it. */
  'look_up',
  'undo',
  /** Of records that were missing from their lists, more than are removed without confirmation. */
  'accept_removals',
  'forget',
  /** Into this file, by `mirror move`. */
  'move',
  /** A backup became this mirror. */
  'restore_backup',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];
