/** Transitions that regular checks find, not jobs: overdue syncs and backups, interrupted restores, and sources that were removed. */
import { whoText } from '../../core/actor.ts';
import { isoTime } from '../../core/clock.ts';
import { resumeHint } from '../../core/hints.ts';
import { durationBeyond } from '../../core/wording.ts';
import type { Notice, NoticeState } from '../../mirror/notice-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { GoneLists } from '../../state/held-names.ts';
import { type latestUnfinished, unendedText } from '../../mirror/unfinished-restore.ts';
import type { Freshness } from '../health/freshness.ts';
import type { HealthReason } from '../health/reason.ts';
import { behindText, hangingSyncHint, syncText } from '../health/waits.ts';
import { namedNotice, span } from './message.ts';
import { isCutShortMark, markedSubject, endingEvent } from './perhaps-open.ts';
import { followsDamage, heldSinceText, isOverBy, runRecovered } from './run-transitions.ts';
import { ended, NO_TRANSITION, stateOf, type Transition } from './transition.ts';

/** Channels to which the state was reported while the mirror could not be written: the mirror has no delivery for them. */
export function reportedToOf({ detail: { reportedTo } }: NoticeState): readonly string[] {
  return Array.isArray(reportedTo) ? reportedTo.map(String) : [];
}

// Subject `backup`: `overdue` while health says so, which knows when a backup was due. If its cause is reported, `follows` is that event.

/** The event that reports the cause of an overdue backup. */
export type BackupCause = NonNullable<HealthReason['follows']>;

/** The subject of a failed backup, which `transitions.ts` opens and ends too. */
export const FAILED_BACKUP = 'job:backup';

/** The subjects that are open while the cause is reported. */
const CAUSES: Readonly<Record<BackupCause, string>> = { sync_overdue: 'fresh', backup_failed: FAILED_BACKUP };

/** The cause of an overdue backup that was reported before it; null for none. */
export function reportedCause(reported: NoticeState | undefined): BackupCause | null {
  const follows = reported?.detail['follows'];
  return follows === 'sync_overdue' || follows === 'backup_failed' ? follows : null;
}

/** The reported problems of the cause that are not over. @param states all of the mirror */
export function openCauses(
  states: readonly NoticeState[],
  cause: BackupCause | undefined,
): Pick<Notice, 'event' | 'source' | 'subject'>[] {
  if (cause === undefined) return [];
  const open = states.filter(({ subject }) => subject === CAUSES[cause]);
  return open.map(({ source, subject }) => ({ event: cause, source, subject }));
}

/** No backup is overdue any more. @param lagging targets whose newest backup is older than allowed, though another target has a newer one */
export function onTimeTransition(at: string, lagging: readonly string[]): Transition {
  const title =
    lagging.length === 0
      ? 'no backup is overdue any more'
      : `there is a new backup, but ${lagging.join(', ')} still ${lagging.length === 1 ? 'lacks' : 'lack'} one`;
  return ended({ at, source: '', subject: 'backup', event: 'backup_on_time' }, { title, job: 'backup' });
}

/** A backup is overdue. @param before the reported state */
export function backupTransition(
  { message, hint }: HealthReason,
  follows: BackupCause | null,
  at: string,
  before?: NoticeState,
): Transition {
  const subject = { source: '', subject: 'backup' };
  const late = namedNotice(
    { at, ...subject, event: 'backup_overdue' },
    { severity: 'high', title: message, hint, job: 'backup' },
  );
  const reportedTo = before === undefined ? [] : reportedToOf(before);
  const detail = {
    ...(follows === null ? {} : { follows }),
    ...(reportedTo.length === 0 ? {} : { reportedTo: [...reportedTo] }),
  };
  const state = { ...subject, state: 'overdue', since: before?.since ?? at, detail };
  return { states: [state], cleared: [], notices: [late] };
}

/** Nothing is left of a failed backup. @param line why */
export function backupRecovered(before: NoticeState, at: string, line: string): Transition {
  return ended(
    { at, source: '', subject: FAILED_BACKUP, event: 'backup_recovered' },
    {
      title: 'no backup is lacking any more',
      lines: [line, `it had failed since ${before.since}`],
      job: 'backup',
      follows: followsDamage(before),
    },
  );
}

/** How an interrupted restore ended. */
function restoreEnd({ restores }: Mirror, restore: number): string {
  const row = restores.get(restore);
  const by = restores.abandonedBy(restore);
  if (by !== null) return `it was abandoned by ${whoText(by)}`;
  if (row === undefined || row.finishedAt === null) return 'another restore came after it';
  const counts = Map.groupBy(restores.steps(restore), ({ outcome }) => outcome);
  const steps = [...counts].map(([outcome, own]) => `${own.length} ${outcome}`);
  return `it ended ${row.outcome}${steps.length === 0 ? '' : `: steps ${steps.join(', ')}`}`;
}

