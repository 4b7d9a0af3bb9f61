/** Which fields of a changed record a request sends, which an action moves, and which nothing can put back. */
import type { FieldDefinition, ResourceDefinition } from '../catalog/definition.ts';
import type { StateField } from '../catalog/restore-rules.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { resolvePointer } from '../diff/pointer.ts';
import { isLetterCaseOfName } from './letter-case.ts';
import { topMember } from './writable.ts';

/** What of a changed record goes which way. */
export interface SortedFields {
  readonly send: FieldDefinition[];
  readonly act: StateField['actions'][number] | null;
  /** Fields that cannot be put back by a request, each with the reason. */
  readonly stuck: {
    readonly name: string;
    readonly obstacle: 'immutable' | 'no_value';
    readonly reason: string;
    /** The places inside the field that it is about; left out where it is about all of it. */
    readonly paths?: readonly string[];
  }[];
  /** Fields that wait for a person. */
  readonly waiting: string[];
  /** Of names that differ in the case of letters only: those that a person has to put back, and those that nobody can. */
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
    ...{ send: [], act: null, stuck: [], waiting: [] },
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
      sorted.stuck.push({ name, obstacle: 'no_value', reason: 'the desired record has no value for it' });
    } else if ((field.isCreateOnly || refusesLetterCase) && isLetterCaseOfName(definition, inside)) {
      sorted.letters[field.isCreateOnly ? 'lasting' : 'byHand'].push(name);
    } else if (field.isCreateOnly) {
      sorted.stuck.push({ name, obstacle: 'immutable', reason: 'it cannot be changed after creation' });
    } else if (
      field.requires !== null &&
      isSet(value) &&
      resolvePointer(live.body, field.requires) !== true
    ) {
      sorted.waiting.push(name);
    } else if (action !== undefined) {
      sorted.act = action;
    } else {
      const kept = field.isMerged
        ? inside.filter(({ path, to }) => to === undefined && !/\/\d+$/.test(path))
        : [];
      if (kept.length > 0) {
        const places = kept.map(({ path }) => path).join(', ');
        const reason = `PATCH keeps what it is not given, so ${places} can only be taken away by hand`;
        sorted.stuck.push({ name, obstacle: 'no_value', reason, paths: kept.map(({ path }) => path) });
      }
      if (kept.length < inside.length) sorted.send.push(field);
    }
  }
  return sorted;
}

function isSet(value: JsonValue): boolean {
  return value !== null && value !== false && value !== '';
}
