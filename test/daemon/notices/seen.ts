/** Jobs as the daemon would hand them over, with only what a test cares about. */
import type { JobName, JobOutcome, JobRow } from '../../../src/mirror/daemon-store.ts';
import type { NoticeState } from '../../../src/mirror/notice-rows.ts';
import type { NamedRemovals } from '../../../src/state/held-names.ts';
import type { DriftSummary, FindingSummary, UnreadSweep } from '../../../src/daemon/jobs/summaries.ts';
import type { JobDetails, JobObservation, Transition } from '../../../src/daemon/notices/transition.ts';

const AT = '2026-03-01T12:00:00.000Z';

export function job(name: JobName, outcome: JobOutcome, more: Partial<JobRow> = {}): JobRow {
  return {
    job: 1,
    name,
    source: name === 'verify' || name === 'backup' || name === 'forget' ? null : 'production',
    trigger: 'schedule',
    startedAt: AT,
    finishedAt: AT,
    outcome,
    run: name === 'sync' ? 7 : null,
    summary: {},
    errorCode: null,
    error: null,
    ...more,
  };
}

export function seen(
  row: JobRow,
  details: JobDetails = {},
  held: readonly NamedRemovals[] = [],
  at = AT,
): JobObservation {
  return { job: row, details, held, at };
}

export function sweep(
  kind: UnreadSweep['kind'],
  outcome: UnreadSweep['outcome'],
  more: Partial<UnreadSweep> = {},
): UnreadSweep {
  return {
    kind,
    scope: { organization_id: 'o1' },
    outcome,
    held: 0,
    code: null,
    message: null,
    hint: null,
    permission: null,
    ...more,
  };
}

export function finding(fingerprint: string, more: Partial<FindingSummary> = {}): FindingSummary {
  return {
    fingerprint,
    severity: 'medium',
    kind: 'batch_exports',
    scope: { organization_id: 'o1' },
    id: 'b1',
    name: 'Nightly',
    change: 'changed',
    path: '/paused',
    ...more,
  };
}

export function driftJob(
  findings: readonly FindingSummary[],
  more: {
    readonly skipped?: number;
    readonly uncompared?: DriftSummary['uncompared'];
    readonly open?: number;
    readonly ignored?: number;
    readonly accepted?: number;
    readonly hasBaseline?: boolean;
    readonly earlier?: DriftSummary['earlier'];
  } = {},
): JobRow {
  const summary = {
    job: 'drift',
    hasBaseline: true,
    skipped: 0,
    ignored: 0,
    open: findings.length,
    severities: { critical: 0, high: 0, medium: more.open ?? findings.length, low: 0 },
    findings,
    ...more,
  };
  return job('drift', 'done', { summary: summary as unknown as JobRow['summary'] });
}

/** The states after a transition, as the mirror would have them. */
export function after(states: readonly NoticeState[], { states: news, cleared }: Transition): NoticeState[] {
  const table = new Map(states.map((state) => [`${state.source} ${state.subject}`, state]));
  for (const state of news) table.set(`${state.source} ${state.subject}`, state);
  for (const { source, subject } of cleared) table.delete(`${source} ${subject}`);
  return [...table.values()];
}
