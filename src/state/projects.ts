/** Which projects an organization has: those of its projects list, and those of its `teams`. */
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { idText } from '../diff/match-records.ts';
import { resolvePointer } from '../diff/pointer.ts';
import type { RecordState } from '../diff/states.ts';
import type { StateFilter } from './filter.ts';

/** The ids, from the records of a state. */
export function projectsIn(
  records: (filter: StateFilter) => Iterable<RecordState>,
  organizations: readonly string[],
): readonly string[] {
  const found = new Set<string>();
  for (const { kind, id, body } of records({ kinds: ['organizations', 'projects'], organizations })) {
    if (kind === 'projects') found.add(id);
    else for (const team of teamIds(parseLossless(body))) found.add(team);
  }
  return [...found];
}

/** The ids in an organization's `teams`: objects with arbitrary keys, of which `id` is the project's. */
export function teamIds(organization: JsonValue): string[] {
  const teams = resolvePointer(organization, '/teams');
  if (!Array.isArray(teams)) return [];
  return teams.flatMap((team) => {
    const id = isJsonObject(team) ? resolvePointer(team, '/id') : undefined;
    return id === undefined || id === null ? [] : [idText(id)];
  });
}
