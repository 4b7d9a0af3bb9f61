/** Names of parent records, so that people read "organization Harbor" before its id. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { parseLossless } from '../core/json.ts';
import { recordName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';

/** Looks a parent's name up in the mirror, each one once; of a removed parent, its last. Undefined where the mirror knows none. */
export function parentNames(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): (kind: Kind, id: string) => string | undefined {
  const known = new Map<string, string | undefined>();
  return (kind, id) => {
    const key = `${kind} ${id}`;
    if (!known.has(key)) known.set(key, nameOf(mirror, source, definitions(kind), id));
    return known.get(key);
  };
}

function nameOf(
  mirror: Mirror,
  source: string,
  definition: ResourceDefinition,
  id: string,
): string | undefined {
  // A project can be in the lists of several organizations: any of them names it.
  const row = mirror.records
    .find(definition.kind, id, { sources: [source] })
    .find(({ body }) => body !== null);
  const removed = { sources: [source], kinds: [definition.kind], ids: [id] };
  const body = row?.body ?? [...mirror.records.removedBodies(removed)][0]?.body;
  if (body === undefined) return undefined;
  const name = storedName(definition, body, id);
  return name === id ? undefined : name;
}

/** The name in a stored body; the id where it has none, or where it is damaged: only who shows the body refuses it. */
export function storedName(definition: ResourceDefinition, body: string, id: string): string {
  try {
    return recordName(definition, parseLossless(body), id);
  } catch (error) {
    if (error instanceof SyntaxError) return id;
    throw error;
  }
}
