/**
 * A state under the ids that another one knows: a record that a restore created again is the same record, so that a
 * comparison does not report it as removed and added, under any kind that shows it, nor what names it as changed.
 */
import type { Scope, ScopeKey } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { familyKinds } from '../catalog/families.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { replaceValues } from '../core/json.ts';
import { isJsonObject, parseLossless } from '../core/json.ts';
import type { StateReference } from '../diff/change.ts';
import { idText } from '../diff/match-records.ts';
import { compareKeys } from '../diff/order.ts';
import { pointerTo, splitPointer } from '../core/json-pointer.ts';
import type { RecordState } from '../diff/states.ts';
import type { IdMapping } from '../mirror/restores.ts';
import type { StateFilter } from './filter.ts';
import type { Point } from './point.ts';
import type { UnknownRecord, CollectionKey, Coverage, LoadedState } from './state.ts';

/**
 * `state` with the ids of `other` for records that were created again between the two; `state` itself where no such
 * record is in either.
 */
export function stateWithRecreated(
  state: LoadedState,
  other: LoadedState,
  mappings: readonly IdMapping[],
  definitions: (kind: Kind) => ResourceDefinition,
): LoadedState {
  const names = recreatedNames(state, other, mappings);
  return names.size === 0
    ? state
    : new ContinuedState(state, names, new RecreatedReferences(definitions, names));
}

/** `kind id` of records of `state` that were created again between the two, and the id that each has in `other`. */
export function recreatedNames(
  state: LoadedState,
  other: LoadedState,
  mappings: readonly IdMapping[],
): Map<string, string> {
  const names = new Map<string, string>();
  for (const [kind, classes] of sameRecords(mappings)) {
    const ids = [...classes].flat();
    const there = idsIn(other, kind, ids);
    const here = idsIn(state, kind, ids);
    for (const same of classes) {
      const theirs = same.filter((id) => there.has(id));
      const ours = same.filter((id) => here.has(id));
      const [to] = theirs;
      const [from] = ours;
      // Where a state holds two of them they are not one record any more.
      if (theirs.length !== 1 || ours.length !== 1 || from === undefined || to === undefined || from === to)
        continue;
      names.set(`${kind} ${from}`, to);
    }
  }
  return names;
}

/**
 * The parts of a filter under the ids that the other state knows: an earlier id of a record means the same record.
 * `state` is what `continuedState` gave.
 */
export function recreatedParts(state: LoadedState, parts: readonly StateFilter[]): readonly StateFilter[] {
  return state instanceof ContinuedState ? parts.flatMap((part) => state.parts(part)) : parts;
}

/** By kind, the ids that one record has had: for all kinds that show it, whichever it was created through. */
function sameRecords(mappings: readonly IdMapping[]): Map<Kind, Set<string[]>> {
  const classOf = new Map<string, string[]>();
  const classes = new Map<Kind, Set<string[]>>();
  const all = mappings.flatMap(({ kind, oldId, newId }) =>
    familyKinds(kind).map((each) => ({ kind: each, oldId, newId })),
  );
  for (const { kind, oldId, newId } of all) {
    const [one, two] = [oldId, newId].map((id) => classOf.get(`${kind} ${id}`) ?? [id]);
    const merged = [...new Set([...(one ?? []), ...(two ?? [])])];
    const own = classes.get(kind) ?? new Set<string[]>();
    classes.set(kind, own);
    if (one !== undefined) own.delete(one);
    if (two !== undefined) own.delete(two);
    own.add(merged);
    for (const id of merged) classOf.set(`${kind} ${id}`, merged);
  }
  return classes;
}

function idsIn(state: LoadedState, kind: Kind, ids: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { id } of state.records({ kinds: [kind], ids })) found.add(id);
  return found;
}

