/**
 * What a comparison has to say beside its report: what was left out by choice, and what only dates its FROM. What may hide
 * a change stands in the report itself (`report/not-fresh.ts`).
 */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { DiffDocument } from '../diff/change.ts';
import { datingLines } from '../report/not-fresh.ts';
import { groupedNotes } from '../report/note-groups.ts';

/** A line each. */
export function comparisonNotes(
  document: DiffDocument,
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  return [
    ...datingLines(document, definitions),
    ...groupedNotes('left out', document.left_out ?? [], definitions),
  ];
}
