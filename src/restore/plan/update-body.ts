/** The body of an update, field by field: a field that cannot be sent does not block the others. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import type { JsonObject } from '../../core/json.ts';
import { type ParsedRecord, overlapsPointer } from '../../diff/change.ts';
import { type FieldChange, placeOf } from '../../diff/compare.ts';
import {
  type AskedFields,
  type BuiltBody,
  buildBody,
  listMovedIn,
  narrowedTo,
  unaskedChange,
} from './body.ts';
import type { Fill, Obstacle, PlanInput, SecretNeed } from './plan.ts';
import type { Remapped } from './references.ts';
import { needsText, suppliable } from './steps.ts';

/** A field that cannot be sent, and why. */
interface StoppedField {
  readonly name: string;
  readonly needs: readonly SecretNeed[];
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/** What `--field` names, without what is kept; null where that is every field. */
export function askedFields(
  { isFieldInScope }: PlanInput,
  kept: ReadonlyMap<string, FieldChange>,
): AskedFields | null {
  if (kept.size === 0 && isFieldInScope === undefined) return null;
  const isInScope = isFieldInScope ?? (() => true);
  const pointers = [...kept.values()].map((change) => listMovedIn(change) ?? change.path);
  return {
    has: (change) => isInScope(change.path) && !kept.has(placeOf(change)),
    hasPointer: (pointer) => isInScope(pointer) && !overlapsPointer(pointer, pointers),
    more: (pointer) => (kept.size > 0 ? 'leave out --keep-accepted' : `add --field ${pointer}`),
  };
}

/** The body of what can be sent, and what cannot, each with its reason. */
export function separateFields(
  input: PlanInput,
  asked: AskedFields | null,
  desired: ParsedRecord,
  remap: Remapped,
  fields: readonly FieldDefinition[],
  { kind, body: live }: ParsedRecord,
  isAgain: boolean,
): Pick<BuiltBody, 'body' | 'fills' | 'others'> & { readonly stopped: StoppedField[] } {
  let body: JsonObject = {};
  const fills: Fill<string>[] = [];
  const others: string[] = [];
  const stoppedFields: StoppedField[] = [];
  for (const field of fields) {
    const { name } = field;
    const stop = (obstacle: Obstacle, reason: string, needs: readonly SecretNeed[] = []): void =>
      void stoppedFields.push({ name, needs, obstacle, reason });
    const narrowed = asked === null ? remap : narrowedTo(asked, input.definitions(kind), field, remap, live);
    if ('reason' in narrowed) {
      stop('no_value', narrowed.reason);
      continue;
    }
    const built = buildBody(input, desired, narrowed, [field], live, isAgain);
    const unasked = asked === null ? null : unaskedChange(asked, field, built, desired.body, live);
    if (unasked !== null) stop('no_value', unasked);
    else if (built.needs.length > 0) stop('secret_missing', needsText(built.needs), suppliable(built.needs));
    else if (built.unknown.length > 0) {
      const unknown = built.unknown.map(({ pointer, reason }) => `${pointer}: ${reason}`).join('; ');
      stop('reference_unknown', unknown);
    } else {
      body = { ...body, ...built.body };
      fills.push(...built.fills);
      others.push(...built.others);
    }
  }
  return { body, fills, others, stopped: stoppedFields };
}