// Subject `restore`: `interrupted` while the latest restore of a source has not ended and no process applies it.

/** The latest restore of a source that has not ended; its `row` is null for none. */
export interface UnfinishedRestore extends ReturnType<typeof latestUnfinished> {
  readonly source: string;
}

/** A restore was interrupted, or is no longer. @param states those of the source */
export function restoreTransition(
  mirror: Mirror,
  states: readonly NoticeState[],
  { source, row, owner }: Pick<UnfinishedRestore, 'source' | 'row'> & { readonly owner: string | null },
  at: string,
): Transition {
  const before = stateOf(states, source, 'restore');
  const known = before === undefined ? null : Number(before.detail['restore']);
  if (known === (row?.restore ?? null)) return NO_TRANSITION;
  const key = { at, source, subject: 'restore' };
  if (row === null) {
    const title = `restore ${known ?? 0} is no longer interrupted`;
    const lines = [restoreEnd(mirror, known ?? 0)];
    return ended({ ...key, event: 'restore_settled' }, { title, lines, restore: known });
  }
  const { restore, startedAt } = row;
  const interrupted = namedNotice(
    { ...key, event: 'restore_interrupted' },
    {
      severity: 'high',
      title: unendedText(`restore ${restore}`, row),
      lines: [`it began at ${startedAt}, by ${whoText(row)}`, 'the service may be restored only in part'],
      hint: resumeHint(restore, owner),
      restore,
    },
  );
  const state = { source, subject: 'restore', state: 'interrupted', since: at, detail: { restore } };
  return { states: [state], cleared: [], notices: [interrupted] };
}

// Subject `fresh`: `overdue` while no sync was complete for longer than the schedule allows. `follows` is the event that has reported the
// cause (a sync that failed just now, or held removals that alone keep syncs from being complete): a channel that has that event gets no
// second notice.

/** A sync that failed, or was incomplete, no longer ago than this is the cause: the check of what is overdue may come this much later. */
const JUST_MS = 2 * 60_000;

type RunEvent = 'run_failed' | 'key_refused' | 'run_partial';
type LateCause = RunEvent | 'removals_held';
const RUN_EVENTS: Partial<Record<string, RunEvent>> = {
  failed: 'run_failed',
  refused: 'key_refused',
  partial: 'run_partial',
};

/** The event that has just reported a sync as failed or incomplete; null for none. */
function justFailed(states: readonly NoticeState[], source: string, nowMs: number): RunEvent | null {
  const run = stateOf(states, source, 'run');
  if (run === undefined || nowMs - Date.parse(run.since) > JUST_MS) return null;
  return RUN_EVENTS[run.state] ?? null;
}

/** The reported removals, if they alone keep the source's syncs from being complete: nothing else is wrong, and one has read all in time. */
function heldAlone(
  states: readonly NoticeState[],
  { source, readAt = null, allowedMs }: Pick<Freshness, 'source' | 'readAt' | 'allowedMs'>,
  nowMs: number,
): NoticeState | undefined {
  const isRead = readAt !== null && nowMs - Date.parse(readAt) <= allowedMs;
  return isRead && stateOf(states, source, 'run') === undefined
    ? stateOf(states, source, 'removals')
    : undefined;
}

