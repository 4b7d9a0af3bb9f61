/**
 * Whether the daemon does what it is there for (docs/http.md, Health). Pure: facts in, verdict and reasons out. The
 * readiness answer, the metrics and the head of the dashboard are three readings of it.
 */
import { daemonReasons } from './daemon-reasons.ts';
import type { HealthFacts, SourceFacts } from './health-input.ts';
import { type HealthReason, type HealthState, HEALTH_STATES } from './health-reason.ts';
import { allowedAgeMs, expectedSince, sourceReasons } from './source-reasons.ts';

interface SourceHealth {
  readonly source: string;
  readonly state: HealthState;
  readonly reasons: readonly HealthReason[];
  /** Of the latest complete run of all kinds. */
  readonly lastCompleteAt: string | null;
  /** From when on a complete run can be expected, where there never was one; ISO 8601. */
  readonly expectedSince: string;
  /** How old the last complete run may be; null where no schedule syncs the source. */
  readonly allowedMs: number | null;
}

export interface Health {
  readonly state: HealthState;
  /** What concerns the daemon as a whole. */
  readonly reasons: readonly HealthReason[];
  readonly sources: readonly SourceHealth[];
}

export function assessHealth(facts: HealthFacts): Health {
  const reasons = daemonReasons(facts);
  const sources = facts.sources.map((source) => sourceHealth(source, facts));
  return { state: worst([...reasons, ...sources]), reasons, sources };
}

/** The gravest of these states. */
export function worst(parts: readonly { readonly state: HealthState }[]): HealthState {
  return HEALTH_STATES.findLast((each) => parts.some(({ state }) => state === each)) ?? 'ok';
}

function sourceHealth(facts: SourceFacts, { now, startedAt }: HealthFacts): SourceHealth {
  const allowedMs = allowedAgeMs(facts);
  const reasons = sourceReasons(facts, allowedMs, now, startedAt);
  return {
    source: facts.source,
    state: worst(reasons),
    reasons,
    lastCompleteAt: facts.lastComplete?.finishedAt ?? null,
    expectedSince: expectedSince(facts, startedAt),
    allowedMs,
  };
}
