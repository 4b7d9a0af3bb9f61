/** What differs between the snapshot and the ground in the end, by the one comparison, whatever the ids are now. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import type { RecordChange } from '../diff/change.ts';
import { diffSources } from '../diff/sources.ts';
import type { State } from '../diff/states.ts';
import { isForeign } from './drill-snapshot.ts';
import type { DrillSnapshot } from './drill-snapshot.ts';
import type { Restored } from './drill-passes.ts';
import { matchStates } from './matching.ts';
import { placeOf } from './record-place.ts';
import { writableFields } from './writable.ts';

export interface Remaining {
  /** Of records asked about, in catalog order. */
  readonly changes: readonly RecordChange[];
  /** By the place of the desired record. */
  readonly byRecord: ReadonlyMap<string, RecordChange>;
}

/** Managed fields, as a restore compares them; whole bodies of the kinds of which none is known to be writable. */
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
  const isOpen = (kind: Kind): boolean => writableFields(definitions(kind)).length > 0;
  const found = (['managed', 'default'] as const).flatMap((mode) => {
    const kinds = new Set(snapshot.kinds.filter((kind) => isOpen(kind) === (mode === 'managed')));
    if (kinds.size === 0) return [];
    return [...diffSources(from, to, { mode, definitions, kinds, twins: twins.list }).changes];
  });
  const byRecord = new Map<string, RecordChange>();
  const changes: RecordChange[] = [];
  for (const { kind } of CATALOG) {
    for (const change of found.filter((each) => each.kind === kind)) {
      // What is more on the ground than in the snapshot is no loss: the key's user in an organization without members.
      if (change.change === 'added') continue;
      const place = placeOf(kind, change.scope, change.id);
      const desired = change.change === 'removed' ? place : twins.desiredPlace(place);
      if (desired === undefined || !snapshot.isAsked({ kind, ...desiredKey(change, desired) })) continue;
      byRecord.set(desired, change);
      changes.push(change);
    }
  }
  return { changes, byRecord };
}

/** Scope and id of the desired record, from its place. */
function desiredKey(change: RecordChange, place: string): Pick<RecordChange, 'scope' | 'id'> {
  const [, organization = '', project = '', role = '', id = change.id] = place.split('\0');
  return {
    id,
    scope: {
      ...(organization === '' ? {} : { organization_id: organization }),
      ...(project === '' ? {} : { project_id: project }),
      ...(role === '' ? {} : { role_id: role }),
    },
  };
}

/** The pairs of the plan's own matching: for all kinds of a family, since each of them is compared. */
function twinsOf(input: Restored['input']): {
  list: { kind: Kind; from: string; to: string }[];
  desiredPlace: (livePlace: string) => string | undefined;
} {
  const list: { kind: Kind; from: string; to: string }[] = [];
  const places = new Map<string, string>();
  for (const { definition, pairs } of matchStates(input).kinds.values()) {
    const kinds =
      definition.family === null
        ? [definition.kind]
        : CATALOG.filter(({ family }) => family === definition.family).map(({ kind }) => kind);
    for (const { desired, live } of pairs) {
      for (const kind of kinds) {
        list.push({ kind, from: desired.id, to: live.id });
        places.set(placeOf(kind, live.scope, live.id), placeOf(kind, desired.scope, desired.id));
      }
    }
  }
  return { list, desiredPlace: (place) => places.get(place) };
}
