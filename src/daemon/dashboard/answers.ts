/** The five answers at the top of the overview, each a word and a line, and the sentence above them. */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { count, duration, plural } from '../../core/wording.ts';
import { worst } from '../http/health.ts';
import type { HealthSnapshot, SourceStatus } from '../http/health-snapshot.ts';
import { age, percent } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { drillScores } from '../last-jobs.ts';
import type { Tone } from './components.ts';
import { type Html, markup } from './html.ts';

/** What is known of drift. */
export interface DriftCounts {
  readonly open: number;
  readonly severities: Readonly<Record<Severity, number>>;
  /** The run that was compared, where there is one for all sources. */
  readonly run: number | null;
  /** When that run ended, ISO 8601. */
  readonly at: string | null;
}

/** Below the first a drill's score is bad, below the second it is worth a look (deploy/grafana, Restorable). */
export const RESTORABLE = { some: 0.8, most: 0.95 } as const;

interface Answer {
  readonly tone: Tone;
  readonly word: string;
  readonly line: string;
}

/** @param drift null where there is no baseline */
export function answersHtml(snapshot: HealthSnapshot, drift: DriftCounts | null): Html {
  const answers = [
    ['Fresh', fresh(snapshot)],
    ['Complete', complete(snapshot)],
    ['Verified', verified(snapshot)],
    ['Restorable', restorable(snapshot)],
    ['Drift', drifted(snapshot, drift)],
  ] as const;
  const items = answers.map(
    ([question, { tone, word, line }]) =>
      markup`<li class="${tone}"><h2>${question}</h2><div><b>${word}</b></div><p>${line}</p></li>`,
  );
  return markup`<ul class="answers">${items}</ul>`;
}

function fresh({ health, now }: HealthSnapshot): Answer {
  if (health.sources.length === 0)
    return { tone: 'plain', word: 'Unknown', line: 'no source could be checked' };
  const times = health.sources.map(({ lastCompleteAt }) => lastCompleteAt);
  const oldest = times.includes(null) ? null : (times.toSorted()[0] ?? null);
  const isLate = health.sources.some(({ reasons }) =>
    reasons.some(({ code }) => code === 'stale' || code === 'never_complete'),
  );
  if (oldest === null) {
    const line = 'no complete run of every source so far';
    return isLate ? { tone: 'bad', word: 'No copy', line } : { tone: 'plain', word: 'Not yet', line };
  }
  const when = `last complete sync ${age(oldest, now)}`;
  if (isLate) return { tone: 'bad', word: 'Too old', line: when };
  const allowed = health.sources[0]?.allowedMs ?? null;
  return {
    tone: 'good',
    word: 'Yes',
    line: allowed === null ? when : `${when} (limit: ${duration(allowed)})`,
  };
}

/** What the mirror holds may be complete though the last attempt was not. */
function complete({ sourceStatuses, health, now }: HealthSnapshot): Answer {
  const own = sourceStatuses.filter(({ isConfigured }) => isConfigured);
  if (own.every(({ lastPublished }) => lastPublished === null))
    return { tone: 'plain', word: 'Not yet', line: 'nothing has been copied' };
  const sum = (of: (status: SourceStatus) => number): number =>
    own.reduce((all, status) => all + of(status), 0);
  const records = plural(
    sum((each) => each.records),
    'record',
  );
  const unread = sum(({ unreadCount }) => unreadCount);
  const attempt = lastAttempt(own, health);
  if (unread > 0 || attempt !== null) {
    const since = own.map(({ lastComplete }) => lastComplete);
    const [first] = since;
    if (since.includes(null)) {
      const line = `${plural(unread, 'collection')} could not be read completely, ${records}`;
      return { tone: 'warn', word: 'Not all', line };
    }
    const oldest = since.map((run) => run?.finishedAt ?? '').toSorted()[0] ?? '';
    const word = own.length === 1 ? `As of run ${first?.run ?? 0}` : 'As of before';
    const why = attempt ?? `the last run left out ${plural(unread, 'collection')}`;
    return { tone: 'warn', word, line: `complete ${age(oldest, now)}; ${why}` };
  }
  const held = sum((each) => each.held.reduce((all, { records: removals }) => all + removals, 0));
  if (held > 0)
    return { tone: 'warn', word: 'In doubt', line: `${plural(held, 'removal')} held, ${records}` };
  const collections = sum(({ kinds }) => kinds.reduce((all, kind) => all + kind.collections, 0));
  const sampled = own.flatMap(({ sampledKinds }) => sampledKinds);
  const apart = sampled.map(({ title, read, of }) => `, ${title} sampled (${count(read)} of ${count(of)})`);
  return {
    tone: 'good',
    word: 'Yes',
    line: `${records} in ${plural(collections, 'collection')}${apart.join('')}`,
  };
}

