/** What applying a plan costs, counted before anything is sent. */
import type { KindRate } from '../catalog/definition.ts';
import type { Plan, PlanStep, StepAction } from './plan.ts';
import type { PlanOptions } from './plan-input.ts';

/** Requests of a step: re-read, send, read back. A creation asks for its old id; the list of names is shared. */
const REQUESTS: Readonly<Record<StepAction, number>> = {
  create: 3,
  update: 3,
  act: 3,
  remove: 3,
  blocked: 0,
  manual: 0,
};

/** Requests, and the least minutes that the rate allows, that of single kinds too: 0 when all fits into one burst. */
export function costOf(
  steps: readonly Pick<PlanStep, 'action' | 'kind' | 'request'>[],
  rate: PlanOptions['rate'],
): Plan['cost'] {
  const requests = requestsOf(steps);
  const removals = requestsOf(steps.filter(({ action }) => action === 'remove'));
  // Kinds with limits of their own are under way at the same time as the others.
  const ofKinds = (rate.kinds ?? []).map(({ kinds, ...limit }) =>
    minutesFor(requestsOf(steps.filter(({ kind, request }) => kinds.includes(request?.kind ?? kind))), limit),
  );
  const minutes = Math.max(minutesFor(requests, rate), ...ofKinds);
  return { requests, minutes, ...(removals === 0 ? {} : { removals }) };
}

function requestsOf(steps: readonly Pick<PlanStep, 'action'>[]): number {
  return steps.reduce((sum, { action }) => sum + REQUESTS[action], 0);
}

function minutesFor(requests: number, rate: KindRate): number {
  if (requests === 0) return 0;
  const hours = rate.perHour === 0 ? 0 : Math.floor((requests - 1) / rate.perHour);
  const rest = rate.perHour === 0 ? requests : requests - hours * rate.perHour;
  return hours * 60 + (rate.perMinute === 0 ? 0 : Math.floor((rest - 1) / rate.perMinute));
}
