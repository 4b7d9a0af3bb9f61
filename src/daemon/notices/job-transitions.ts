/** Transitions of the jobs beside sync: whether they did their work at all, and what verify and drill found. */
import { plural } from '../../core/wording.ts';
import type { NoticeState } from '../../mirror/daemon-notices.ts';
import { percent } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { noticeOf } from './notice-content.ts';
import { subjectName } from './notice-words.ts';
import { type JobObservation, type Transition, NO_TRANSITION, stateOf } from './job-observation.ts';

/** Subject `job:NAME`: `failed` while the job cannot do its work. Problems that a verification found are its work done. */
export function workTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  const subject = `job:${job.name}`;
  const before = stateOf(states, source, subject);
  const hasFound = (summaryOf('verify', job)?.problems ?? 0) > 0;
  const isFailed = (job.outcome === 'failed' || job.outcome === 'refused') && !hasFound;
  if (isFailed === (before !== undefined)) return NO_TRANSITION;
  const shared = { job: job.name, run: job.run };
  if (!isFailed) {
    const recovered = noticeOf(
      { at, source, subject, event: 'job_recovered' },
      {
        ...shared,
        severity: 'low',
        title: `${subjectName(source)}: ${job.name} works again`,
        lines: before === undefined ? [] : [`it had failed since ${before.since}`],
      },
    );
    return { states: [], cleared: [{ source, subject }], notices: [recovered] };
  }
  const failed = noticeOf(
    { at, source, subject, event: 'job_failed' },
    {
      ...shared,
      severity: 'high',
      title: `${subjectName(source)}: ${job.name} failed`,
      lines: job.error === null ? [] : [job.error],
      error: job.error === null ? null : { code: job.errorCode, message: job.error },
    },
  );
  return {
    states: [{ source, subject, state: 'failed', since: at, detail: {} }],
    cleared: [],
    notices: [failed],
  };
}

/** Subject `verify`: `failed` while the mirror does not hold what it sealed. More problems than before are told again. */
export function verifyTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const summary = summaryOf('verify', job);
  if (summary === null) return NO_TRANSITION;
  const source = job.source ?? '';
  const of = { at, source, subject: 'verify' };
  const before = stateOf(states, source, 'verify');
  const { problems } = summary;
  const known = Number(before?.detail['problems'] ?? 0);
  if (problems === known) return NO_TRANSITION;
  if (problems === 0) {
    const recovered = noticeOf(
      { ...of, event: 'verify_recovered' },
      { severity: 'low', title: `${subjectName(source)}: it holds again what it sealed`, job: 'verify' },
    );
    return { states: [], cleared: [{ source, subject: 'verify' }], notices: [recovered] };
  }
  const failed = noticeOf(
    { ...of, event: 'verify_failed' },
    {
      severity: 'critical',
      title: `${subjectName(source)}: it does not hold what it sealed: ${plural(problems, 'problem')}`,
      lines: summary.found,
      count: problems,
      job: 'verify',
      hint: 'restore the mirror from a copy, or move it away and sync anew (without history)',
    },
  );
  return {
    states: [
      { source, subject: 'verify', state: 'failed', since: before?.since ?? at, detail: { problems } },
    ],
    cleared: [],
    notices: problems > known ? [failed] : [],
  };
}

/** Subject `drill`: `ok`, or `fallen` until it brings back as much as before it fell. */
export function drillTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const summary = summaryOf('drill', job);
  if (summary === null) return NO_TRANSITION;
  const { score } = summary;
  const source = job.source ?? '';
  const of = { at, source, subject: 'drill' };
  const before = stateOf(states, source, 'drill');
  const last = before === undefined ? score : Number(before.detail['score']);
  const reference = before?.state === 'fallen' ? Number(before.detail['reference']) : last;
  const isFallen = score < reference;
  const state: NoticeState = {
    source,
    subject: 'drill',
    state: isFallen ? 'fallen' : 'ok',
    since: before === undefined || (before.state === 'fallen') !== isFallen ? at : before.since,
    detail: { score, reference: isFallen ? reference : score },
  };
  const isMoved = before === undefined || score !== last;
  const name = subjectName(source);
  const shared = { job: 'drill', run: summary.from } as const;
  const notices =
    score < last
      ? [
          noticeOf(
            { ...of, event: 'drill_fell' },
            {
              ...shared,
              severity: 'high',
              title: `${name}: a practised restore brings back ${percent(score)}, before ${percent(last)}`,
              lines: summary.kinds
                .filter(({ restored, score: own }) => restored && own < 1)
                .map(
                  ({ kind, records, comesBack }) => `${kind}: ${comesBack} of ${plural(records, 'record')}`,
                ),
              hint: '`tidemark drill` tells what would be left to do',
            },
          ),
        ]
      : before?.state === 'fallen' && !isFallen
        ? [
            noticeOf(
              { ...of, event: 'drill_recovered' },
              {
                ...shared,
                severity: 'low',
                title: `${name}: a practised restore brings back ${percent(score)} again`,
              },
            ),
          ]
        : [];
  return { states: isMoved ? [state] : [], cleared: [], notices };
}
