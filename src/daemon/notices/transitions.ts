/** What an ended job changes in the reported states, and the notices of that. Pure: the same job again changes nothing. */
import { CONTRADICTING_HINT, contradictingText } from '../../backup/chain.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { percent, plural } from '../../core/wording.ts';
import type { NoticeState } from '../../mirror/notice-rows.ts';
import { backupHint, EMPTIED_HINT, NEW_BASELINE_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import { hasDrillFallen } from '../last-jobs.ts';
import { hasEmptiedTarget, lacksBaseline, refusalOf, summaryOf } from '../jobs/summaries.ts';
import {
  CHAIN_SUBJECT,
  type ContentSubject,
  causeText,
  isDamageFound,
  localHint,
  reportedBefore,
  syncTransitions,
} from './run-transitions.ts';
import { type JobObservation, type Transition, ended, joined, NO_TRANSITION, stateOf } from './transition.ts';
import { uncertainTransition } from './perhaps-open.ts';
import { namedNotice } from './message.ts';
import { driftTransitions } from './drift-transitions.ts';

/** Everything that an ended job changes. @param states those of the job's source and of the mirror as a whole */
export function transitionsOf(states: readonly NoticeState[], observed: JobObservation): Transition {
  // Of a verification, `jobTransitions` reports it.
  const damage = observed.job.name === 'verify' ? NO_TRANSITION : contentTransitions(states, observed);
  const change = joined([damage, jobTransitions([...states, ...damage.states], observed)]);
  return joined([change, uncertainTransition(states, observed, change)]);
}

function jobTransitions(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { name } = observed.job;
  if (name === 'sync') return syncTransitions(states, observed);
  const work = workTransition(states, observed);
  if (name === 'drift') return joined([work, driftTransitions(states, observed)]);
  if (name === 'verify') return joined([work, contentTransitions(states, observed)]);
  if (name === 'drill') return joined([work, drillTransition(states, observed)]);
  if (name === 'backup') return joined([work, chainTransition(states, observed)]);
  return work;
}

/** Subject `backup_chain`: `failed` while a target has a backup that is not in the chain of the mirror. Another such backup is news. */
function chainTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const { contradicting: names } = summaryOf('backup', job) ?? {};
  const subject = { source: '', subject: CHAIN_SUBJECT };
  const before = stateOf(states, '', CHAIN_SUBJECT);
  if (names === undefined || (names.length === 0 && before === undefined)) return NO_TRANSITION;
  const text = contradictingText(names);
  const shared = { job: job.name };
  if (text === null)
    return ended(
      { at, ...subject, event: 'verify_recovered' },
      { ...shared, title: 'every backup is in its chain again' },
    );
  const known = (before?.detail['backups'] ?? []) as readonly string[];
  const failed = namedNotice(
    { at, ...subject, event: 'verify_failed' },
    {
      ...shared,
      severity: 'critical',
      title: 'a backup is not in its chain',
      lines: [text],
      count: names.length,
      hint: CONTRADICTING_HINT,
    },
  );
  return {
    states: [{ ...subject, state: 'failed', since: before?.since ?? at, detail: { backups: [...names] } }],
    cleared: [],
    notices: names.every((name) => known.includes(name)) ? [] : [failed],
  };
}

// Transitions of the jobs beside sync: whether they did their work at all, and what verify and drill found.

/**
 * Subject `job:NAME`: `failed` while the job cannot do its work. A verification that finds problems has done it. A backup has failed
 * if one of its targets lacks it, although the others have it; another failing target is news.
 */
function workTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  const subject = `job:${job.name}`;
  const hasFound =
    (summaryOf('verify', job)?.problems ?? 0) > 0 || (job.name === 'verify' && isDamageFound(job));
  const failing = failedTargets(job);
  const isFailed =
    failing.length > 0 || ((job.outcome === 'failed' || job.outcome === 'refused') && !hasFound);
  const { before, follows } = reportedBefore(states, job, stateOf(states, source, subject), isFailed);
  const shared = { job: job.name, run: job.run, follows };
  const topic = job.name === 'backup' ? 'backup' : 'job';
  if (!isFailed) {
    // If no backup was due, nothing shows that making one works again.
    if (before === undefined || summaryOf('backup', job)?.file === null) return NO_TRANSITION;
    return ended(
      { at, source, subject, event: `${topic}_recovered` },
      { ...shared, title: `${job.name} works again`, lines: [`it had failed since ${before.since}`] },
    );
  }
  const reported = (key: 'targets' | 'emptied'): readonly string[] =>
    (before?.detail[key] ?? []) as readonly string[];
  const known = reported('targets');
  const targets = failing.map(({ address }) => address);
  const emptied = failing.filter(({ isEmptied }) => isEmptied).map(({ address }) => address);
  // A target was not reachable and is empty now: with the advice given before, a backup would be stored there.
  const isEmptiedNow = emptied.some((address) => !reported('emptied').includes(address));
  if (before !== undefined && targets.every((address) => known.includes(address)) && !isEmptiedNow)
    return NO_TRANSITION;
  const where = targets.length === 0 ? '' : ` in ${targets.join(', ')}`;
  const reasons = targets.length === 0 ? [job.error ?? ''] : failing.map(({ error }) => error);
  const failed = namedNotice(
    { at, source, subject, event: `${topic}_failed` },
    {
      ...shared,
      severity: 'high',
      title: `${job.name} failed${where}${causeText(job.errorCode)}`,
      lines: [...reasons.filter((reason) => reason !== ''), ...storedLines(job)],
      error: job.error === null ? null : { code: job.errorCode, message: reasons.join('; ') },
      hint: workHint(job),
    },
  );
  const detail = {
    targets,
    ...(emptied.length === 0 ? {} : { emptied }),
    ...(follows === null ? {} : { follows }),
  };
  return {
    states: [{ source, subject, state: 'failed', since: before?.since ?? at, detail }],
    cleared: [],
    // The job failed before it could name its targets: that was reported, and they are not news.
    notices: before !== undefined && known.length === 0 && !isEmptiedNow ? [] : [failed],
  };
}

