/** The facts for the health check. */

export interface EndedRun {
  readonly run: number;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface SourceFacts {
  readonly source: string;
  /** Null where no schedule syncs it. */
  readonly schedule: { readonly intervalMs: number; readonly jitterMs: number } | null;
  readonly isSyncing: boolean;
  /** Of all kinds; likewise the next two. */
  readonly lastComplete: EndedRun | null;
  readonly lastEnded: EndedRun | null;
  /** The latest sync job that ended: it may have failed before a run came about. */
  readonly lastSync: EndedJob | null;
  /** The latest ended run, if it was narrowed to some kinds. */
  readonly lastNarrowed: (EndedRun & { readonly kinds: readonly string[] }) | null;
  /** When the oldest run began that is known, ISO 8601; null where there was none. */
  readonly firstTriedAt: string | null;
  /** Removals that wait, and how many an acceptance has to allow. */
  readonly held: { readonly records: number; readonly ceiling: number };
  /** Collections that the latest look did not find whole. */
  readonly unread: number;
}

export interface EndedJob {
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  /** An `ErrorCode`, perhaps one of another version. */
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface HealthFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly startedAt: string;
  readonly configProblem: string | null;
  readonly mirrorProblem: {
    readonly message: string;
    readonly hint: string | null;
    /** True where there is none yet and the first sync is about to make it. */
    readonly isComing: boolean;
  } | null;
  /** What else is wrong with the daemon itself, and for how long. */
  readonly problems: readonly {
    readonly message: string;
    readonly hint: string | null;
    readonly since: string;
  }[];
  readonly sources: readonly SourceFacts[];
  /** Where backups are made: how often they should be, and when the newest one was; null for none that is known. */
  readonly backups: { readonly everyMs: number; readonly lastAt: string | null } | null;
  /** The latest check of the mirror that ended, and how many problems it found. */
  readonly verify: (EndedJob & { readonly problems: number }) | null;
  /** Of each source: its latest drill that ended, and the score of the one before. */
  readonly drills: readonly (EndedJob & {
    readonly source: string | null;
    readonly score: number | null;
    readonly scoreBefore: number | null;
  })[];
  /** Other jobs of which the latest did not do what it should. */
  readonly failedJobs: readonly (EndedJob & { readonly name: string; readonly source: string | null })[];
  /** Channels whose notices do not arrive. */
  readonly failingChannels: readonly {
    readonly channel: string;
    readonly pending: number;
    readonly since: string;
    readonly error: string | null;
  }[];
}

// Why the health of a source, or of the daemon, is not `ok` (docs/http.md, Health).

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
  | 'config_problem'
  | 'daemon_problem'
  | 'verify_failed'
  | 'drill_fell'
  | 'job_failed'
  | 'backup_overdue'
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
