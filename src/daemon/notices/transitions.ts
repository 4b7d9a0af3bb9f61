/** The state transitions of an ended job against the last notified states. Pure: the same job again changes nothing. */
import { CONTRADICTING_HINT, contradictingText } from '../../backup/chain.ts';
import { collectionKey, scopeKey } from '../../catalog/catalog.ts';
import { type Scope, type Severity, SEVERITIES } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { duration, formatInteger, percent, plural } from '../../core/wording.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { NoticeState, Notice } from '../../mirror/daemon-store.ts';
import { backupHint, EMPTIED_HINT, NEW_BASELINE_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import { hasDrillFallen } from '../last-jobs.ts';
import {
  hasEmptiedTarget,
  lacksBaseline,
  refusalOf,
  summaryOf,
  type DriftSummary,
  type FindingSummary,
} from '../jobs/summaries.ts';
import {
  CHAIN_SUBJECT,
  type ContentSubject,
  type JobObservation,
  type Transition,
  causeText,
  isDamageFound,
  isOfKnownDamage,
  joined,
  localHint,
  NO_TRANSITION,
  stateOf,
  syncTransitions,
} from './run-transitions.ts';
import { perhapsOpenTransition } from './perhaps-open.ts';
import { type AcceptedFindings, noticeOf, NAMED_IN_NOTICE, subjectName } from './message.ts';

/** @param states those of the job's source and of the mirror as a whole */
export function transitionsOf(states: readonly NoticeState[], seen: JobObservation): Transition {
  // A verification says it itself.
  const damage = seen.job.name === 'verify' ? NO_TRANSITION : contentTransitions(states, seen);
  const change = joined([damage, jobTransitions([...states, ...damage.states], seen)]);
  return joined([change, perhapsOpenTransition(states, seen, change)]);
}

function jobTransitions(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { name } = seen.job;
  if (name === 'sync') return syncTransitions(states, seen);
  const work = workTransition(states, seen);
  if (name === 'drift') return joined([work, driftTransitions(states, seen)]);
  if (name === 'verify') return joined([work, contentTransitions(states, seen)]);
  if (name === 'drill') return joined([work, drillTransition(states, seen)]);
  if (name === 'backup') return joined([work, chainTransition(states, seen)]);
  return work;
}

/** Subject `backup_chain`: `failed` while a target has a backup that is not in the chain of the mirror. Another one is news. */
function chainTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const { contradicting: names } = summaryOf('backup', job) ?? {};
  const of = { at, source: '', subject: CHAIN_SUBJECT } as const;
  const before = stateOf(states, of.source, of.subject);
  if (names === undefined || (names.length === 0 && before === undefined)) return NO_TRANSITION;
  const text = contradictingText(names);
  const title = `${subjectName(of.source)}: ${text === null ? 'every backup is in its chain again' : 'a backup is not in its chain'}`;
  if (text === null)
    return {
      states: [],
      cleared: [of],
      notices: [noticeOf({ ...of, event: 'verify_recovered' }, { severity: 'low', title, job: job.name })],
    };
  const known = (before?.detail['backups'] ?? []) as readonly string[];
  const failed = noticeOf(
    { ...of, event: 'verify_failed' },
    {
      severity: 'critical',
      title,
      lines: [text],
      count: names.length,
      job: job.name,
      hint: CONTRADICTING_HINT,
    },
  );
  return {
    states: [{ ...of, state: 'failed', since: before?.since ?? at, detail: { backups: [...names] } }],
    cleared: [],
    notices: names.every((name) => known.includes(name)) ? [] : [failed],
  };
}

// Transitions of the jobs beside sync: whether they did their work at all, and what verify and drill found.

/**
 * Subject `job:NAME`: `failed` while the job cannot do its work. Problems that a verification found are its work done. A
 * backup that is missing in one of its targets has failed, although the others have it; another failing target is news.
 */
function workTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  const source = job.source ?? '';
  const subject = `job:${job.name}`;
  const stored = stateOf(states, source, subject);
  const hasFound =
    (summaryOf('verify', job)?.problems ?? 0) > 0 || (job.name === 'verify' && isDamageFound(job));
  const failing = failedTargets(job);
  const isFailed =
    failing.length > 0 || ((job.outcome === 'failed' || job.outcome === 'refused') && !hasFound);
  // The damage has been reported; another reason has not.
  const isDamage = isOfKnownDamage(states, job);
  const wasFollowing = stored?.detail['follows'] === 'verify_failed';
  const before = isFailed && wasFollowing && !isDamage ? undefined : stored;
  const isFollowing = before === undefined ? isDamage : wasFollowing;
  const shared = { job: job.name, run: job.run, follows: isFollowing ? ('verify_failed' as const) : null };
  const topic = job.name === 'backup' ? 'backup' : 'job';
  if (!isFailed) {
    // A job that had no backup to make proves nothing.
    if (before === undefined || summaryOf('backup', job)?.file === null) return NO_TRANSITION;
    const recovered = noticeOf(
      { at, source, subject, event: `${topic}_recovered` },
      {
        ...shared,
        severity: 'low',
        title: `${subjectName(source)}: ${job.name} works again`,
        lines: [`it had failed since ${before.since}`],
      },
    );
    return { states: [], cleared: [{ source, subject }], notices: [recovered] };
  }
  const told = (key: 'targets' | 'emptied'): readonly string[] =>
    (before?.detail[key] ?? []) as readonly string[];
  const known = told('targets');
  const added = failing.filter(({ address }) => !known.includes(address));
  const emptied = failing.filter(({ isEmptied }) => isEmptied).map(({ address }) => address);
  // It was away and is empty now: what was advised before would store a backup there.
  const isEmptiedNow = emptied.some((address) => !told('emptied').includes(address));
  if (before !== undefined && added.length === 0 && !isEmptiedNow) return NO_TRANSITION;
  const title =
    failing.length === 0
      ? `${job.name} failed`
      : `${job.name} failed in ${failing.map(({ address }) => address).join(', ')}`;
  const reasons = failing.length === 0 ? [job.error ?? ''] : failing.map(({ error }) => error);
  const failed = noticeOf(
    { at, source, subject, event: `${topic}_failed` },
    {
      ...shared,
      severity: 'high',
      title: `${subjectName(source)}: ${title}${causeText(job.errorCode)}`,
      lines: [...reasons.filter((reason) => reason !== ''), ...storedLines(job)],
      error: job.error === null ? null : { code: job.errorCode, message: reasons.join('; ') },
      hint: workHint(job),
    },
  );
  const targets = failing.map(({ address }) => address);
  const detail = {
    targets,
    ...(emptied.length === 0 ? {} : { emptied }),
    ...(isFollowing ? { follows: 'verify_failed' } : {}),
  };
  return {
    states: [{ source, subject, state: 'failed', since: before?.since ?? at, detail }],
    cleared: [],
    // A job that failed as a whole was reported, and names its targets only now.
    notices: before !== undefined && known.length === 0 && !isEmptiedNow ? [] : [failed],
  };
}

