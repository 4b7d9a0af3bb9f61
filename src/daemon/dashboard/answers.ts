/** The questions of a visitor, each answered in a word and a line. */
import type { Severity } from '../../catalog/definition.ts';
import { SEVERITIES } from '../../catalog/severities.ts';
import { count, duration, plural } from '../../core/wording.ts';
import { worst } from '../http/health.ts';
import type { HealthSnapshot } from '../http/health-snapshot.ts';
import { drillScores } from '../last-jobs.ts';
import { age, percent } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { type Html, markup } from './pieces.ts';
import type { Tone } from './pieces.ts';

/** What is known of drift: null where there is no baseline. */
export interface DriftCounts {
  readonly open: number;
  readonly severities: Readonly<Record<Severity, number>>;
  readonly at: string | null;
}

/** Below the first a drill's score is bad, below the second it is worth a look (deploy/grafana, Restorable). */
export const RESTORABLE = { some: 0.8, most: 0.95 } as const;

interface Answer {
  readonly question: string;
  readonly tone: Tone;
  readonly word: string;
  readonly line: string;
}

export function answersHtml(snapshot: HealthSnapshot, drift: DriftCounts | null): Html {
  const answers = [
    fresh(snapshot),
    complete(snapshot),
    verified(snapshot),
    restorable(snapshot),
    drifted(drift),
  ];
  return markup`<ul class="answers">${answers.map(({ question, tone, word, line }) => markup`<li class="${tone}"><h2>${question}</h2><div><b>${word}</b></div><p>${line}</p></li>`)}</ul>`;
}

function fresh({ health, now }: HealthSnapshot): Answer {
  const question = 'Fresh';
  if (health.sources.length === 0)
    return { question, tone: 'plain', word: 'Unknown', line: 'no source could be looked at' };
  const times = health.sources.map(({ lastCompleteAt }) => lastCompleteAt);
  const oldest = times.includes(null) ? null : (times.toSorted()[0] ?? null);
  const late = health.sources.filter(({ reasons }) =>
    reasons.some(({ code }) => code === 'stale' || code === 'never_complete'),
  );
  if (oldest === null) {
    const isLate = late.length > 0;
    return {
      question,
      tone: isLate ? 'bad' : 'plain',
      word: isLate ? 'No copy' : 'Not yet',
      line: 'no complete run of every source so far',
    };
  }
  if (late.length > 0)
    return { question, tone: 'bad', word: 'Too old', line: `last complete run ${age(oldest, now)}` };
  const allowed = health.sources[0]?.allowedMs ?? null;
  return {
    question,
    tone: 'good',
    word: 'Yes',
    line: `complete ${age(oldest, now)}${allowed === null ? '' : `, ${duration(allowed)} allowed`}`,
  };
}

function complete({ sourceStatuses, health }: HealthSnapshot): Answer {
  const question = 'Complete';
  const own = sourceStatuses.filter(({ isConfigured }) => isConfigured);
  if (own.every(({ lastPublished }) => lastPublished === null))
    return { question, tone: 'plain', word: 'Not yet', line: 'nothing has been copied' };
  const unread = own.reduce((sum, each) => sum + each.unreadCount, 0);
  const held = own.flatMap((each) => each.held).reduce((sum, { records }) => sum + records, 0);
  const records = plural(
    own.reduce((sum, each) => sum + each.records, 0),
    'record',
  );
  if (unread > 0)
    return {
      question,
      tone: 'warn',
      word: 'Not all',
      line: `${plural(unread, 'collection')} not whole, ${records}`,
    };
  if (held > 0)
    return {
      question,
      tone: 'warn',
      word: 'In doubt',
      line: `${plural(held, 'removal')} held back, ${records}`,
    };
  const isFailed = health.sources.some(({ reasons }) =>
    reasons.some(({ code }) => code === 'run_failed' || code === 'key_refused'),
  );
  if (isFailed)
    return { question, tone: 'warn', word: 'As of before', line: `the last sync failed, ${records} kept` };
  return {
    question,
    tone: 'good',
    word: 'Yes',
    line: `${records} in ${plural(
      own.reduce((sum, { kinds }) => sum + kinds.reduce((all, { collections }) => all + collections, 0), 0),
      'collection',
    )}`,
  };
}

