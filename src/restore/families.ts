/** Kinds that show the same record (wire-notes.md, Lists): each record is planned once, through one of them. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import type { ParsedRecord } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import type { PlanState } from './plan.ts';
import { writableFields } from './unmanaged-settings.ts';

interface SingleStates {
  readonly desired: readonly ParsedRecord[];
  readonly live: readonly ParsedRecord[];
  /** The kind under which a desired record was kept, where it is planned as another one. */
  readonly kindOf: ReadonlyMap<ParsedRecord, Kind>;
}

/**
 * The records of both states, each family's record once: under the first kind that can be written, of those under which
 * both states show it, else live, else the desired one.
 */
export function onePerFamily(
  desired: PlanState,
  live: PlanState,
  definitions: (kind: Kind) => ResourceDefinition,
): SingleStates {
  const inDesired = byFamilyKey(desired.records, definitions);
  const inLive = byFamilyKey(live.records, definitions);
  const kindOf = new Map<ParsedRecord, Kind>();
  const kindFor = (key: string): Kind | undefined => {
    const shown = [inDesired, inLive].map((side) => new Set(side.get(key)?.map(({ kind }) => kind)));
    const [wanted = new Set<Kind>(), there = new Set<Kind>()] = shown;
    const both = wanted.intersection(there);
    const choice = both.size > 0 ? both : there.size > 0 ? there : wanted;
    const kinds = CATALOG.map(({ kind }) => kind).filter((kind) => choice.has(kind));
    return kinds.find((kind) => writableFields(definitions(kind)).length > 0) ?? kinds[0];
  };
  const single = (
    records: readonly ParsedRecord[],
    families: ReadonlyMap<string, readonly ParsedRecord[]>,
  ): ParsedRecord[] => {
    const kept = records.filter((record) => definitions(record.kind).family === null);
    for (const [key, same] of families) {
      const kind = kindFor(key);
      const record = same.find((each) => each.kind === kind) ?? same[0];
      if (record === undefined || kind === undefined) continue;
      const planned = record.kind === kind ? record : { ...record, kind };
      if (planned !== record) kindOf.set(planned, record.kind);
      kept.push(planned);
    }
    return kept;
  };
  return { desired: single(desired.records, inDesired), live: single(live.records, inLive), kindOf };
}

/**
 * For any record of the family, the kinds under which it is shown in these records: what is asked for by one of them is
 * meant, whichever kind it is planned as. Only its own kind where it has no family.
 */
export function shownKinds(
  records: Iterable<ParsedRecord>,
  definitions: (kind: Kind) => ResourceDefinition,
): (record: RecordKey) => Iterable<Kind> {
  const shown = new Map<string, Set<Kind>>();
  for (const record of records) {
    const { kind } = record;
    const { family } = definitions(kind);
    if (family === null) continue;
    const key = familyKey(family, record);
    const kinds = shown.get(key);
    if (kinds === undefined) shown.set(key, new Set([kind]));
    else kinds.add(kind);
  }
  return (record) => {
    const { family } = definitions(record.kind);
    return (family === null ? undefined : shown.get(familyKey(family, record))) ?? [record.kind];
  };
}

function familyKey(family: string, { scope, id }: RecordKey): string {
  return `${family} ${scopeKey(scope)} ${id}`;
}

function byFamilyKey(
  records: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): Map<string, ParsedRecord[]> {
  const families = new Map<string, ParsedRecord[]>();
  for (const record of records) {
    const { family } = definitions(record.kind);
    if (family === null) continue;
    const key = familyKey(family, record);
    const same = families.get(key);
    if (same === undefined) families.set(key, [record]);
    else same.push(record);
  }
  return families;
}
