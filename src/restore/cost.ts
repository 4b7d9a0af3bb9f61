/** What applying a plan costs, counted before anything is sent. */
import type { Plan, PlanStep, StepAction } from './plan.ts';

/** Requests of a step: re-read, send, read back. A creation asks for its old id; the list of names is shared. */
const REQUESTS: Readonly<Record<StepAction, number>> = {
  create: 3,
  update: 3,
  act: 3,
  remove: 3,
  blocked: 0,
  manual: 0,
};

/** Requests, and the least minutes that the rate allows: 0 when all fits into one burst. */
export function costOf(
  steps: readonly Pick<PlanStep, 'action'>[],
  rate: { readonly perMinute: number; readonly perHour: number },
): Plan['cost'] {
  const requests = steps.reduce((sum, { action }) => sum + REQUESTS[action], 0);
  const removals = steps.filter(({ action }) => action === 'remove').length * REQUESTS.remove;
  return { requests, minutes: minutesFor(requests, rate), ...(removals === 0 ? {} : { removals }) };
}

function minutesFor(
  requests: number,
  rate: { readonly perMinute: number; readonly perHour: number },
): number {
  if (requests === 0) return 0;
  const hours = rate.perHour === 0 ? 0 : Math.floor((requests - 1) / rate.perHour);
  const rest = rate.perHour === 0 ? requests : requests - hours * rate.perHour;
  return hours * 60 + (rate.perMinute === 0 ? 0 : Math.floor((rest - 1) / rate.perMinute));
}
