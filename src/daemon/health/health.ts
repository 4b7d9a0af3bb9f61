/**
 * The health of the daemon (docs/http.md, Health). Pure: takes facts, returns state and reasons. Readiness, metrics and
 * the dashboard are all computed from it.
 */
import { emptiedError } from '../../backup/list.ts';
import { namesOf } from '../../config/mirrors.ts';
import { isoTime } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { backupHint, DISK_FULL_HINT, EMPTIED_HINT, RESTORE_HINT, resumeHint } from '../../core/hints.ts';
import { type UnendedRestore, unendedText } from '../../mirror/unfinished-restore.ts';
import { byteSize, duration, durationBeyond, localTime, percent, plural } from '../../core/wording.ts';
import { hasDrillFallen } from '../last-jobs.ts';
import { backupInterval, tookMs } from '../http/wording.ts';
import { LONGEST_SILENCE_MS } from '../jobs/queue.ts';
import { allowedAge, allowedBackupMs, allowedSyncMs, type IntervalChange } from '../schedule/intervals.ts';

/** `failing` and `starting` (no run has been complete yet, and none is late) answer 503, the others 200. */
export const HEALTH_STATES = ['ok', 'degraded', 'starting', 'failing'] as const;
export type HealthState = (typeof HEALTH_STATES)[number];

type HealthCode =
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
  | 'config_problem'
  | 'daemon_problem'
  | 'audit_log_contradicted'
  | 'verify_failed'
  | 'drill_fell'
  | 'job_failed'
  | 'backup_overdue'
  | 'backup_space_low'
  | 'backup_emptied'
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
  /** Of an overdue backup: the event that reports its cause. */
  readonly follows?: 'sync_overdue' | 'backup_failed';
}

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
  /** Of that sync: when it began, ISO 8601, and for how long nothing was received; left out where that is not known. */
  readonly sync?: { readonly startedAt: string; readonly silentMs: number } | null;
  /** True where the service has not answered that sync for a while. */
  readonly isSilent: boolean;
  /** The job of the mirror that its next sync waits for; null if it waits for nothing. */
  readonly behind: {
    readonly name: string;
    readonly source?: string | null;
    readonly startedAt: string;
    /** Of a sync: as of `sync`. */
    readonly silentMs?: number | null;
    /** Address of the target that it waits for itself. */
    readonly waitsFor?: string | null;
  } | null;
  /** True while a sync of it waits for its turn. */
  readonly isQueued: boolean;
  /** The source whose running sync the next one waits for, as both have one rate limit; null for none. */
  readonly limitHeldBy: string | null;
  /** That its next sync waits for `rate.perHour`, and what a person can do about it; null if it does not. */
  readonly hourUsedUp: { readonly message: string; readonly hint: string | null } | null;
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
  readonly held: { readonly records: number; readonly ceiling: number };
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

interface WaitingBackup {
  /** ISO 8601; null for not known. */
  readonly since: string | null;
  /** The job of the mirror that it waits for; null for none. */
  readonly behind:
    | (Pick<NonNullable<SourceFacts['behind']>, 'name' | 'silentMs'> & { readonly source: string | null })
    | null;
}

interface EndedJob {
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
}

interface SourceHealth {
  readonly source: string;
  readonly state: HealthState;
  readonly reasons: readonly HealthReason[];
  /** Of the latest complete run of all kinds; where the mirror cannot be read, of the last one that was known. */
  readonly lastCompleteAt: string | null;
  /** From when on a complete run can be expected, where there never was one; ISO 8601. */
  readonly expectedSince: string;
  /** How old the last complete run may be; null where no schedule syncs the source. */
  readonly allowedMs: number | null;
}

export interface Health {
  readonly state: HealthState;
  /** What concerns the daemon as a whole. */
  readonly reasons: readonly HealthReason[];
  readonly sources: readonly SourceHealth[];
}

export function assessHealth(facts: HealthFacts): Health {
  const reasons = daemonReasons(facts);
  const sources = facts.sources.map((source) => sourceHealth(source, facts));
  return { state: worst([...reasons, ...sources]), reasons, sources };
}

/**
 * The same of a mirror that one source has for itself: what concerns the mirror concerns that source, and nothing is left for the
 * daemon as a whole.
 */
export function withOwnMirror({ reasons, sources }: Health): Health {
  // The source says more of its first sync than that it makes the mirror.
  const ofMirror = reasons.filter(({ code }) => code !== 'first_sync');
  const own = sources.map((source) => {
    const all = [...source.reasons, ...ofMirror];
    return { ...source, state: worst([source, ...all]), reasons: all };
  });
  return { state: worst(own), reasons: [], sources: own };
}

