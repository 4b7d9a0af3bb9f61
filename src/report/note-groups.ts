/** The notes of a comparison on its collections, a line for each reason. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeText } from '../catalog/catalog.ts';
import { count } from '../core/wording.ts';

/** More of one kind are only counted. */
const SCOPES_SHOWN = 3;

interface Noted {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly reason: string;
}

/** E.g. `left out: members (organization 0189…), roles: the export holds none of this kind`. */
export function groupedNotes(
  label: string,
  notes: readonly Noted[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  return [...Map.groupBy(notes, ({ reason }) => reason)].map(([reason, same]) => {
    const kinds = [...Map.groupBy(same, ({ kind }) => kind)].map(
      ([kind, own]) => `${definitions(kind).title.many}${placesText(own)}`,
    );
    // A reason that counts something counts it in each of them.
    const each = same.length > 1 && /^\d/.test(reason) ? 'each ' : '';
    return `${label}: ${kinds.join(', ')}: ${each}${reason}`;
  });
}

function placesText(notes: readonly Noted[]): string {
  const places = notes.map(({ scope }) => scopeText(scope)).filter((place) => place !== '');
  if (places.length === 0) return '';
  const more = places.length - SCOPES_SHOWN;
  return ` (${places.slice(0, SCOPES_SHOWN).join('; ')}${more > 0 ? `; and ${count(more)} more` : ''})`;
}
