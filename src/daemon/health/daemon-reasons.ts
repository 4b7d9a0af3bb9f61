/** What is wrong with the daemon, its mirror and its backups. */
import { CONTRADICTING_HINT, contradictingText } from '../../backup/chain.ts';
import { emptiedError } from '../../backup/list.ts';
import { namesOf } from '../../config/mirrors.ts';
import { isoTime } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { backupHint, DISK_FULL_HINT, EMPTIED_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import { byteSize, duration, localTime, percent, plural } from '../../core/wording.ts';
import { backupInterval } from '../http/wording.ts';
import { hasDrillFallen } from '../last-jobs.ts';
import {
  allowedBackupAgeMs,
  isInterrupted,
  isQueuedBackupOnTime,
  expectedSince,
  isFirstSyncAtWork,
} from './allowed-age.ts';
import type { SourceFacts, EndedJob, HealthFacts } from './facts.ts';
import type { HealthCode, HealthReason } from './reason.ts';
import { latestSync, failureCode, isDiskFull, WAS_FULL, wasDiskFull } from './source-reasons.ts';
import {
  behindText,
  waitHint,
  hangHint,
  hangingSyncHint,
  syncText,
  unansweredHint,
  SLOT_HINT,
  waitsForSlot,
} from './waits.ts';

export function daemonReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorProblem, configProblem, problems, drills, failedJobs, failingChannels, silentChannels } =
    facts;
  const degraded = (
    code: HealthCode,
    message: string,
    since: string | null,
    hint: string | null,
  ): HealthReason => ({ code, state: 'degraded', message, since, hint });
  const unlike = contradictingText(facts.backups?.contradicting ?? []);
  const endOf = (job: EndedJob): string => job.finishedAt ?? job.startedAt;
  return [
    ...(mirrorProblem === null ? [] : [mirrorReason(mirrorProblem)]),
    ...problems.map(({ message, hint, since, isWait }) => ({
      ...degraded('daemon_problem', message, since, hint),
      ...(isWait === true ? { isWait } : {}),
    })),
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
    ...(unlike === null ? [] : [degraded('backup_contradicts', unlike, null, CONTRADICTING_HINT)]),
    ...silentChannels.map(({ name, why, hint, waiting }) =>
      degraded(
        'notices_undelivered',
        `${name} ${name === 'pings' ? 'are not all called' : 'sends nothing'}: ${why}${waiting === undefined ? '' : `; ${plural(waiting.count, 'notice')} ${waiting.count === 1 ? 'waits' : 'wait'} for it`}`,
        waiting?.since ?? null,
        hint ?? 'set it, or correct the configuration; `tidemark config check` reads it again',
      ),
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
function damageReasons({ verify, damage, planted, failedJobs, contradictions }: HealthFacts): HealthReason[] {
  const failed = failedJobs.filter(isOfDamage);
  const names = namesOf(failed.map(({ name, source }) => `${name}${of(source)}`));
  const [first] = failed;
  const also = first === undefined ? '' : `; ${names} failed for it`;
  // Before what a check found, which it is a part of: this says what to do.
  if (planted)
    return [
      {
        code: 'verify_failed',
        state: 'degraded',
        message: `${planted.message}${also}`,
        since: null,
        hint: planted.hint,
      },
    ];
  if (verify !== null && verify.problems > 0) {
    const text = hasFoundContradictions(verify) ? contradictionText(contradictions) : null;
    const found = text === null ? damage : `${text}${refusedText(failedJobs)}`;
    return [
      {
        code: 'verify_failed',
        state: 'degraded',
        message: `the last check of the mirror found ${plural(verify.problems, 'problem')}${found === null ? '' : `: ${found}`}${also}`,
        since: verify.finishedAt ?? verify.startedAt,
        hint: `\`tidemark verify\` names them; ${verify.hint ?? `keep the file, and ${RESTORE_OR_NEW_HINT}`}`,
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
        hint: `\`tidemark verify\` names what is damaged; keep the file, and ${RESTORE_OR_NEW_HINT}`,
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
      hint: `\`tidemark verify\` says what is damaged; keep the file, and ${RESTORE_OR_NEW_HINT}`,
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
    failing: failingText(sources, now),
  });
  const age = lastAt === null ? 'yet' : `for ${duration(ageMs)}`;
  const message = `no backup of the mirror was made ${age}, one is due ${backupInterval(backups.everyMs)}: ${why}`;
  const overdueSince = lastAt === null ? since : isoTime(dueAt);
  return [{ code: 'backup_overdue', state: 'degraded', message, since: overdueSince, ...more }];
}

function failingText(
  sources: readonly SourceFacts[],
  now: number,
): { readonly text: string; readonly hint?: string } | null {
  const hangs = sources.find(({ isSilent }) => isSilent);
  const hint = hangs === undefined ? null : hangingSyncHint(hangs);
  if (hangs?.sync && hint !== null)
    return { text: `: of ${hangs.source}, ${syncText(hangs.sync, now)}`, hint };
  const failed = sources.flatMap((facts) => {
    const last = latestSync(facts);
    return last === null || failureCode(last) === null ? [] : [{ ...last, source: facts.source }];
  });
  const [first] = failed;
  if (first === undefined) return null;
  const why = first.error === null ? '' : `: ${first.error}`;
  const verb = isInterrupted(first) ? 'was interrupted' : 'failed';
  const doctor = unansweredHint(first, first.source);
  return {
    text: `: the last sync of ${first.source} ${verb}${why}`,
    ...(doctor === null ? {} : { hint: doctor }),
  };
}

function overdueCause(
  { everyMs, isBeingMade, waits }: NonNullable<HealthFacts['backups']>,
  {
    isRunDone,
    failed,
    waiting,
    unanswered,
    failing,
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
    /** Why runs are not complete, and what shows more of it; null where no sync hangs and the last ones did not fail. */
    readonly failing: { readonly text: string; readonly hint?: string } | null;
    readonly now: number;
  },
): Pick<HealthReason, 'hint' | 'follows'> & { readonly why: string } {
  if (isBeingMade) return { why: 'it is being made now', hint: null };
  if (failed !== undefined)
    return {
      why: `the last one failed${isDiskFull(failed) ? ': the disk was full' : ''}`,
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
      (isQueuedBackupOnTime(waits, everyMs, now)
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
  const { text = '', hint = '`tidemark runs` shows the runs' } = failing ?? {};
  return {
    why: `no run was complete since it was due${text}${isSyncing ? '; a sync is running now' : ''}`,
    hint: `${hint}; \`tidemark backup create\` makes a backup of the current state`,
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
