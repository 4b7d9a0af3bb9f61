/** Changes that appear in two lists, that of a family and the union of all families, are reported once. Pure. */
import { definitionOf, familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { DiffDocument, RecordChange } from './change.ts';

/**
 * The changes without those of a union (`plugins`) that the list of a family reports as well. What only the union
 * reports stays, and so does everything where `kinds`, those that the user asked for, has the union.
 */
export function changesOnce<Change extends Pick<RecordChange, 'kind' | 'scope' | 'id' | 'change'>>(
  changes: readonly Change[],
  kinds: readonly Kind[] | undefined,
): readonly Change[] {
  const placeOf = ({ scope, id, change }: Change, kind: Kind): string =>
    `${kind} ${scopeKey(scope)} ${id} ${change}`;
  const reported = new Set(changes.map((change) => placeOf(change, change.kind)));
  return changes.filter((change) => {
    const { kind } = change;
    if (definitionOf(kind).isUnionOfFamily !== true || kinds?.includes(kind) === true) return true;
    return !familyKinds(kind).some((each) => each !== kind && reported.has(placeOf(change, each)));
  });
}

/** The document with `changesOnce`, and with its counts. */
export function withoutRepeats(document: DiffDocument, kinds: readonly Kind[] | undefined): DiffDocument {
  const changes = changesOnce(document.changes, kinds);
  const repeats = document.changes.length - changes.length;
  if (repeats === 0) return document;
  const { collections, records } = document.compared;
  const summary = { ...document.summary, added: 0, changed: 0, removed: 0 };
  for (const { change } of changes) summary[change] += 1;
  return { ...document, compared: { collections, records: records - repeats }, changes, summary };
}
