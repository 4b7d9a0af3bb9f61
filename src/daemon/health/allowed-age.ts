/** How old a complete run and a backup may be, and what is still on its way. */
import type { ErrorCode } from '../../core/errors.ts';
import { tookMs } from '../http/wording.ts';
import { LONGEST_SILENCE_MS } from '../jobs/queue.ts';
import { allowedAge, allowedBackupMs, allowedSyncMs } from '../schedule/intervals.ts';
import { type EndedJob, endOf, type HealthFacts, type SourceFacts, type WaitingBackup } from './facts.ts';
import { hangHint } from './waits.ts';

/**
 * The allowed age of the newest backup, milliseconds.
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
 * True if a queued backup has waited for less than the interval: other jobs may just come first. Behind a sync that hangs, it may wait
 * until that is given up.
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
 * The allowed age of a source's last complete run, milliseconds: 1.25 intervals, the jitter, and the duration of that run. Before the
 * first complete run, the time that it may take from `expectedSince` on. Null if no schedule syncs the source.
 */
export function allowedAgeMs(
  facts: Pick<SourceFacts, 'schedule' | 'lastComplete' | 'firstTriedAt' | 'addedAt'>,
): number | null {
  const { schedule, lastComplete } = facts;
  if (schedule === null) return null;
  const { intervalMs, jitterMs, change, sourceSince } = schedule;
  const ownMs = (lastComplete === null ? null : tookMs(lastComplete)) ?? 0;
  const at = lastComplete === null ? expectedSince(facts) : endOf(lastComplete);
  const allowedMs = allowedSyncMs(intervalMs, jitterMs);
  // The schedule got the source later: the time counts from then on.
  if (sourceSince !== null && sourceSince > at)
    return Date.parse(sourceSince) - Date.parse(at) + allowedAge(sourceSince, allowedMs, change, ownMs);
  return allowedAge(at, allowedMs, change, ownMs);
}

/** From when on a complete run is expected, ISO 8601: since the daemon has the source, or since the first known attempt. */
export function expectedSince({
  firstTriedAt,
  addedAt,
}: Pick<SourceFacts, 'firstTriedAt' | 'addedAt'>): string {
  return firstTriedAt !== null && firstTriedAt < addedAt ? firstTriedAt : addedAt;
}

/**
 * True while a source's first sync runs or waits for its turn, and none has ended yet: however long it takes, it is not late. An
 * interrupted sync has not ended: a restart makes nothing late. But if the process dies of it again and again, it has only as long as
 * the schedule allows, and at least `INTERRUPTED_FIRST_MS`, from the first attempt on.
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
  // A sync that hangs is given up, and the waiting one gets its turn; a backup may wait for its target for long.
  return (isSyncing && !isSilent) || (isQueued && (behind === null || behind.name === 'sync'));
}

/** As in the alert TidemarkNeverComplete, which begins to count again after the daemon was down. */
const INTERRUPTED_FIRST_MS = 6 * 60 * 60_000;

/** True for a job or run that was interrupted: such a run is `failed`, with that error code. */
export function isInterrupted({ outcome, errorCode }: Pick<EndedJob, 'outcome' | 'errorCode'>): boolean {
  return outcome === 'interrupted' || errorCode === ('interrupted' satisfies ErrorCode);
}
