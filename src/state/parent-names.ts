/** Names of parent records, so that texts show "organization Harbor" before its id. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { cached } from '../core/cached.ts';
import { asTidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { recordName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RecordRow } from '../mirror/records.ts';

/**
 * Looks up the name of a parent in the mirror, each one once; for a removed parent, its last name. A parent that a restore
 * created and no sync has read yet has the name of the record that it replaces. Undefined if the mirror has no name.
 * @param run names as of this run, so that the same report has the same names later; a parent that was only read later has
 * its newest name
 */
export function parentNames(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
  run?: number,
): (kind: Kind, id: string) => string | undefined {
  const known = new Map<string, string | undefined>();
  let recreated: RecreatedIds | undefined;
  const nameOfReplaced = (kind: Kind, id: string): string | undefined => {
    recreated ??= new RecreatedIds(mirror.restores.idMap(source));
    const others = recreated.all(kind, id).filter((each) => each !== id);
    return others
      .map((each) => nameOf(mirror, source, definitions(kind), { id: each, run }))
      .findLast((name) => name !== undefined);
  };
  return (kind, id) =>
    cached(
      known,
      `${kind} ${id}`,
      () => nameOf(mirror, source, definitions(kind), { id, run }) ?? nameOfReplaced(kind, id),
    );
}

function nameOf(
  mirror: Mirror,
  source: string,
  definition: ResourceDefinition,
  { id, run }: { readonly id: string; readonly run: number | undefined },
): string | undefined {
  // A project can be in the lists of several organizations: any of its records has the name.
  const rows = mirror.records.find(definition.kind, id, { sources: [source] });
  const removed = { sources: [source], kinds: [definition.kind], ids: [id] };
  const body =
    (run === undefined ? undefined : bodyAsOf(mirror, rows, run)) ??
    rows.find((row) => row.body !== null)?.body ??
    [...mirror.records.removedBodies(removed)][0]?.body;
  if (body === undefined) return undefined;
  const name = storedName(definition, body, id);
  return name === id ? undefined : name;
}

/** The last body if the record was removed by then; undefined if it had not been read, or if its history is damaged. */
function bodyAsOf(mirror: Mirror, rows: readonly RecordRow[], run: number): string | undefined {
  try {
    const then = rows.flatMap((row) => mirror.records.asOf(row, run) ?? []);
    return (then.find(({ removed }) => removed === null) ?? then[0])?.body;
  } catch (error) {
    // As in `storedName`: commands that show the body report the damage.
    if (asTidemarkError(error).code === 'mirror_corrupt') return undefined;
    throw error;
  }
}

/** The name in a stored body; the id if it has none or is damaged, which commands that show the body report. */
export function storedName(definition: ResourceDefinition, body: string, id: string): string {
  try {
    return recordName(definition, parseLossless(body), id);
  } catch (error) {
    if (error instanceof SyntaxError) return id;
    throw error;
  }
}
