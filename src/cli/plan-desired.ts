/** The desired records of a plan that was made earlier: where its secrets stand, or where the configuration's belong. */
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { parseLossless } from '../core/json.ts';
import { valueDigest } from '../diff/canonical.ts';
import { configuredSecrets } from '../restore/configured-secrets.ts';
import type { Plan, PlanStep } from '../restore/plan.ts';
import { placeOf } from '../restore/record-place.ts';
import type { Reference } from '../state/reference.ts';
import { parseReference } from '../state/reference.ts';
import type { DesiredLookup } from './restore-send.ts';
import type { RestoreSession } from './restore-session.ts';

/**
 * Reads the state that the plan was made from again, where a step fills something in from it. The state is looked up by
 * its run: `latest` of then may be another one by now.
 * @throws TidemarkError `unsafe_plan` when a record of it is no longer what the plan was made from; `config_invalid` when
 * the configuration no longer has a secret that the plan counts on; what opening the state throws
 */
export async function desiredOf(session: RestoreSession, plan: Plan): Promise<DesiredLookup> {
  const filling = plan.steps.filter((step) => step.desired !== null && needsDesired(step));
  if (filling.length === 0) return () => undefined;
  const kinds = [...new Set(filling.flatMap(({ desired }) => (desired === null ? [] : [desired.kind])))];
  const state = await session.open(referenceOf(plan), { kinds });
  const bodies = new Map<string, JsonValue>();
  const wanted = new Set(filling.map(({ desired }) => desired?.id));
  for (const { kind, scope, id, body } of state.records({ kinds })) {
    if (wanted.has(id)) bodies.set(placeOf(kind, scope, id), parseLossless(body));
  }
  checkDesired(session, filling, bodies);
  return ({ kind, scope, id }) => bodies.get(placeOf(kind, scope, id));
}

function needsDesired({ request }: PlanStep): boolean {
  return (request?.fills ?? []).some(({ from }) => from !== 'step');
}

function referenceOf({ from }: Plan): Reference {
  return parseReference(from.run === undefined ? from.ref : `run:${from.run}`);
}

function checkDesired(
  { source }: RestoreSession,
  steps: readonly PlanStep[],
  bodies: ReadonlyMap<string, JsonValue>,
): void {
  const secrets = configuredSecrets(source.secrets);
  const missing: string[] = [];
  for (const { n, name, desired, request } of steps) {
    if (desired === null) continue;
    const { kind, scope, id } = desired;
    const body = bodies.get(placeOf(kind, scope, id));
    if (body === undefined || valueDigest(body) !== desired.digest) {
      throw new TidemarkError(
        'unsafe_plan',
        `step ${n}: the desired ${kind} ${name} is not as it was planned`,
        {
          hint: 'make the plan anew with `tidemark restore --out FILE`',
        },
      );
    }
    for (const { pointer, from } of request?.fills ?? []) {
      if (from === 'configuration' && secrets.find({ kind, scope, id, body }, pointer) === undefined)
        missing.push(`${kind} ${name}: ${pointer}`);
    }
  }
  if (missing.length === 0) return;
  throw new TidemarkError(
    'config_invalid',
    [`the plan needs secrets that the configuration does not have:`, ...missing].join('\n'),
    { hint: 'give them under secrets (docs/configuration.md); nothing was sent' },
  );
}
