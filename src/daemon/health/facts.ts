/** The facts from which the health of the daemon and of its sources is assessed. `health-facts.ts` gathers them. */
import type { SourceStatus } from '../../state/source-status.ts';
import type { UnendedRestore } from '../../mirror/unfinished-restore.ts';
import type { SilentChannel } from '../notices/known-channels.ts';
import type { IntervalChange } from '../schedule/intervals.ts';

interface EndedRun {
  readonly run: number;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface SourceFacts {
  readonly source: string;
  /** Null if no schedule syncs it. */
  readonly schedule: {
    readonly intervalMs: number;
    readonly jitterMs: number;
    /** Null if the interval was not changed. */
    readonly change: IntervalChange | null;
    /** When a reload added the source to the schedule, ISO 8601; null if it was there at the start. */
    readonly sourceSince: string | null;
  } | null;
  readonly isSyncing: boolean;
  /** The running sync: when it began, ISO 8601, for how long nothing was received, and as in `RunningJob` and its `progress`. */
  readonly sync?: {
    readonly startedAt: string;
    readonly silentMs: number;
    readonly pausedUntil?: number | undefined;
    readonly waitingUntil?: number | null | undefined;
  } | null;
  /** True if the service has not answered that sync for a while. */
  readonly isSilent: boolean;
  /** The job of the mirror that its next sync waits for; null for none. */
  readonly behind: {
    readonly name: string;
    readonly source?: string | null;
    readonly startedAt: string;
    /** Of a sync: as in `sync`. */
    readonly silentMs?: number | null;
    readonly pausedUntil?: number | undefined;
    /** Of a backup: address of the target that does not answer. */
    readonly waitsFor?: string | null;
  } | null;
  /** True while a sync of it waits for its turn. */
  readonly isQueued: boolean;
  /** The source whose running sync the next one waits for, because both have one rate limit; null for none. */
  readonly limitHeldBy: string | null;
  /** Set if its next sync waits for `rate.perHour`, or because the service asked for it; `hint` is what a person can do about it. */
  readonly rateWait: { readonly message: string; readonly hint: string | null } | null;
  /** Until when its schedule skips it because the service did not answer, ISO 8601; null or left out if it does not. */
  readonly pausedUntil?: string | null;
  /** The latest runs and the latest job of all kinds. */
  readonly lastComplete: EndedRun | null;
  readonly lastEnded: EndedRun | null;
  /** It may have failed before it had a run. */
  readonly lastSync: EndedJob | null;
  /** Since when syncs of all kinds fail as the last one did, ISO 8601; null, or left out, if that is not known. */
  readonly failingSince?: string | null;
  /** How the syncs of all kinds ended before the first complete one; both are false after that. */
  readonly firstSync: {
    /** True if one was not interrupted: it failed, was refused or partial. */
    readonly hasEnded: boolean;
    readonly wasInterrupted: boolean;
  };
  /** The latest ended run, if it was limited to some kinds. */
  readonly lastNarrowed: (EndedRun & { readonly kinds: readonly string[] }) | null;
  /** When the daemon got the source: its start, or the reload that added the source; ISO 8601. */
  readonly addedAt: string;
  /** When the oldest known run began, ISO 8601; null for none. */
  readonly firstTriedAt: string | null;
  /** Held removals, and the number that an acceptance has to allow. */
  readonly held: {
    readonly records: number;
    readonly ceiling: number;
    readonly lists: SourceStatus['held'];
  };
  /** Its latest restore, if that was stopped or killed before its end; null for none, and while it is applied. */
  readonly interrupted: Pick<UnendedRestore, 'restore' | 'startedAt' | 'backupMadeAt'> | null;
  /**
   * Since when its drift is not reported, because the mirror was restored from a backup and no run of all kinds has read the source
   * since; ISO 8601, null if it is reported.
   */
  readonly driftWaitsSince: string | null;
  /** Collections that the latest run did not read completely. */
  readonly unread: number;
}

/** A backup that is queued. */
export interface WaitingBackup {
  /** ISO 8601; null if it is not known. */
  readonly since: string | null;
  /** The job of the mirror that it waits for; null for none. */
  readonly behind:
    | (Pick<NonNullable<SourceFacts['behind']>, 'name' | 'silentMs'> & { readonly source: string | null })
    | null;
}

/** What health needs to know of a job that ended. */
export interface EndedJob {
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  /** An `ErrorCode`, perhaps one of another version. */
  readonly errorCode: string | null;
  readonly error: string | null;
}

/** When a job or run ended, ISO 8601; if its end is not known, when it began. */
export function endOf({ finishedAt, startedAt }: Pick<EndedJob, 'finishedAt' | 'startedAt'>): string {
  return finishedAt ?? startedAt;
}

export interface HealthFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly startedAt: string;
  readonly configProblem: string | null;
  readonly mirrorProblem: {
    readonly message: string;
    readonly hint: string | null;
    /** True if there is none yet and the first sync will create it. */
    readonly isComing: boolean;
  } | null;
  /** What else is wrong with the daemon itself, and for how long. */
  readonly problems: readonly {
    readonly message: string;
    readonly hint: string | null;
    readonly since: string;
    /** True if a source waits until the time in the message. */
    readonly isWait?: boolean;
  }[];
  readonly sources: readonly SourceFacts[];
  /** Null if no backups are made. */
  readonly backups: {
    /** The configured interval. */
    readonly everyMs: number;
    /** Of that interval, or of the syncs after which backups are made; null for none. */
    readonly change: IntervalChange | null;
    /** When the newest known backup was made, ISO 8601; null for none. */
    readonly lastAt: string | null;
    readonly isBeingMade: boolean;
    /** Null if none is queued. */
    readonly waits: WaitingBackup | null;
    /** The newest known backup in a target, and the address of that; null for none. */
    readonly newest: { readonly address: string; readonly madeAt: string } | null;
    /** The targets on volumes of their own: the space left there, and the size of the newest backup. */
    readonly volumes: readonly {
      readonly address: string;
      readonly freeBytes: number;
      readonly backupBytes: number;
    }[];
    /** Directories that have lost the backups which were stored there. */
    readonly emptied: readonly { readonly address: string; readonly holdsOthers: boolean }[];
    /** Names of backups that are not in the chain of the mirror. */
    readonly contradicting?: readonly string[];
  } | null;
  /** The latest ended check of the mirror. */
  readonly verify:
    | (EndedJob & {
        readonly problems: number;
        /** What to do about them; null if the check did not say. */
        readonly hint: string | null;
        /** True if only what people recorded was changed. */
        readonly isOfAuditLog: boolean;
      })
    | null;
  /** Why the mirror is damaged, as found in what was read of it now, whatever an earlier check found; null if it is not. */
  readonly damage: string | null;
  /** Why nothing is written to it although it can be read: another program added a trigger. */
  readonly foreignTrigger?: { readonly message: string; readonly hint: string | null } | null;
  /** Acceptances and snapshots that differ from the audit log: a line for each, and what to do about them. */
  readonly contradictions: { readonly lines: readonly string[]; readonly hint: string };
  /** Of each source: its latest drill that ended, and the score of the one before. */
  readonly drills: readonly (EndedJob & {
    readonly source: string | null;
    readonly score: number | null;
    readonly scoreBefore: number | null;
  })[];
  /** The latest jobs of other names that failed. */
  readonly failedJobs: readonly (EndedJob & {
    readonly name: string;
    readonly source: string | null;
    /** Null to advise the command that does the same. */
    readonly hint: string | null;
    /** True if it refused because what people recorded differs from the audit log. */
    readonly isOfAuditLog: boolean;
    /** True for an earlier job: it found damage that still counts, though the same job was done again since. */
    readonly isBefore?: boolean;
  })[];
  /** Channels whose notices do not arrive. */
  readonly failingChannels: readonly {
    readonly channel: string;
    readonly pending: number;
    readonly since: string;
    readonly error: string | null;
  }[];
  /** Channels and pings that cannot send because a secret is missing. */
  readonly silentChannels: readonly (SilentChannel & {
    /** The notices that wait for it, and since when. */
    readonly waiting?: { readonly count: number; readonly since: string };
  })[];
}
