/** Several notices of drift as one message: new findings come first, and those that are no longer open are counted. */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { formatInteger } from '../../core/wording.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { FindingSummary } from '../jobs/summaries.ts';
import { driftTitle, type Message } from './message.ts';

type Counts = Record<Severity, number>;

/** What such a message reports. */
export interface MergedDrift {
  readonly event: 'drift_new' | 'drift_changed';
  /** Findings of the event, the most severe first; not all of them, if they are many. */
  readonly findings: readonly FindingSummary[];
  readonly severities: Readonly<Counts>;
  readonly count: number;
  /** Its title, without the source. */
  readonly title: string;
}

/**
 * Merges notices of drift, of one source or several; null if nothing is new. A finding that began and ended within them is left out.
 * @param events oldest first
 */
export function mergeDriftNotices(events: readonly Message[]): MergedDrift | null {
  const fresh = stillOpen(events, 'drift_new');
  const changed = stillOpen(events, 'drift_changed');
  const event = fresh.count > 0 ? 'drift_new' : 'drift_changed';
  const news = fresh.count > 0 ? fresh : changed;
  if (news.count === 0) return null;
  const ended =
    events.filter(isEnd).reduce((sum, { count }) => sum + (count ?? 0), 0) - fresh.gone - changed.gone;
  const also = [
    ...(event === 'drift_new' && changed.count > 0 ? [`${formatInteger(changed.count)} changed again`] : []),
    ...(ended > 0 ? [`${formatInteger(ended)} no longer open`] : []),
  ];
  return {
    event,
    findings: news.findings.toSorted((a, b) => compareSeverities(a.severity, b.severity)),
    severities: news.severities,
    count: news.count,
    title: [driftTitle(event, news.severities), ...also].join('; '),
  };
}

function isEnd({ event }: Message): boolean {
  return event === 'drift_resolved';
}

interface OpenFindings {
  readonly findings: readonly FindingSummary[];
  readonly severities: Counts;
  readonly count: number;
  /** The number of those that ended later, which are not counted. */
  readonly gone: number;
}

/** The findings of an event, except those that a later notice of their source ends by name. */
function stillOpen(events: readonly Message[], event: MergedDrift['event']): OpenFindings {
  const severities: Counts = { critical: 0, high: 0, medium: 0, low: 0 };
  const findings: FindingSummary[] = [];
  let gone = 0;
  for (const [index, message] of events.entries()) {
    if (message.event !== event) continue;
    const later = events.slice(index + 1).filter((each) => isEnd(each) && each.source === message.source);
    const ended = new Set(later.flatMap((each) => each.findings.map(({ fingerprint }) => fingerprint)));
    for (const severity of SEVERITIES) severities[severity] += message.severities?.[severity] ?? 0;
    for (const finding of message.findings) {
      if (!ended.has(finding.fingerprint)) {
        findings.push(finding);
        continue;
      }
      severities[finding.severity] -= 1;
      gone += 1;
    }
  }
  const count = SEVERITIES.reduce((sum, severity) => sum + severities[severity], 0);
  return { findings, severities, count, gone };
}
