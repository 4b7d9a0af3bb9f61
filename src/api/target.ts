/** What a walk is about: one list endpoint in one scope, and how its records are taken apart. */
import { fillPath } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { RecordShape } from '../core/json-scan.ts';

export interface CollectionTarget {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** The path of the id, and the volatile members. */
  readonly shape: RecordShape;
  /** Records to ask for per page; what arrives decides. */
  readonly pageSize: number;
  /** The timestamp by which a feed is newest first; by default the first that the definition does not call volatile. */
  readonly orderedBy?: string;
}

/** Path of the collection below the base URL, with the scope's values percent-encoded. */
export function collectionPath(target: CollectionTarget): string {
  return fillPath(target.definition.path, target.scope);
}

/** Members that say when a record came into being, and never change afterwards. */
const BORN = ['created_at', 'joined_at', 'start_time'];

/** The member with the creation time of records of this kind; the usual one where its fields are not documented. */
export function createdAtMember({ definition }: CollectionTarget): string {
  const documented = definition.fields.find(({ name, isVolatile }) => BORN.includes(name) && !isVolatile);
  return documented?.name ?? 'created_at';
}

/** The member that a feed's order is checked by; null where the kind has no timestamp (its order is unknown). */
export function orderMember(target: CollectionTarget): string | null {
  if (target.orderedBy !== undefined) return target.orderedBy;
  const field = target.definition.fields.find(({ type, isVolatile }) => type === 'timestamp' && !isVolatile);
  return field?.name ?? null;
}
