/** The actions that the audit log records, as in docs/security.md. */
export const AUDIT_ACTIONS = [
  'accept',
  'unaccept',
  'pin',
  'unpin',
  'baseline',
  /** Another snapshot became the baseline. */
  'not_baseline',
  'restore',
  'resume',
  /** A restore ended. */
  'end',
  /** An interrupted restore will not be continued. */
  'abandon',
  /** Before an undo: what the restore did was looked up, as its journal did not have it. */
  'look_up',
  'undo',
  /** More records were missing from their lists than are removed without confirmation. */
  'accept_removals',
  'forget',
  /** `mirror move` moved the mirror into this file. */
  'move',
  /** A backup became this mirror. */
  'restore_backup',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];
