/** The desired records of a plan that was made earlier: where its secrets stand, or where the configuration's belong. */
import type { Kind } from '../catalog/definition.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import { valueDigest } from '../diff/canonical.ts';
import { configuredSecrets } from '../restore/configured-secrets.ts';
import type { Plan, PlanStep } from '../restore/plan.ts';
import { placeOf } from '../restore/record-place.ts';
import { type Reference, parseReference } from '../state/reference.ts';
import { printNote } from './context.ts';
import type { DesiredLookup } from './restore-send.ts';
import type { RestoreSession } from './restore-session.ts';

/**
 * Reads the state that the plan was made from again, where a step fills something in from it, or creates a record that
 * must be told from another desired one of its name. The state is looked up by its run: `latest` of then may be another
 * one by now.
 * @throws TidemarkError `unsafe_plan` when a record of it is no longer what the plan was made from; `config_invalid` when
 * the configuration no longer has a secret that the plan counts on; what opening the state throws
 */
export async function desiredOf(session: RestoreSession, plan: Plan): Promise<DesiredLookup> {
  const filling = plan.steps.filter((step) => step.desired !== null && needsDesired(step));
  const creating = plan.steps.filter(({ request }) => request?.role === 'create');
  const kinds = new Set([...filling, ...creating].flatMap(({ desired }) => desired?.kind ?? []));
  if (kinds.size === 0) return () => undefined;
  const bodies = await bodiesOf(session, plan, [...kinds], filling.length > 0);
  checkDesired(session, filling, bodies);
  return ({ kind, scope, id }) => bodies.get(placeOf(kind, scope, id));
}

async function bodiesOf(
  session: RestoreSession,
  plan: Plan,
  kinds: readonly Kind[],
  isNeeded: boolean,
): Promise<ReadonlyMap<string, JsonValue>> {
  const bodies = new Map<string, JsonValue>();
  try {
    const state = await session.open(referenceOf(plan), { kinds });
    for (const { kind, scope, id, body } of state.records({ kinds })) {
      bodies.set(placeOf(kind, scope, id), parseLossless(body));
    }
  } catch (error) {
    if (isNeeded) throw error;
    // Without it a namesake of a desired record counts as made by hand: its step is refused, nothing is doubled.
    const why = `${plan.from.ref} cannot be read any more (${asTidemarkError(error).message})`;
    printNote(session.context, [`${why}: a record whose name is taken is left alone`]);
    return new Map();
  }
  return bodies;
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
