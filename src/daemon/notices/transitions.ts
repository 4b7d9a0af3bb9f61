/** What a job that ended changes of what was last told. Pure: the same again changes nothing. */
import type { NoticeState } from '../../mirror/daemon-notices.ts';
import { driftTransitions } from './drift-transitions.ts';
import { drillTransition, verifyTransition, workTransition } from './job-transitions.ts';
import { syncTransitions } from './run-transitions.ts';
import { type JobObservation, type Transition, joined } from './job-observation.ts';

/** @param states those of the job's source */
export function transitionsOf(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { name } = seen.job;
  if (name === 'sync') return syncTransitions(states, seen);
  const work = workTransition(states, seen);
  if (name === 'drift') return joined([work, driftTransitions(states, seen)]);
  if (name === 'verify') return joined([work, verifyTransition(states, seen)]);
  if (name === 'drill') return joined([work, drillTransition(states, seen)]);
  return work;
}