/** Why the last attempt brought nothing. */
function lastAttempt(own: readonly SourceStatus[], { sources }: HealthSnapshot['health']): string | null {
  const names = own.map(({ source }) => source);
  const reason = sources
    .filter(({ source }) => names.includes(source))
    .flatMap(({ reasons }) => reasons)
    .find(({ code }) => code === 'run_failed' || code === 'key_refused' || code === 'run_partial');
  if (reason === undefined) return null;
  return reason.code === 'run_partial' ? 'the last sync was partial' : (reason.message.split(':')[0] ?? '');
}

function verified({ lastJobs, now }: HealthSnapshot): Answer {
  const job = lastJobs.of('verify')[0];
  if (job === undefined) return { tone: 'plain', word: 'Not yet', line: 'never verified' };
  const summary = summaryOf('verify', job);
  if (summary === null)
    return { tone: 'warn', word: 'Failed', line: 'the last verification did not complete' };
  const when = age(job.finishedAt ?? job.startedAt, now);
  if (summary.problems > 0)
    return { tone: 'bad', word: plural(summary.problems, 'problem'), line: `found ${when}` };
  return { tone: 'good', word: 'Yes', line: `${count(summary.revisions)} revisions match, ${when}` };
}

function restorable({ mirror, lastJobs, now }: HealthSnapshot): Answer {
  const jobs = lastJobs.of('drill');
  const scores = mirror === null ? [] : jobs.map(({ source }) => drillScores(mirror, source));
  const known = scores.flatMap(({ last }) => last ?? []);
  const at = jobs.map(({ finishedAt, startedAt }) => finishedAt ?? startedAt).sort()[0];
  if (at === undefined || known.length === 0)
    return { tone: 'plain', word: 'Not tried', line: 'no restore drill so far' };
  const score = Math.min(...known);
  const hasFallen = scores.some(({ last, before }) => last !== null && before !== null && last < before);
  const isFailed = jobs.some(({ outcome }) => outcome === 'failed');
  const isDoubtful = hasFallen || isFailed || score < RESTORABLE.most;
  const what = isFailed ? 'the last drill failed' : hasFallen ? 'less than before' : 'by the last drill';
  return {
    tone: score < RESTORABLE.some ? 'bad' : isDoubtful ? 'warn' : 'good',
    word: score === 1 ? 'All of it' : percent(score),
    line: `${what}, ${age(at, now)}`,
  };
}

function drifted({ now }: HealthSnapshot, drift: DriftCounts | null): Answer {
  if (drift === null) return { tone: 'plain', word: 'No baseline', line: 'nothing to compare with' };
  const run = drift.run === null ? 'the latest runs' : `run ${drift.run}`;
  const when = `as of ${run}${drift.at === null ? '' : `, ${age(drift.at, now)}`}`;
  if (drift.open === 0) return { tone: 'good', word: 'None', line: when };
  const severities = SEVERITIES.filter((each) => drift.severities[each] > 0);
  return {
    tone: drift.severities.critical > 0 ? 'bad' : 'warn',
    word: plural(drift.open, 'finding'),
    line: severities.map((each) => `${count(drift.severities[each])} ${each}`).join(', '),
  };
}

/** The sentence at the top. `needs`: how many things need a person. */
export function verdictHtml(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): Html {
  const isCritical = (drift?.severities.critical ?? 0) > 0;
  const shown = worst([snapshot.health, { state: needs > 0 || isCritical ? 'degraded' : 'ok' }]);
  const mark = markup`<span class="verdict-mark" aria-hidden="true"></span>`;
  return markup`<h1 class="is-${shown}">${mark}${verdictText(snapshot, drift, needs)}</h1>`;
}

function verdictText(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): string {
  const { state } = snapshot.health;
  if (state === 'failing')
    return needs === 1 ? 'One thing is failing and needs you' : 'The backup is failing and needs you';
  const isFirst = snapshot.sourceStatuses.every(({ lastPublished }) => lastPublished === null);
  if (isFirst || state === 'starting') return 'The first sync has not completed yet';
  if (needs === 1) return 'One thing needs you';
  if (needs > 1) return `${count(needs)} things need you`;
  if ((drift?.open ?? 0) > 0) return 'The backup is current; the service has drifted';
  const untested = [
    ...(snapshot.lastJobs.of('verify').length === 0 ? ['not verified yet'] : []),
    ...(snapshot.lastJobs.of('drill').length === 0 ? ['no restore drill yet'] : []),
  ];
  return untested.length === 0 ? 'Everything is fine' : `The backup is current; ${untested.join(', ')}`;
}
