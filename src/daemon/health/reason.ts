/** One thing that is wrong, and the state that it makes of a source or of the daemon. */

/** `failing` and `starting` (no run has been complete yet, and none is late) answer 503, the others 200. */
export const HEALTH_STATES = ['ok', 'degraded', 'starting', 'failing'] as const;
export type HealthState = (typeof HEALTH_STATES)[number];

export type HealthCode =
  | 'mirror_unreadable'
  | 'mirror_unread'
  | 'stale'
  | 'never_complete'
  | 'first_sync'
  | 'run_failed'
  | 'key_refused'
  | 'run_partial'
  | 'removals_held'
  | 'restore_interrupted'
  | 'drift_waiting'
  | 'run_in_future'
  | 'config_problem'
  | 'daemon_problem'
  | 'audit_log_contradicted'
  | 'verify_failed'
  | 'drill_fell'
  | 'job_failed'
  | 'backup_overdue'
  | 'backup_space_low'
  | 'backup_emptied'
  | 'backup_contradicts'
  | 'notices_undelivered';

export interface HealthReason {
  readonly code: HealthCode;
  readonly state: Exclude<HealthState, 'ok'>;
  /** One line, without secrets. */
  readonly message: string;
  /** ISO 8601; null where that is not known. */
  readonly since: string | null;
  /** What a person can do about it. */
  readonly hint: string | null;
  /** True where the message says until when something waits: since when is not shown behind that. */
  readonly isWait?: boolean;
  /** Of an overdue backup: the event that reports its cause. */
  readonly follows?: 'sync_overdue' | 'backup_failed';
}
