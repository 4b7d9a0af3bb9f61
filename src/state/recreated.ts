/**
 * Records that were created again between two runs of one source: the changes show each as one record under its new id,
 * as a diff of the two runs does, not as one removed and one added. The cost is proportional to the number of changes.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { definitionOf } from '../catalog/catalog.ts';
import { collectionKey } from '../catalog/collection-key.ts';
import { familyKinds } from '../catalog/families.ts';
import type { Recreated, RecordChange } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import type { ChangedRecord } from '../mirror/changes-between.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { IdMapping } from '../mirror/restores.ts';
import { RecreatedReferences } from './recreated-state.ts';
import { recreatedNames, renamed } from './recreated-state.ts';
import { openMirrorState } from './mirror-diff.ts';
import type { RunPoint } from './mirror-diff.ts';

/** How many records of a kind one restore created again, as a run saw them. */
export interface RecreatedCount {
  readonly kind: Kind;
  readonly restore: number;
  readonly records: number;
}

/** Records that restores gave new ids, by their new id. */
export class RecreatedIds {
  readonly #mirror: Pick<Mirror, 'restores'>;
  readonly #byNew = new Map<string, IdMapping>();
  readonly #created = new Map<number, ReadonlySet<string>>();

  constructor(mirror: Pick<Mirror, 'restores'>, mappings: readonly IdMapping[]) {
    this.#mirror = mirror;
    // Oldest first: the last restore that gave an id is the one that it goes back to.
    for (const mapping of mappings)
      for (const kind of familyKinds(mapping.kind)) this.#byNew.set(`${kind} ${mapping.newId}`, mapping);
  }

  /** Undefined for an id that no restore created. `was`: the previous id, if known better than from the last restore. */
  recreationOf(kind: Kind, id: string, was?: string): Recreated | undefined {
    const mapping = this.#byNew.get(`${kind} ${id}`);
    if (mapping === undefined) return undefined;
    const { restore, oldId } = mapping;
    const isCreated = this.#createdBy(restore).has(id);
    return { was: was ?? oldId, restore, ...(isCreated ? {} : { is_recognised: true as const }) };
  }

  #createdBy(restore: number): ReadonlySet<string> {
    let ids = this.#created.get(restore);
    if (ids === undefined) {
      ids = new Set(this.#mirror.restores.steps(restore).flatMap(({ newId }) => newId ?? []));
      this.#created.set(restore, ids);
    }
    return ids;
  }
}

/** How many of a run's added and removed records were created again since the run before it. */
export function recreatedIn(
  mirror: Mirror,
  { from, to }: { readonly from: RunRow; readonly to: RunRow },
): RecreatedCount[] {
  // Counted by ids only, for which the definitions make no difference.
  return RecreatedBetween.runs(mirror, { from, to }, definitionOf).counts();
}

/** Records created again between two published runs of the same source. */
export class RecreatedBetween {
  readonly #newIds: RecreatedIds;
  /** `kind id` before → the id after. */
  readonly #names: ReadonlyMap<string, string>;
  /** `kind id` after → the id before. */
  readonly #back: ReadonlyMap<string, string>;
  readonly #references: RecreatedReferences;

