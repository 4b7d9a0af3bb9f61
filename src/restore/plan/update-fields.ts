/** The changed fields of a record that both states have: how each is restored, and the body of the update. */
import type { ActionField, FieldDefinition } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonObject, getOwn, isJsonObject } from '../../core/json.ts';
import { type ParsedRecord, overlapsPointer } from '../../diff/change.ts';
import { type FieldChange, placeOf } from '../../diff/compare.ts';
import { topMember } from '../places.ts';
import {
  type AskedFields,
  type BuiltBody,
  buildBody,
  listMovedIn,
  narrowedTo,
  staysStored,
  unaskedChange,
} from './body.ts';
import type { Fill, Obstacle, PlanInput, SecretNeed } from './plan.ts';
import type { Remapped } from './references.ts';
import { isSet } from './settings.ts';
import { needsText, suppliable } from './steps.ts';

/** The changed fields of a record, by how they are restored. */
export interface SortedFields {
  readonly send: FieldDefinition[];
  readonly act: ActionField['actions'][number] | null;
  /** Fields that no request can restore. */
  readonly blocked: {
    readonly name: string;
    readonly obstacle: 'immutable' | 'no_value';
    readonly reason: string;
    /** The blocked paths inside the field; left out: all of it. */
    readonly paths?: readonly string[];
  }[];
  /** Fields that can be set only after manual work. */
  readonly waiting: string[];
  /** Names that differ only in case: those that a person has to change, and those that cannot be changed. */
  readonly letters: { readonly byHand: string[]; readonly lasting: string[] };
}

/** Sorts the changed fields of a record that both states have. */
export function sortFields(
  definition: ResourceDefinition,
  changes: readonly FieldChange[],
  desired: ParsedRecord,
  live: ParsedRecord,
): SortedFields {
  const sorted: SortedFields & { act: SortedFields['act'] } = {
    ...{ send: [], act: null, blocked: [], waiting: [] },
    letters: { byHand: [], lasting: [] },
  };
  const { state, refusesLetterCase } = definition.restore;
  const byName = Map.groupBy(changes, ({ path }) => topMember(path));
  for (const field of definition.fields) {
    const { name } = field;
    const inside = byName.get(name);
    if (inside === undefined) continue;
    const value = isJsonObject(desired.body) ? getOwn(desired.body, name) : undefined;
    const action = state?.field === name ? state.actions.find((each) => each.value === value) : undefined;
    if (value === undefined) {
      sorted.blocked.push({ name, obstacle: 'no_value', reason: 'the desired record has no value for it' });
    } else if ((field.isCreateOnly || refusesLetterCase) && isLetterCaseOfName(definition, inside)) {
      sorted.letters[field.isCreateOnly ? 'lasting' : 'byHand'].push(name);
    } else if (field.isCreateOnly) {
      sorted.blocked.push({ name, obstacle: 'immutable', reason: 'it cannot be changed after creation' });
    } else if (
      field.requires !== null &&
      isSet(value) &&
      resolvePointer(live.body, field.requires) !== true
    ) {
      sorted.waiting.push(name);
    } else if (action !== undefined) {
      sorted.act = action;
    } else {
      const kept = staysStored(field, value, live.body)
        ? inside.filter(({ path, to }) => to === undefined && !/\/\d+$/.test(path))
        : [];
      if (kept.length > 0) {
        const places = kept.map(({ path }) => path).join(', ');
        const reason = `PATCH keeps what is not sent, so ${places} can only be removed by hand`;
        sorted.blocked.push({ name, obstacle: 'no_value', reason, paths: kept.map(({ path }) => path) });
      }
      if (kept.length < inside.length) sorted.send.push(field);
    }
  }
  return sorted;
}

// Names that differ only in case (`GROWTH` and `Growth`). Records are matched ignoring case, as services compare names (wire-notes.md,
// Restore); whether the difference can be restored depends on what the API accepts.

/** Why a record whose name nothing can change is left as it is: to the service, the name is the same. */
export const SAME_BUT_FOR_CASE = 'equal except for upper and lower case';

/** What a person has to do if the service would reject the name. */
export const RENAME_BY_HAND =
  'the live name differs only in upper and lower case, and the service rejects that change as a duplicate: ' +
  'rename it by hand to another name, then restore again; or leave it';

/** True if only the case of the record's name differs. */
export function isLetterCaseOfName(
  { naturalKey }: ResourceDefinition,
  changes: readonly FieldChange[],
): boolean {
  return changes.every(
    ({ path, from, to }) =>
      naturalKey.includes(path) &&
      typeof from === 'string' &&
      typeof to === 'string' &&
      from.toLowerCase() === to.toLowerCase(),
  );
}

/** A field that cannot be sent. */
interface StoppedField {
  readonly name: string;
  readonly needs: readonly SecretNeed[];
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/** The fields of `--field` without those that are kept; null: every field. */
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

/** The body with the fields that can be sent, and those that cannot: one such field does not block the others. */
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
