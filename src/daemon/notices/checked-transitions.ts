/** Transitions that no job shows: overdue syncs and backups, interrupted restores, and sources that were removed. */
import { whoText } from '../../core/actor.ts';
import { isoTime } from '../../core/clock.ts';
import { resumeHint } from '../../core/hints.ts';
import { durationBeyond } from '../../core/wording.ts';
import type { Notice, NoticeState } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { GoneLists } from '../../state/held-names.ts';
import { type latestUnfinished, unendedText } from '../../mirror/unfinished-restore.ts';
import type { Freshness } from '../health/freshness.ts';
import type { HealthReason } from '../health/reason.ts';
import { behindText, hangingSyncHint, syncText } from '../health/waits.ts';
import { noticeOf, span, subjectName } from './message.ts';
import { isCutShortMark, markedSubject, usualEnd } from './perhaps-open.ts';
import {
  heldSinceText,
  isOverBy,
  NO_TRANSITION,
  runRecovered,
  stateOf,
  type Transition,
} from './run-transitions.ts';

/** Channels to which it was reported from memory: the mirror has no delivery for them. */
export function reportedToOf({ detail: { reportedTo } }: NoticeState): readonly string[] {
  return Array.isArray(reportedTo) ? reportedTo.map(String) : [];
}

// Subject `backup`: `overdue` while health says so, which knows when a backup was due. If its cause is reported, `follows` is that event.

export type BackupCause = NonNullable<HealthReason['follows']>;

export const FAILED_BACKUP = 'job:backup';

/** The subjects that are open while the cause is reported. */
const CAUSES: Readonly<Record<BackupCause, string>> = { sync_overdue: 'fresh', backup_failed: FAILED_BACKUP };

export function reportedCause(told: NoticeState | undefined): BackupCause | null {
  const follows = told?.detail['follows'];
  return follows === 'sync_overdue' || follows === 'backup_failed' ? follows : null;
}

/** What is reported of the cause and is not over. @param states all of the mirror */
export function openCauses(
  states: readonly NoticeState[],
  cause: BackupCause | undefined,
): Pick<Notice, 'event' | 'source' | 'subject'>[] {
  if (cause === undefined) return [];
  const open = states.filter(({ subject }) => subject === CAUSES[cause]);
  return open.map(({ source, subject }) => ({ event: cause, source, subject }));
}

/** @param lagging targets whose newest backup is older than allowed, though another target has a newer one */
export function onTimeTransition(at: string, lagging: readonly string[]): Transition {
  const of = { at, source: '', subject: 'backup', event: 'backup_on_time' } as const;
  const what =
    lagging.length === 0
      ? 'no backup is overdue any more'
      : `there is a new backup, but ${lagging.join(', ')} still ${lagging.length === 1 ? 'lacks' : 'lack'} one`;
  const onTime = noticeOf(of, { severity: 'low', title: `${subjectName('')}: ${what}`, job: 'backup' });
  return { states: [], cleared: [{ source: '', subject: 'backup' }], notices: [onTime] };
}

/** @param before the reported state */
export function backupTransition(
  { message, hint }: HealthReason,
  follows: BackupCause | null,
  at: string,
  before?: NoticeState,
): Transition {
  const of = { at, source: '', subject: 'backup' };
  const title = `${subjectName('')}: ${message}`;
  const late = noticeOf({ ...of, event: 'backup_overdue' }, { severity: 'high', title, hint, job: 'backup' });
  const reportedTo = before === undefined ? [] : reportedToOf(before);
  const detail = {
    ...(follows === null ? {} : { follows }),
    ...(reportedTo.length === 0 ? {} : { reportedTo: [...reportedTo] }),
  };
  const state = { source: '', subject: 'backup', state: 'overdue', since: before?.since ?? at, detail };
  return { states: [state], cleared: [], notices: [late] };
}

// Subject `job:backup`, which `transitions.ts` opens and ends too.

