/** The facts that the health of the daemon and of its sources follows from, as `health-facts.ts` gathers them. */
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
  /** Null where no schedule syncs it. */
  readonly schedule: {
    readonly intervalMs: number;
    readonly jitterMs: number;
    /** Null for one that was not changed. */
    readonly change: IntervalChange | null;
    /** When a reload added the source to it; ISO 8601, null for one that was there at the start. */
    readonly sourceSince: string | null;
  } | null;
  readonly isSyncing: boolean;
  /** Of that sync: when it began, ISO 8601, for how long nothing was received, and as of `RunningJob` and its `progress`; left out where that is not known. */
  readonly sync?: {
    readonly startedAt: string;
    readonly silentMs: number;
    readonly pausedUntil?: number | undefined;
    readonly waitingUntil?: number | null | undefined;
  } | null;
  /** True where the service has not answered that sync for a while. */
  readonly isSilent: boolean;
  /** The job of the mirror that its next sync waits for; null if it waits for nothing. */
  readonly behind: {
    readonly name: string;
    readonly source?: string | null;
    readonly startedAt: string;
    /** Of a sync: as of `sync`. */
    readonly silentMs?: number | null;
    readonly pausedUntil?: number | undefined;
    /** Address of the target that it waits for itself. */
    readonly waitsFor?: string | null;
  } | null;
  /** True while a sync of it waits for its turn. */
  readonly isQueued: boolean;
  /** The source whose running sync the next one waits for, as both have one rate limit; null for none. */
  readonly limitHeldBy: string | null;
  /** That its next sync waits for `rate.perHour` or as the service asked, and what a person can do about it; null if it does not. */
  readonly rateWait: { readonly message: string; readonly hint: string | null } | null;
  /** Until when its schedule leaves it out, as the service did not answer; ISO 8601, null or left out where it does not. */
  readonly pausedUntil?: string | null;
  /** Of all kinds; likewise the next two. */
  readonly lastComplete: EndedRun | null;
  readonly lastEnded: EndedRun | null;
  /** The latest sync job that ended: it may have failed before a run came about. */
  readonly lastSync: EndedJob | null;
  /** Since when syncs of all kinds fail as the last one did, ISO 8601; null, or left out, where that is not known. */
  readonly failingSince?: string | null;
  /** How the syncs of all kinds went while none was complete; neither once one was. */
  readonly firstSync: {
    /** True where one came to its own end: it failed, was refused or partial. */
    readonly hasEnded: boolean;
    readonly wasInterrupted: boolean;
  };
  /** The latest ended run, if it was narrowed to some kinds. */
  readonly lastNarrowed: (EndedRun & { readonly kinds: readonly string[] }) | null;
  /** When the daemon began to have it: its start, or the reload that added the source; ISO 8601. */
  readonly addedAt: string;
  /** When the oldest run began that is known, ISO 8601; null where there was none. */
  readonly firstTriedAt: string | null;
  /** Removals that wait, and how many an acceptance has to allow. */
  readonly held: {
    readonly records: number;
    readonly ceiling: number;
    readonly lists: SourceStatus['held'];
  };
  /** Its latest restore, if that was stopped or killed before its end; null for none, and while it is being applied. */
  readonly interrupted: Pick<UnendedRestore, 'restore' | 'startedAt' | 'backupMadeAt'> | null;
  /**
   * Since when its drift is not reported, because the mirror was restored from a backup and no run of all kinds has read the source
   * since; ISO 8601, null where nothing is waited for.
   */
  readonly driftWaitsSince: string | null;
  /** Collections that the latest run did not read completely. */
  readonly unread: number;
}

export interface WaitingBackup {
  /** ISO 8601; null for not known. */
  readonly since: string | null;
  /** The job of the mirror that it waits for; null for none. */
  readonly behind:
    | (Pick<NonNullable<SourceFacts['behind']>, 'name' | 'silentMs'> & { readonly source: string | null })
    | null;
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
    /** True if there is none yet and the first sync is about to make it. */
    readonly isComing: boolean;
  } | null;
  /** What else is wrong with the daemon itself, and for how long. */
  readonly problems: readonly {
    readonly message: string;
    readonly hint: string | null;
    readonly since: string;
    /** Of a source that waits until the time in the message. */
    readonly isWait?: boolean;
  }[];
  readonly sources: readonly SourceFacts[];
  /** Null where no backups are made. */
  readonly backups: {
    /** How often they should be made. */
    readonly everyMs: number;
    /** Of that interval, or of the syncs after which they are made; null for none. */
    readonly change: IntervalChange | null;
    /** When the newest one was made, ISO 8601; null for none that is known. */
    readonly lastAt: string | null;
    readonly isBeingMade: boolean;
    /** Of one that is queued; null for none. */
    readonly waits: WaitingBackup | null;
    /** The newest one that a target has, and its address; null for none that is known. */
    readonly newest: { readonly address: string; readonly madeAt: string } | null;
    /** The targets on volumes of their own: the space left there, and the size of the newest backup. */
    readonly volumes: readonly {
      readonly address: string;
      readonly freeBytes: number;
      readonly backupBytes: number;
    }[];
    /** Directories that have none of the backups which were stored there. */
    readonly emptied: readonly { readonly address: string; readonly holdsOthers: boolean }[];
    /** Names of those that are not in the chain of the mirror. */
    readonly contradicting?: readonly string[];
  } | null;
  /** The latest check of the mirror that ended, and how many problems it found. */
  readonly verify:
    | (EndedJob & {
        readonly problems: number;
        /** What to do about them; null where it did not say. */
        readonly hint: string | null;
        /** True where all of them are of what people recorded. */
        readonly isOfAuditLog: boolean;
      })
    | null;
  /** Why the mirror is damaged, as what was read of it now showed, whatever an earlier check said; null where nothing did. */
  readonly damage: string | null;
  /** Why nothing is written to it, although it can be read: another program added a trigger. */
  readonly planted?: { readonly message: string; readonly hint: string | null } | null;
  /** Acceptances and snapshots that are not as the audit log has them: a line for each, and what to do about them. */
  readonly contradictions: { readonly lines: readonly string[]; readonly hint: string };
  /** Of each source: its latest drill that ended, and the score of the one before. */
  readonly drills: readonly (EndedJob & {
    readonly source: string | null;
    readonly score: number | null;
    readonly scoreBefore: number | null;
  })[];
  /** Other jobs of which the latest did not do what it should. */
  readonly failedJobs: readonly (EndedJob & {
    readonly name: string;
    readonly source: string | null;
    /** Null for that of the command which does the same. */
    readonly hint: string | null;
    /** True where it refused, since what people recorded is not as the audit log has it. */
    readonly isOfAuditLog: boolean;
    /** True of one that found a damage which still counts, though the same job was done again since. */
    readonly isBefore?: boolean;
  })[];
  /** Channels whose notices do not arrive. */
  readonly failingChannels: readonly {
    readonly channel: string;
    readonly pending: number;
    readonly since: string;
    readonly error: string | null;
  }[];
  /** Channels and pings without a secret that they need, and why: nothing is sent through them. */
  readonly silentChannels: readonly (SilentChannel & {
    /** Notices that wait for it, and since when. */
    readonly waiting?: { readonly count: number; readonly since: string };
  })[];
}
