/** What a person does about a step that failed, by the code of its error: the journal keeps no hints. */
import type { StepErrorCode } from './restore-report.ts';

const NEW_PLAN = '`tidemark restore` makes a new plan';
const LATER = 'the service has trouble: try again later';

const HINTS: Readonly<Partial<Record<StepErrorCode, string>>> = {
  moved: `somebody changed it meanwhile: look with \`tidemark diff latest live\`, then ${NEW_PLAN}`,
  rejected: `correct what it complains of, in the service or in an edited export (file:PATH); then ${NEW_PLAN}`,
  not_found: `what it is about, or stands below, is gone: ${NEW_PLAN}`,
  reference_unknown: NEW_PLAN,
  forbidden: 'give the key the permission, or leave the kind out with --kind',
  unauthorized: 'check apiKey of the source: nothing else can be sent either',
  throttled: 'ask less of the service (rate.perMinute, rate.perHour), or try again later',
  server_error: LATER,
  timeout: LATER,
  unreachable: LATER,
  unresponsive: LATER,
  retry_budget: LATER,
};

/** Undefined where there is nothing to say beyond the message. */
export function hintFor(code: StepErrorCode): string | undefined {
  return HINTS[code];
}
