/** One thing that is wrong, and the state that it gives a source or the daemon. */

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
  /** ISO 8601; null if it is not known. */
  readonly since: string | null;
  /** What a person can do about it. */
  readonly hint: string | null;
  /** True if the message says until when something waits: then `since` is not shown. */
  readonly isWait?: boolean;
  /** Of an overdue backup: the event that reports its cause. */
  readonly follows?: 'sync_overdue' | 'backup_failed';
}

/** A reason for `degraded`. */
export function degraded(
  code: HealthCode,
  message: string,
  since: string | null,
  hint: string | null,
): HealthReason {
  return { code, state: 'degraded', message, since, hint };
}

/** `: ERROR` behind what failed; empty without an error. */
export function because({ error }: { readonly error: string | null }): string {
  return error === null ? '' : `: ${error}`;
}
