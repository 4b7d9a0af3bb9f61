/** What differs between the snapshot and the ground in the end, by the one comparison, whatever the ids are now. */
import { CATALOG } from '../catalog/catalog.ts';
import { familyKinds } from '../catalog/families.ts';
import type { Kind } from '../catalog/definition.ts';
import { type JsonValue, isJsonObject } from '../core/json.ts';
import type { ParsedRecord, RecordChange } from '../diff/change.ts';
import { diffSources } from '../diff/sources.ts';
import type { State } from '../diff/states.ts';
import { isForeign, type DrillSnapshot } from './drill-snapshot.ts';
import type { Restored } from './drill-passes.ts';
import { matchStates } from './matching.ts';
import { placeOf } from './record-place.ts';
import { topMember, writableFields } from './writable.ts';

interface Remaining {
  /** Of records asked about, in catalog order. */
  readonly changes: readonly RecordChange[];
  /** By the place of the desired record. */
  readonly byRecord: ReadonlyMap<string, RecordChange>;
}

/**
 * Managed fields, as a restore compares them; whole bodies of the kinds of which none is known to be writable. A kind
 * that only shows another one's records is compared with it, so that of its own view only the presence counts.
 */
export function remainingChanges(snapshot: DrillSnapshot, { input, states }: Restored): Remaining {
  const { definitions } = input;
  const twins = twinsOf(input);
  const from: State = { reference: snapshot.desired.reference, records: snapshot.states };
  const own = new Set(
    input.live.records
      .filter((record) => !isForeign(definitions(record.kind), record))
      .map(({ kind, scope, id }) => placeOf(kind, scope, id)),
  );
  const to: State = {
    reference: input.live.reference,
    records: states.filter(({ kind, scope, id }) => own.has(placeOf(kind, scope, id))),
  };
  const modeOf = (kind: Kind): 'managed' | 'default' =>
    writableFields(definitions(kind)).length > 0 || definitions(kind).family !== null ? 'managed' : 'default';
  const found = (['managed', 'default'] as const).flatMap((mode) => {
    const kinds = new Set(snapshot.kinds.filter((kind) => modeOf(kind) === mode));
    if (kinds.size === 0) return [];
    return [...diffSources(from, to, { mode, definitions, kinds, twins: twins.list }).changes];
  });
  const byRecord = new Map<string, RecordChange>();
  const changes: RecordChange[] = [];
  for (const { kind } of CATALOG) {
    for (const change of found.filter((each) => each.kind === kind)) {
      // What is more on the ground than in the snapshot is no loss: the key's user in an organization without members.
      if (change.change === 'added') continue;
      const desired = change.change === 'removed' ? change : twins.desired(kind, change);
      if (desired === undefined || !snapshot.isAsked({ kind, scope: desired.scope, id: desired.id }))
        continue;
      const own =
        change.change === 'removed' ? change : withoutStrangers(change, twins.desired(kind, change)?.body);
      if (own.change === 'changed' && own.fields.length === 0) continue;
      byRecord.set(placeOf(kind, desired.scope, desired.id), own);
      changes.push(own);
    }
  }
  return { changes, byRecord };
}

/**
 * Without members that only the sandbox shows: which of the documented ones a deployment answers is its own affair, and a
 * snapshot of it cannot tell what they should be.
 */
function withoutStrangers(change: RecordChange, desired: JsonValue | undefined): RecordChange {
  return { ...change, fields: change.fields.filter(({ path }) => !isForeignRecord(desired, path)) };
}

/** True for a place in a member that the desired body does not have. */
export function isForeignRecord(desired: JsonValue | undefined, path: string): boolean {
  return isJsonObject(desired) && !Object.hasOwn(desired, topMember(path));
}

/** The pairs of the plan's own matching: for all kinds of a family, since each of them is compared. */
function twinsOf(input: Restored['input']): {
  list: { kind: Kind; from: string; to: string }[];
  /** The desired record of a live one. */
  desired: (kind: Kind, live: Pick<RecordChange, 'scope' | 'id'>) => ParsedRecord | undefined;
} {
  const list: { kind: Kind; from: string; to: string }[] = [];
  const places = new Map<string, ParsedRecord>();
  for (const { definition, pairs } of matchStates(input).kinds.values()) {
    const kinds = familyKinds(definition.kind);
    for (const { desired, live } of pairs) {
      for (const kind of kinds) {
        list.push({ kind, from: desired.id, to: live.id });
        places.set(placeOf(kind, live.scope, live.id), desired);
      }
    }
  }
  return { list, desired: (kind, { scope, id }) => places.get(placeOf(kind, scope, id)) };
}
