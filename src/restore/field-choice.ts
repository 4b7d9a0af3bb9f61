/** `--field`: which fields steps may be about. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { fieldFilter } from '../diff/field-filter.ts';
import { requireKnownFields } from '../state/compared-fields.ts';
import { topMember, writableFields } from './writable.ts';

/**
 * True for a place at, below or above one of the pointers; null where none is named: every field.
 * @throws TidemarkError `usage` when one is no pointer
 */
export function fieldChoice(fields: readonly string[]): ((path: string) => boolean) | null {
  const select = fieldFilter(fields);
  if (fields.length === 0) return null;
  const head = { kind: 'organizations', scope: {}, id: '', name: '', change: 'changed' } as const;
  return (path) => select({ ...head, fields: [{ path }] }) !== null;
}

/**
 * Looks whether a restore of these kinds looks at each of the fields: else "nothing to do" would say that all is well.
 * @param records may be gone through several times
 * @throws TidemarkError `not_found` when it does not look at one of them
 */
export function requireFields(
  fields: readonly string[],
  kinds: ReadonlySet<Kind>,
  definitions: (kind: Kind) => ResourceDefinition,
  records: Iterable<ParsedRecord>,
): void {
  for (const field of fields) {
    requireKnownFields({
      fields: [field],
      kinds,
      definitions,
      modeOf: (definition) => (writableFields(definition).length > 0 ? 'managed' : 'default'),
      // What a person does is told as a step of its own, though no request sends it.
      isLookedAt: ({ restore }, name) => restore.byPerson.some(({ pointer }) => topMember(pointer) === name),
      records: function* (searched) {
        for (const record of records) if (searched.has(record.kind)) yield record;
      },
      hintFor: () => 'a restore sends writable fields only: `tidemark catalog` tells which these are',
    });
  }
}
