/** Projects as their organization names them (wire-notes.md: `teams`), where no list of projects can be read. */
import { getOwn, isJsonObject, isRawNumber, parseLossless, type JsonValue } from '../core/json.ts';

/** The ids in an organization's `teams`: objects with arbitrary keys, of which `id` is the project's. */
export function teamIds(organizationText: string): string[] {
  const organization = parseLossless(organizationText);
  const teams = isJsonObject(organization) ? getOwn(organization, 'teams') : undefined;
  if (!Array.isArray(teams)) return [];
  return teams.flatMap((team) => {
    const id = isJsonObject(team) ? getOwn(team, 'id') : undefined;
    const text = id === undefined ? undefined : idText(id);
    return text === undefined ? [] : [text];
  });
}

function idText(value: JsonValue): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  return isRawNumber(value) ? value.rawJSON : undefined;
}
