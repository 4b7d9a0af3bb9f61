/**
 * Receivers may have problems open that the mirror does not know of: those reported after the backup that it was restored from, and
 * those that a daemon reported from memory before it was killed. Nobody would end them. So every subject that can be open is marked
 * (`perhaps:SUBJECT`), and the first good job of each subject sends an end. Most of these ends go only to programs, which ignore a key
 * that they do not know.
 */
import type { NoticeEvent } from '../../config/notice-events.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import type { Notice, NoticeState } from '../../mirror/notice-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { isReadAfter } from '../../state/runs.ts';
import type { CutShort } from '../jobs/observers.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { namedNotice } from './message.ts';
import { CHAIN_SUBJECT, CONTENT_SUBJECTS } from './run-transitions.ts';
import { type JobObservation, type Transition, joined, NO_TRANSITION, stateOf } from './transition.ts';

const PREFIX = 'perhaps:';

// Subjects that are reported from memory if the mirror cannot be written:
const JOBS_OF_SOURCE = ['run', 'fresh', 'job:drift', 'job:drill', 'job:git'];
/** Subjects of backups. */
export const OF_BACKUPS: readonly string[] = ['backup', CHAIN_SUBJECT, 'job:backup'];
const JOBS_OF_MIRROR = ['mirror', ...CONTENT_SUBJECTS, ...OF_BACKUPS, 'job:verify', 'job:forget'];
// The others:
const STORED_OF_SOURCE = ['removals', 'restore', 'drift', 'drill'];

/** Why it is not known what is open. */
type Reason = 'restored' | 'replaced' | 'cut short' | 'failed start';

/**
 * The incident of a daemon that could not start. A good sync ends it; if the mirror has several sources, any job.
 * @param sources all of the mirror
 */
export function failedStartOf(sources: readonly string[]): Pick<Notice, 'source' | 'subject'> {
  const [first = '', ...others] = sources;
  return others.length === 0 ? { source: first, subject: 'run' } : { source: '', subject: 'mirror' };
}

/** The marks of a mirror that is restored from a backup. @param run the latest in it @param at ISO 8601 */
export function restoredStates(sources: readonly string[], run: number, at: string): NoticeState[] {
  const mark = markOf('restored', at, { run });
  return [
    ...JOBS_OF_MIRROR.map(mark('')),
    ...sources.flatMap((source) => [...JOBS_OF_SOURCE, ...STORED_OF_SOURCE].map(mark(source))),
  ];
}

/**
 * The marks of a mirror whose last daemon did not store what it had reported, without those that the mirror has already.
 * @param states all of the mirror
 * @param at ISO 8601
 * @param before if a daemon could not start, each channel got a notice of that; if nothing else was left, only that can be open
 */
export function cutShortStates(
  states: readonly NoticeState[],
  sources: readonly string[],
  at: string,
  { hasFailedToStart, hasLeftWork }: CutShort = { hasFailedToStart: false, hasLeftWork: true },
): NoticeState[] {
  const start = failedStartOf(sources);
  const mark = (source: string) => (subject: string) => {
    const isStart = hasFailedToStart && source === start.source && subject === start.subject;
    return markOf(isStart ? 'failed start' : 'cut short', at)(source)(subject);
  };
  const known = new Set(states.map(({ source, subject }) => `${subject} ${source}`));
  return [
    ...JOBS_OF_MIRROR.map(mark('')),
    ...sources.flatMap((source) => JOBS_OF_SOURCE.map(mark(source))),
  ].filter((each) => !known.has(`${each.subject} ${each.source}`) && (hasLeftWork || isOfFailedStart(each)));
}

/**
 * The marks of what was reported of the contents of a mirror that was replaced by another one, or by its backup. Their ends go to all
 * channels.
 * @param states all of the mirror that is there now
 * @param reported of the mirror before
 */
export function replacedStates(
  states: readonly NoticeState[],
  reported: readonly NoticeState[],
  at: string,
): NoticeState[] {
  return reported.map(({ source, subject }) => {
    const mark = stateOf(states, source, PREFIX + subject) ?? markOf('replaced', at)(source)(subject);
    return { ...mark, detail: { ...mark.detail, isTold: true } };
  });
}

/** True for a mirror that was restored from a backup, until a job of it has ended. */
export function isJustRestored(states: readonly NoticeState[]): boolean {
  return CONTENT_SUBJECTS.some((subject) =>
    states.some((state) => state.subject === PREFIX + subject && !isCutShort(state)),
  );
}

