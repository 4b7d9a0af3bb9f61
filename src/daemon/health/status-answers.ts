/**
 * What the dashboard's overview and `tidemark status` show: the five answers (is the mirror fresh, complete, verified, restorable; what
 * drifted), the sentence above them, and what needs attention. Every answer says as of when.
 */
import { SEVERITIES } from '../../catalog/definition.ts';
import { isKind } from '../../catalog/catalog.ts';
import { KINDS } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { duration, formatInteger, percent, plural } from '../../core/wording.ts';
import { type NamedRemovals, withBelow } from '../../state/held-names.ts';
import { isCreatable } from '../../sync/removals.ts';
import { type UnreadRestore, unreadRestoreText } from '../../state/runs.ts';
import { unaskedLines } from '../../state/unasked.ts';
import type { SourceStatus } from '../../state/source-status.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { hasDrillFallen } from '../last-jobs.ts';
import { endOf } from './facts.ts';
import type { HealthCode, HealthReason } from './reason.ts';
import type { HealthSnapshot } from './health-facts.ts';
import { type Answered, alteredReasons, verified } from './verified.ts';
import { withoutRepeatedReasons } from './waits.ts';
import { age } from '../http/wording.ts';
import type { DriftCounts } from './drift-counts.ts';

/** Below `some`, a drill's score is bad; below `most`, it is worth a look (deploy/grafana, Restorable). @internal */
export const RESTORABLE = { some: 0.8, most: 0.95 } as const;

const KEPT_BY: Readonly<Partial<Record<SyncedBy, string>>> = {
  once: '; kept by daemon --once',
  fleet: '; kept by the workers of its fleet',
};

/** Who syncs: a daemon, calls of `daemon --once`, workers of a fleet or other commands; `not yet` before the first sync of any; nobody after a stop. */
export type SyncedBy = 'daemon' | 'once' | 'fleet' | 'commands' | 'not yet' | 'nobody';

/** What a command knows besides the mirror. */
interface CommandFacts {
  /** Without sources if there is no configuration. */
  readonly config: Pick<Config, 'sources' | 'schedules'>;
  readonly upkeep: SyncedBy;
}

export interface Answer extends Answered {
  readonly question: string;
}

/**
 * The five answers.
 * @param drift null without a baseline
 * @param command left out by a daemon, which follows the schedules
 */
export function fiveAnswers(
  snapshot: HealthSnapshot,
  drift: DriftCounts | null,
  command?: CommandFacts,
): Answer[] {
  if (isUnreadable(snapshot)) {
    const unknown: Answered = { tone: 'bad', word: 'Unknown', line: 'the mirror cannot be read' };
    return QUESTIONS.map((question) => ({ question, ...unknown }));
  }
  return [
    { question: 'Fresh', ...fresh(snapshot, command) },
    { question: 'Complete', ...complete(snapshot) },
    { question: 'Verified', ...verified(snapshot) },
    { question: 'Restorable', ...restorable(snapshot) },
    { question: 'Drift', ...drifted(snapshot, drift) },
  ];
}

/** The sources that the answers are about: the other sources in the mirror are not synced any more. */
export function configuredOf({ sourceStatuses }: Pick<HealthSnapshot, 'sourceStatuses'>): SourceStatus[] {
  return sourceStatuses.filter(({ isConfigured }) => isConfigured);
}

/** Names the configured sources of which nothing was ever published; null if there are none. */
function neverReadText(snapshot: Pick<HealthSnapshot, 'sourceStatuses'>): string | null {
  const never = configuredOf(snapshot).filter(({ lastPublished }) => lastPublished === null);
  return never.length === 0
    ? null
    : `nothing of ${never.map(({ source }) => source).join(', ')} was read yet`;
}

/** The number of records whose removal is held. */
export function heldCount(snapshot: HealthSnapshot): number {
  return heldOf(snapshot).reduce((sum, { records }) => sum + records, 0);
}

/** The number of records below these, which are removed with them. */
function belowHeld(snapshot: HealthSnapshot): number {
  return heldOf(snapshot).reduce((sum, { below }) => sum + below, 0);
}

function heldOf(snapshot: HealthSnapshot): readonly NamedRemovals[] {
  return configuredOf(snapshot).flatMap(({ held }) => held);
}