export function backupRecovered({ since, detail }: NoticeState, at: string, line: string): Transition {
  const of = { at, source: '', subject: FAILED_BACKUP };
  const recovered = noticeOf(
    { ...of, event: 'backup_recovered' },
    {
      severity: 'low',
      title: `${subjectName('')}: no backup is lacking any more`,
      lines: [line, `it had failed since ${since}`],
      job: 'backup',
      follows: detail['follows'] === 'verify_failed' ? 'verify_failed' : null,
    },
  );
  return { states: [], cleared: [{ source: '', subject: FAILED_BACKUP }], notices: [recovered] };
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

/** The latest restore of a source that has not ended; null for none. */
export interface UnfinishedRestore extends ReturnType<typeof latestUnfinished> {
  readonly source: string;
}

export function restoreTransition(
  mirror: Mirror,
  states: readonly NoticeState[],
  { source, row, owner }: Pick<UnfinishedRestore, 'source' | 'row'> & { readonly owner: string | null },
  at: string,
): Transition {
  const before = stateOf(states, source, 'restore');
  const known = before === undefined ? null : Number(before.detail['restore']);
  if (known === (row?.restore ?? null)) return NO_TRANSITION;
  const of = { at, source, subject: 'restore' };
  const name = subjectName(source);
  if (row === null) {
    const title = `${name}: restore ${known ?? 0} is no longer interrupted`;
    const lines = [restoreEnd(mirror, known ?? 0)];
    const over = noticeOf(
      { ...of, event: 'restore_settled' },
      { severity: 'low', title, lines, restore: known },
    );
    return { states: [], cleared: [{ source, subject: 'restore' }], notices: [over] };
  }
  const { restore, startedAt } = row;
  const interrupted = noticeOf(
    { ...of, event: 'restore_interrupted' },
    {
      severity: 'high',
      title: `${name}: ${unendedText(`restore ${restore}`, row)}`,
      lines: [`it began at ${startedAt}, by ${whoText(row)}`, 'the service may be restored only in part'],
      hint: resumeHint(restore, owner),
      restore,
    },
  );
  const state = { source, subject: 'restore', state: 'interrupted', since: at, detail: { restore } };
  return { states: [state], cleared: [], notices: [interrupted] };
}

// Transitions by time. Subject `fresh`: `overdue` while no sync was complete for longer than the schedule allows. Where the sync that
// just failed was reported, or removals that are held and alone keep syncs from being complete, `follows` is that event: a channel
// that has it gets no second notice of the same matter.

/** A failure, or an incomplete sync, that was reported no longer ago than this is the same event: the next check of what is overdue may come this much later. */
const JUST_MS = 2 * 60_000;

type RunEvent = 'run_failed' | 'key_refused' | 'run_partial';
type LateCause = RunEvent | 'removals_held';
const RUN_EVENTS: Partial<Record<string, RunEvent>> = {
  failed: 'run_failed',
  refused: 'key_refused',
  partial: 'run_partial',
};

/** The event by which a sync was reported as failed or incomplete just now; null for none. */
function justFailed(states: readonly NoticeState[], source: string, nowMs: number): RunEvent | null {
  const run = stateOf(states, source, 'run');
  if (run === undefined || nowMs - Date.parse(run.since) > JUST_MS) return null;
  return RUN_EVENTS[run.state] ?? null;
}

/** The reported removals that alone keep the source's syncs from being complete: nothing else is wrong, and one has read all in time. */
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
  // What was reported has ended, and still no sync was complete.
  const isLeft =
    isOverdue &&
    (followed === 'removals_held'
      ? held === undefined
      : followed !== null && stateOf(states, source, 'run') === undefined);
  if (isOverdue === (before !== undefined) && !isLeft) return NO_TRANSITION;
  const at = new Date(nowMs).toISOString();
  const of = { at, source, subject: 'fresh' };
  const name = subjectName(source);
  if (!isOverdue) {
    const since = before?.since ?? at;
    // Otherwise more is allowed than before: by another schedule.
    const isComplete = completeAt !== null && Date.parse(completeAt) >= Date.parse(since);
    const last = completeAt === null ? 'no sync was complete yet' : `the last one ended at ${completeAt}`;
    const title = isComplete ? 'a sync was complete again' : 'no sync is overdue any more';
    const why = isComplete ? '' : `, the schedule allows ${span(allowedMs)}`;
    const onTime = noticeOf(
      { ...of, event: 'sync_on_time' },
      {
        severity: 'low',
        title: `${name}: ${title}`,
        lines: [`${last}${why}; one was overdue since ${since}`],
        job: 'sync',
        follows: followed,
      },
    );
    return { states: [], cleared: [{ source, subject: 'fresh' }], notices: [onTime] };
  }
  const { sync = null } = work;
  const why =
    held === undefined
      ? [behindText({ source, ...work }, nowMs), sync === null ? null : syncText(sync, nowMs)]
      : [heldSinceText(held)];
  const [age, allowed] = durationBeyond(oldMs, allowedMs, span);
  const follows = held === undefined ? justFailed(states, source, nowMs) : 'removals_held';
  const overdue = noticeOf(
    { ...of, event: 'sync_overdue' },
    {
      severity: 'high',
      title: `${name}: no complete sync ${completeAt === null ? 'yet' : `for ${age}`}`,
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
  return {
    states: [
      {
        ...{ source, subject: 'fresh', state: 'overdue', since: isoTime(nowMs - oldMs + allowedMs) },
        detail: {
          ...(follows === null ? {} : { follows }),
          ...(before === undefined ? {} : { reportedTo: [...reportedToOf(before)] }),
        },
      },
    ],
    cleared: [],
    notices: [overdue],
  };
}

/**
 * Ends what was reported of failed and incomplete syncs where a command has made a complete one since.
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

function followedCause(told: NoticeState | undefined): LateCause | null {
  const follows = told?.detail['follows'];
  if (follows === 'removals_held') return follows;
  return Object.values(RUN_EVENTS).find((event) => event === follows) ?? null;
}

// Sources that are configured no longer: no job comes any more that would end what was reported of them.

/**
 * Ends all these states, with one notice for each incident that they may have opened.
 * @param wasReported whether anything of that subject was ever sent: of a daemon that was killed, every subject is marked
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
  const matters = Map.groupBy(open, (state) => {
    const subject = markedSubject(state);
    return JSON.stringify([state.source, subject.startsWith('drift:') ? 'drift' : subject]);
  });
  return {
    states: [],
    cleared: states.map(({ source, subject }) => ({ source, subject })),
    notices: [...matters].map(([key, all]) => {
      const [source, subject] = JSON.parse(key) as [string, string];
      const told = all.filter((state) => markedSubject(state) === state.subject);
      return removedNotice({ at, source, subject }, (told[0] ?? all[0])?.since ?? at, told.length === 0);
    }),
  };
}

/**
 * @param since ISO 8601: when it was reported
 * @param isAssumed true where nobody knows whether it was
 */
export function removedNotice(
  of: { readonly at: string; readonly source: string; readonly subject: string },
  since: string,
  isAssumed = false,
): Notice {
  return noticeOf(
    { ...of, event: 'source_removed' },
    {
      severity: 'low',
      title: `${subjectName(of.source)}: the source is no longer configured`,
      lines: [`what was reported at ${since} is closed: nothing is synced any more, and the mirror is kept`],
      job: usualEnd(of.subject).job,
      isAssumed,
    },
  );
}