/** Of a source whose mirror the daemon has still to read. */
export function unreadHealth(facts: SourceFacts): SourceHealth {
  const { source, addedAt } = facts;
  return {
    source,
    state: 'starting',
    reasons: [
      {
        code: 'mirror_unread',
        state: 'starting',
        message: 'the daemon has not read the mirror since it started: it reads one after the other',
        since: addedAt,
        hint: null,
      },
    ],
    lastCompleteAt: null,
    expectedSince: addedAt,
    allowedMs: allowedAgeMs(facts),
  };
}

/** The worst of these states. */
export function worst(parts: readonly { readonly state: HealthState }[]): HealthState {
  return HEALTH_STATES.findLast((each) => parts.some(({ state }) => state === each)) ?? 'ok';
}

function sourceHealth(facts: SourceFacts, { now, mirrorProblem }: HealthFacts): SourceHealth {
  const allowedMs = allowedAgeMs(facts);
  const isRead = mirrorProblem === null || mirrorProblem.isComing;
  const reasons = isRead ? sourceReasons(facts, allowedMs, now) : [];
  return {
    source: facts.source,
    // The reason is the mirror's, which may have other sources too.
    state: isRead ? worst(reasons) : 'failing',
    reasons,
    lastCompleteAt: facts.lastComplete?.finishedAt ?? null,
    expectedSince: expectedSince(facts),
    allowedMs,
  };
}

function daemonReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorProblem, configProblem, problems, drills, failedJobs, failingChannels } = facts;
  const degraded = (
    code: HealthCode,
    message: string,
    since: string | null,
    hint: string | null,
  ): HealthReason => ({ code, state: 'degraded', message, since, hint });
  const endOf = (job: EndedJob): string => job.finishedAt ?? job.startedAt;
  return [
    ...(mirrorProblem === null ? [] : [mirrorReason(mirrorProblem)]),
    ...problems.map(({ message, hint, since }) => degraded('daemon_problem', message, since, hint)),
    ...(configProblem === null
      ? []
      : [
          degraded(
            'config_problem',
            `the new configuration was refused; ${configProblem}`,
            null,
            '`tidemark config check` lists all mistakes',
          ),
        ]),
    ...contradictionReasons(facts, degraded),
    ...damageReasons(facts),
    ...drills.flatMap((drill) =>
      drill.score !== null && drill.scoreBefore !== null && hasDrillFallen(drill.score, drill.scoreBefore)
        ? [
            degraded(
              'drill_fell',
              `the last drill${of(drill.source)} would restore ${percent(drill.score)}, the one before ${percent(drill.scoreBefore)}`,
              endOf(drill),
              '`tidemark drill` lists what would not come back',
            ),
          ]
        : [],
    ),
    ...failedJobs
      .filter((job) => !isOfDamage(job) && !(job.isOfAuditLog && isContradicted(facts)))
      .map((job) =>
        degraded(
          'job_failed',
          `the last ${job.name}${of(job.source)} ${OUTCOME_WORDS[job.outcome] ?? 'failed'}${job.error === null ? '' : `: ${job.error}`}${job.name === 'backup' ? newestText(facts) : ''}`,
          endOf(job),
          job.hint ?? againHint(job),
        ),
      ),
    ...backupReasons(facts),
    ...(facts.backups?.volumes ?? []).flatMap(({ address, freeBytes, backupBytes }) =>
      freeBytes >= BACKUPS_OF_ROOM * backupBytes
        ? []
        : [
            degraded(
              'backup_space_low',
              `${address} has ${byteSize(freeBytes)} left, and the newest backup takes ${byteSize(backupBytes)}`,
              null,
              'free space there, or enlarge the volume: the next backups may not fit',
            ),
          ],
    ),
    ...(facts.backups?.emptied ?? []).map(({ address, holdsOthers }) =>
      degraded('backup_emptied', emptiedError(address, holdsOthers).message, null, EMPTIED_HINT),
    ),
    ...failingChannels.map(({ channel, pending, since, error }) =>
      degraded(
        'notices_undelivered',
        `${plural(pending, 'notice')} could not be delivered through ${channel}${error === null ? '' : `: ${error}`}`,
        since,
        `\`tidemark notify test\` tries the channels`,
      ),
    ),
  ];
}