/** What to do about a job that failed: the command does the same, and says more. */
function workHint(job: JobObservation['job']): string {
  const { name, source, errorCode } = job;
  // Not to be tried by hand: that would store it there.
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

/** The targets that a backup could not be stored in. A target stays due until it has one, so that each backup tries it again. */
function failedTargets(
  job: JobObservation['job'],
): readonly { address: string; error: string; isEmptied: boolean }[] {
  const targets = summaryOf('backup', job)?.targets ?? [];
  return targets.flatMap(({ address, error, isEmptied = false }) =>
    error === null ? [] : [{ address, error, isEmptied }],
  );
}

/** Where one target failed, another may have taken the backup. */
function storedLines(job: JobObservation['job']): string[] {
  const targets = summaryOf('backup', job)?.targets ?? [];
  const stored = targets.flatMap(({ address, error }) => (error === null ? [address] : []));
  return stored.length === 0 ? [] : [`the backup was stored in ${stored.join(', ')}`];
}

// Damage, and what people recorded where the audit log has something else: two subjects, so that neither hides the other.

/**
 * Both are reported again where a verification counts more than before. What stopped a job is not counted until the next
 * verification, which finds the same: nothing new to say.
 */
function contentTransitions(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { job } = seen;
  const summary = summaryOf('verify', job);
  if (summary !== null) {
    const { problems, isOfAuditLog = false } = summary;
    if (problems === 0 || isOfAuditLog)
      return joined([
        foundTransition(states, seen, { subject: 'verify', problems: 0 }),
        foundTransition(states, seen, { subject: 'audit_log', problems }),
      ]);
    // Whether what people recorded is among them it does not say.
    return foundTransition(states, seen, { subject: 'verify', problems });
  }
  if (refusalOf(job) !== null) {
    const refusing = refusingOf(stateOf(states, '', 'audit_log'));
    return foundTransition(states, seen, {
      ...{ subject: 'audit_log', problems: null },
      refusing: [...new Set([...refusing, refuserOf(seen)])],
    });
  }
  if (isDamageFound(job)) return foundTransition(states, seen, { subject: 'verify', problems: null });
  return refusesNoMore(states, seen);
}

/** What a job found of one of the subjects. */
interface Found {
  readonly subject: ContentSubject;
  /** Null where they were not counted. */
  readonly problems: number | null;
  /** The jobs that refuse, if another one does. */
  readonly refusing?: string[];
}

function foundTransition(
  states: readonly NoticeState[],
  { job, at }: JobObservation,
  { subject, problems, refusing }: Found,
): Transition {
  const source = '';
  const summary = summaryOf('verify', job);
  const of = { at, source, subject };
  const before = stateOf(states, source, subject);
  const known = before === undefined ? 0 : countOf(before);
  const isOfAuditLog = subject === 'audit_log';
  if (problems === 0) {
    if (before === undefined) return NO_TRANSITION;
    const what = isOfAuditLog
      ? 'it matches its audit log again'
      : 'the contents match the stored hashes again';
    const recovered = noticeOf(
      { ...of, event: 'verify_recovered' },
      { severity: 'low', title: `${subjectName(source)}: ${what}`, job: job.name },
    );
    return { states: [], cleared: [{ source, subject }], notices: [recovered] };
  }
  const refusers = refusing ?? refusingOf(before);
  const detail = {
    // A job that meets what is known adds nothing to it.
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
  const failed = noticeOf(
    { ...of, event: 'verify_failed' },
    {
      severity: 'critical',
      title: `${subjectName(source)}: ${what}${problems === null ? '' : `: ${plural(problems, 'problem')}`}`,
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

/** Ends what was reported of the audit log once no job refuses for it; what a verification has counted, another one ends. */
function refusesNoMore(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { job } = seen;
  const before = stateOf(states, '', 'audit_log');
  const refusing = refusingOf(before);
  const left = refusing.filter((refuser) => refuser !== refuserOf(seen));
  const hasWorked = job.outcome === 'done' || job.outcome === 'partial' || lacksBaseline(job);
  // One that had nothing to do has looked at nothing.
  const wasIdle = summaryOf('backup', job)?.file === null || summaryOf('forget', job)?.forgotten === 0;
  if (before === undefined || left.length === refusing.length || !hasWorked || wasIdle) return NO_TRANSITION;
  const problems = countOf(before);
  if (left.length === 0 && problems === null)
    return foundTransition(states, seen, { subject: 'audit_log', problems: 0 });
  const detail = { problems, ...(left.length === 0 ? {} : { refusing: left }) };
  return { states: [{ ...before, detail }], cleared: [], notices: [] };
}

/** The job, and its source, as one that refuses. */
function refuserOf({ job: { name, source } }: JobObservation): string {
  return source === null ? name : `${name} ${source}`;
}

function refusingOf(state: NoticeState | undefined): string[] {
  return (state?.detail['refusing'] ?? []) as string[];
}

/** The problems that a verification has counted; null where there was none since the damage stopped a job. */
function countOf({ detail: { problems } }: NoticeState): number | null {
  return typeof problems === 'number' ? problems : null;
}

/**
 * Subject `drill`: `ok`, or `fallen` until it brings back about as much as before it fell. Its detail has the best score
 * since the last notice (`score`), so that several small falls count as one, and the best one before it fell (`reference`).
 */
function drillTransition(states: readonly NoticeState[], { job, at }: JobObservation): Transition {
  const summary = summaryOf('drill', job);
  if (summary === null) return NO_TRANSITION;
  const { score } = summary;
  const source = job.source ?? '';
  const of = { at, source, subject: 'drill' };
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
  const name = subjectName(source);
  const shared = { job: 'drill', run: summary.from } as const;
  const notices = isWorse
    ? [
        noticeOf(
          { ...of, event: 'drill_fell' },
          {
            ...shared,
            severity: 'high',
            title: `${name}: the drill restored ${percent(score)}, before ${percent(last)}`,
            lines: summary.kinds
              .filter(({ restored, score: own }) => restored && own < 1)
              .map(({ kind, records, comesBack }) => `${kind}: ${comesBack} of ${plural(records, 'record')}`),
            hint: '`tidemark drill` shows what would be left to do',
          },
        ),
      ]
    : wasFallen && !isFallen
      ? [
          noticeOf(
            { ...of, event: 'drill_recovered' },
            {
              ...shared,
              severity: 'low',
              title: `${name}: the drill restored ${percent(score)} again`,
            },
          ),
        ]
      : [];
  return { states: isMoved ? [state] : [], cleared: [], notices };
}

// Transitions of drift: a subject `drift:FINGERPRINT` for each open finding. If the same value changes again, it has
// another fingerprint at the same place, and is reported as changed. If there are more than a summary names, they are
// reported as one (subject `drift`): nobody reads thousands, and their states would have to be stored.

const PREFIX = 'drift:';
const MASS = 'drift';

function driftTransitions(states: readonly NoticeState[], seen: JobObservation): Transition {
  const summary = summaryOf('drift', seen.job);
  // Without a baseline, or before the service was read again, drift cannot be measured, and the reported state stays.
  if (summary?.hasBaseline !== true || seen.isOfBackup === true) return NO_TRANSITION;
  const { findings } = summary;
  const source = seen.job.source ?? '';
  const mass = stateOf(states, source, MASS);
  const followed = states.filter((state) => state.source === source && state.subject.startsWith(PREFIX));
  // The summary names as many as can be followed one by one.
  if (findings.length < summary.open) {
    return mass === undefined ? massBegins(seen, summary, findings, followed) : massGoesOn(mass, summary);
  }
  // What could not be compared may be open still.
  if (mass !== undefined)
    return summary.skipped > 0 ? massGoesOn(mass, summary) : massEnds(seen, mass, findings);
  return followedTransitions(seen, summary, findings, followed);
}

function followedTransitions(
  seen: JobObservation,
  { skipped, uncompared = [], ignored, earlier: earlierOf = {} }: DriftSummary,
  findings: readonly FindingSummary[],
  followed: readonly NoticeState[],
): Transition {
  const source = seen.job.source ?? '';
  const open = new Map(findings.map((finding) => [finding.fingerprint, finding]));
  // Of a collection that could not be compared, a missing finding says nothing; where not all of these are named, nor of any.
  const inDoubt = new Set(uncompared.map((each) => collectionKey(each)));
  const isCompared = (collection: { readonly kind: Kind; readonly scope: Scope }): boolean =>
    skipped === uncompared.length && !inDoubt.has(collectionKey(collection));
  const known = new Map(followed.map((state) => [fingerprintOf(state), findingOf(state)]));
  const gone = [...known.values()].filter((finding) => !open.has(finding.fingerprint) && isCompared(finding));
  const goneByRecord = Map.groupBy(gone, recordText);
  const succeeded = new Set<string>();
  const changed: FindingSummary[] = [];
  const fresh: FindingSummary[] = [];
  const restated: FindingSummary[] = [];
  const renamed = new Map<string, string>();
  for (const finding of open.values()) {
    const earlier = earlierOf[finding.fingerprint] ?? [];
    const before = known.get(finding.fingerprint);
    if (before !== undefined) {
      if (before.severity !== finding.severity) restated.push(finding);
      continue;
    }
    // The same one: a restore created its record again, or one that it names.
    const same = earlier.find(({ fingerprint }) => known.has(fingerprint) && !open.has(fingerprint));
    if (same !== undefined) {
      succeeded.add(same.fingerprint);
      renamed.set(finding.fingerprint, same.fingerprint);
      restated.push(finding);
      continue;
    }
    // The findings of a removed record's fields end with it, and a record that returns has new ones, also under another id.
    const ancestors = [finding, ...earlier]
      .flatMap(({ scope, id }) => goneByRecord.get(recordText({ kind: finding.kind, scope, id })) ?? [])
      .filter(({ path }) => path === finding.path || path === '' || finding.path === '');
    for (const ancestor of ancestors) succeeded.add(ancestor.fingerprint);
    (ancestors.length > 0 ? changed : fresh).push(finding);
  }
  const resolved = gone.filter(({ fingerprint }) => !succeeded.has(fingerprint));
  const accepted = resolved.filter(({ fingerprint }) => seen.accepted?.has(fingerprint) === true);
  const sinceOf = new Map(followed.map((state) => [fingerprintOf(state), state.since]));
  return {
    states: [...fresh, ...changed, ...restated].map((finding) =>
      stateOfFinding(
        source,
        finding,
        sinceOf.get(renamed.get(finding.fingerprint) ?? finding.fingerprint) ?? seen.at,
      ),
    ),
    cleared: [...new Set([...gone.map(({ fingerprint }) => fingerprint), ...renamed.values()])].map(
      (fingerprint) => ({ source, subject: PREFIX + fingerprint }),
    ),
    notices: [
      ...driftNotice(seen, 'drift_new', fresh),
      ...driftNotice(seen, 'drift_changed', changed),
      ...driftNotice(seen, 'drift_resolved', resolved, {
        since: earliest(resolved.flatMap(({ fingerprint }) => sinceOf.get(fingerprint) ?? [])),
        isResolved: open.size === 0,
        stillOpen: countsOf([...open.values()]),
        accepted: { severities: countsOf(accepted), areOthersGone: ignored === 0 },
      }),
    ],
  };
}

/** From here on only the sum is followed. */
function massBegins(
  seen: JobObservation,
  { open, severities }: DriftSummary,
  findings: readonly FindingSummary[],
  followed: readonly NoticeState[],
): Transition {
  const source = seen.job.source ?? '';
  return {
    states: [{ source, subject: MASS, state: 'open', since: seen.at, detail: { open } }],
    cleared: followed.map(({ subject }) => ({ source, subject })),
    notices: driftNotice(seen, 'drift_new', findings, {
      severities,
      lines: [`${plural(open, 'finding')} are open: too many to be reported one by one`],
    }),
  };
}

function massGoesOn(mass: NoticeState, { open }: DriftSummary): Transition {
  if (mass.detail['open'] === open) return NO_TRANSITION;
  return { ...NO_TRANSITION, states: [{ ...mass, detail: { open } }] };
}

/** What is left was reported as part of the mass, and is followed again from here on. */
function massEnds(seen: JobObservation, mass: NoticeState, findings: readonly FindingSummary[]): Transition {
  const source = seen.job.source ?? '';
  const before = Number(mass.detail['open'] ?? 0);
  return {
    states: findings.map((finding) => stateOfFinding(source, finding, mass.since)),
    cleared: [{ source, subject: MASS }],
    notices: [
      noticeOf(
        { at: seen.at, source, subject: MASS, event: 'drift_resolved' },
        {
          severity: 'low',
          title: `${subjectName(source)}: ${plural(findings.length, 'finding')} of drift left of ${formatInteger(before)}`,
          lines: [openSinceLine(mass.since, seen.at, before)],
          since: mass.since,
          job: 'drift',
          count: Math.max(0, before - findings.length),
          isResolved: findings.length === 0,
        },
      ),
    ],
  };
}

type DriftEvent = Extract<NoticeEvent, 'drift_new' | 'drift_changed' | 'drift_resolved'>;

function driftHint(job: JobObservation['job']): string {
  const of = `--source ${job.source ?? ''}`;
  const kept = (summaryOf('drift', job)?.accepted ?? 0) > 0 ? ' --keep-accepted' : '';
  return `\`tidemark drift ${of}\` shows the values; \`tidemark restore baseline${kept} ${of}\` plans to restore them; \`tidemark drift accept KIND ID --reason TEXT ${of}\` accepts what is intended`;
}

/** One notice for all findings of an event; none for no findings. The title is made of what each channel gets. */
function driftNotice(
  { at, job, unfinishedRestore }: JobObservation,
  event: DriftEvent,
  findings: readonly FindingSummary[],
  {
    severities = countsOf(findings),
    lines = [],
    isResolved = false,
    stillOpen = null,
    accepted = null,
    since = null,
  }: DriftNoticeFacts = {},
): Notice[] {
  const count = SEVERITIES.reduce((sum, severity) => sum + severities[severity], 0);
  if (count === 0) return [];
  const ordered = findings.toSorted((a, b) => compareSeverities(a.severity, b.severity));
  const ofRestore =
    event === 'drift_new' && unfinishedRestore !== undefined
      ? [
          `restore ${unfinishedRestore} has not ended: what it created without an answer counts as added, and its original as removed, until it is continued or undone`,
        ]
      : [];
  return [
    noticeOf(
      { at, source: job.source ?? '', subject: MASS, event },
      {
        severity: worst(SEVERITIES.filter((severity) => severities[severity] > 0)),
        title: '',
        lines: [...lines, ...ofRestore, ...(since === null ? [] : [openSinceLine(since, at, count)])],
        since,
        hint: event === 'drift_resolved' ? null : driftHint(job),
        job: 'drift',
        count,
        severities,
        findings: ordered.slice(0, NAMED_IN_NOTICE),
        isResolved,
        stillOpen,
        accepted,
      },
    ),
  ];
}

interface DriftNoticeFacts {
  readonly severities?: Readonly<Record<Severity, number>>;
  readonly lines?: readonly string[];
  readonly isResolved?: boolean;
  /** The findings that stay open, by severity. */
  readonly stillOpen?: Readonly<Record<Severity, number>> | null;
  readonly accepted?: AcceptedFindings | null;
  /** Of findings that ended: since when the oldest was open, ISO 8601. */
  readonly since?: string | null;
}

function earliest(times: readonly string[]): string | null {
  return times.toSorted()[0] ?? null;
}

/** @param count findings that ended */
function openSinceLine(since: string, at: string, count: number): string {
  const which = count === 1 ? 'it was open' : 'the oldest was open';
  return `${which} since ${since}, for ${duration(Date.parse(at) - Date.parse(since))}`;
}

function countsOf(findings: readonly FindingSummary[]): Record<Severity, number> {
  const counts: Record<Severity, number> = { critical: 0, high: 0, medium: 0, low: 0 };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}

function recordText({ kind, scope, id }: Pick<FindingSummary, 'kind' | 'scope' | 'id'>): string {
  return JSON.stringify([kind, scopeKey(scope), id]);
}

function stateOfFinding(source: string, finding: FindingSummary, since: string): NoticeState {
  const { fingerprint, ...detail } = finding;
  return {
    source,
    subject: PREFIX + fingerprint,
    state: 'open',
    since,
    detail: { ...detail },
  };
}

function fingerprintOf({ subject }: NoticeState): string {
  return subject.slice(PREFIX.length);
}

function findingOf(state: NoticeState): FindingSummary {
  // Written by `stateOfFinding` alone.
  return { ...(state.detail as unknown as FindingSummary), fingerprint: fingerprintOf(state) };
}
