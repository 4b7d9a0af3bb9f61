/** Records that appear in two lists, that of a family and the union of all families, are reported and counted once. Pure. */
import { CATALOG, definitionOf, familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { DiffDocument, RecordChange } from './change.ts';

/**
 * The changes without those of a union (`plugins`) that the list of a family reports too. Nothing is left out if the user asked for
 * the union (`kinds`).
 */
export function changesOnce<Change extends Pick<RecordChange, 'kind' | 'scope' | 'id' | 'change'>>(
  changes: readonly Change[],
  kinds: readonly Kind[] | undefined,
): readonly Change[] {
  const placeOf = (change: Change, kind = change.kind): string => `${keyText(change, kind)} ${change.change}`;
  const reported = new Set(changes.map((change) => placeOf(change)));
  return changes.filter((change) => {
    const { kind } = change;
    if (definitionOf(kind).isUnionOfFamily !== true || kinds?.includes(kind) === true) return true;
    return !familyKinds(kind).some((each) => each !== kind && reported.has(placeOf(change, each)));
  });
}

const REPEATING_KINDS: readonly Kind[] = CATALOG.filter(
  ({ isUnionOfFamily }) => isUnionOfFamily === true,
).flatMap(({ kind }) => familyKinds(kind));

/** The kinds whose lists have records in common; only those of `kinds`, if given. */
export function repeatingKinds(kinds?: readonly Kind[]): Kind[] {
  return REPEATING_KINDS.filter((kind) => kinds?.includes(kind) !== false);
}

/** The keys of `from` that are also in `to`. */
export function inBoth(from: Iterable<RecordKey>, to: Iterable<RecordKey>): RecordKey[] {
  const there = new Set(Array.from(to, (record) => keyText(record)));
  return [...from].filter((record) => there.has(keyText(record)));
}

/** The number of records that `recordsOnce` leaves out. */
export function countRepeats(records: Iterable<RecordKey>): number {
  const all = [...records];
  return all.length - recordsOnce(all).length;
}

/** The records without those of a union that the list of a family has too. */
export function recordsOnce<Key extends RecordKey>(records: readonly Key[]): readonly Key[] {
  const known = new Set(records.map((record) => keyText(record)));
  return records.filter(
    (record) =>
      definitionOf(record.kind).isUnionOfFamily !== true ||
      !familyKinds(record.kind).some((each) => each !== record.kind && known.has(keyText(record, each))),
  );
}

function keyText({ kind: own, scope, id }: RecordKey, kind = own): string {
  return `${kind} ${scopeKey(scope)} ${id}`;
}

/**
 * The document with `changesOnce` applied, and the counts that follow.
 * @param both the records of `repeatingKinds` that both sides have, so that unchanged ones are counted once too
 */
export function withoutRepeats(
  document: DiffDocument,
  kinds: readonly Kind[] | undefined,
  both: Iterable<RecordKey> = [],
): DiffDocument {
  const changes = changesOnce(document.changes, kinds);
  const changed = new Set(document.changes.map((change) => keyText(change)));
  const isUnionAsked = kinds?.some((kind) => definitionOf(kind).isUnionOfFamily === true) === true;
  const unchangedTwice = isUnionAsked
    ? 0
    : countRepeats([...both].filter((record) => !changed.has(keyText(record))));
  const repeats = document.changes.length - changes.length + unchangedTwice;
  if (repeats === 0) return document;
  const { collections, records } = document.compared;
  const unchanged = document.summary.unchanged - unchangedTwice;
  const summary = { ...document.summary, added: 0, changed: 0, removed: 0, unchanged };
  for (const { change } of changes) summary[change] += 1;
  return { ...document, compared: { collections, records: records - repeats }, changes, summary };
}