function againHint({ name, errorCode }: HealthFacts['failedJobs'][number]): string {
  const command = `\`tidemark ${name === 'backup' ? 'backup create' : name}\``;
  const first = name === 'backup' || isDiskFull({ errorCode }) ? backupHint(errorCode) : null;
  return first === null ? command : `${first}; then ${command}`;
}

/** One reason, however many rows: what one hand did. None where the last check found it: that has the same remedy. */
function contradictionReasons(
  { contradictions, verify, failedJobs }: HealthFacts,
  degraded: (code: HealthCode, message: string, since: string | null, hint: string | null) => HealthReason,
): HealthReason[] {
  const text = contradictionText(contradictions);
  if (text === null || hasFoundContradictions(verify)) return [];
  return [degraded('audit_log_contradicted', `${text}${refusedText(failedJobs)}`, null, contradictions.hint)];
}

/** Then a job that refuses for it adds nothing. */
function isContradicted({ contradictions }: HealthFacts): boolean {
  return contradictions.lines.length > 0;
}

function refusedText(failedJobs: HealthFacts['failedJobs']): string {
  const refused = failedJobs.filter(({ isOfAuditLog }) => isOfAuditLog);
  if (refused.length === 0) return '';
  return `; ${namesOf(refused.map(({ name, source }) => `${name}${of(source)}`))} refused for it`;
}

function contradictionText({ lines }: HealthFacts['contradictions']): string | null {
  const [first] = lines;
  if (first === undefined) return null;
  return `${first}${lines.length === 1 ? '' : `, and ${plural(lines.length - 1, 'more row')} like it`}`;
}

function hasFoundContradictions(verify: HealthFacts['verify']): boolean {
  return verify !== null && verify.problems > 0 && verify.isOfAuditLog;
}

/** One that refused for the audit log failed for less: what people recorded was changed. */
function isOfDamage({ errorCode, isOfAuditLog }: HealthFacts['failedJobs'][number]): boolean {
  return !isOfAuditLog && errorCode === ('mirror_corrupt' satisfies ErrorCode);
}

/** A damaged mirror is one reason, whatever jobs fail for it: their commands would fail too. */
function damageReasons({ verify, damage, failedJobs, contradictions }: HealthFacts): HealthReason[] {
  const failed = failedJobs.filter(isOfDamage);
  const names = namesOf(failed.map(({ name, source }) => `${name}${of(source)}`));
  const [first] = failed;
  const also = first === undefined ? '' : `; ${names} failed for it`;
  if (verify !== null && verify.problems > 0) {
    const text = hasFoundContradictions(verify) ? contradictionText(contradictions) : null;
    const found = text === null ? null : `${text}${refusedText(failedJobs)}`;
    return [
      {
        code: 'verify_failed',
        state: 'degraded',
        message: `the last check of the mirror found ${plural(verify.problems, 'problem')}${found === null ? '' : `: ${found}`}${also}`,
        since: verify.finishedAt ?? verify.startedAt,
        hint: `\`tidemark verify\` names them; ${verify.hint ?? `keep the file, and ${RESTORE_HINT}`}`,
      },
    ];
  }
  if (damage !== null) {
    return [
      {
        code: 'verify_failed',
        state: 'degraded',
        message: `${damage}${also}`,
        since: null,
        hint: `\`tidemark verify\` names what is damaged; keep the file, and ${RESTORE_HINT}`,
      },
    ];
  }
  if (first === undefined) return [];
  return [
    {
      code: 'job_failed',
      state: 'degraded',
      message: `${failed.some(({ isBefore }) => isBefore === true) ? `the mirror was found damaged by ${names}` : `the last ${names} failed`}${first.error === null ? '' : `: ${first.error}`}`,
      since: first.finishedAt ?? first.startedAt,
      hint: `\`tidemark verify\` says what is damaged; keep the file, and ${RESTORE_HINT}`,
    },
  ];
}

/** Where one target failed, another may have taken the backup. */
function newestText({ backups }: HealthFacts): string {
  const newest = backups?.newest ?? null;
  return newest === null
    ? ''
    : `; the newest backup, of ${localTime(newest.madeAt)}, is in ${newest.address}`;
}

