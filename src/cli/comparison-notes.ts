/** What a comparison has to say beside its differences: what was left out by choice, and what is older than its state. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { scopeText } from '../catalog/scope-text.ts';
import { count } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';

/** More of one kind are only counted. */
const SCOPES_SHOWN = 3;

/** A line each: collections that were compared as last read, then what was left out. */
export function comparisonNotes(
  document: DiffDocument,
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  const stale = document.stale ?? [];
  const of = (isPartial: boolean, side: 'from' | 'to'): Noted[] =>
    stale.filter((each) => (each.is_partial === true) === isPartial && each.side === side);
  return [
    ...grouped('not fresh', of(false, 'to'), definitions),
    ...grouped('not fresh in FROM', of(false, 'from'), definitions),
    ...grouped('not whole in FROM', of(true, 'from'), definitions),
    ...grouped('not whole in TO', of(true, 'to'), definitions),
    ...grouped('left out', document.left_out ?? [], definitions),
  ];
}

interface Noted {
  readonly kind: Kind;
  readonly scope: DiffDocument['skipped'][number]['scope'];
  readonly reason: string;
}

function grouped(
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