function markOf(reason: Reason, since: string, more: { readonly run?: number } = {}) {
  return (source: string) =>
    (subject: string): NoticeState => ({
      source,
      subject: PREFIX + subject,
      state: 'unknown',
      since,
      detail: { reason, ...more },
    });
}

/**
 * The latest run of the backup that the mirror was restored from, until drift of the source was measured after it; null otherwise. The
 * state up to that run may be older than what was reported.
 * @param states those of the source
 */
export function runOfBackup(states: readonly NoticeState[], source: string): number | null {
  const run = stateOf(states, source, `${PREFIX}drift`)?.detail['run'];
  return typeof run === 'number' ? run : null;
}

/** Since when drift of a source is not reported, ISO 8601, because the mirror was restored from a backup; null where it is. */
export function driftWaitsSince(mirror: Pick<Mirror, 'runs' | 'daemon'>, source: string): string | null {
  const states = mirror.daemon.noticeStates(source);
  const run = runOfBackup(states, source);
  if (run === null || isReadAfter(mirror, source, run)) return null;
  return stateOf(states, source, `${PREFIX}drift`)?.since ?? null;
}

function isCutShort({ detail }: Pick<NoticeState, 'detail'>): boolean {
  return detail['reason'] === ('cut short' satisfies Reason);
}

function isOfFailedStart({ detail }: Pick<NoticeState, 'detail'>): boolean {
  return detail['reason'] === ('failed start' satisfies Reason);
}

/** True if the subject `run` of a source is the incident of a daemon that could not start. */
function isStartMarked(states: readonly NoticeState[], source: string): boolean {
  const mark = stateOf(states, source, `${PREFIX}run`);
  return mark !== undefined && isOfFailedStart(mark);
}

/** True for a mark of a daemon that was killed: only what it had reported from memory may be open. */
export function isCutShortMark(state: Pick<NoticeState, 'subject' | 'detail'>): boolean {
  return isMark(state) && isCutShort(state);
}

/** The subject of a state; of a mark, the subject that it marks. */
export function markedSubject(state: Pick<NoticeState, 'subject'>): string {
  return isMark(state) ? state.subject.slice(PREFIX.length) : state.subject;
}

function isMark({ subject }: Pick<NoticeState, 'subject'>): boolean {
  return subject.startsWith(PREFIX);
}

/** What ends a problem, by its subject. The other subjects are `job:NAME`: the next success of the job ends them. */
const USUAL_ENDS: Readonly<Record<string, { readonly event: NoticeEvent; readonly job: JobName | null }>> = {
  run: { event: 'run_recovered', job: 'sync' },
  fresh: { event: 'sync_on_time', job: 'sync' },
  removals: { event: 'removals_settled', job: 'sync' },
  restore: { event: 'restore_settled', job: null },
  drift: { event: 'drift_resolved', job: 'drift' },
  verify: { event: 'verify_recovered', job: 'verify' },
  audit_log: { event: 'verify_recovered', job: 'verify' },
  [CHAIN_SUBJECT]: { event: 'verify_recovered', job: 'backup' },
  drill: { event: 'drill_recovered', job: 'drill' },
  backup: { event: 'backup_on_time', job: 'backup' },
  'job:backup': { event: 'backup_recovered', job: 'backup' },
  mirror: { event: 'mirror_back', job: null },
};

/** The event that ends a problem of this subject, and the job that shows the end; null for none. */
export function endingEvent(subject: string): { readonly event: NoticeEvent; readonly job: JobName | null } {
  return USUAL_ENDS[subject] ?? { event: 'job_recovered', job: subject.slice('job:'.length) as JobName };
}

/**
 * Ends the marks whose subject an ended job shows: with a notice if the subject has no problem, without one if the job reports the
 * subject anyway.
 * @param states those of the job's source and of the mirror as a whole
 * @param change what else the job changes
 */
export function uncertainTransition(
  states: readonly NoticeState[],
  observed: JobObservation,
  change: Transition,
): Transition {
  const { job, at } = observed;
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  return joined([
    settled(states, { source, at, run: job.run }, settledBy(observed, states, change), change),
    // The job has ended, so the mirror is there.
    settled(states, { source: '', at, run: null }, ['mirror'], change),
    // `backup restore` has verified the contents.
    settled(
      states.filter((state) => !isMark(state) || !isCutShort(state)),
      { source: '', at, run: null },
      CONTENT_SUBJECTS,
      change,
    ),
  ]);
}

