/**
 * Names of volatile members, which the service changes on its own, for members without a catalog row and at the top
 * level only (wire-notes.md, Values). Below it the name is not enough: `updated_at` in the settings of a component may
 * be the name of a column.
 */
import type { FieldDefinition } from './definition.ts';
import type { KindRow } from './kinds.ts';

/** Times and signs of use, and permissions of the key's own user, which are never configuration. */
const VOLATILE_NAMES: readonly string[] = [
  'updated_at',
  'last_updated_at',
  'modified_at',
  'last_modified_at',
  'last_login',
  'last_seen_at',
  'last_used_at',
  // Whether any event has arrived.
  'ingested_event',
  'effective_membership_level',
  'user_access_level',
  'live_events_token',
];

const VOLATILE: ReadonlySet<string> = new Set(VOLATILE_NAMES);

/** An embedded member of an organization also has personal settings of its user. */
const VOLATILE_INSIDE: ReadonlySet<string> = new Set([...VOLATILE_NAMES, 'is_2fa_enabled']);

/** True for a volatile top-level member: by its row, or by its name if the payload of the kind is not documented. */
export function isVolatileMember(
  { hasDocumentedFields }: Pick<KindRow, 'hasDocumentedFields'>,
  field: FieldDefinition | undefined,
  name: string,
): boolean {
  return field === undefined ? !hasDocumentedFields && VOLATILE.has(name) : field.isVolatile;
}

const SET_ON_CREATION: ReadonlySet<string> = new Set(['created_at', 'joined_at', 'created_by']);

/** True for the names of members, without a row, that say when and by whom a record was created. */
export function isSetOnCreation(name: string): boolean {
  return SET_ON_CREATION.has(name);
}

/** True for a volatile member of an embedded record or user (`Embedding`). */
export function changesInside(name: string): boolean {
  return VOLATILE_INSIDE.has(name);
}

/** The names of the volatile members, which change without a configuration change. */
export function volatileFields({ fields, hasDocumentedFields }: KindRow): ReadonlySet<string> {
  const named = new Set(fields.map(({ name }) => name));
  const unnamed = hasDocumentedFields ? [] : VOLATILE_NAMES.filter((name) => !named.has(name));
  return new Set([...fields.filter(({ isVolatile }) => isVolatile).map(({ name }) => name), ...unnamed]);
}