/** A sync is overdue, or no longer. @param states those of the source */
export function freshnessTransition(
  states: readonly NoticeState[],
  { source, completeAt, expectedSince, allowedMs, readAt = null, ...work }: Freshness,
  nowMs: number,
): Transition {
  const before = stateOf(states, source, 'fresh');
  const oldMs = nowMs - Date.parse(completeAt ?? expectedSince);
  const isOverdue = oldMs > allowedMs;
  const followed = followedCause(before);
  const held = heldAlone(states, { source, readAt, allowedMs }, nowMs);
  // The cause that was reported has ended, and still no sync was complete.
  const isLeft =
    isOverdue &&
    (followed === 'removals_held'
      ? held === undefined
      : followed !== null && stateOf(states, source, 'run') === undefined);
  if (isOverdue === (before !== undefined) && !isLeft) return NO_TRANSITION;
  const at = new Date(nowMs).toISOString();
  const subject = { source, subject: 'fresh' };
  if (!isOverdue) {
    const since = before?.since ?? at;
    // If not complete, another schedule allows more time than the one before.
    const isComplete = completeAt !== null && Date.parse(completeAt) >= Date.parse(since);
    const last = completeAt === null ? 'no sync was complete yet' : `the last one ended at ${completeAt}`;
    const why = isComplete ? '' : `, the schedule allows ${span(allowedMs)}`;
    return ended(
      { at, ...subject, event: 'sync_on_time' },
      {
        title: isComplete ? 'a sync was complete again' : 'no sync is overdue any more',
        lines: [`${last}${why}; one was overdue since ${since}`],
        job: 'sync',
        follows: followed,
      },
    );
  }
  const { sync = null } = work;
  const why =
    held === undefined
      ? [behindText({ source, ...work }, nowMs), sync === null ? null : syncText(sync, nowMs)]
      : [heldSinceText(held)];
  const [age, allowed] = durationBeyond(oldMs, allowedMs, span);
  const follows = held === undefined ? justFailed(states, source, nowMs) : 'removals_held';
  const overdue = namedNotice(
    { at, ...subject, event: 'sync_overdue' },
    {
      severity: 'high',
      title: `no complete sync ${completeAt === null ? 'yet' : `for ${age}`}`,
      lines: [
        completeAt === null ? `expected since ${expectedSince}` : `the last one ended at ${completeAt}`,
        `the schedule allows ${completeAt === null ? span(allowedMs) : allowed}`,
        ...why.filter((text) => text !== null),
      ],
      job: 'sync',
      follows,
      hint:
        hangingSyncHint({ source, ...work }) ??
        `\`tidemark status --source ${source}\` shows what is stale and why`,
    },
  );
  const detail = {
    ...(follows === null ? {} : { follows }),
    ...(before === undefined ? {} : { reportedTo: [...reportedToOf(before)] }),
  };
  const since = isoTime(nowMs - oldMs + allowedMs);
  return { states: [{ ...subject, state: 'overdue', since, detail }], cleared: [], notices: [overdue] };
}

/**
 * Ends the problem of failed and incomplete syncs if a command has made a complete one since.
 * @param at ISO 8601
 * @param goneOf the lists of a source that its last complete run lacks, since what they belonged to is gone
 */
export function completeTransition(
  states: readonly NoticeState[],
  { source, completeAt }: Pick<Freshness, 'source' | 'completeAt'>,
  at: string,
  goneOf: (source: string) => GoneLists | null,
): Transition {
  const before = stateOf(states, source, 'run');
  if (before === undefined || !isOverBy(before, completeAt)) return NO_TRANSITION;
  return runRecovered(before, { at, source, run: null, completeAt, gone: goneOf(source) });
}

function followedCause(reported: NoticeState | undefined): LateCause | null {
  const follows = reported?.detail['follows'];
  if (follows === 'removals_held') return follows;
  return Object.values(RUN_EVENTS).find((event) => event === follows) ?? null;
}

// Sources that are no longer configured: no job comes any more that would end their problems.

/**
 * Ends all these states, with one notice for each incident that they may have opened.
 * @param wasReported whether a notice of that subject was ever sent: after a daemon was killed, every subject is marked
 */
export function removedTransition(
  states: readonly NoticeState[],
  at: string,
  wasReported: (state: Pick<NoticeState, 'source' | 'subject'>) => boolean = () => true,
): Transition {
  const open = states.filter((state) => {
    if (state.subject === 'schema' || state.state === 'ok') return false;
    return !isCutShortMark(state) || wasReported({ source: state.source, subject: markedSubject(state) });
  });
  const incidents = Map.groupBy(open, (state) => {
    const subject = markedSubject(state);
    return JSON.stringify([state.source, subject.startsWith('drift:') ? 'drift' : subject]);
  });
  return {
    states: [],
    cleared: states.map(({ source, subject }) => ({ source, subject })),
    notices: [...incidents].map(([key, all]) => {
      const [source, subject] = JSON.parse(key) as [string, string];
      const reported = all.find((state) => markedSubject(state) === state.subject);
      const since = (reported ?? all[0])?.since ?? at;
      return removedNotice({ at, source, subject }, since, reported === undefined);
    }),
  };
}

/**
 * The end of a problem of a source that is no longer configured.
 * @param since when the problem was reported, ISO 8601
 * @param isAssumed true if nobody knows whether it was
 */
export function removedNotice(
  key: Pick<Notice, 'at' | 'source' | 'subject'>,
  since: string,
  isAssumed = false,
): Notice {
  return namedNotice(
    { ...key, event: 'source_removed' },
    {
      severity: 'low',
      title: 'the source is no longer configured',
      lines: [`what was reported at ${since} is closed: nothing is synced any more, and the mirror is kept`],
      job: endingEvent(key.subject).job,
      isAssumed,
    },
  );
}
