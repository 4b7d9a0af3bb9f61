/** The id map (`RecreatedIds`) applied to states: which records of two are the same, and how their bodies name each other. */
import type { ScopeKey } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { isAt, pointerTo, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { isJsonObject, type JsonValue, parseLossless, replaceValues } from '../core/json.ts';
import { elementIdText, elementSegment, isElementSegment } from '../diff/elements.ts';
import { idText, MatchedIds } from '../diff/match-records.ts';
import type { RecordState } from '../diff/states.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { IdMapping } from '../mirror/restores.ts';
import type { LoadedState } from './state.ts';

/** Records of FROM that have another id in TO. Where a state holds two of the ids, they are not one record any more. */
export function matchedIds(recreated: RecreatedIds, from: LoadedState, to: LoadedState): MatchedIds {
  const matched = new MatchedIds();
  for (const [kind, same] of recreated.groups) {
    const [here, there] = [idsIn(from, kind, [...same.keys()]), idsIn(to, kind, [...same.keys()])];
    for (const ids of new Set(same.values())) {
      const [ours, ...moreOurs] = ids.filter((id) => here.has(id));
      const [theirs, ...moreTheirs] = ids.filter((id) => there.has(id));
      const isOne = moreOurs.length === 0 && moreTheirs.length === 0;
      if (isOne && ours !== undefined && theirs !== undefined && ours !== theirs)
        matched.pair(kind, ours, theirs);
    }
  }
  return matched;
}

/**
 * By all ids that records had, the id by which a comparison of the two states shows them: TO's, of what TO has not FROM's. An id that
 * shares a state with another one of its group names a record of its own, and stays.
 */
export function shownIds(recreated: RecreatedIds, from: LoadedState, to: LoadedState): MatchedIds {
  const shown = new MatchedIds();
  for (const [kind, same] of recreated.groups) {
    const [here, there] = [idsIn(from, kind, [...same.keys()]), idsIn(to, kind, [...same.keys()])];
    for (const ids of new Set(same.values())) {
      const [ours, theirs] = [ids.filter((id) => here.has(id)), ids.filter((id) => there.has(id))];
      const id = theirs[0] ?? ours[0];
      if (id === undefined || ours.length > 1 || theirs.length > 1) continue;
      for (const each of ids) if (each !== id) shown.pair(kind, each, id);
    }
  }
  return shown;
}

function idsIn(state: LoadedState, kind: Kind, ids: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { id } of state.keys?.({ kinds: [kind], ids }) ?? state.records({ kinds: [kind], ids }))
    found.add(id);
  return found;
}

/** The latest id of a record that got another one; for a plan's `idMap`. */
export function idLookup(mappings: readonly IdMapping[]): (kind: Kind, id: string) => string | undefined {
  const ids = new RecreatedIds(mappings);
  return (kind, id) => ids.latest(kind, id);
}

/** Each id that a record had with the latest one that restores up to this one gave it. */
export function latestIds(mappings: readonly IdMapping[], restore: number): MatchedIds {
  const recreated = new RecreatedIds(mappings.filter((mapping) => mapping.restore <= restore));
  const matched = new MatchedIds();
  for (const [kind, same] of recreated.groups)
    for (const id of same.keys()) {
      const latest = recreated.latest(kind, id);
      if (latest !== undefined) matched.pair(kind, id, latest);
    }
  return matched;
}

/** By all ids that records had, those that they had before each of the restores that gave some another one; the latest first. */
export function idsBefore(mappings: readonly IdMapping[]): MatchedIds[] {
  const { groups } = new RecreatedIds(mappings);
  const restores = [...new Set(mappings.map(({ restore }) => restore))].sort((a, b) => b - a);
  return restores.map((restore) => {
    const earlier = new RecreatedIds(mappings.filter((mapping) => mapping.restore < restore));
    const matched = new MatchedIds();
    for (const [kind, same] of groups)
      for (const ids of new Set(same.values())) {
        const given = ids.find((id) => earlier.givenBy(kind, id) !== undefined);
        // Before the first restore that concerned it, a record had the id that none gave.
        const then = given === undefined ? ids[0] : (earlier.latest(kind, given) ?? given);
        for (const id of ids) if (then !== undefined && id !== then) matched.pair(kind, id, then);
      }
    return matched;
  });
}

/** The ids with those that the same records had or got by being created again; the given ones first. */
export function withMappedIds(kind: Kind, ids: readonly string[], mappings: readonly IdMapping[]): string[] {
  const recreated = new RecreatedIds(mappings);
  return [...new Set([...ids, ...ids.flatMap((id) => recreated.all(kind, id))])];
}

/**
 * Which of the requested ids name a record: its own, and those that it had before or got by being created again. Empty
 * if the record was not requested.
 */
export function idChoice(
  ids: readonly string[],
  mappings: readonly IdMapping[],
): (record: { readonly kind: Kind; readonly id: string }) => readonly string[] {
  const recreated = new RecreatedIds(mappings);
  const asked = new Set(ids);
  return ({ kind, id }) => recreated.all(kind, id).filter((each) => asked.has(each));
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
  readonly #ids: MatchedIds;
  readonly #places = new Map<Kind, readonly IdPlace[]>();

  constructor(definitions: (kind: Kind) => ResourceDefinition, ids: MatchedIds) {
    this.#definitions = definitions;
    this.#ids = ids;
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

  /** A value of such a record with those ids replaced. @param pointer where it is in the record */
  renamedValue(kind: Kind, pointer: string, value: JsonValue): JsonValue {
    const segments = splitPointer(pointer);
    const text = nested(segments, JSON.stringify(value));
    const renamed = this.renamed({ kind, body: text });
    if (renamed === text) return value;
    return resolvePointer(parseLossless(renamed), pointer) ?? value;
  }

  /** A place with those ids replaced where it names elements by them. */
  renamedPlace(kind: Kind, path: string): string {
    if (!path.includes('/[id=')) return path;
    const segments = splitPointer(path);
    return pointerTo(
      segments.map((segment, index) => {
        if (!isElementSegment(segment)) return segment;
        const place = segments.slice(0, index + 1);
        const id = `{"id":${elementIdText(segment)}}`;
        const renamed = this.renamed({ kind, body: nested(place, id) });
        return elementSegment(resolvePointer(parseLossless(renamed), pointerTo(place)));
      }),
    );
  }

  /** An id as the type that was there: a number stays a number. */
  #nameFor(kind: Kind, text: string): string | null {
    const value = parseLossless(text);
    if (value === null || typeof value === 'boolean' || Array.isArray(value) || isJsonObject(value))
      return null;
    const name = this.#ids.counterpart(kind, idText(value));
    if (name === undefined) return null;
    return typeof value !== 'string' && /^-?(?:0|[1-9]\d*)$/.test(name) ? name : JSON.stringify(name);
  }

  #placesIn(kind: Kind): readonly IdPlace[] {
    const known = this.#places.get(kind);
    if (known !== undefined) return known;
    const { kinds } = this.#ids;
    const places = idPlaces(this.#definitions, kind).filter((place) => kinds.includes(place.kind));
    this.#places.set(kind, places);
    return places;
  }
}

/** A body that has only this value, at this place. */
function nested(segments: readonly string[], text: string): string {
  return segments.reduceRight((inner, segment) => `{${JSON.stringify(segment)}:${inner}}`, text);
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
