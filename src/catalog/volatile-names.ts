/**
 * What moves by the service's own activity, told by its name: for members of records that no row of the catalog describes,
 * at their top level alone (wire-notes.md, Values). Deeper down a name tells nothing: `updated_at` in a component's
 * settings is what somebody called a column.
 */
import type { FieldDefinition, ResourceDefinition } from './definition.ts';

/** Times and marks of use, and what the key's own user may do: never what somebody configured. */
const VOLATILE_NAMES: readonly string[] = [
  'updated_at',
  'last_updated_at',
  'modified_at',
  'last_modified_at',
  'last_login',
  'last_seen_at',
  'last_used_at',
  // Whether any event has arrived yet.
  'ingested_event',
  'effective_membership_level',
  'user_access_level',
  'live_events_token',
];

const MOVING: ReadonlySet<string> = new Set(VOLATILE_NAMES);

/** An embedded member brings along what its user chose. */
const MOVING_INSIDE: ReadonlySet<string> = new Set([...VOLATILE_NAMES, 'is_2fa_enabled']);

/** True for a top-level member that moves by itself: by its row, or by its name where the kind's payload is not shown. */
export function isVolatileMember(
  { hasDocumentedFields }: Pick<ResourceDefinition, 'hasDocumentedFields'>,
  field: FieldDefinition | undefined,
  name: string,
): boolean {
  return field === undefined ? !hasDocumentedFields && MOVING.has(name) : field.isVolatile;
}

/** True for a member of an embedded record or user (`embedded.ts`) that moves by itself. */
export function changesInside(name: string): boolean {
  return MOVING_INSIDE.has(name);
}
/** Names of the members that change though nobody configured anything. */
export function volatileFields({ fields, hasDocumentedFields }: ResourceDefinition): ReadonlySet<string> {
  const named = new Set(fields.map(({ name }) => name));
  const unnamed = hasDocumentedFields ? [] : VOLATILE_NAMES.filter((name) => !named.has(name));
  return new Set([...fields.filter(({ isVolatile }) => isVolatile).map(({ name }) => name), ...unnamed]);
}
