/** Collections compared as last read (stale): where that may hide a change, a report must not say "no differences". */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type DiffDocument, type Stale, mayHide } from '../diff/change.ts';
import { groupedNotes } from './note-groups.ts';

type Definitions = (kind: Kind) => ResourceDefinition;

/** The old readings that speak against "no differences" (`mayHide`): they make exit code 3. */
export function readingsThatMayHideChanges({ stale = [] }: Pick<DiffDocument, 'stale'>): readonly Stale[] {
  return stale.filter(mayHide);
}

/** The same as text, one line per reason. */
export function hidingLines(document: Pick<DiffDocument, 'stale'>, definitions: Definitions): string[] {
  const hiding = readingsThatMayHideChanges(document);
  const of = (isPartial: boolean, side: Stale['side']): readonly Stale[] =>
    hiding.filter((each) => (each.is_partial === true) === isPartial && each.side === side);
  return [
    ...groupedNotes('not fresh', of(false, 'to'), definitions),
    ...groupedNotes('not whole in FROM', of(true, 'from'), definitions),
    ...groupedNotes('not whole in TO', of(true, 'to'), definitions),
  ];
}

/** The other stale readings, as text: in FROM they only affect the date of a change. */
export function staleFromLines(
  { stale = [] }: Pick<DiffDocument, 'stale'>,
  definitions: Definitions,
): string[] {
  return groupedNotes(
    'not fresh in FROM',
    stale.filter((each) => !mayHide(each)),
    definitions,
  );
}
