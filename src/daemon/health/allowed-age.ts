/** How old a complete run and a backup may be, and what is still on its way. */
import type { ErrorCode } from '../../core/errors.ts';
import { tookMs } from '../http/wording.ts';
import { LONGEST_SILENCE_MS } from '../jobs/queue.ts';
import { allowedAge, allowedBackupMs, allowedSyncMs } from '../schedule/intervals.ts';
import type { SourceFacts, WaitingBackup, EndedJob, HealthFacts } from './facts.ts';
import { hangHint } from './waits.ts';

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
export function isQueuedBackupOnTime(
  { since, behind }: WaitingBackup,
  everyMs: number,
  now: number,
): boolean {
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