/** Names, in one sentence, the sources in the mirror that the configuration does not have; null for none. */
export function leftSourcesText({ sourceStatuses }: Pick<HealthSnapshot, 'sourceStatuses'>): string | null {
  const left = sourceStatuses.filter(({ isConfigured }) => !isConfigured);
  if (left.length === 0) return null;
  const names = left.map(({ source }) => source).join(', ');
  const records = plural(
    left.reduce((sum, each) => sum + each.records, 0),
    'record',
  );
  return left.length === 1
    ? `${names} is no longer configured: its ${records} stay as they were; configure a source of that name to continue`
    : `${names} are no longer configured: their ${records} stay as they were; configure sources of those names to continue`;
}

const QUESTIONS = ['Fresh', 'Complete', 'Verified', 'Restorable', 'Drift'] as const;

/** True if the mirror exists and cannot be read: then nothing is known of it. */
export function isUnreadable({ health }: Pick<HealthSnapshot, 'health'>): boolean {
  return health.reasons.some(({ code }) => code === 'mirror_unreadable');
}

function fresh(
  { health, now }: HealthSnapshot,
  { config, upkeep }: Partial<CommandFacts> & { readonly upkeep: SyncedBy } = { upkeep: 'daemon' },
): Answered {
  if (health.sources.length === 0)
    return { tone: 'plain', word: 'Unknown', line: 'no source could be checked' };
  const times = health.sources.map(({ lastCompleteAt }) => lastCompleteAt);
  const oldest = times.includes(null) ? null : (times.toSorted()[0] ?? null);
  const codes = health.sources.flatMap(({ reasons }) => reasons.map(({ code }) => code));
  const isLate = codes.some((code) => code === 'stale' || code === 'never_complete');
  if (oldest === null) {
    const line = 'no complete run of every source so far';
    return isLate ? { tone: 'bad', word: 'No copy', line } : { tone: 'plain', word: 'Not yet', line };
  }
  if (!isLate && codes.includes('run_in_future'))
    return { tone: 'warn', word: 'Unknown', line: "a run is in the future, by this machine's clock" };
  const when = `last complete sync ${age(oldest, now)}`;
  const unattended = upkeep === 'nobody' || upkeep === 'not yet' ? '; no daemon is running' : '';
  if (isLate) return { tone: 'bad', word: 'Too old', line: `${when}${unattended}` };
  // Without a schedule of a daemon, nothing says how old it may be, whatever the configuration has.
  const allowed = health.sources[0]?.allowedMs ?? null;
  if (allowed === null && config?.sources.length === 0)
    return { tone: 'plain', word: 'Not known', line: `${when}; no configuration says how old it may be` };
  if (upkeep === 'commands')
    return { tone: 'plain', word: 'By commands', line: `${when}, by a command, as those before it were` };
  const isScheduled = config?.schedules.sync?.sources.includes(health.sources[0]?.source ?? '') === true;
  if (allowed === null && !isScheduled)
    return { tone: 'plain', word: 'No schedule', line: `${when}; no schedule is on that syncs` };
  const limit = allowed === null ? when : `${when} (limit: ${duration(allowed)})`;
  if (allowed === null || upkeep === 'not yet')
    return { tone: 'plain', word: 'By hand', line: `${limit}; none by schedule so far` };
  if (unattended !== '')
    return { tone: 'warn', word: 'For now', line: `${limit}${unattended} to keep it so` };
  return { tone: 'good', word: 'Yes', line: `${limit}${KEPT_BY[upkeep] ?? ''}` };
}