/** A backup is made after a complete run. Where it failed, its job is a reason too. */
function backupReasons({ backups, sources, failedJobs, now, startedAt }: HealthFacts): HealthReason[] {
  // One after every complete run: what is overdue then is the run.
  if (backups === null || backups.everyMs === 0) return [];
  const { lastAt, waits } = backups;
  const completeAt = sources.flatMap(({ lastComplete }) => lastComplete?.finishedAt ?? []).sort();
  // However long that takes, nothing is late: there is nothing to back up yet.
  const isFirst = lastAt === null && completeAt.length === 0;
  if (isFirst && sources.some((source) => isFirstSyncAtWork(source, now))) return [];
  const triedAt = sources.map(expectedSince).sort();
  const neverSince = [completeAt.at(-1), waits?.since].flatMap((at) => at ?? []).sort();
  const since = lastAt ?? neverSince[0] ?? triedAt[0] ?? startedAt;
  const syncsMs = sources.map(({ schedule }) => schedule?.intervalMs ?? 0);
  const ageMs = now - Date.parse(since);
  if (ageMs <= allowedBackupAgeMs(since, backups, syncsMs)) return [];
  const dueAt = lastAt === null ? 0 : Date.parse(lastAt) + backups.everyMs;
  const isRunDone = completeAt.some((at) => Date.parse(at) >= dueAt);
  const failed = failedJobs.find(({ name, isBefore }) => name === 'backup' && isBefore !== true);
  const waiting = sources.find((source) => source.limitHeldBy !== null || waitsForSlot(source));
  const isSyncing = sources.some((source) => source.isSyncing && !source.isSilent);
  const isFull = sources.some(wasDiskFull);
  const before = sources.find(
    ({ source }) => waits?.behind?.name === 'sync' && source === waits.behind.source,
  );
  const unanswered = before === undefined ? null : unansweredHint(latestSync(before), before.source);
  const { why, ...more } = overdueCause(backups, {
    ...{ isRunDone, failed, waiting, unanswered, isSyncing, isFull, now },
  });
  const age = lastAt === null ? 'yet' : `for ${duration(ageMs)}`;
  const message = `no backup of the mirror was made ${age}, one is due ${backupInterval(backups.everyMs)}: ${why}`;
  const overdueSince = lastAt === null ? since : isoTime(dueAt);
  return [{ code: 'backup_overdue', state: 'degraded', message, since: overdueSince, ...more }];
}

function overdueCause(
  { everyMs, isBeingMade, waits }: NonNullable<HealthFacts['backups']>,
  {
    isRunDone,
    failed,
    waiting,
    unanswered,
    isSyncing,
    isFull,
    now,
  }: Record<'isRunDone' | 'isSyncing' | 'isFull', boolean> & {
    /** The last backup, if it failed. */
    readonly failed: HealthFacts['failedJobs'][number] | undefined;
    /** A source whose next sync waits for others. */
    readonly waiting: SourceFacts | undefined;
    /** What to do about the sync that the backup waits for, where the last one of its source had no answer. */
    readonly unanswered: string | null;
    readonly now: number;
  },
): Pick<HealthReason, 'hint' | 'follows'> & { readonly why: string } {
  if (isBeingMade) return { why: 'it is being made now', hint: null };
  if (failed !== undefined)
    return {
      why: `the last one failed${isDiskFull(failed) ? ': the disk is full' : ''}`,
      hint: isDiskFull(failed)
        ? againHint(failed)
        : '`tidemark backup create` makes one once the cause is fixed',
      follows: 'backup_failed',
    };
  if (waits !== null) {
    const { since, behind } = waits;
    const span = since === null ? '' : ` for ${duration(now - Date.parse(since))}`;
    const hangs = hangHint(behind);
    const silent =
      hangs === null ? '' : `, which has received nothing for ${duration(behind?.silentMs ?? 0)}`;
    const what = behind === null ? 'a free slot' : `the ${behind.name} job${of(behind.source)}${silent}`;
    const remedy = behind === null ? SLOT_HINT : 'sync less often';
    const advice =
      hangs ??
      unanswered ??
      (isBackupOnItsWay(waits, everyMs, now)
        ? 'it is made after the jobs that are due'
        : `${remedy}: a backup waits for the syncs that are due`);
    return {
      why: `complete runs were made; the backup has waited${span}, now for ${what}`,
      hint: `${advice}; \`tidemark backup create\` makes one now`,
    };
  }
  if (isRunDone)
    return {
      why: 'complete runs were made, and no backup after them',
      hint: '`tidemark backup create` makes one now; the daemon makes one after its next complete sync',
    };
  if (waiting !== undefined)
    return {
      why: `no run was complete since it was due: ${behindText(waiting, now) ?? ''}`,
      hint: waitHint(waiting),
      follows: 'sync_overdue',
    };
  if (isFull && !isSyncing)
    return {
      why: `no run was complete since it was due: ${WAS_FULL}`,
      hint: DISK_FULL_HINT,
      follows: 'sync_overdue',
    };
  return {
    why: `no run was complete since it was due${isSyncing ? '; a sync is running now' : ''}`,
    hint: '`tidemark status` shows what keeps runs from being complete; `tidemark backup create` makes a backup of the current state',
    follows: 'sync_overdue',
  };
}

