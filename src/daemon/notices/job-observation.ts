/** What is handed to the transitions, and what they hand back. */
import type { Kind, Scope } from '../../catalog/definition.ts';
import type { JobRow } from '../../mirror/daemon-jobs.ts';
import type { Notice, NoticeState } from '../../mirror/daemon-notices.ts';
import type { HeldRemovals } from '../../mirror/held-removals.ts';
import type { FindingSummary, TroubledSweep } from '../jobs/summaries.ts';

/** What a job knows beyond its summary, which names only the first of everything. */
export interface JobDetails {
  /** Of a sync: the kinds that it was narrowed to; null, or left out, for all. */
  readonly kinds?: readonly Kind[] | null;
  /** Of a sync: all sweeps that were not complete. */
  readonly troubled?: readonly TroubledSweep[];
  readonly drift?: {
    /** All open findings. */
    readonly findings: readonly FindingSummary[];
    /** True for collections that could be compared: of the others, a missing finding says nothing. */
    readonly isCompared: (kind: Kind, scope: Scope) => boolean;
  };
}

/** A job that ended. */
export interface JobObservation {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** Of a sync: what waits in the mirror after it. */
  readonly held: readonly HeldRemovals[];
  /** ISO 8601. */
  readonly at: string;
}

/** New states, subjects that are as they should be again, and what is to be told. */
export interface Transition {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly Notice[];
}

export const NO_TRANSITION: Transition = { states: [], cleared: [], notices: [] };

export function joined(parts: readonly Transition[]): Transition {
  return {
    states: parts.flatMap(({ states }) => states),
    cleared: parts.flatMap(({ cleared }) => cleared),
    notices: parts.flatMap(({ notices }) => notices),
  };
}

/** The state of a subject as it was last told; undefined where all was well. */
export function stateOf(
  states: readonly NoticeState[],
  source: string,
  subject: string,
): NoticeState | undefined {
  // What is written goes before what is assumed, which comes behind it.
  return states.find((state) => state.source === source && state.subject === subject);
}
