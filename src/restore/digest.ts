/** Digests that pin what a plan was made from. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { type JsonValue, isJsonObject } from '../core/json.ts';
import { comparedMembers } from '../diff/compare.ts';
import { valueDigest } from '../diff/canonical.ts';
import { resolvePointer } from '../diff/pointer.ts';

/**
 * Digest of what restore manages of a live body, and of what names it: the rest moves without anyone configuring it, or
 * by the plan's own other steps (a role lists its members).
 */
export function managedDigest(definition: ResourceDefinition, body: JsonValue): string {
  if (!isJsonObject(body)) return valueDigest(body);
  const members = comparedMembers(definition, body, 'managed');
  return valueDigest([members, naturalKeyValues(definition, body)]);
}

/** Digest of a body's natural key, letters' case apart; null where a part of it is missing or the kind has none. */
export function naturalKeyDigest(definition: ResourceDefinition, body: JsonValue): string | null {
  const values = naturalKeyValues(definition, body);
  const isWhole = values.length > 0 && values.every((value) => value !== null && value !== '');
  return isWhole ? valueDigest(values) : null;
}

function naturalKeyValues(definition: ResourceDefinition, body: JsonValue): JsonValue[] {
  return definition.naturalKey.map((pointer) => {
    const value = resolvePointer(body, pointer) ?? null;
    return typeof value === 'string' ? value.toLowerCase() : value;
  });
}