function mirrorReason({ message, hint, isComing }: NonNullable<HealthFacts['mirrorProblem']>): HealthReason {
  if (isComing) {
    return {
      code: 'first_sync',
      state: 'starting',
      message: 'the first sync will create the mirror',
      since: null,
      hint: null,
    };
  }
  return {
    code: 'mirror_unreadable',
    state: 'failing',
    message: `the mirror cannot be read: ${message}`,
    since: null,
    hint,
  };
}

const OUTCOME_WORDS: Readonly<Record<string, string>> = {
  interrupted: 'was interrupted',
  partial: 'was not completed everywhere',
};

function of(source: string | null): string {
  return source === null ? '' : ` of ${source}`;
}

/** How many more backups a volume should have room for; deploy/prometheus has the same number. */
const BACKUPS_OF_ROOM = 2;

/**
 * The allowed age of the newest backup.
 * @param at when it was made, ISO 8601
 * @param syncsMs intervals of the syncs after which one is made
 */
export function allowedBackupAgeMs(
  at: string,
  { everyMs, change }: Pick<NonNullable<HealthFacts['backups']>, 'everyMs' | 'change'>,
  syncsMs: readonly number[],
): number {
  return allowedAge(at, allowedBackupMs(Math.max(everyMs, ...syncsMs)), change);
}

/**
 * True of a queued backup that has waited for less than the time between two: other jobs may only be before it. Behind a sync that
 * hangs it has as long as that may take to be given up.
 */
export function isBackupOnItsWay({ since, behind }: WaitingBackup, everyMs: number, now: number): boolean {
  const allowedMs = hangHint(behind) === null ? everyMs : Math.max(everyMs, LONGEST_SILENCE_MS);
  return since !== null && now - Date.parse(since) < allowedMs;
}

/**
 * The allowed age of a source's last complete run: 1.25 intervals, the jitter, and the duration of that run. Without one, for how
 * long it may be expected.
 */
export function allowedAgeMs(
  facts: Pick<SourceFacts, 'schedule' | 'lastComplete' | 'firstTriedAt' | 'addedAt'>,
): number | null {
  const { schedule, lastComplete } = facts;
  if (schedule === null) return null;
  const { intervalMs, jitterMs, change, sourceSince } = schedule;
  const ownMs = lastComplete === null ? null : tookMs(lastComplete);
  const at =
    lastComplete === null ? expectedSince(facts) : (lastComplete.finishedAt ?? lastComplete.startedAt);
  const allowedMs = allowedSyncMs(intervalMs, jitterMs);
  // As a source that was added: before, nothing was expected of the schedule.
  if (sourceSince !== null && sourceSince > at)
    return Date.parse(sourceSince) - Date.parse(at) + allowedAge(sourceSince, allowedMs, change, ownMs ?? 0);
  return allowedAge(at, allowedMs, change, ownMs ?? 0);
}

/** From when on a complete run is expected: when the daemon began to have the source, or the first known attempt. */
export function expectedSince({
  firstTriedAt,
  addedAt,
}: Pick<SourceFacts, 'firstTriedAt' | 'addedAt'>): string {
  return firstTriedAt !== null && firstTriedAt < addedAt ? firstTriedAt : addedAt;
}

/**
 * @param allowedMs of `allowedAgeMs`
 * @param now milliseconds since the epoch
 */
function sourceReasons(facts: SourceFacts, allowedMs: number | null, now: number): HealthReason[] {
  const ofLastRun = lastRun(facts);
  return [
    ...freshness(facts, allowedMs, now),
    ...(ofLastRun.length === 0 ? narrowedRun(facts) : ofLastRun),
    ...held(facts),
    ...interruptedRestore(facts),
    ...waitingDrift(facts),
  ];
}

