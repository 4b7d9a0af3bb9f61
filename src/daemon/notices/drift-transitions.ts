/**
 * Transitions of drift: a subject `drift:FINGERPRINT` for each open finding. If the same value changes again, it has another fingerprint
 * at the same place, and is reported as changed. If more findings are open than a summary names, they are reported as one (subject
 * `drift`): nobody reads thousands, and their states would have to be stored.
 */
import { collectionKey, scopeKey } from '../../catalog/catalog.ts';
import { type Scope, type Severity, SEVERITIES } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { duration, formatInteger, plural } from '../../core/wording.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { NoticeState, Notice } from '../../mirror/notice-rows.ts';
import { severityCounts } from '../../report/drift-document.ts';
import { summaryOf, type DriftSummary, type FindingSummary } from '../jobs/summaries.ts';
import { type JobObservation, type Transition, ended, NO_TRANSITION, stateOf } from './transition.ts';
import { type AcceptedFindings, noticeOf, NAMED_IN_NOTICE } from './message.ts';

const PREFIX = 'drift:';
const MASS = 'drift';

export function driftTransitions(states: readonly NoticeState[], observed: JobObservation): Transition {
  const summary = summaryOf('drift', observed.job);
  // Without a baseline, or before the service was read again, drift cannot be measured, and the reported state stays.
  if (summary?.hasBaseline !== true || observed.isOfBackup === true) return NO_TRANSITION;
  const source = observed.job.source ?? '';
  const mass = stateOf(states, source, MASS);
  const followed = states.filter((state) => state.source === source && state.subject.startsWith(PREFIX));
  // The summary names as many as can be followed one by one.
  if (summary.findings.length < summary.open)
    return mass === undefined ? massBegins(observed, summary, followed) : massGoesOn(mass, summary);
  if (mass === undefined) return followedTransitions(observed, summary, followed);
  // Findings in collections that could not be compared may still be open.
  return summary.skipped > 0 ? massGoesOn(mass, summary) : massEnds(observed, mass, summary.findings);
}

function followedTransitions(
  observed: JobObservation,
  { findings, skipped, uncompared = [], ignored, earlier: earlierOf = {} }: DriftSummary,
  followed: readonly NoticeState[],
): Transition {
  const source = observed.job.source ?? '';
  const open = new Map(findings.map((finding) => [finding.fingerprint, finding]));
  // A finding that is missing may still be open if its collection was not compared, or if not all of these collections are named.
  const inDoubt = new Set(uncompared.map((collection) => collectionKey(collection)));
  const isCompared = (collection: { readonly kind: Kind; readonly scope: Scope }): boolean =>
    skipped === uncompared.length && !inDoubt.has(collectionKey(collection));
  const known = new Map(followed.map((state) => [fingerprintOf(state), findingOf(state)]));
  const gone = [...known.values()].filter((finding) => !open.has(finding.fingerprint) && isCompared(finding));
  const goneByRecord = Map.groupBy(gone, recordText);
  /** Fingerprints of findings that another one has taken the place of. */
  const succeeded = new Set<string>();
  const changed: FindingSummary[] = [];
  const fresh: FindingSummary[] = [];
  /** Findings that are known, of which the stored state changes. */
  const restated: FindingSummary[] = [];
  /** By new fingerprint, the one before. */
  const renamed = new Map<string, string>();
  for (const finding of open.values()) {
    const earlier = earlierOf[finding.fingerprint] ?? [];
    const before = known.get(finding.fingerprint);
    if (before !== undefined) {
      if (before.severity !== finding.severity) restated.push(finding);
      continue;
    }
    // The same finding with another fingerprint: a restore created its record again, or one that it names.
    const same = earlier.find(({ fingerprint }) => known.has(fingerprint) && !open.has(fingerprint));
    if (same !== undefined) {
      succeeded.add(same.fingerprint);
      renamed.set(finding.fingerprint, same.fingerprint);
      restated.push(finding);
      continue;
    }
    // If a record is removed, the findings of its fields end; if it returns, even under another id, it has new ones.
    const ancestors = [finding, ...earlier]
      .flatMap(({ scope, id }) => goneByRecord.get(recordText({ kind: finding.kind, scope, id })) ?? [])
      .filter(({ path }) => path === finding.path || path === '' || finding.path === '');
    for (const ancestor of ancestors) succeeded.add(ancestor.fingerprint);
    (ancestors.length > 0 ? changed : fresh).push(finding);
  }
  const resolved = gone.filter(({ fingerprint }) => !succeeded.has(fingerprint));
  const accepted = resolved.filter(({ fingerprint }) => observed.accepted?.has(fingerprint) === true);
  const sinceOf = new Map(followed.map((state) => [fingerprintOf(state), state.since]));
  return {
    states: [...fresh, ...changed, ...restated].map((finding) =>
      stateOfFinding(
        source,
        finding,
        sinceOf.get(renamed.get(finding.fingerprint) ?? finding.fingerprint) ?? observed.at,
      ),
    ),
    cleared: [...new Set([...gone.map(({ fingerprint }) => fingerprint), ...renamed.values()])].map(
      (fingerprint) => ({ source, subject: PREFIX + fingerprint }),
    ),
    notices: [
      ...driftNotice(observed, 'drift_new', fresh),
      ...driftNotice(observed, 'drift_changed', changed),
      ...driftNotice(observed, 'drift_resolved', resolved, {
        since: resolved.flatMap(({ fingerprint }) => sinceOf.get(fingerprint) ?? []).sort()[0] ?? null,
        isResolved: open.size === 0,
        stillOpen: severityCounts([...open.values()]),
        accepted: { severities: severityCounts(accepted), areOthersGone: ignored === 0 },
      }),
    ],
  };
}

