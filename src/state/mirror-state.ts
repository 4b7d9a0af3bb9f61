/** The state of a source as of a published run of the mirror. */
import { definitionOf } from '../catalog/catalog.ts';
import { collectionKey } from '../catalog/collection-key.ts';
import { type Kind, type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { StateReference } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import type { RecordState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import type { StateFilter } from './filter.ts';
import type { Point } from './point.ts';
import { projectsIn } from './projects.ts';
import type { UnknownRecord, CollectionKey, Coverage, LoadedState } from './state.ts';
import { type SeenCollection, sweepsAsOf } from './sweeps-as-of.ts';

/** Opens the state; the mirror has to stay open as long as it is used. Closing the state leaves it open. */
export function openMirrorState(mirror: Mirror, source: string, point: Point): LoadedState {
  return new MirrorState(mirror, source, point);
}

/** Parents that are looked up one by one; beyond, all of a collection are read at once. */
const LOOKED_UP = 500;

class MirrorState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string;
  readonly point: Point;
  readonly #mirror: Mirror;
  /** Read when first asked for: who only reads records needs none of it. */
  #seenByKey: ReadonlyMap<string, SeenCollection> | undefined;
  #idByKey: ReadonlyMap<string, number> | undefined;

  constructor(mirror: Mirror, source: string, point: Point) {
    this.#mirror = mirror;
    this.source = source;
    this.point = point;
    const { ref, run, at, forgotten } = point;
    this.reference = { ref, run, at, ...(forgotten === undefined ? {} : { forgotten }) };
  }

  get #seen(): ReadonlyMap<string, SeenCollection> {
    this.#seenByKey ??= new Map(
      sweepsAsOf(this.#mirror, this.source, this.point.run).map((seen) => [collectionKey(seen), seen]),
    );
    return this.#seenByKey;
  }

  collections(): readonly CollectionKey[] {
    return [...this.#seen.values()];
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    const seen = this.#seen.get(collectionKey({ kind, scope }));
    if (seen === undefined || seen.lastRun === null) {
      // No sweep of it up to this run: either it was not there yet, or nobody looked, or retention dropped the row.
      if (this.#hasAny({ kinds: [kind] }, scope)) {
        return {
          how: 'read',
          stale: `no reading of it up to run ${this.point.run} is known`,
          isPartial: true,
        };
      }
      if (!this.#isParentKnown(scope)) return { how: 'absent' };
      return { how: 'unread', reason: `the mirror had not read it by run ${this.point.run}`, code: null };
    }
    const { wasRead, outcome, error, errorCode, lastRun, readRun, completeRun } = seen;
    const why = `${outcome ?? 'not read'} in run ${lastRun}${error === null ? '' : `: ${error}`}`;
    if (!wasRead && !this.#hasAny({ kinds: [kind] }, scope)) {
      return { how: 'unread', reason: `the mirror never read it (${why})`, code: errorCode };
    }
    if (outcome === 'complete') return { how: 'read' };
    if (completeRun === null && definitionOf(kind).reading !== 'each') {
      return { how: 'read', stale: `${why}; no run had read it whole before`, isPartial: true };
    }
    const since = readRun === null || readRun === lastRun ? '' : `; compared as of run ${readRun}`;
    return { how: 'read', stale: `${why}${since}` };
  }

  wasReadWhole(kind: Kind, scope: Scope): boolean {
    this.#idByKey ??= new Map(
      this.#mirror.collectionsOf(this.source).map((row) => [collectionKey(row), row.id]),
    );
    const id = this.#idByKey.get(collectionKey({ kind, scope }));
    return id !== undefined && this.#mirror.lastFullLook(id, this.point.run + 1) !== undefined;
  }

  blindSpot(kind: Kind, scope: Scope): UnknownRecord | null {
    const { reading, discovery } = definitionOf(kind);
    if (reading !== 'each' || discovery.from === 'root') {
      const coverage = this.coverage(kind, scope);
      if (coverage.how !== 'read' || coverage.isPartial !== true) return null;
      return {
        covers: () => true,
        reason: `perhaps there as well: run ${this.point.run} had not read all of it`,
        isUnproven: true,
      };
    }
    if (this.point.isLatest) {
      const unchecked = new Set(this.#mirror.uncheckedParents(this.source, kind, scope));
      return { covers: (id) => unchecked.has(id), reason: 'not read into the mirror yet' };
    }
    // Which parents had been asked for by then is not kept: one without a record may only not have had its turn.
    const parent = discovery.from;
    let asked = 0;
    let all: ReadonlySet<string> | null = null;
    return {
      covers: (id) => {
        asked += 1;
        if (asked > LOOKED_UP && all === null) all = this.#idsOf(parent, scope);
        return all?.has(id) ?? this.#hasAny({ kinds: [parent], ids: [id] }, scope);
      },
      reason: `perhaps not read yet by run ${this.point.run}; --kind ${kind} shows them`,
      isGuess: true,
    };
  }

  #idsOf(kind: Kind, scope: Scope): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const { id } of this.keys({ kinds: [kind], scope })) ids.add(id);
    return ids;
  }

  *records(filter: StateFilter): Generator<RecordState> {
    for (const { kind, scope, id, body } of this.#read(filter)) yield { kind, scope, id, body };
  }

  keys(filter: StateFilter & { readonly scope?: Scope }): Iterable<RecordKey> {
    return this.#mirror.readKeysAt(this.point.run, { ...filter, sources: [this.source] });
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return projectsIn((filter) => this.records(filter), organizations);
  }

  close(): void {
    // The mirror is the caller's.
  }

  #read(filter: StateFilter & { readonly scope?: Scope }): Iterable<MirrorRecord> {
    // Also for the latest run: another one may be published while this state is being read.
    return this.#mirror.readRecordsAt(this.point.run, { ...filter, sources: [this.source] });
  }

  #hasAny(filter: StateFilter, scope: Scope): boolean {
    for (const _record of this.#read({ ...filter, scope })) return true;
    return false;
  }

  /** False where the innermost parent was not there; true also where the mirror could not know. */
  #isParentKnown(scope: Scope): boolean {
    const key = SCOPE_KEYS.findLast((each) => scope[each] !== undefined);
    const id = key === undefined ? undefined : scope[key];
    if (key === undefined || id === undefined) return true;
    const kind = SCOPE_KIND[key];
    for (const _parent of this.records({ kinds: [kind], ids: [id] })) return true;
    // The parent's own collection, as far as the scope tells which one that is: others of its kind say nothing of it.
    const own = definitionOf(kind).scope;
    const known = [...this.#seen.values()].filter((seen) => seen.kind === kind && seen.wasRead);
    if (known.some((seen) => own.every((each) => !(each in scope) || seen.scope[each] === scope[each])))
      return false;
    // Nobody read it where its own parent was not there either.
    const above = Object.fromEntries(own.map((each) => [each, scope[each]]));
    return own.some((each) => scope[each] === undefined) || this.#isParentKnown(above);
  }
}
