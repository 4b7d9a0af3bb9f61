/**
 * Transitions of drift: a subject `drift:FINGERPRINT` for each open finding. A further change of the same value is another
 * fingerprint at the same place, and told as one that changed. Findings beyond `FOLLOWED` are told as one mass (subject
 * `drift`): nobody reads thousands, and their states would have to be kept.
 */
import { scopeKey } from '../../catalog/catalog.ts';
import type { Severity } from '../../catalog/definition.ts';
import { SEVERITIES } from '../../catalog/severities.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { formatInteger } from '../../core/grouped.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities, gravest } from '../../diff/severity.ts';
import type { Notice, NoticeState } from '../../mirror/daemon-notices.ts';
import { type DriftSummary, type FindingSummary, summaryOf } from '../jobs/summaries.ts';
import { NAMED_IN_NOTICE, noticeOf } from './notice-content.ts';
import { subjectName } from './notice-words.ts';
import { type JobObservation, type Transition, NO_TRANSITION, stateOf } from './job-observation.ts';

/** Findings that are followed one by one, of one source. */
export const FOLLOWED = 5000;

const PREFIX = 'drift:';
const MASS = 'drift';

export function driftTransitions(states: readonly NoticeState[], seen: JobObservation): Transition {
  const summary = summaryOf('drift', seen.job);
  // Without a baseline there is nothing to measure from, and what was told still stands.
  if (summary?.hasBaseline !== true) return NO_TRANSITION;
  const findings = seen.details.drift?.findings ?? summary.findings;
  const source = seen.job.source ?? '';
  const mass = stateOf(states, source, MASS);
  const followed = states.filter((state) => state.source === source && state.subject.startsWith(PREFIX));
  if (findings.length > FOLLOWED || findings.length < summary.open) {
    return mass === undefined ? massBegins(seen, summary, findings, followed) : massGoesOn(mass, summary);
  }
  if (mass !== undefined) return massEnds(seen, mass, findings);
  return followedTransitions(seen, summary, findings, followed);
}

function followedTransitions(
  seen: JobObservation,
  { skipped }: DriftSummary,
  findings: readonly FindingSummary[],
  followed: readonly NoticeState[],
): Transition {
  const source = seen.job.source ?? '';
  const open = new Map(findings.map((finding) => [finding.fingerprint, finding]));
  const isCompared = seen.details.drift?.isCompared ?? (() => skipped === 0);
  const known = new Map(followed.map((state) => [fingerprintOf(state), findingOf(state)]));
  const gone = [...known.values()].filter(
    (finding) => !open.has(finding.fingerprint) && isCompared(finding.kind, finding.scope),
  );
  const goneByRecord = Map.groupBy(gone, recordText);
  const succeeded = new Set<string>();
  const changed: FindingSummary[] = [];
  const fresh: FindingSummary[] = [];
  const restated: FindingSummary[] = [];
  for (const finding of open.values()) {
    const before = known.get(finding.fingerprint);
    if (before !== undefined) {
      if (before.severity !== finding.severity) restated.push(finding);
      continue;
    }
    // A record that went takes its fields' findings with it, and one that came back brings others.
    const ancestors = (goneByRecord.get(recordText(finding)) ?? []).filter(
      ({ path }) => path === finding.path || path === '' || finding.path === '',
    );
    for (const ancestor of ancestors) succeeded.add(ancestor.fingerprint);
    (ancestors.length > 0 ? changed : fresh).push(finding);
  }
  const resolved = gone.filter(({ fingerprint }) => !succeeded.has(fingerprint));
  const sinceOf = new Map(followed.map((state) => [fingerprintOf(state), state.since]));
  return {
    states: [...fresh, ...changed, ...restated].map((finding) =>
      stateOfFinding(source, finding, sinceOf.get(finding.fingerprint) ?? seen.at),
    ),
    cleared: gone.map(({ fingerprint }) => ({ source, subject: PREFIX + fingerprint })),
    notices: [
      ...driftNotice(seen, 'drift_new', fresh),
      ...driftNotice(seen, 'drift_changed', changed),
      ...driftNotice(seen, 'drift_resolved', resolved),
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
    notices: driftNotice(seen, 'drift_new', findings, severities, [
      `${plural(open, 'finding')} are open: too many to be told one by one`,
    ]),
  };
}

function massGoesOn(mass: NoticeState, { open }: DriftSummary): Transition {
  if (mass.detail['open'] === open) return NO_TRANSITION;
  return { ...NO_TRANSITION, states: [{ ...mass, detail: { open } }] };
}

/** What is left was told of as part of the mass, and is followed again from here on. */
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
          job: 'drift',
          count: Math.max(0, before - findings.length),
        },
      ),
    ],
  };
}

const HINTS = {
  drift_new: '`tidemark drift` shows the values; put them back, or accept them',
  drift_changed: '`tidemark drift` shows the values; put them back, or accept them',
  drift_resolved: null,
} as const satisfies Partial<Record<NoticeEvent, string | null>>;

/** One notice for all findings of an event; none for no findings. The title is made of what each channel is told. */
function driftNotice(
  { at, job }: JobObservation,
  event: keyof typeof HINTS,
  findings: readonly FindingSummary[],
  severities = countsOf(findings),
  lines: readonly string[] = [],
): Notice[] {
  const count = SEVERITIES.reduce((sum, severity) => sum + severities[severity], 0);
  if (count === 0) return [];
  const ordered = findings.toSorted((a, b) => compareSeverities(a.severity, b.severity));
  return [
    noticeOf(
      { at, source: job.source ?? '', subject: MASS, event },
      {
        severity: gravest(SEVERITIES.filter((severity) => severities[severity] > 0)),
        title: '',
        lines,
        hint: HINTS[event],
        job: 'drift',
        count,
        severities,
        findings: ordered.slice(0, NAMED_IN_NOTICE),
      },
    ),
  ];
}

function countsOf(findings: readonly FindingSummary[]): Record<Severity, number> {
  const counts: Record<Severity, number> = { critical: 0, high: 0, medium: 0, low: 0 };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}

function recordText({ kind, scope, id }: FindingSummary): string {
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