  constructor(
    mirror: Mirror,
    source: string,
    runs: {
      readonly from: RunPoint;
      readonly to: RunPoint;
      /** True where it is known that no record was created again. */
      readonly isNone?: boolean;
    },
    definitions: (kind: Kind) => ResourceDefinition,
  ) {
    const mappings = mirror.restores.idMap(source);
    const stateAt = ({ ref, run, at = '' }: RunPoint): ReturnType<typeof openMirrorState> =>
      openMirrorState(mirror, source, { ref, run, at, isLatest: false });
    this.#newIds = new RecreatedIds(mirror, mappings);
    this.#names =
      mappings.length === 0 || runs.isNone === true
        ? new Map<string, string>()
        : recreatedNames(stateAt(runs.from), stateAt(runs.to), mappings);
    this.#back = new Map(
      [...this.#names].map(([name, to]) => {
        const [kind, from] = kindAndId(name);
        return [`${kind} ${to}`, from];
      }),
    );
    this.#references = new RecreatedReferences(definitions, this.#names);
  }

  /** From a published run to the next one of its source. */
  static runs(
    mirror: Mirror,
    { from, to }: { readonly from: RunRow; readonly to: RunRow },
    definitions: (kind: Kind) => ResourceDefinition,
  ): RecreatedBetween {
    // Its own counts do not include runs that retention merged into it.
    const isNone =
      (to.added === 0 || to.removed === 0) && mirror.retention.forgottenBefore(to.run) === undefined;
    const runs = { from: { ref: '', run: from.run }, to: { ref: '', run: to.run }, isNone };
    return new RecreatedBetween(mirror, to.source, runs, definitions);
  }

  /** The filter with both ids of a recreated record, where it names one of them. */
  widened(filter: RecordFilter): RecordFilter {
    if (this.#names.size === 0) return filter;
    const both = (asked: readonly string[], isOf: (kind: Kind) => boolean): string[] => {
      const others = [...this.#names].flatMap(([name, to]) => {
        const [kind, from] = kindAndId(name);
        return isOf(kind) && (asked.includes(from) || asked.includes(to)) ? [from, to] : [];
      });
      return [...new Set([...asked, ...others])];
    };
    const { ids, organizations, projects } = filter;
    return {
      ...filter,
      ...(ids === undefined ? {} : { ids: both(ids, () => true) }),
      ...(organizations === undefined
        ? {}
        : { organizations: both(organizations, (kind) => kind === 'organizations') }),
      ...(projects === undefined ? {} : { projects: both(projects, (kind) => kind === 'projects') }),
    };
  }

  /**
   * The changes, with the two of a recreated record joined (these come last) and with references to recreated records by
   * their new ids. `filter` as the user gave it; the changes are those that the `widened` filter selects.
   */
  *joined(changes: Iterable<ChangedRecord>, filter: RecordFilter): Generator<ChangedRecord> {
    if (this.#names.size === 0) {
      yield* changes;
      return;
    }
    const left = new Map<string, { readonly own: ChangedRecord; readonly later: RecordKey }>();
    const came = new Map<string, ChangedRecord>();
    for (const change of changes) {
      if (!this.#isAsked(change, filter)) continue;
      const { kind, id, before, after } = change;
      const later = {
        kind,
        scope: renamed(change.scope, this.#names),
        id: this.#names.get(`${kind} ${id}`) ?? id,
      };
      const isMoved = later.id !== id || later.scope !== change.scope;
      if (isMoved && after === undefined) left.set(keyText(later), { own: change, later });
      else if (before === undefined && this.#isNewId(change)) came.set(keyText(change), change);
      else
        yield before === undefined
          ? change
          : { ...change, before: this.#references.renamed({ kind, body: before }) };
    }
    for (const [key, { own, later }] of left) {
      const now = came.get(key);
      came.delete(key);
      const { kind, before } = own;
      if (now === undefined || before === undefined) yield own;
      else yield { ...now, ...later, before: this.#references.renamed({ kind, body: before }) };
    }
    yield* came.values();
  }

  /** The body of a record as of the first run, with its references by the ids of the second. */
  withNewIds(record: { readonly kind: Kind; readonly body: string }): string {
    return this.#references.renamed(record);
  }

  /** The change with `created_again`, if a restore created the record again. */
  withRecreation(change: RecordChange): RecordChange {
    if (change.change === 'removed') return change;
    const was = this.#back.get(`${change.kind} ${change.id}`);
    if (change.change === 'changed' && was === undefined) return change;
    const again = this.#newIds.recreationOf(change.kind, change.id, was);
    return again === undefined ? change : { ...change, created_again: again };
  }

  /** By kind and restore: recreated records, which the run itself counts as removed and added. */
  counts(): RecreatedCount[] {
    const found = new Map<string, RecreatedCount>();
    for (const [name, id] of this.#names) {
      const [kind, was] = kindAndId(name);
      const restore = this.#newIds.recreationOf(kind, id, was)?.restore;
      if (restore === undefined) continue;
      const key = `${kind} ${restore}`;
      found.set(key, { kind, restore, records: (found.get(key)?.records ?? 0) + 1 });
    }
    return [...found.values()];
  }

  #isNewId({ kind, scope, id }: RecordKey): boolean {
    return this.#back.has(`${kind} ${id}`) || renamed(scope, this.#back) !== scope;
  }

  #isAsked({ kind, id }: RecordKey, { ids }: RecordFilter): boolean {
    if (ids === undefined) return true;
    const other = this.#names.get(`${kind} ${id}`) ?? this.#back.get(`${kind} ${id}`);
    return ids.includes(id) || (other !== undefined && ids.includes(other));
  }
}

function kindAndId(name: string): [Kind, string] {
  const space = name.indexOf(' ');
  return [name.slice(0, space) as Kind, name.slice(space + 1)];
}

function keyText({ kind, scope, id }: RecordKey): string {
  return JSON.stringify([collectionKey({ kind, scope }), id]);
}
