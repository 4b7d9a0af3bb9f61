/**
 * What the mirror does not know would stay open with the receivers: what was reported after the backup was made that it
 * is restored from, and what a daemon had reported from memory that was killed. So every subject that can be open is marked
 * (`perhaps:SUBJECT`), and the first good job of each sends its end. Most ends of what nobody may have opened go to programs
 * alone: they ignore a key that they do not know.
 */
import type { NoticeEvent } from '../../config/notice-events.ts';
import type { JobName, Notice, NoticeState } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { isReadAfter } from '../../state/runs.ts';
import type { CutShort } from '../jobs/observers.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { noticeOf, subjectName } from './message.ts';
import {
  CHAIN_SUBJECT,
  CONTENT_SUBJECTS,
  type JobObservation,
  type Transition,
  joined,
  NO_TRANSITION,
} from './run-transitions.ts';

const PREFIX = 'perhaps:';

/** Subjects of each source, and of the mirror as a whole, that are reported from memory where the mirror cannot be written. */
const JOBS_OF_SOURCE = ['run', 'fresh', 'job:drift', 'job:drill', 'job:git'];
export const OF_BACKUPS: readonly string[] = ['backup', CHAIN_SUBJECT, 'job:backup'];
const JOBS_OF_MIRROR = ['mirror', ...CONTENT_SUBJECTS, ...OF_BACKUPS, 'job:verify', 'job:forget'];
/** The others. */
const STORED_OF_SOURCE = ['removals', 'restore', 'drift', 'drill'];

/** Why nobody knows what is open. */
type Reason = 'restored' | 'replaced' | 'cut short' | 'failed start';

/**
 * The incident of a daemon that could not start. A good sync ends it; where the mirror has several sources, any job.
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
    ...[...JOBS_OF_MIRROR].map(mark('')),
    ...sources.flatMap((source) => [...JOBS_OF_SOURCE, ...STORED_OF_SOURCE].map(mark(source))),
  ];
}

/**
 * The marks of a mirror whose last daemon did not write down what it had reported; without those that it has.
 * @param states all of the mirror
 * @param at ISO 8601
 * @param before where one could not start, each channel got a notice of that; alone, nothing else can be open
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
 * The marks of what was reported of the contents of a mirror in whose place another one is, or a backup of it: they end with all to
 * whom that was reported.
 * @param states all of the mirror that is there now
 * @param reported of the mirror before
 */
export function replacedStates(
  states: readonly NoticeState[],
  reported: readonly NoticeState[],
  at: string,
): NoticeState[] {
  return reported.map(({ source, subject }) => {
    const restored = states.find((state) => state.source === source && state.subject === PREFIX + subject);
    const mark = restored ?? markOf('replaced', at)(source)(subject);
    return { ...mark, detail: { ...mark.detail, isTold: true } };
  });
}

/** True for a mirror that was restored from a backup, before a job of it has ended. */
export function isJustRestored(states: readonly NoticeState[]): boolean {
  return CONTENT_SUBJECTS.some((subject) =>
    states.some((state) => state.subject === PREFIX + subject && !isCutShort(state)),
  );
}

/** @param more what else is known of it */
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
 * The latest run of the backup that the mirror was restored from, until the drift of the source was measured since; null
 * where nothing is to be waited for. The state up to that run may be older than what was reported.
 * @param states those of the source
 */
export function runOfBackup(states: readonly NoticeState[], source: string): number | null {
  const mark = states.find((state) => state.source === source && state.subject === `${PREFIX}drift`);
  const run = mark?.detail['run'];
  return typeof run === 'number' ? run : null;
}

/** A source whose drift is not reported: since when, ISO 8601, in a mirror that was restored from a backup. */
export function driftWaitsSince(mirror: Pick<Mirror, 'runs' | 'daemon'>, source: string): string | null {
  const states = mirror.daemon.noticeStates(source);
  const run = runOfBackup(states, source);
  if (run === null || isReadAfter(mirror, source, run)) return null;
  return states.find(({ subject }) => subject === `${PREFIX}drift`)?.since ?? null;
}

function isCutShort({ detail }: Pick<NoticeState, 'detail'>): boolean {
  return detail['reason'] === ('cut short' satisfies Reason);
}