/** From here on only their number is followed. */
function massBegins(
  observed: JobObservation,
  { open, severities, findings }: DriftSummary,
  followed: readonly NoticeState[],
): Transition {
  const source = observed.job.source ?? '';
  return {
    states: [{ source, subject: MASS, state: 'open', since: observed.at, detail: { open } }],
    cleared: followed.map(({ subject }) => ({ source, subject })),
    notices: driftNotice(observed, 'drift_new', findings, {
      severities,
      lines: [`${plural(open, 'finding')} are open: too many to be reported one by one`],
    }),
  };
}

function massGoesOn(mass: NoticeState, { open }: DriftSummary): Transition {
  if (mass.detail['open'] === open) return NO_TRANSITION;
  return { ...NO_TRANSITION, states: [{ ...mass, detail: { open } }] };
}

/** The findings that are left were reported as part of the mass, and are followed one by one from here on. */
function massEnds(
  { job, at }: JobObservation,
  mass: NoticeState,
  findings: readonly FindingSummary[],
): Transition {
  const source = job.source ?? '';
  const before = Number(mass.detail['open'] ?? 0);
  const end = ended(
    { at, source, subject: MASS, event: 'drift_resolved' },
    {
      title: `${plural(findings.length, 'finding')} of drift left of ${formatInteger(before)}`,
      lines: [openSinceLine(mass.since, at, before)],
      since: mass.since,
      job: 'drift',
      count: Math.max(0, before - findings.length),
      isResolved: findings.length === 0,
    },
  );
  return { ...end, states: findings.map((finding) => stateOfFinding(source, finding, mass.since)) };
}

type DriftEvent = Extract<NoticeEvent, 'drift_new' | 'drift_changed' | 'drift_resolved'>;

function driftHint(job: JobObservation['job']): string {
  const of = `--source ${job.source ?? ''}`;
  const kept = (summaryOf('drift', job)?.accepted ?? 0) > 0 ? ' --keep-accepted' : '';
  return `\`tidemark drift ${of}\` shows the values; \`tidemark restore baseline${kept} ${of}\` plans to restore them; \`tidemark drift accept KIND ID --reason TEXT ${of}\` accepts what is intended`;
}

/** One notice for all findings of an event; none for no findings. Its title is made for each channel, of the findings that it gets. */
function driftNotice(
  { at, job, unfinishedRestore }: JobObservation,
  event: DriftEvent,
  findings: readonly FindingSummary[],
  {
    severities = severityCounts(findings),
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

/** @param count of the findings that ended */
function openSinceLine(since: string, at: string, count: number): string {
  const which = count === 1 ? 'it was open' : 'the oldest was open';
  return `${which} since ${since}, for ${duration(Date.parse(at) - Date.parse(since))}`;
}

function recordText({ kind, scope, id }: Pick<FindingSummary, 'kind' | 'scope' | 'id'>): string {
  return JSON.stringify([kind, scopeKey(scope), id]);
}

function stateOfFinding(source: string, finding: FindingSummary, since: string): NoticeState {
  const { fingerprint, ...detail } = finding;
  return { source, subject: PREFIX + fingerprint, state: 'open', since, detail: { ...detail } };
}

function fingerprintOf({ subject }: NoticeState): string {
  return subject.slice(PREFIX.length);
}

function findingOf(state: NoticeState): FindingSummary {
  // Only `stateOfFinding` writes it.
  return { ...(state.detail as unknown as FindingSummary), fingerprint: fingerprintOf(state) };
}