class ContinuedState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly point: Point | null;
  readonly #state: LoadedState;
  /** `kind id` of the state → the id that it is given. */
  readonly #names: ReadonlyMap<string, string>;
  readonly #back: ReadonlyMap<string, string>;
  readonly #references: RecreatedReferences;

  constructor(state: LoadedState, names: ReadonlyMap<string, string>, references: RecreatedReferences) {
    this.#references = references;
    this.reference = state.reference;
    this.source = state.source;
    this.point = state.point;
    this.#state = state;
    this.#names = names;
    this.#back = new Map(
      [...names].map(([key, to]) => {
        const [kind = '', from = ''] = key.split(' ', 2);
        return [`${kind} ${to}`, from];
      }),
    );
  }

  collections(): readonly CollectionKey[] {
    return this.#state.collections().map(({ kind, scope }) => ({ kind, scope: renamed(scope, this.#names) }));
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    return this.#state.coverage(kind, renamed(scope, this.#back));
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    const spot = this.#state.unknownIn(kind, renamed(scope, this.#back));
    return spot && { ...spot, covers: (id) => spot.covers(this.#back.get(`${kind} ${id}`) ?? id) };
  }

  *records(filter: StateFilter): Generator<RecordState> {
    const moved: RecordState[] = [];
    const kept: RecordState[] = [];
    for (const record of this.#state.records(this.#own(filter))) {
      const id = this.#names.get(`${record.kind} ${record.id}`) ?? record.id;
      // The filter in this state's ids lets records of other kinds through that have such an id.
      if (filter.ids?.includes(id) === false) continue;
      const scope = renamed(record.scope, this.#names);
      const body = this.#references.renamed(record);
      if (id !== record.id || scope !== record.scope) moved.push({ ...record, scope, id, body });
      else kept.push(body === record.body ? record : { ...record, body });
    }
    yield* inOrder(kept, moved.sort(compareKeys));
  }

  /** One part, in as many as there are runs of kinds that take the same ids. */
  parts({ ids, organizations, projects, kinds = KINDS, ...rest }: StateFilter): StateFilter[] {
    const named = (kind: Kind, own: readonly string[]): string[] => [
      ...new Set(own.map((id) => this.#names.get(`${kind} ${id}`) ?? id)),
    ];
    const whole: StateFilter = {
      ...rest,
      ...(organizations === undefined
        ? {}
        : { organizations: named(SCOPE_KIND.organization_id, organizations) }),
      ...(projects === undefined ? {} : { projects: named(SCOPE_KIND.project_id, projects) }),
    };
    if (ids === undefined) return [{ ...whole, kinds }];
    const found: { ids: string[]; kinds: Kind[] }[] = [];
    for (const kind of KINDS.filter((each) => kinds.includes(each))) {
      const own = named(kind, ids);
      const last = found.at(-1);
      if (last !== undefined && last.ids.join(' ') === own.join(' ')) last.kinds.push(kind);
      else found.push({ ids: own, kinds: [kind] });
    }
    return found.map((part) => ({ ...whole, ...part }));
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    const own = this.#own({ organizations }).organizations ?? [];
    return this.#state.projectsOf(own).map((id) => this.#names.get(`projects ${id}`) ?? id);
  }

  close(): void {
    this.#state.close();
  }

  /** A filter that names ids of the other state, in this one's. */
  #own(filter: StateFilter): StateFilter {
    const back = (kind: Kind) => (id: string) => this.#back.get(`${kind} ${id}`) ?? id;
    const { ids, organizations, projects } = filter;
    const kinds = new Set([...this.#back.keys()].map((key) => key.split(' ', 1)[0] as Kind));
    return {
      ...filter,
      ...(ids === undefined
        ? {}
        : { ids: [...new Set([...ids, ...[...kinds].flatMap((kind) => ids.map(back(kind)))])] }),
      ...(organizations === undefined ? {} : { organizations: organizations.map(back('organizations')) }),
      ...(projects === undefined ? {} : { projects: projects.map(back('projects')) }),
    };
  }
}

/** A scope with the ids of parents that have another one there; the same object where no value is renamed. */
export function renamed(scope: Scope, names: ReadonlyMap<string, string>): Scope {
  let result = scope;
  for (const [key, id] of Object.entries(scope) as [ScopeKey, string][]) {
    const to = names.get(`${SCOPE_KIND[key]} ${id}`);
    if (to !== undefined) result = { ...result, [key]: to };
  }
  return result;
}

function* inOrder(kept: readonly RecordState[], moved: readonly RecordState[]): Generator<RecordState> {
  let next = 0;
  for (const record of kept) {
    for (
      let first = moved[next];
      first !== undefined && compareKeys(first, record) < 0;
      first = moved[next]
    ) {
      yield first;
      next += 1;
    }
    yield record;
  }
  yield* moved.slice(next);
}

// What a body says of records that were created again: their ids as another state knows them.

/** A place of a body that holds an id of a kind. */
interface IdPlace {
  /** `*` is any member or element. */
  readonly segments: readonly string[];
  /** The first segment as it is in a body: most bodies of some kinds have no such member. */
  readonly member: string;
  readonly kind: Kind;
}

export class RecreatedReferences {
  readonly #definitions: (kind: Kind) => ResourceDefinition;
  readonly #names: ReadonlyMap<string, string>;
  readonly #renamedKinds: ReadonlySet<Kind>;
  readonly #places = new Map<Kind, readonly IdPlace[]>();

  /** @param names `kind id` → the id that the record has in the other state */
  constructor(definitions: (kind: Kind) => ResourceDefinition, names: ReadonlyMap<string, string>) {
    this.#definitions = definitions;
    this.#names = names;
    this.#renamedKinds = new Set([...names.keys()].map((key) => key.split(' ', 1)[0] as Kind));
  }

  /**
   * The record's body with those ids replaced, and everything else character by character as it is; the same text
   * where it names none of them.
   */
  renamed({ kind, body }: Pick<RecordState, 'kind' | 'body'>): string {
    const places = this.#placesIn(kind).filter(({ member }) => body.includes(member));
    if (places.length === 0) return body;
    return replaceValues(body, (path, text) => {
      const place = places.find(({ segments }) => isAt(segments, path));
      return place === undefined ? null : this.#nameFor(place.kind, text());
    });
  }

  /** An id as the type that stood there: a number stays a number. */
  #nameFor(kind: Kind, text: string): string | null {
    const value = parseLossless(text);
    if (value === null || typeof value === 'boolean' || Array.isArray(value) || isJsonObject(value))
      return null;
    const name = this.#names.get(`${kind} ${idText(value)}`);
    if (name === undefined) return null;
    return typeof value !== 'string' && /^-?(?:0|[1-9]\d*)$/.test(name) ? name : JSON.stringify(name);
  }

  #placesIn(kind: Kind): readonly IdPlace[] {
    const known = this.#places.get(kind);
    if (known !== undefined) return known;
    const places = idPlaces(this.#definitions, kind).filter((place) => this.#renamedKinds.has(place.kind));
    this.#places.set(kind, places);
    return places;
  }
}

/** References, what the service shows of other kinds' records, and the parents by the names of their path parameters. */
function idPlaces(definitions: (kind: Kind) => ResourceDefinition, kind: Kind): IdPlace[] {
  const { references, restore } = definitions(kind);
  const idPointer = (target: Kind): string => pointerTo(definitions(target).idPath);
  const pointers = [
    // What names a record by anything but its id (a name, an address) stays the same when ids change.
    ...references.filter((each) => each.target === idPointer(each.kind)),
    ...restore.derived.flatMap((each) => each.from.map((pointer) => ({ pointer, kind: each.kind }))),
    ...restore.follows.map((each) => ({
      pointer: `${pointerTo([each.field])}/*${idPointer(each.kind)}`,
      kind: each.kind,
    })),
    ...(Object.keys(SCOPE_KIND) as ScopeKey[]).map((key) => ({
      pointer: pointerTo([key]),
      kind: SCOPE_KIND[key],
    })),
  ];
  return pointers.map((each) => {
    const segments = splitPointer(each.pointer);
    return { segments, member: JSON.stringify(segments[0] ?? ''), kind: each.kind };
  });
}

function isAt(segments: readonly string[], path: readonly string[]): boolean {
  return (
    segments.length === path.length && segments.every((segment, n) => segment === '*' || segment === path[n])
  );
}
