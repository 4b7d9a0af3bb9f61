/**
 * A name that live has in other letters (`GROWTH` for `Growth`). Records are matched letters' case apart, as services compare
 * names (wire-notes.md, Restore); what then becomes of the difference depends on what the interface takes.
 */
import type { ResourceDefinition } from '../catalog/definition.ts';
import type { FieldChange } from '../diff/compare.ts';

/** Why such a record is left as it is where nothing can change the name: to its service it is the same one. */
export const SAME_BUT_FOR_CASE = 'the same but for the case of letters';

/** What a person does where the service would refuse the name: sent, it would fail every time. */
export const RENAME_BY_HAND =
  'live has the name in other letters, and the service refuses that change as if the name were taken: ' +
  'rename it by hand to anything else, then restore again; or leave it as it is';

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
