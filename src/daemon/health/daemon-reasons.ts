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
import { endOf, type SourceFacts, type HealthFacts } from './facts.ts';
import { because, degraded, type HealthReason } from './reason.ts';
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

/** The reasons that concern the daemon, or a mirror as a whole. */
export function daemonReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorProblem, configProblem, problems, drills, failedJobs, failingChannels, silentChannels } =
    facts;
  const contradicting = contradictingText(facts.backups?.contradicting ?? []);
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
    ...contradictionReasons(facts),
    ...damageReasons(facts),
    ...drills.flatMap((drill) =>
      drill.score !== null && drill.scoreBefore !== null && hasDrillFallen(drill.score, drill.scoreBefore)
        ? [
            degraded(
              'drill_fell',
              `the last ${jobText({ name: 'drill', source: drill.source })} would restore ${percent(drill.score)}, the one before ${percent(drill.scoreBefore)}`,
              endOf(drill),
              '`tidemark drill` lists what would not come back',
            ),
          ]
        : [],
    ),
    ...failedJobs
      // The reason of the audit log names the jobs that refuse because of it.
      .filter((job) => !isOfDamage(job) && !(job.isOfAuditLog && facts.contradictions.lines.length > 0))
      .map((job) =>
        degraded(
          'job_failed',
          `the last ${jobText(job)} ${OUTCOME_WORDS[job.outcome] ?? 'failed'}${because(job)}${job.name === 'backup' ? newestText(facts) : ''}`,
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
    ...(contradicting === null
      ? []
      : [degraded('backup_contradicts', contradicting, null, CONTRADICTING_HINT)]),
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
        `${plural(pending, 'notice')} could not be delivered through ${channel}${because({ error })}`,
        since,
        `\`tidemark notify test\` tries the channels`,
      ),
    ),
  ];
}

/** The name of a job, and its source if it has one. */
function jobText({ name, source }: { readonly name: string; readonly source: string | null }): string {
  return source === null ? name : `${name} of ${source}`;
}

function againHint({ name, errorCode }: HealthFacts['failedJobs'][number]): string {
  const command = `\`tidemark ${name === 'backup' ? 'backup create' : name}\``;
  const first = name === 'backup' || isDiskFull({ errorCode }) ? backupHint(errorCode) : null;
  return first === null ? command : `${first}; then ${command}`;
}

/** One reason for all rows. None if the last check found the same: its reason has the same remedy. */
function contradictionReasons({ contradictions, verify, failedJobs }: HealthFacts): HealthReason[] {
  const text = contradictionText(contradictions);
  if (text === null || hasFoundContradictions(verify)) return [];
  return [degraded('audit_log_contradicted', `${text}${refusedText(failedJobs)}`, null, contradictions.hint)];
}

function refusedText(failedJobs: HealthFacts['failedJobs']): string {
  const refused = failedJobs.filter(({ isOfAuditLog }) => isOfAuditLog);
  return refused.length === 0 ? '' : `; ${namesOf(refused.map(jobText))} refused for it`;
}

function contradictionText({ lines }: HealthFacts['contradictions']): string | null {
  const [first] = lines;
  if (first === undefined) return null;
  return `${first}${lines.length === 1 ? '' : `, and ${plural(lines.length - 1, 'more row')} like it`}`;
}

function hasFoundContradictions(verify: HealthFacts['verify']): boolean {
  return verify !== null && verify.problems > 0 && verify.isOfAuditLog;
}

/** False for a job that refused because of the audit log: only what people recorded was changed. */
function isOfDamage({ errorCode, isOfAuditLog }: HealthFacts['failedJobs'][number]): boolean {
  return !isOfAuditLog && errorCode === ('mirror_corrupt' satisfies ErrorCode);
}

