/** The body of an update, field by field: one that cannot be sent does not hold up the others. */
import type { FieldDefinition, ResourceDefinition } from '../catalog/definition.ts';
import { type JsonObject, type JsonValue, getOwn, setOwn } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { narrowedTo, unaskedChange } from './asked-fields.ts';
import type { DraftFill } from './draft.ts';
import type { Obstacle, SecretNeed } from './plan.ts';
import type { PlanInput } from './plan-input.ts';
import type { Remapped } from './references.ts';
import { type BuiltBody, buildBody } from './request-body.ts';
import { needsText } from './step-parts.ts';

/** A field that cannot be sent, and why. */
interface StoppedField {
  readonly name: string;
  readonly needs: readonly SecretNeed[];
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/** The body of what can be sent, and what cannot, each with its reason. */
export function separateFields(
  input: PlanInput,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  remap: Remapped,
  fields: readonly FieldDefinition[],
  live: JsonValue,
): Pick<BuiltBody, 'body' | 'fills' | 'others'> & { readonly stopped: StoppedField[] } {
  const { isFieldAbout } = input;
  const body: JsonObject = {};
  const fills: DraftFill[] = [];
  const others: string[] = [];
  const stoppedFields: StoppedField[] = [];
  for (const field of fields) {
    const { name } = field;
    const stop = (obstacle: Obstacle, reason: string, needs: readonly SecretNeed[] = []): void =>
      void stoppedFields.push({ name, needs, obstacle, reason });
    const narrowed =
      isFieldAbout === undefined ? remap : narrowedTo(isFieldAbout, definition, field, remap, live);
    if ('reason' in narrowed) {
      stop('no_value', narrowed.reason);
      continue;
    }
    const built = buildBody(input, desired, narrowed, [field], live);
    const unasked =
      isFieldAbout === undefined ? null : unaskedChange(isFieldAbout, field, built, desired.body, live);
    if (unasked !== null) stop('no_value', unasked);
    else if (built.needs.length > 0) stop('secret_missing', needsText(built.needs), built.needs);
    else if (built.unknown.length > 0) {
      const unknown = built.unknown.map(({ pointer, reason }) => `${pointer}: ${reason}`).join('; ');
      stop('reference_unknown', unknown);
    } else {
      for (const each of Object.keys(built.body)) setOwn(body, each, getOwn(built.body, each) ?? null);
      fills.push(...built.fills);
      others.push(...built.others);
    }
  }
  return { body, fills, others, stopped: stoppedFields };
}