function isOfFailedStart({ detail }: Pick<NoticeState, 'detail'>): boolean {
  return detail['reason'] === ('failed start' satisfies Reason);
}

/** True where the `run` of a source is the incident of a daemon that could not start. */
function isStartMarked(states: readonly NoticeState[], source: string): boolean {
  return states.some(
    (state) => state.source === source && state.subject === `${PREFIX}run` && isOfFailedStart(state),
  );
}

/** A mark of a daemon that was killed: only what it had reported from memory may be open. */
export function isCutShortMark(state: Pick<NoticeState, 'subject' | 'detail'>): boolean {
  return isMark(state) && isCutShort(state);
}

/** The subject that a state is about, also of a mark. */
export function markedSubject(state: Pick<NoticeState, 'subject'>): string {
  return isMark(state) ? state.subject.slice(PREFIX.length) : state.subject;
}

function isMark({ subject }: Pick<NoticeState, 'subject'>): boolean {
  return subject.startsWith(PREFIX);
}

/** What would have ended a matter, by its subject; of the others, which are `job:NAME`, another success of the job. */
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

export function usualEnd(subject: string): { readonly event: NoticeEvent; readonly job: JobName | null } {
  return USUAL_ENDS[subject] ?? { event: 'job_recovered', job: subject.slice('job:'.length) as JobName };
}

/**
 * Ends the marks that an ended job settles: with a notice where the subject is as it should be, without one where it is
 * reported anyway.
 * @param states those of the job's source and of the mirror as a whole
 * @param change what else the job changes
 */
export function perhapsOpenTransition(
  states: readonly NoticeState[],
  seen: JobObservation,
  change: Transition,
): Transition {
  const { job, at } = seen;
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  return joined([
    settled(states, { source, at, run: job.run }, settledBy(seen, states, change), change),
    // It is there.
    settled(states, { source: '', at, run: null }, ['mirror'], change),
    // `backup restore` has verified it.
    settled(
      states.filter((state) => !isMark(state) || !isCutShort(state)),
      { source: '', at, run: null },
      CONTENT_SUBJECTS,
      change,
    ),
  ]);
}

/** The subjects of its source that an ended job says something about. */
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
      // Only for held removals: nothing was reported of the run, and it shows no complete sync. It did start.
      return isOpen(states, source, 'run', change) || isStartMarked(states, source)
        ? ['run', 'removals']
        : ['removals'];
    case 'backup': {
      const made = summaryOf('backup', job);
      // As in `workTransition`: a job that had no backup to make proves nothing.
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
      // As in `contentTransitions`: whether what people recorded is among other problems it does not say.
      const isOfAll = found.problems === 0 || found.isOfAuditLog === true;
      return ['job:verify', 'verify', ...(isOfAll ? ['audit_log'] : [])];
    }
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
    (state) => state.source === of.source && isMark(state) && subjects.includes(markedSubject(state)),
  );
  return {
    states: [],
    cleared: marks.map(({ source, subject }) => ({ source, subject })),
    notices: marks
      .filter((mark) => {
        const subject = markedSubject(mark);
        return !isOpen(states, of.source, subject, change) && !isReported(of.source, subject, change);
      })
      .map((mark) => endNotice(of, mark)),
  };
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
 * After a restore people hear once of each source that it works, and of the mirror that its contents match, as damage is what
 * most backups are restored for: the rest may never have been reported.
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
  // It began as a sync that failed, whatever its subject.
  const { event, job } = usualEnd(isOfStart ? 'run' : subject);
  const why = isOfStart
    ? 'the daemon could not start or write before'
    : isCutShort(mark)
      ? 'the daemon before ended without writing down what it had reported'
      : mark.detail['reason'] === ('replaced' satisfies Reason)
        ? 'the mirror was replaced'
        : 'the mirror was restored from a backup';
  const what = GOOD[subject] ?? `${job ?? subject} works`;
  return noticeOf(
    { at, source, subject, event },
    {
      severity: 'low',
      title: `${subjectName(source)}: ${what}; ${why}`,
      lines: [`whatever was reported of it before ${mark.since} is over`],
      job,
      run,
      isAssumed: !isOfStart && mark.detail['isTold'] !== true,
      isForPeople: !isCutShort(mark) && isForPeople(subject),
    },
  );
}