/** What the mirror holds may be complete although the last attempt was not. */
function complete(snapshot: HealthSnapshot): Answered {
  const { health, now } = snapshot;
  const own = configuredOf(snapshot);
  if (own.every(({ lastPublished }) => lastPublished === null))
    return { tone: 'plain', word: 'Not yet', line: 'no complete run yet' };
  const sum = (of: (status: SourceStatus) => number): number =>
    own.reduce((all, status) => all + of(status), 0);
  const records = plural(
    sum((each) => each.kinds.reduce((all, kind) => all + kind.records, 0)),
    'record',
  );
  // A list with held removals was read.
  const unread = sum(
    (each) => each.unreadCount - each.unread.filter(({ outcome }) => outcome === 'held').length,
  );
  const never = neverReadText(snapshot);
  if (never !== null) {
    const parts = unread === 0 ? [] : [`${plural(unread, 'collection')} could not be read completely`];
    const line = [never, ...parts, records].join('; ');
    return { tone: 'warn', word: 'Not all', line };
  }
  const attempt = lastAttempt(own, health);
  if (unread > 0 || attempt !== null) {
    const since = own.map(({ lastComplete }) => lastComplete);
    const [first] = since;
    if (since.includes(null)) {
      const line = `${plural(unread, 'collection')} could not be read completely, ${records}`;
      return { tone: 'warn', word: 'Not all', line };
    }
    const oldest = since.map((run) => run?.finishedAt ?? '').toSorted()[0] ?? '';
    const run = own.length === 1 ? `run ${first?.run ?? 0}, ` : '';
    const why = attempt ?? `the last run left out ${plural(unread, 'collection')}`;
    return { tone: 'warn', word: 'Not now', line: `last complete: ${run}${age(oldest, now)}; ${why}` };
  }
  const skipped = KINDS.filter((kind) => own.some(({ neverRead }) => neverRead.includes(kind)));
  if (skipped.length > 0) {
    const names = own.filter(({ neverRead }) => neverRead.length > 0).map(({ source }) => source);
    const of = own.length === 1 ? '' : ` of ${names.join(', ')}`;
    const was = skipped.length === 1 ? 'was' : 'were';
    const line = `${plural(skipped.length, 'kind')}${of} ${was} never read; ${records}`;
    return { tone: 'warn', word: 'Not all', line };
  }
  const held = heldCount(snapshot);
  const heldText = withBelow(plural(held, 'removal'), held, belowHeld(snapshot));
  if (held > 0) return { tone: 'warn', word: 'Uncertain', line: `${heldText} held, ${records}` };
  const collections = sum(({ kinds }) => kinds.reduce((all, kind) => all + kind.collections, 0));
  const sampled = own.flatMap(({ sampledKinds }) => sampledKinds);
  const apart = [...Map.groupBy(sampled, ({ title }) => title)].map(([title, same]) => {
    const [read, of] = [
      same.reduce((all, each) => all + each.read, 0),
      same.reduce((all, each) => all + each.of, 0),
    ];
    return `, ${title} sampled (${formatInteger(read)} of ${formatInteger(of)})`;
  });
  const [only] = own;
  const when = own.length === 1 ? `, as of run ${only?.lastPublished?.run ?? 0}` : '';
  const unasked = own.flatMap((each) => unaskedLines(each.unasked)).map((line) => `; ${line}`);
  return {
    tone: 'good',
    word: sampled.length === 0 ? 'Yes' : 'Yes, with samples',
    line: `${records} in ${plural(collections, 'collection')}${apart.join('')}${when}${unasked.join('')}`,
  };
}

/** Why the last attempt failed or was partial; null if it was complete. */
function lastAttempt(own: readonly SourceStatus[], { sources }: HealthSnapshot['health']): string | null {
  const names = own.map(({ source }) => source);
  const reason = sources
    .filter(({ source }) => names.includes(source))
    .flatMap(({ reasons, source }) => reasons.map((each) => ({ ...each, source })))
    .find(({ code }) => code === 'run_failed' || code === 'key_refused' || code === 'run_partial');
  if (reason === undefined) return null;
  const whose = own.length === 1 ? '' : ` of ${reason.source}`;
  if (reason.code === 'run_partial') return `the last sync${whose} was partial`;
  return (reason.message.split(':')[0] ?? '').replace(/^the last sync/, `$&${whose}`);
}

function restorable(snapshot: HealthSnapshot): Answered {
  const { lastJobs, drillScores, now } = snapshot;
  const jobs = lastJobs.of('drill');
  const scores = [...drillScores.values()];
  const known = scores.flatMap(({ last }) => last ?? []);
  const [at] = jobs.map(endOf).sort();
  if (at === undefined || known.length === 0)
    return { tone: 'plain', word: 'Not tried', line: 'no restore drill of the latest state so far' };
  const score = Math.min(...known);
  const hasFallen = scores.some(
    ({ last, before }) => last !== null && before !== null && hasDrillFallen(last, before),
  );
  const isFailed = jobs.some(({ outcome }) => outcome === 'failed');
  const isDoubtful = hasFallen || isFailed || score < RESTORABLE.most;
  const what = isFailed
    ? 'the last drill failed'
    : hasFallen
      ? 'less than before'
      : 'from nothing, by the last drill';
  // The run is named because newer ones, or another configuration, may give another score.
  const [job, ...others] = jobs;
  const run = job === undefined || others.length > 0 ? null : (summaryOf('drill', job)?.from ?? null);
  const line = `${what}${run === null ? '' : `, of run ${run}`}, ${age(at, now)}`;
  const worstJob = jobs.find(({ source }) => drillScores.get(source ?? '')?.last === score);
  const lost = worstJob === undefined || score === 1 ? null : lossOf(snapshot, worstJob);
  return {
    tone: score < RESTORABLE.some ? 'bad' : isDoubtful ? 'warn' : 'good',
    word: score === 1 ? 'All of it' : percent(score),
    line: lost === null ? line : `${line}; ${lost.cause}: ${lost.remedy}`,
  };
}