function verified({ lastJobs, now }: HealthSnapshot): Answer {
  const question = 'Verified';
  const job = lastJobs.of('verify')[0];
  const summary = job === undefined ? null : summaryOf('verify', job);
  if (job === undefined || summary === null)
    return {
      question,
      tone: job === undefined ? 'plain' : 'warn',
      word: job === undefined ? 'Not yet' : 'Failed',
      line: job === undefined ? 'no check has been made' : 'the last check could not be made',
    };
  const when = age(job.finishedAt ?? job.startedAt, now);
  if (summary.problems > 0)
    return { question, tone: 'bad', word: plural(summary.problems, 'problem'), line: `found ${when}` };
  return {
    question,
    tone: 'good',
    word: 'Yes',
    line: `${count(summary.revisions)} revisions match, ${when}`,
  };
}

function restorable({ mirror, lastJobs, now }: HealthSnapshot): Answer {
  const question = 'Restorable';
  const jobs = lastJobs.of('drill');
  const scores = mirror === null ? [] : jobs.map(({ source }) => drillScores(mirror, source));
  const known = scores.flatMap(({ last }) => last ?? []);
  const at = jobs.map(({ finishedAt, startedAt }) => finishedAt ?? startedAt).sort()[0];
  if (at === undefined || known.length === 0)
    return { question, tone: 'plain', word: 'Not tried', line: 'no drill has been made' };
  const score = Math.min(...known);
  const hasFallen = scores.some(({ last, before }) => last !== null && before !== null && last < before);
  const isFailed = jobs.some(({ outcome }) => outcome === 'failed');
  return {
    question,
    tone:
      score < RESTORABLE.some ? 'bad' : hasFallen || isFailed || score < RESTORABLE.most ? 'warn' : 'good',
    word: score === 1 ? 'All of it' : percent(score),
    line: `${isFailed ? 'the last drill failed' : hasFallen ? 'less than before' : 'by the last drill'}, ${age(at, now)}`,
  };
}

function drifted(drift: DriftCounts | null): Answer {
  const question = 'Drift';
  if (drift === null)
    return { question, tone: 'plain', word: 'No baseline', line: 'nothing to measure from' };
  if (drift.open === 0)
    return { question, tone: 'good', word: 'None', line: 'everything as in the baseline' };
  const grave = SEVERITIES.filter((each) => drift.severities[each] > 0);
  return {
    question,
    tone: drift.severities.critical > 0 ? 'bad' : 'warn',
    word: plural(drift.open, 'finding'),
    line: grave.map((each) => `${count(drift.severities[each])} ${each}`).join(', '),
  };
}

/** The sentence at the top. */
export function verdictHtml(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): Html {
  const { health } = snapshot;
  const state = health.state;
  const grave = (drift?.severities.critical ?? 0) > 0;
  const shown = worst([{ state }, { state: needs > 0 || grave ? 'degraded' : 'ok' }]);
  const isFirst = snapshot.sourceStatuses.every(({ lastPublished }) => lastPublished === null);
  const text =
    state === 'failing'
      ? needs === 1
        ? 'One thing is failing and needs you'
        : 'The copy is failing and needs you'
      : isFirst || state === 'starting'
        ? 'The first copy is on its way'
        : needs > 0
          ? `${needs === 1 ? 'One thing needs' : `${count(needs)} things need`} you`
          : (drift?.open ?? 0) > 0
            ? 'The copy is fine; the service drifted'
            : 'Everything is fine';
  return markup`<h1 class="is-${shown}"><span class="verdict-mark" aria-hidden="true"></span>${text}</h1>`;
}
