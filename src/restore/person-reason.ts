/** The text of a manual step: what to do, and the value to enter, if live shows it. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Condition } from '../catalog/definition.ts';
import type { JsonValue } from '../core/json.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import type { PlanStep } from './plan.ts';
import type { ReadyStep, StepContext } from './step-context.ts';
import type { Planning } from './step-parts.ts';
import { topMember } from './unmanaged-settings.ts';

/**
 * @param live the record's live body; null where it is yet to be created
 * @param name what the record goes by
 */
export function personReason(
  { input }: Pick<Planning, 'input'>,
  definition: ResourceDefinition,
  condition: Condition,
  live: JsonValue | null,
  name: string,
): string {
  // What a sandbox gives is nothing to publish.
  return input.isPractice === true ? condition.reason : reasonWithRecord(definition, condition, live, name);
}

function reasonWithRecord(
  { kind, fields }: ResourceDefinition,
  { reason, shows }: Condition,
  live: JsonValue | null,
  name: string,
): string {
  if (shows === undefined) return reason;
  const member = topMember(shows);
  if (fields.some((field) => field.name === member && field.isSecret)) {
    const record = /^[\w.@-]+$/.test(name) ? name : JSON.stringify(name);
    return `${reason} (${member}: \`tidemark sync\`, then \`tidemark show ${kind} ${record} --show-secrets\`)`;
  }
  if (live === null) return `${reason} (${member} will be new: the report of the restore shows it)`;
  const value = resolvePointer(live, shows);
  return typeof value === 'string' && value !== '' ? `${reason} (${member}: ${value})` : reason;
}

/** Steps for persons, by the step that creates their record. */
export function personSteps(steps: readonly PlanStep[]): ReadonlyMap<number, readonly PlanStep[]> {
  const byCreation = new Map<number, PlanStep[]>();
  for (const step of steps) {
    if (step.obstacle !== 'needs_person') continue;
    for (const n of step.after) byCreation.set(n, [...(byCreation.get(n) ?? []), step]);
  }
  return byCreation;
}

/** The record is there now: what a person needs of it goes into the journal. */
export function notifyPersons(
  { persons, journal }: StepContext,
  { step, definition }: ReadyStep,
  live: JsonValue,
): void {
  for (const { n, name, reason } of persons.get(step.n) ?? []) {
    if (reason === null) continue;
    const now = definition.restore.byPerson.reduce(
      (text, condition) =>
        text.replace(reasonWithRecord(definition, condition, null, name), () =>
          reasonWithRecord(definition, condition, live, name),
        ),
      reason,
    );
    if (now !== reason) journal.readBack(n, { error: now });
  }
}
