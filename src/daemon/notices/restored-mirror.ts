/**
 * What was reported after a backup was made is unknown to a mirror restored from it, and would stay open with the
 * receivers. So `backup restore` marks every subject as perhaps open (`restored:SUBJECT`), and the first good job of
 * each sends its end. Ends of what nobody may have opened go to programs alone: they ignore a key that they do not know.
 */
import type { NoticeEvent } from '../../config/notice-events.ts';
import type { JobName, Notice, NoticeState } from '../../mirror/daemon.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { noticeOf, subjectName } from './message.ts';
import { type JobObservation, type Transition, joined, NO_TRANSITION } from './run-transitions.ts';

const PREFIX = 'restored:';

/** Subjects of each source, and of the mirror as a whole. */
const OF_SOURCE = ['run', 'fresh', 'removals', 'drift', 'drill', 'job:drift', 'job:drill', 'job:git'];
const OF_MIRROR = ['mirror', 'verify', 'backup', 'job:verify', 'job:backup', 'job:forget'];

/** The marks of a mirror that is restored from a backup. @param at ISO 8601 */
export function restoredStates(sources: readonly string[], at: string): NoticeState[] {
  const mark = (source: string) => (subject: string) => ({
    source,
    subject: PREFIX + subject,
    state: 'unknown',
    since: at,
    detail: {},
  });
  return [...OF_MIRROR.map(mark('')), ...sources.flatMap((source) => OF_SOURCE.map(mark(source)))];
}

/** The subject that a state is about, also of a mark. */
export function markedSubject({ subject }: Pick<NoticeState, 'subject'>): string {
  return subject.startsWith(PREFIX) ? subject.slice(PREFIX.length) : subject;
}

/** What would have ended a matter, by its subject; of the others, which are `job:NAME`, another success of the job. */
const USUAL_ENDS: Readonly<Record<string, { readonly event: NoticeEvent; readonly job: JobName | null }>> = {
  run: { event: 'run_recovered', job: 'sync' },
  fresh: { event: 'sync_on_time', job: 'sync' },
  removals: { event: 'removals_settled', job: 'sync' },
  drift: { event: 'drift_resolved', job: 'drift' },
  verify: { event: 'verify_recovered', job: 'verify' },
  drill: { event: 'drill_recovered', job: 'drill' },
  backup: { event: 'backup_on_time', job: 'backup' },
  'job:backup': { event: 'backup_recovered', job: 'backup' },
  mirror: { event: 'mirror_back', job: null },
};

export function usualEnd(subject: string): { readonly event: NoticeEvent; readonly job: JobName | null } {
  return USUAL_ENDS[subject] ?? { event: 'job_recovered', job: subject.slice('job:'.length) as JobName };
}

/**
 * Ends the marks that an ended job settles: with a notice where the subject is as it should be, without one where it is
 * reported anyway.
 * @param states those of the job's source and of the mirror as a whole
 * @param change what else the job changes
 */
export function restoredTransition(
  states: readonly NoticeState[],
  seen: JobObservation,
  change: Transition,
): Transition {
  const { job, at } = seen;
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  return joined([
    settled(states, { source, at, run: job.run }, settledBy(seen), change),
    // It is there, and `backup restore` has verified it.
    settled(states, { source: '', at, run: null }, ['mirror', 'verify'], change),
  ]);
}

/** The subjects of its source that an ended job says something about. */
function settledBy({ job, details }: JobObservation): readonly string[] {
  const { name, outcome } = job;
  const isDone = outcome === 'done';
  switch (name) {
    case 'sync':
      // As in `syncTransitions`: a run of some kinds does not show the state of the others.
      if ((details.kinds ?? null) !== null) return [];
      return isDone || outcome === 'partial' ? ['run', 'removals'] : ['run'];
    case 'backup':
      // As in `workTransition`: a job that had no backup to make proves nothing.
      return isDone && summaryOf('backup', job)?.file === null ? [] : ['job:backup'];
    case 'drift': {
      const found = summaryOf('drift', job);
      const isMeasured = isDone && found?.hasBaseline === true && found.skipped === 0;
      return isMeasured ? ['job:drift', 'drift'] : ['job:drift'];
    }
    case 'drill':
      return isDone ? ['job:drill', 'drill'] : ['job:drill'];
    default:
      return [`job:${name}`];
  }
}

/** Ends the marks of these subjects. @param of `run`: the one that shows it, or null */
export function settled(
  states: readonly NoticeState[],
  of: { readonly source: string; readonly at: string; readonly run: number | null },
  subjects: readonly string[],
  change: Transition = NO_TRANSITION,
): Transition {
  const marks = states.filter(
    (state) =>
      state.source === of.source &&
      state.subject.startsWith(PREFIX) &&
      subjects.includes(markedSubject(state)),
  );
  return {
    states: [],
    cleared: marks.map(({ source, subject }) => ({ source, subject })),
    notices: marks
      .map(markedSubjectOf)
      .filter(
        ({ subject }) =>
          !isOpen(states, of.source, subject, change) && !isReported(of.source, subject, change),
      )
      .map(({ subject, since }) => endNotice(of, subject, since)),
  };
}

function markedSubjectOf(state: NoticeState): { readonly subject: string; readonly since: string } {
  return { subject: markedSubject(state), since: state.since };
}

/** True where a subject is not as it should be after the change. */
function isOpen(
  states: readonly NoticeState[],
  source: string,
  subject: string,
  change: Transition,
): boolean {
  const isOf = (each: Pick<NoticeState, 'source' | 'subject'>): boolean =>
    each.source === source &&
    (each.subject === subject || (subject === 'drift' && each.subject.startsWith('drift:')));
  const isCleared = (state: NoticeState): boolean =>
    change.cleared.some((each) => each.source === state.source && each.subject === state.subject);
  return [...states.filter((state) => !isCleared(state)), ...change.states].some(
    (state) => isOf(state) && state.state !== 'ok',
  );
}

/** True where the change itself reports the end. */
function isReported(source: string, subject: string, { notices }: Transition): boolean {
  return notices.some((notice) => notice.source === source && notice.subject === subject);
}

/** What is said of a subject that is as it should be; of the others, that the job works. */
const GOOD: Readonly<Record<string, string>> = {
  run: 'the sync works',
  fresh: 'a sync was complete',
  removals: 'no removals are held',
  drift: 'no finding of drift is open',
  verify: 'the contents match the stored hashes',
  drill: 'the drill did not fall',
  backup: 'no backup is overdue',
  mirror: 'it is in its place',
};

function endNotice(
  { source, at, run }: { readonly source: string; readonly at: string; readonly run: number | null },
  subject: string,
  since: string,
): Notice {
  const { event, job } = usualEnd(subject);
  const what = GOOD[subject] ?? `${job ?? subject} works`;
  return noticeOf(
    { at, source, subject, event },
    {
      severity: 'low',
      title: `${subjectName(source)}: ${what}; the mirror was restored from a backup`,
      lines: [`whatever was reported of it before ${since} is over`],
      job,
      run,
      // People hear once of each source that it works: the rest may never have been reported.
      isAssumed: subject !== 'run',
    },
  );
}