function freshness(facts: SourceFacts, allowedMs: number | null, now: number): HealthReason[] {
  const { lastComplete, source, isSyncing } = facts;
  const waits = behindText(facts, now) ?? facts.hourUsedUp?.message;
  const { sync = null } = facts;
  const runs = sync === null ? undefined : syncText(sync, now);
  const isFull = !isSyncing && wasDiskFull(facts);
  const held = [waits, runs, isFull ? WAS_FULL : undefined]
    .map((text) => (text === undefined ? '' : `; ${text}`))
    .join('');
  const isSilent = sync !== null && sync.silentMs >= SILENT_MS;
  // One that is asked for would wait for it too.
  const start = facts.behind === null ? `, \`tidemark sync --source ${source}\` starts one now` : '';
  const hint =
    facts.hourUsedUp?.hint ??
    waitHint(facts) ??
    hangingSyncHint(facts) ??
    (isFull ? DISK_FULL_HINT : null) ??
    (isSyncing ? null : unansweredHint(latestSync(facts), source)) ??
    (isSyncing ? null : `\`tidemark runs\` shows the runs${start}`);
  if (lastComplete === null) {
    // A new source gets the same time; a restart of the daemon does not extend it.
    const since = expectedSince(facts);
    const isAtWork = isFirstSyncAtWork(facts, now);
    const isLate = allowedMs !== null && now - Date.parse(since) > allowedMs;
    if (isLate && !isAtWork)
      return [
        {
          code: 'never_complete',
          state: 'failing',
          message: `no run of all kinds has been complete yet${held}`,
          since,
          hint,
        },
      ];
    return [
      {
        code: 'first_sync',
        // Without a schedule, `starting` would never end.
        state: allowedMs === null ? 'degraded' : 'starting',
        message: isSyncing
          ? `the first sync is under way${isSilent ? `; nothing received for ${duration(sync.silentMs)}` : ''}`
          : `no run of all kinds has been complete yet${isAtWork ? held : ''}`,
        since,
        hint:
          allowedMs === null ? `no schedule syncs this source: \`tidemark sync --source ${source}\`` : null,
      },
    ];
  }
  const at = lastComplete.finishedAt ?? lastComplete.startedAt;
  const ageMs = now - Date.parse(at);
  if (allowedMs === null || ageMs <= allowedMs) return [];
  const [age, allowed] = durationBeyond(ageMs, allowedMs);
  const message = `the last complete run ended ${age} ago; the schedule allows ${allowed}${held}`;
  return [{ code: 'stale', state: 'failing', message, since: at, hint }];
}

/**
 * True while a source's first sync is read, or waits for its turn, and none has ended yet: however long it takes, it is not late. One
 * that was interrupted has not ended: a restart makes nothing late. But where the process dies of it again and again, it never ends:
 * then it has as long as the schedule allows, and at least `INTERRUPTED_FIRST_MS`, from the first attempt on.
 * @param now milliseconds since the epoch
 */
export function isFirstSyncAtWork(
  facts: Pick<
    SourceFacts,
    | ('isSyncing' | 'isSilent' | 'isQueued' | 'behind' | 'lastComplete' | 'firstSync')
    | ('schedule' | 'firstTriedAt' | 'addedAt')
  >,
  now: number,
): boolean {
  const { isSyncing, isSilent, isQueued, behind, lastComplete, firstSync } = facts;
  if (lastComplete !== null || firstSync.hasEnded) return false;
  const allowedMs = Math.max(allowedAgeMs(facts) ?? 0, INTERRUPTED_FIRST_MS);
  if (firstSync.wasInterrupted && now - Date.parse(expectedSince(facts)) > allowedMs) return false;
  // A sync that hangs is given up, so that what waits for it gets its turn; a backup may wait for its target.
  return (isSyncing && !isSilent) || (isQueued && (behind === null || behind.name === 'sync'));
}

/** As the alert TidemarkNeverComplete, which begins to count again where the daemon was away. */
const INTERRUPTED_FIRST_MS = 6 * 60 * 60_000;

/** True of a job or a run that was cut short: a run that was is `failed`, with that error. */
export function isInterrupted({ outcome, errorCode }: Pick<EndedJob, 'outcome' | 'errorCode'>): boolean {
  return outcome === 'interrupted' || errorCode === ('interrupted' satisfies ErrorCode);
}