/** The cause for which most records would not come back; recordings, which nothing restores, are not counted. */
function lossOf({ config }: HealthSnapshot, job: JobRow): { cause: string; remedy: string } | null {
  const source = config?.sources.find(({ name }) => name === job.source);
  const kinds = (summaryOf('drill', job)?.kinds ?? []).filter((each) => each.restored && isKind(each.kind));
  if (config === undefined || source === undefined) return null;
  const definitions = definitionsFor(config, source.name);
  const sum = (of: (each: (typeof kinds)[number]) => number, own = kinds): number =>
    own.reduce((all, each) => all + of(each), 0);
  const closed = kinds.filter(({ kind }) => !isCreatable(definitions(kind)));
  const open = kinds.filter((each) => !closed.includes(each));
  const causes = [
    {
      records: sum(({ records, comesBack }) => records - comesBack, closed),
      what: `have no field that the profile ${source.profile} may write`,
      remedy:
        source.profile === 'svc'
          ? 'try profile: svc-writable in the configuration'
          : 'see profile and definitions in the configuration',
    },
    {
      records: sum(({ needsSecret }) => needsSecret, open),
      what: 'need a secret',
      remedy: 'give it under secrets in the configuration',
    },
    {
      records: sum(({ needsPerson }) => needsPerson, open),
      what: 'need manual work',
      remedy: 'tidemark drill --runbook FILE lists it',
    },
  ];
  const [main] = causes.toSorted((a, b) => b.records - a.records);
  if (main === undefined || main.records === 0) return null;
  const of = formatInteger(sum(({ records }) => records));
  return {
    cause: `${formatInteger(main.records)} of the ${of} records that a restore writes ${main.what}`,
    remedy: main.remedy,
  };
}

/** The newest restores whose changes the mirror has not read yet, one for each source; `of` names the source if there are several. */
function unreadRestoresOf(snapshot: HealthSnapshot): { restored: UnreadRestore; of: string }[] {
  const own = configuredOf(snapshot);
  return own.flatMap(({ source, unreadRestore }) =>
    unreadRestore === null ? [] : [{ restored: unreadRestore, of: own.length === 1 ? '' : ` of ${source}` }],
  );
}

function drifted(snapshot: HealthSnapshot, drift: DriftCounts | null): Answered {
  const found = foundDrift(snapshot, drift);
  const unread = unreadRestoresOf(snapshot);
  // A damaged mirror comes first: a sync would not make the rest known.
  const isDamaged = drift?.open === 0 && drift.unknown !== null && alteredReasons(snapshot).length > 0;
  if (drift === null || unread.length === 0 || isDamaged) return found;
  const texts = unread.map(({ restored, of }) => unreadRestoreText(restored, of));
  const line = texts.join('; ').replaceAll('`', '');
  return {
    tone: 'warn',
    word: 'Not known',
    line: drift.open === 0 ? line : `${line}; before it: ${found.line}`,
  };
}

function foundDrift(snapshot: HealthSnapshot, drift: DriftCounts | null): Answered {
  const { now } = snapshot;
  const never = neverReadText(snapshot);
  if (drift === null && never !== null && snapshot.mirror?.snapshots.baseline() !== undefined)
    return { tone: 'warn', word: 'Unknown', line: never };
  if (drift === null) return { tone: 'plain', word: 'No baseline', line: 'nothing to compare with' };
  const run = drift.run === null ? 'the latest runs' : `run ${drift.run}`;
  const as = `as of ${run}${drift.at === null ? '' : `, ${age(drift.at, now)}`}`;
  const missing = [
    ...(never === null ? [] : [`${never}, `]),
    ...(drift.uncompared === 0
      ? []
      : [`${plural(drift.uncompared, 'collection')} not compared or not fresh, `]),
  ].join('');
  const removals = heldCount(snapshot);
  const below = belowHeld(snapshot);
  const missed = withBelow(plural(removals, 'record'), removals, below);
  const held =
    removals === 0
      ? ''
      : `${missed} ${removals + below === 1 ? 'is missing, its' : 'are missing, their'} removal is held; `;
  const when = `${held}${missing}${as}`;
  if (drift.open === 0 && drift.unknown !== null)
    return { tone: 'warn', word: 'Unknown', line: drift.unknown.brief, whole: drift.unknown.reason };
  if (drift.open === 0 && removals > 0)
    return { tone: 'warn', word: `${formatInteger(removals)} missing`, line: when };
  if (drift.open === 0 && missing !== '') return { tone: 'warn', word: 'None found', line: when };
  if (drift.open === 0) return { tone: 'good', word: 'None', line: when };
  const severities = SEVERITIES.filter((each) => drift.severities[each] > 0);
  const whose = drift.bySource.map(({ source, open }) => `${source} ${formatInteger(open)}`).join(', ');
  const line = `${severities.map((each) => `${formatInteger(drift.severities[each])} ${each}`).join(', ')}${whose === '' ? '' : ` (${whose})`}, ${when}`;
  return {
    tone: drift.severities.critical > 0 ? 'bad' : 'warn',
    word: plural(drift.open, 'finding'),
    ...(drift.unknown === null
      ? { line }
      : {
          line: `${line}; ${drift.unknown.brief}`,
          whole: `${line}; the rest is not known: ${drift.unknown.reason}`,
        }),
  };
}

