/** Changes that two lists show, the list of a family and the union of all families: each is reported once. Pure. */
import { definitionOf, familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { DiffDocument } from './change.ts';

/**
 * The document without the changes of a union (`plugins`) that the list of a family reports as well. What only the union
 * reports stays, and so does everything where `kinds`, those that the user asked for, has the union.
 */
export function withoutRepeats(document: DiffDocument, kinds: readonly Kind[] | undefined): DiffDocument {
  const placeOf = ({ scope, id, change }: DiffDocument['changes'][number], kind: Kind): string =>
    `${kind} ${scopeKey(scope)} ${id} ${change}`;
  const reported = new Set(document.changes.map((change) => placeOf(change, change.kind)));
  const summary = { ...document.summary };
  const changes = document.changes.filter((change) => {
    const { kind } = change;
    if (definitionOf(kind).isUnionOfFamily !== true || kinds?.includes(kind) === true) return true;
    const isRepeat = familyKinds(kind).some((each) => each !== kind && reported.has(placeOf(change, each)));
    if (isRepeat) summary[change.change] -= 1;
    return !isRepeat;
  });
  const repeats = document.changes.length - changes.length;
  if (repeats === 0) return document;
  const { collections, records } = document.compared;
  return { ...document, compared: { collections, records: records - repeats }, changes, summary };
}