/** The job of the mirror that the next sync of a source waits for, as a mirror has one at a time; null if it waits for nothing. */
export function behindText(
  facts: Pick<SourceFacts, 'source' | 'behind' | 'isQueued' | 'limitHeldBy'>,
  now: number,
): string | null {
  const { behind, limitHeldBy } = facts;
  if (limitHeldBy !== null) return `the next sync waits for ${limitHolderText(limitHeldBy)}`;
  if (waitsForSlot(facts)) return 'the next sync waits for a free slot';
  if (behind === null) return null;
  const { name, source = null, startedAt, silentMs, waitsFor = null } = behind;
  if (name === 'sync') {
    // Of the source's own sync it is said that it runs.
    if (source === facts.source) return null;
    const runs = syncText({ startedAt, silentMs: silentMs ?? 0 }, now);
    return source === null ? runs : `the next sync waits for that of ${source}: ${runs}`;
  }
  const target = waitsFor === null ? '' : `, and waits for ${waitsFor} to answer`;
  return `the next sync waits for the ${name} job, which has run for ${duration(now - Date.parse(startedAt))}${target}`;
}

/** What a sync waits for whose rate limit the sync of another mirror holds. */
export function limitHolderText(source: string): string {
  return `the sync of ${source}, which has the same rate limit`;
}

/** What to do about a wait for other mirrors; null without one. */
function waitHint(facts: Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy'>): string | null {
  if (facts.limitHeldBy !== null)
    return 'sources with one address and key are synced one at a time: sync them less often';
  return waitsForSlot(facts) ? SLOT_HINT : null;
}

/** As a person would call a service silent; most answers take less. */
const SILENT_MS = 30_000;

/** How long a running sync has run, and for how long it has received nothing. */
export function syncText({ startedAt, silentMs }: NonNullable<SourceFacts['sync']>, now: number): string {
  const silent = silentMs < SILENT_MS ? '' : `; nothing received for ${duration(silentMs)}`;
  return `a sync has run for ${duration(now - Date.parse(startedAt))}${silent}`;
}

/** What to do about a sync that receives nothing, whether it is the source's own or the next one waits for it; null for none. */
export function hangingSyncHint({
  source,
  sync = null,
  behind,
}: Pick<SourceFacts, 'source' | 'sync' | 'behind'>): string | null {
  return hangHint(sync === null ? behind : { name: 'sync', source, silentMs: sync.silentMs });
}

function hangHint(
  job: Pick<NonNullable<SourceFacts['behind']>, 'name' | 'source' | 'silentMs'> | null,
): string | null {
  if (job?.name !== 'sync' || (job.silentMs ?? 0) < SILENT_MS) return null;
  const of = job.source === null || job.source === undefined ? '' : ` --source ${job.source}`;
  return `\`tidemark doctor${of}\` shows whether the service responds`;
}

/** What shows whether the service responds again, of a sync that failed since it did not; null for another. */
export function unansweredHint(
  sync: Pick<EndedJob, 'outcome' | 'errorCode'> | null,
  source: string,
): string | null {
  if (sync?.outcome !== 'failed' || sync.errorCode === null || !UNANSWERED.has(sync.errorCode)) return null;
  return `\`tidemark doctor --source ${source}\` shows whether the service responds`;
}

const UNANSWERED: ReadonlySet<string> = new Set<ErrorCode>(['unreachable', 'timeout', 'unresponsive']);

const SLOT_HINT = 'raise `daemon.slots`, or sync less often';

/** With a mirror for each source, those of others take the slots. */
function waitsForSlot({
  behind,
  isQueued,
  limitHeldBy,
}: Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy'>): boolean {
  return isQueued && behind === null && limitHeldBy === null;
}

const REFUSED: ReadonlySet<string> = new Set<ErrorCode>(['unauthorized', 'forbidden']);

/** What is wrong with an attempt that brought nothing; null for one that brought something. */
export function failureCode({
  outcome,
  errorCode,
}: Pick<EndedJob, 'outcome' | 'errorCode'>): 'key_refused' | 'run_failed' | null {
  if (outcome === 'refused' || (outcome === 'failed' && errorCode !== null && REFUSED.has(errorCode)))
    return 'key_refused';
  return outcome === 'failed' || outcome === 'interrupted' ? 'run_failed' : null;
}

/** The latest sync of all kinds: its run, or the job where that had none. */
function latestSync({
  lastEnded,
  lastSync,
}: Pick<SourceFacts, 'lastEnded' | 'lastSync'>): (EndedJob & { readonly run?: number | null }) | null {
  // A job without a run ended after the last run.
  const isJobNewer =
    lastSync !== null &&
    (lastEnded === null || lastSync.startedAt > (lastEnded.finishedAt ?? lastEnded.startedAt));
  return isJobNewer ? lastSync : lastEnded;
}

