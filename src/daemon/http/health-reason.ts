/** Why the health of a source, or of the daemon, is not `ok` (docs/http.md, Health). */

/** `failing` and `starting` (no run has been complete yet, and none is late) answer 503, the others 200. */
export const HEALTH_STATES = ['ok', 'degraded', 'starting', 'failing'] as const;
export type HealthState = (typeof HEALTH_STATES)[number];

export type HealthCode =
  | 'mirror_unreadable'
  | 'stale'
  | 'never_complete'
  | 'first_sync'
  | 'run_failed'
  | 'key_refused'
  | 'run_partial'
  | 'removals_held'
  | 'config_trouble'
  | 'daemon_trouble'
  | 'verify_failed'
  | 'drill_fell'
  | 'job_failed'
  | 'copy_overdue'
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
}