/** What to do about a job that failed: usually, run the command that does the same and says more. */
function workHint(job: JobObservation['job']): string {
  const { name, source, errorCode } = job;
  // No command to try again: it would store a backup in the empty directory.
  if (hasEmptiedTarget(job)) return EMPTIED_HINT;
  const isFull = errorCode === ('disk_full' satisfies ErrorCode);
  if (name === 'backup' && isFull)
    return 'free space on the volume that is full, or enlarge it; `tidemark backup create` makes the backup now, the daemon after the next complete run';
  const local = localHint(errorCode);
  if (local !== null) return local;
  const first = name === 'backup' ? backupHint(errorCode) : null;
  if (first !== null)
    return `${first}; then \`tidemark backup create\`, or wait: the daemon tries again after the next complete run`;
  if (lacksBaseline(job)) return NEW_BASELINE_HINT;
  const of = source === null ? '' : ` --source ${source}`;
  switch (name) {
    case 'backup':
      return '`tidemark backup create` tries again and says why, `tidemark backup list` lists the earlier ones; the daemon tries again after the next complete run';
    case 'forget':
      return '`tidemark forget --dry-run` says why; the daemon tries again when it is due';
    case 'git':
      return `\`tidemark git${of}\` tries again and says why; the daemon tries again after the next run with changes`;
    default:
      return `\`tidemark ${name}${of}\` tries again and says why; the daemon tries again when it is due`;
  }
}

/** The targets in which the backup could not be stored. Such a target stays due: each backup tries it again. */
function failedTargets(
  job: JobObservation['job'],
): readonly { address: string; error: string; isEmptied: boolean }[] {
  const targets = summaryOf('backup', job)?.targets ?? [];
  return targets.flatMap(({ address, error, isEmptied = false }) =>
    error === null ? [] : [{ address, error, isEmptied }],
  );
}

/** Which other targets have the backup. */
function storedLines(job: JobObservation['job']): string[] {
  const targets = summaryOf('backup', job)?.targets ?? [];
  const stored = targets.flatMap(({ address, error }) => (error === null ? [address] : []));
  return stored.length === 0 ? [] : [`the backup was stored in ${stored.join(', ')}`];
}

// Damage, and differences between what people recorded and the audit log: two subjects, so that neither hides the other.

/**
 * Both are reported again if a verification counts more problems than before. A problem that stopped a job is counted by the next
 * verification, which reports nothing new then.
 */
function contentTransitions(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { job } = observed;
  const summary = summaryOf('verify', job);
  if (summary !== null) {
    const { problems, isOfAuditLog = false } = summary;
    if (problems === 0 || isOfAuditLog)
      return joined([
        foundTransition(states, observed, 'verify', 0),
        foundTransition(states, observed, 'audit_log', problems),
      ]);
    // The summary does not say whether some of the problems are of what people recorded.
    return foundTransition(states, observed, 'verify', problems);
  }
  if (refusalOf(job) !== null) {
    const refusing = new Set([...refusingOf(stateOf(states, '', 'audit_log')), refuserOf(observed)]);
    return foundTransition(states, observed, 'audit_log', null, [...refusing]);
  }
  if (isDamageFound(job)) return foundTransition(states, observed, 'verify', null);
  return refusesNoMore(states, observed);
}

/**
 * What a job found of one of the subjects.
 * @param problems null where they were not counted
 * @param refusing the jobs that refuse, if another one does
 */