function isDiskFull({ errorCode }: Pick<EndedJob, 'errorCode'>): boolean {
  return errorCode === ('disk_full' satisfies ErrorCode);
}

const WAS_FULL = 'the disk was full at the last sync';

function wasDiskFull(facts: SourceFacts): boolean {
  const last = latestSync(facts);
  return last !== null && isDiskFull(last);
}

function lastRun(facts: SourceFacts): HealthReason[] {
  const { lastEnded, failingSince, unread, source } = facts;
  const last = latestSync(facts);
  if (last === null) return [];
  const since = last.finishedAt ?? last.startedAt;
  // A job that failed before its run began is in no list of runs.
  const run = last.run ?? null;
  const why = last.error === null ? '' : `: ${last.error}`;
  const code = failureCode(last);
  if (code === 'key_refused') {
    return [
      {
        code: 'key_refused',
        state: 'degraded',
        message: `the last sync failed${why === '' ? ': the service refused the key' : why}`,
        since: failingSince ?? since,
        hint: `give ${source} a valid key; \`tidemark doctor --source ${source}\` tries it`,
      },
    ];
  }
  if (code === 'run_failed') {
    const doctor = unansweredHint(last, source);
    const first = doctor === null ? '' : `${doctor}; `;
    return [
      {
        code: 'run_failed',
        state: 'degraded',
        message: `the last sync ${isInterrupted(last) ? 'was interrupted' : 'failed'}${run === null ? ' before its run began' : ''}${why}`,
        since: failingSince ?? since,
        hint:
          run === null
            ? `${first}no run was begun${isDiskFull(last) ? ': free space on the volume of the mirror' : ''}; the next sync retries`
            : `${first}\`tidemark runs show ${run}\` shows the reason; the next sync retries`,
      },
    ];
  }
  if (lastEnded?.outcome !== 'partial') return [];
  const what = unread === 0 ? '' : `: ${plural(unread, 'collection')} incomplete`;
  return [
    {
      code: 'run_partial',
      state: 'degraded',
      message: `the last sync was partial${what}`,
      since,
      hint: `\`tidemark runs show ${lastEnded.run}\` names them`,
    },
  ];
}

/** Errors of a run of some kinds are reported until a run of all kinds. */
function narrowedRun({ lastNarrowed: last }: SourceFacts): HealthReason[] {
  if (last === null || last.outcome === 'complete') return [];
  const isPartial = last.outcome === 'partial';
  return [
    {
      code: isPartial ? 'run_partial' : 'run_failed',
      state: 'degraded',
      message: `the last sync of ${last.kinds.join(', ')} only ${isPartial ? 'was partial' : isInterrupted(last) ? 'was interrupted' : 'failed'}${last.error === null ? '' : `: ${last.error}`}`,
      since: last.finishedAt ?? last.startedAt,
      hint: `\`tidemark runs show ${last.run}\` says why`,
    },
  ];
}

function held({ held: { records, ceiling }, source }: SourceFacts): HealthReason[] {
  if (records === 0) return [];
  return [
    {
      code: 'removals_held',
      state: 'degraded',
      message: `${plural(records, 'removal')} held: more than are removed without approval`,
      since: null,
      hint: `\`tidemark diff latest live --source ${source}\` shows them, \`tidemark restore --source ${source}\` plans to put them back; if they were really removed: \`tidemark sync --source ${source} --accept-removals ${ceiling}\``,
    },
  ];
}

/** Runs of some kinds do not end it: without a run of all kinds, no drift would ever be reported again. */
function waitingDrift({ driftWaitsSince: since, source }: SourceFacts): HealthReason[] {
  if (since === null) return [];
  return [
    {
      code: 'drift_waiting',
      state: 'degraded',
      message:
        'until a run of all kinds has read the source, drift is not reported, and nothing is committed to git (if that is configured): the mirror was restored from a backup',
      since,
      hint: `\`tidemark sync --source ${source}\`, without \`--kind\`, \`--organization\` and \`--project\`, reads all of it`,
    },
  ];
}

/** The service may be restored only in part. */
function interruptedRestore({ interrupted }: SourceFacts): HealthReason[] {
  if (interrupted === null) return [];
  const { restore, startedAt } = interrupted;
  return [
    {
      code: 'restore_interrupted',
      state: 'degraded',
      message: unendedText(`restore ${restore}`, interrupted),
      since: startedAt,
      hint: resumeHint(restore, null),
    },
  ];
}
