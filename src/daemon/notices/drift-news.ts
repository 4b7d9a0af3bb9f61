/** Drift of which several notices are sent as one message: new findings come first, and what is no longer open is counted. */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { formatInteger } from '../../core/wording.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { FindingSummary } from '../jobs/summaries.ts';
import { driftTitle, type Message } from './message.ts';

type Counts = Record<Severity, number>;

export interface DriftNews {
  readonly event: 'drift_new' | 'drift_changed';
  /** Those of the event, the most severe first: not all of them, if they are many. */
  readonly findings: readonly FindingSummary[];
  readonly severities: Readonly<Counts>;
  readonly count: number;
  /** Its title, without the source. */
  readonly title: string;
}

/**
 * What notices of drift say together, of one source or of several; null where nothing is new. What was new and ended
 * within them is neither.
 * @param events oldest first
 */
export function driftNews(events: readonly Message[]): DriftNews | null {
  const fresh = stillOpen(events, 'drift_new');
  const changed = stillOpen(events, 'drift_changed');
  const event = fresh.count > 0 ? 'drift_new' : 'drift_changed';
  const told = fresh.count > 0 ? fresh : changed;
  if (told.count === 0) return null;
  const ended =
    events.filter(isEnd).reduce((sum, { count }) => sum + (count ?? 0), 0) - fresh.gone - changed.gone;
  const also = [
    ...(event === 'drift_new' && changed.count > 0 ? [`${formatInteger(changed.count)} changed again`] : []),
    ...(ended > 0 ? [`${formatInteger(ended)} no longer open`] : []),
  ];
  return {
    event,
    findings: told.findings.toSorted((a, b) => compareSeverities(a.severity, b.severity)),
    severities: told.severities,
    count: told.count,
    title: [driftTitle(event, told.severities), ...also].join('; '),
  };
}

function isEnd({ event }: Message): boolean {
  return event === 'drift_resolved';
}

interface OpenFindings {
  readonly findings: readonly FindingSummary[];
  readonly severities: Counts;
  readonly count: number;
  /** Those that ended later, which are not counted. */
  readonly gone: number;
}

/** The findings of an event that no later notice of their source ends, as far as they are named. */
function stillOpen(events: readonly Message[], event: DriftNews['event']): OpenFindings {
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