/** The subjects whose state an ended job shows. */
function settledBy(
  { job, details, isOfBackup }: JobObservation,
  states: readonly NoticeState[],
  change: Transition,
): readonly string[] {
  const { name, outcome } = job;
  const source = job.source ?? '';
  const isDone = outcome === 'done';
  switch (name) {
    case 'sync':
      // As in `syncTransitions`: a run of some kinds does not show the state of the others.
      if ((details.kinds ?? null) !== null) return [];
      if (outcome !== 'partial') return isDone ? ['run', 'removals'] : ['run'];
      // Partial only because of held removals: the run has no problem, but it shows no complete sync. It does show that the daemon started.
      return isOpen(states, source, 'run', change) || isStartMarked(states, source)
        ? ['run', 'removals']
        : ['removals'];
    case 'backup': {
      const made = summaryOf('backup', job);
      // As in `workTransition`: if no backup was due, nothing shows that making one works.
      const ofJob = isDone && made?.file === null ? [] : ['job:backup'];
      return made?.contradicting === undefined ? ofJob : [...ofJob, CHAIN_SUBJECT];
    }
    case 'drift': {
      const found = summaryOf('drift', job);
      const isMeasured = isDone && isOfBackup !== true && found?.hasBaseline === true && found.skipped === 0;
      return isMeasured ? ['job:drift', 'drift'] : ['job:drift'];
    }
    case 'drill':
      return isDone ? ['job:drill', 'drill'] : ['job:drill'];
    case 'verify': {
      const found = summaryOf('verify', job);
      if (found === null) return ['job:verify'];
      // As in `contentTransitions`: the summary does not say whether some of the problems are of what people recorded.
      const isOfAll = found.problems === 0 || found.isOfAuditLog === true;
      return ['job:verify', 'verify', ...(isOfAll ? ['audit_log'] : [])];
    }
    default:
      return [`job:${name}`];
  }
}

/**
 * Ends the marks of these subjects of a source.
 * @param shown `run`: the run that shows their state, or null
 * @param change what is changed at the same time
 */
export function settled(
  states: readonly NoticeState[],
  shown: { readonly source: string; readonly at: string; readonly run: number | null },
  subjects: readonly string[],
  change: Transition,
): Transition {
  const marks = states.filter(
    (state) => state.source === shown.source && isMark(state) && subjects.includes(markedSubject(state)),
  );
  const unreported = marks.filter((mark) => {
    const subject = markedSubject(mark);
    return !isOpen(states, shown.source, subject, change) && !isReported(shown.source, subject, change);
  });
  return {
    states: [],
    cleared: marks.map(({ source, subject }) => ({ source, subject })),
    notices: unreported.map((mark) => endNotice(shown, mark)),
  };
}

/** True if a subject has a problem after the change. */
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

/** True if the change itself reports the end. */
function isReported(source: string, subject: string, { notices }: Transition): boolean {
  return notices.some((notice) => notice.source === source && notice.subject === subject);
}

/** Titles of subjects without a problem; the others are jobs, which work. */
const GOOD: Readonly<Record<string, string>> = {
  run: 'the sync works',
  fresh: 'no sync is overdue',
  removals: 'no removals are held',
  restore: 'no restore is interrupted',
  drift: 'no finding of drift is open',
  verify: 'the contents match the stored hashes',
  audit_log: 'it matches its audit log',
  [CHAIN_SUBJECT]: 'every backup is in its chain',
  drill: 'the drill did not fall',
  backup: 'no backup is overdue',
  mirror: 'it is in its place',
};

/**
 * After a restore from a backup, people get one notice that each source works, and one that the contents of the mirror match: most
 * backups are restored because of damage. Other problems may never have been reported.
 */
function isForPeople(subject: string): boolean {
  return subject === 'run' || subject === 'verify';
}

function endNotice(
  { source, at, run }: { readonly source: string; readonly at: string; readonly run: number | null },
  mark: NoticeState,
): Notice {
  const subject = markedSubject(mark);
  const isOfStart = isOfFailedStart(mark);
  // A failed start is reported as a sync that failed, whatever the subject.
  const { event, job } = endingEvent(isOfStart ? 'run' : subject);
  const why = isOfStart
    ? 'the daemon could not start or write before'
    : isCutShort(mark)
      ? 'the daemon before ended without writing down what it had reported'
      : mark.detail['reason'] === ('replaced' satisfies Reason)
        ? 'the mirror was replaced'
        : 'the mirror was restored from a backup';
  const what = GOOD[subject] ?? `${job ?? subject} works`;
  return namedNotice(
    { at, source, subject, event },
    {
      severity: 'low',
      title: `${what}; ${why}`,
      lines: [`whatever was reported of it before ${mark.since} is over`],
      job,
      run,
      isAssumed: !isOfStart && mark.detail['isTold'] !== true,
      isForPeople: !isCutShort(mark) && isForPeople(subject),
    },
  );
}