/** The sentence at the top. @param needs how many things need a person */
export function verdictText(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): string {
  const { state } = snapshot.health;
  if (state === 'failing')
    return needs === 1 ? 'One thing is failing and needs you' : 'Something is failing and needs you';
  const isFirst = configuredOf(snapshot).every(({ lastPublished }) => lastPublished === null);
  // With several sources, one whose first sync is running does not hide what the others need.
  if (isFirst || (state === 'starting' && needs === 0)) return 'The first sync has not completed yet';
  if (needs === 1) return 'One thing needs you';
  if (needs > 1) return `${formatInteger(needs)} things need you`;
  const restores = unreadRestoresOf(snapshot).map(
    ({ restored: { restore, run, isApplied }, of }) =>
      `what restore ${restore}${of} ${isApplied ? 'changed' : 'may have changed'} after run ${run}`,
  );
  if (restores.length > 0) return `The mirror does not have yet ${restores.join(', and ')}`;
  if ((drift?.open ?? 0) > 0) return 'The mirror is current; the service has drifted';
  const unread = configuredOf(snapshot).flatMap((each) => each.unread);
  const neverRead = [...new Set(unread.flatMap(({ kind, outcome }) => (outcome === null ? [kind] : [])))];
  const untested = [
    ...(drift === null || drift.unknown === null ? [] : ['drift is not known']),
    ...((drift?.uncompared ?? 0) > 0
      ? [`${plural(drift?.uncompared ?? 0, 'collection')} not compared or not fresh`]
      : []),
    ...(neverRead.length === 0 ? [] : [`${neverRead.join(', ')} not read yet`]),
    ...(snapshot.lastJobs.of('verify').length === 0 ? ['not verified yet'] : []),
    ...drillText(snapshot),
  ];
  return untested.length === 0 ? 'Everything is fine' : `The mirror is current; ${untested.join(', ')}`;
}

/** What is not fine although nothing else is wrong: there was no drill, or it restored little. */
function drillText(snapshot: HealthSnapshot): string[] {
  if (snapshot.lastJobs.of('drill').length === 0) return ['no restore drill yet'];
  const { tone, word } = restorable(snapshot);
  return tone === 'bad' ? [`the last drill restored ${word}`] : [];
}

export interface AttentionReason extends HealthReason {
  /** Null for what concerns the daemon as a whole. */
  readonly source: string | null;
}

/** Since when something needs attention; null if the message says that, or until when it waits. */
export function sinceOf({ code, since, isWait }: AttentionReason): string | null {
  return code === 'stale' || isWait === true ? null : since;
}

const SINCE_FIRST: ReadonlySet<string> = new Set<HealthCode>(['run_failed', 'key_refused']);

/** The words before that time: for syncs that fail one after the other, it is that of the first one. */
export function sinceWords({ code }: AttentionReason): string {
  return SINCE_FIRST.has(code) ? 'for the first time ' : '';
}

/** What needs attention, worst first, each once. A first sync under way needs no action. */
export function needsOf({ health }: Pick<HealthSnapshot, 'health'>): AttentionReason[] {
  const needs = [{ source: null, reasons: health.reasons }, ...health.sources]
    .flatMap(({ source, reasons }) => reasons.map((reason): AttentionReason => ({ ...reason, source })))
    .filter(({ code, hint }) => code !== 'mirror_unread' && (code !== 'first_sync' || hint !== null));
  return withoutRepeatedReasons(needs).sort(
    (a, b) => Number(b.state === 'failing') - Number(a.state === 'failing'),
  );
}
