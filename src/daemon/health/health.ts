/**
 * The health of the daemon (docs/http.md, Health). Pure: takes facts, returns state and reasons. Readiness, metrics and
 * the dashboard are all computed from it.
 */
import { allowedAgeMs, expectedSince } from './allowed-age.ts';
import { daemonReasons } from './daemon-reasons.ts';
import type { SourceFacts, HealthFacts } from './facts.ts';
import { HEALTH_STATES, type HealthReason, type HealthState } from './reason.ts';
import { sourceReasons } from './source-reasons.ts';

interface SourceHealth {
  readonly source: string;
  readonly state: HealthState;
  readonly reasons: readonly HealthReason[];
  /** When the latest complete run of all kinds ended, ISO 8601; if the mirror cannot be read, the last known one. */
  readonly lastCompleteAt: string | null;
  /** From when on a complete run is expected, if there never was one; ISO 8601. */
  readonly expectedSince: string;
  /** How old the last complete run may be, milliseconds; null if no schedule syncs the source. */
  readonly allowedMs: number | null;
}

export interface Health {
  readonly state: HealthState;
  /** The reasons that concern the daemon as a whole. */
  readonly reasons: readonly HealthReason[];
  readonly sources: readonly SourceHealth[];
}

export function assessHealth(facts: HealthFacts): Health {
  const reasons = daemonReasons(facts);
  const sources = facts.sources.map((source) => sourceHealth(source, facts));
  return { state: worst([...reasons, ...sources]), reasons, sources };
}

/** The health of a mirror that belongs to one source: its reasons become reasons of the source, and none is left for the daemon as a whole. */
export function withOwnMirror({ reasons, sources }: Health): Health {
  // The source has a reason for its first sync itself.
  const ofMirror = reasons.filter(({ code }) => code !== 'first_sync');
  const own = sources.map((source) => {
    const all = [...source.reasons, ...ofMirror];
    return { ...source, state: worst([source, ...all]), reasons: all };
  });
  return { state: worst(own), reasons: [], sources: own };
}

/** The health of a source whose mirror was not read yet. */
export function unreadHealth(facts: SourceFacts): SourceHealth {
  const { source, addedAt } = facts;
  return {
    source,
    state: 'starting',
    reasons: [
      {
        code: 'mirror_unread',
        state: 'starting',
        message: 'the daemon has not read the mirror since it started: it reads one after the other',
        since: addedAt,
        hint: null,
      },
    ],
    lastCompleteAt: null,
    expectedSince: addedAt,
    allowedMs: allowedAgeMs(facts),
  };
}

/** The worst of these states. */
export function worst(parts: readonly { readonly state: HealthState }[]): HealthState {
  return HEALTH_STATES.findLast((each) => parts.some(({ state }) => state === each)) ?? 'ok';
}

function sourceHealth(facts: SourceFacts, { now, mirrorProblem }: HealthFacts): SourceHealth {
  const allowedMs = allowedAgeMs(facts);
  const isRead = mirrorProblem === null || mirrorProblem.isComing;
  const reasons = isRead ? sourceReasons(facts, allowedMs, now) : [];
  return {
    source: facts.source,
    // The reason is one of the mirror, which may have other sources too.
    state: isRead ? worst(reasons) : 'failing',
    reasons,
    lastCompleteAt: facts.lastComplete?.finishedAt ?? null,
    expectedSince: expectedSince(facts),
    allowedMs,
  };
}
