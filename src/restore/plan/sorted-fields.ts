/** The changed fields of a record that both states have, by how they are restored. */
import type { ActionField, FieldDefinition } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { topMember } from '../places.ts';
import { staysStored } from './body.ts';

/** The fields of a changed record, by how they are restored. */
export interface SortedFields {
  readonly send: FieldDefinition[];
  readonly act: ActionField['actions'][number] | null;
  /** Fields that cannot be restored by a request, each with the reason. */
  readonly blocked: {
    readonly name: string;
    readonly obstacle: 'immutable' | 'no_value';
    readonly reason: string;
    /** The blocked paths inside the field; left out where all of it is blocked. */
    readonly paths?: readonly string[];
  }[];
  /** Fields that need manual work. */
  readonly waiting: string[];
  /** Names that differ in letter case only: those to be renamed by hand, and those that cannot be changed. */
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

function isSet(value: JsonValue): boolean {
  return value !== null && value !== false && value !== '';
}

// A name that differs in case only (`GROWTH` for `Growth`). Records are matched ignoring case, as services compare
// names (wire-notes.md, Restore); whether the difference can be restored depends on what the API accepts.

/** Why such a record is left unchanged if nothing can change the name: to the service it is the same. */
export const SAME_BUT_FOR_CASE = 'equal except for upper and lower case';

/** What a person does where the service would refuse the name: sent, it would fail every time. */
export const RENAME_BY_HAND =
  'the live name differs only in upper and lower case, and the service rejects that change as a duplicate: ' +
  'rename it by hand to another name, then restore again; or leave it';

/** True where nothing differs but the case of letters in what names the record. */
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