function foundTransition(
  states: readonly NoticeState[],
  { job, at }: JobObservation,
  subject: ContentSubject,
  problems: number | null,
  refusing?: string[],
): Transition {
  const source = '';
  const summary = summaryOf('verify', job);
  const before = stateOf(states, source, subject);
  const known = before === undefined ? 0 : countOf(before);
  const isOfAuditLog = subject === 'audit_log';
  if (problems === 0) {
    if (before === undefined) return NO_TRANSITION;
    const title = isOfAuditLog
      ? 'it matches its audit log again'
      : 'the contents match the stored hashes again';
    return ended({ at, source, subject, event: 'verify_recovered' }, { title, job: job.name });
  }
  const refusers = refusing ?? refusingOf(before);
  const detail = {
    // A job that was stopped does not change what a verification has counted.
    problems: problems ?? (before === undefined ? null : known),
    ...(refusers.length === 0 ? {} : { refusing: refusers }),
  };
  const isSame =
    before !== undefined && detail.problems === known && refusers.length === refusingOf(before).length;
  if (isSame) return NO_TRANSITION;
  const what = isOfAuditLog
    ? 'it does not match its audit log'
    : problems === null
      ? 'it is damaged'
      : 'the contents do not match the stored hashes';
  const failed = namedNotice(
    { at, source, subject, event: 'verify_failed' },
    {
      severity: 'critical',
      title: `${what}${problems === null ? '' : `: ${plural(problems, 'problem')}`}`,
      lines: summary?.found ?? [job.error ?? ''],
      count: problems ?? 1,
      job: 'verify',
      hint:
        refusalOf(job) ??
        summary?.hint ??
        `\`tidemark verify\` names what is damaged; ${RESTORE_OR_NEW_HINT}`,
    },
  );
  const isNews = before === undefined || (known !== null && problems !== null && problems > known);
  return {
    states: [{ source, subject, state: 'failed', since: before?.since ?? at, detail }],
    cleared: [],
    notices: isNews ? [failed] : [],
  };
}

/** Ends the problem of the audit log once no job refuses because of it; if a verification counted problems, only another one ends it. */
function refusesNoMore(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { job } = observed;
  const before = stateOf(states, '', 'audit_log');
  const refusing = refusingOf(before);
  const left = refusing.filter((refuser) => refuser !== refuserOf(observed));
  const hasWorked = job.outcome === 'done' || job.outcome === 'partial' || lacksBaseline(job);
  // A job that had nothing to do did not look at the audit log.
  const wasIdle = summaryOf('backup', job)?.file === null || summaryOf('forget', job)?.forgotten === 0;
  if (before === undefined || left.length === refusing.length || !hasWorked || wasIdle) return NO_TRANSITION;
  const problems = countOf(before);
  if (left.length === 0 && problems === null) return foundTransition(states, observed, 'audit_log', 0);
  const detail = { problems, ...(left.length === 0 ? {} : { refusing: left }) };
  return { ...NO_TRANSITION, states: [{ ...before, detail }] };
}

/** The job with its source, as `refusing` has it. */
function refuserOf({ job: { name, source } }: JobObservation): string {
  return source === null ? name : `${name} ${source}`;
}

function refusingOf(state: NoticeState | undefined): string[] {
  return (state?.detail['refusing'] ?? []) as string[];
}

/** The number of problems that a verification has counted; null if none was made since the damage stopped a job. */
function countOf({ detail: { problems } }: NoticeState): number | null {
  return typeof problems === 'number' ? problems : null;
}

/**
 * Subject `drill`: `ok`, or `fallen` until a drill restores about as much as before the fall. Its detail has the best score since the
 * last notice (`score`), so that several small falls count as one, and the best one before the fall (`reference`).
 */
function drillTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const summary = summaryOf('drill', job);
  if (summary === null) return NO_TRANSITION;
  const { score } = summary;
  const source = job.source ?? '';
  const key = { at, source, subject: 'drill' };
  const before = stateOf(states, source, 'drill');
  const last = before === undefined ? score : Number(before.detail['score']);
  const wasFallen = before?.state === 'fallen';
  const isWorse = hasDrillFallen(score, last);
  const reference = wasFallen ? Number(before.detail['reference']) : last;
  const isFallen = isWorse || (wasFallen && hasDrillFallen(score, reference));
  const known = isWorse ? score : Math.max(score, isFallen ? last : reference);
  const state: NoticeState = {
    source,
    subject: 'drill',
    state: isFallen ? 'fallen' : 'ok',
    since: before === undefined || wasFallen !== isFallen ? at : before.since,
    detail: { score: known, reference: isFallen ? reference : known },
  };
  const isMoved = before === undefined || wasFallen !== isFallen || known !== last;
  const shared = { job: 'drill', run: summary.from } as const;
  const fell = namedNotice(
    { ...key, event: 'drill_fell' },
    {
      ...shared,
      severity: 'high',
      title: `the drill restored ${percent(score)}, before ${percent(last)}`,
      lines: summary.kinds
        .filter(({ restored, score: own }) => restored && own < 1)
        .map(({ kind, records, comesBack }) => `${kind}: ${comesBack} of ${plural(records, 'record')}`),
      hint: '`tidemark drill` shows what would be left to do',
    },
  );
  const title = `the drill restored ${percent(score)} again`;
  const recovered = ended({ ...key, event: 'drill_recovered' }, { ...shared, title });
  const notices = isWorse ? [fell] : wasFallen && !isFallen ? recovered.notices : [];
  return { states: isMoved ? [state] : [], cleared: [], notices };
}