/** A damaged mirror is one reason, whatever jobs fail because of it: their commands would fail too. */
function damageReasons({
  verify,
  damage,
  foreignTrigger,
  failedJobs,
  contradictions,
}: HealthFacts): HealthReason[] {
  const failed = failedJobs.filter(isOfDamage);
  const names = namesOf(failed.map(jobText));
  const [first] = failed;
  const also = first === undefined ? '' : `; ${names} failed for it`;
  const remedy = `keep the file, and ${RESTORE_OR_NEW_HINT}`;
  // Before the last check, which may have found the trigger too: this reason says what to do.
  if (foreignTrigger)
    return [degraded('verify_failed', `${foreignTrigger.message}${also}`, null, foreignTrigger.hint)];
  if (verify !== null && verify.problems > 0) {
    const text = hasFoundContradictions(verify) ? contradictionText(contradictions) : null;
    const error = text === null ? damage : `${text}${refusedText(failedJobs)}`;
    return [
      degraded(
        'verify_failed',
        `the last check of the mirror found ${plural(verify.problems, 'problem')}${because({ error })}${also}`,
        endOf(verify),
        `\`tidemark verify\` names them; ${verify.hint ?? remedy}`,
      ),
    ];
  }
  if (damage !== null) {
    const hint = `\`tidemark verify\` names what is damaged; ${remedy}`;
    return [degraded('verify_failed', `${damage}${also}`, null, hint)];
  }
  if (first === undefined) return [];
  const message = failed.some(({ isBefore }) => isBefore === true)
    ? `the mirror was found damaged by ${names}`
    : `the last ${names} failed`;
  const hint = `\`tidemark verify\` says what is damaged; ${remedy}`;
  return [degraded('job_failed', `${message}${because(first)}`, endOf(first), hint)];
}

/** The newest backup: if one target failed, another may have it. */
function newestText({ backups }: HealthFacts): string {
  const newest = backups?.newest ?? null;
  return newest === null
    ? ''
    : `; the newest backup, of ${localTime(newest.madeAt)}, is in ${newest.address}`;
}

/** An overdue backup, and why: it is made after a complete run. If it failed, its job is a reason too. */
function backupReasons({ backups, sources, failedJobs, now, startedAt }: HealthFacts): HealthReason[] {
  // A backup after every complete run cannot be overdue, only the run can.
  if (backups === null || backups.everyMs === 0) return [];
  const { lastAt, waits } = backups;
  const completeAt = sources.flatMap(({ lastComplete }) => lastComplete?.finishedAt ?? []).sort();
  // During the first sync, however long it takes, there is nothing to back up yet.
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
  const failing = failingText(sources, now);
  const given = { isRunDone, failed, waiting, unanswered, failing, isSyncing, isFull, now };
  const { why, ...more } = overdueCause(backups, given);
  const age = lastAt === null ? 'yet' : `for ${duration(ageMs)}`;
  const message = `no backup of the mirror was made ${age}, one is due ${backupInterval(backups.everyMs)}: ${why}`;
  const overdueSince = lastAt === null ? since : isoTime(dueAt);
  return [{ code: 'backup_overdue', state: 'degraded', message, since: overdueSince, ...more }];
}

/** Why runs are not complete, and what shows more of it; null if no sync hangs and the last ones did not fail. */
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
  const verb = isInterrupted(first) ? 'was interrupted' : 'failed';
  const doctor = unansweredHint(first, first.source);
  return {
    text: `: the last sync of ${first.source} ${verb}${because(first)}`,
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
    /** What to do about the sync that the backup waits for, if the service did not answer the last one of its source. */
    readonly unanswered: string | null;
    readonly failing: ReturnType<typeof failingText>;
    readonly now: number;
  },
): Pick<HealthReason, 'hint' | 'follows'> & { readonly why: string } {
  if (isBeingMade) return { why: 'it is being made now', hint: null };
  if (failed !== undefined) {
    const isFullDisk = isDiskFull(failed);
    return {
      why: `the last one failed${isFullDisk ? ': the disk was full' : ''}`,
      hint: isFullDisk ? againHint(failed) : '`tidemark backup create` makes one once the cause is fixed',
      follows: 'backup_failed',
    };
  }
  if (waits !== null) {
    const { since, behind } = waits;
    const span = since === null ? '' : ` for ${duration(now - Date.parse(since))}`;
    const hangs = hangHint(behind);
    const silent =
      hangs === null ? '' : `, which has received nothing for ${duration(behind?.silentMs ?? 0)}`;
    const whose = behind === null || behind.source === null ? '' : ` of ${behind.source}`;
    const what = behind === null ? 'a free slot' : `the ${behind.name} job${whose}${silent}`;
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

/** The number of further backups that a volume should have room for; deploy/prometheus has the same number. */
const BACKUPS_OF_ROOM = 2;
