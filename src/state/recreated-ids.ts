/** The id map (`RecreatedIds`) applied to states: which records of two states are the same, and how bodies refer to them. */
import { familyKinds } from '../catalog/catalog.ts';
import type { ScopeKey } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { cached } from '../core/cached.ts';
import { isAt, pointerTo, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { isJsonObject, type JsonValue, parseLossless, replaceValues } from '../core/json.ts';
import { elementIdText, elementSegment, isElementSegment } from '../diff/elements.ts';
import { idText, MatchedIds } from '../diff/match-records.ts';
import type { RecordState } from '../diff/states.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { keysOf } from './filter.ts';
import type { LoadedState } from './state.ts';

/** Records of FROM that have another id in TO. If a state has two of the ids, they are no longer one record. */
export function matchedIds(recreated: RecreatedIds, from: LoadedState, to: LoadedState): MatchedIds {
  const matched = new MatchedIds();
  for (const { kind, ours, theirs } of soleIds(recreated, from, to))
    if (ours !== undefined && theirs !== undefined && ours !== theirs) matched.pair(kind, ours, theirs);
  return matched;
}

/**
 * Maps every id that the records had to the id under which a comparison shows them: that of TO or, if TO does not have the
 * record, that of FROM.
 */
export function shownIds(records: readonly SoleIds[]): MatchedIds {
  const shown = new MatchedIds();
  for (const { kind, ids, ours, theirs } of records) {
    const id = theirs ?? ours;
    if (id === undefined) continue;
    for (const each of ids) if (each !== id) shown.pair(kind, each, id);
  }
  return shown;
}

/** A record that had several ids, of which each state has at most one. */
interface SoleIds {
  readonly kind: Kind;
  readonly ids: readonly string[];
  /** The id in FROM. */
  readonly ours: string | undefined;
  /** The id in TO. */
  readonly theirs: string | undefined;
}

/**
 * Records that had several ids, without those of which a state has two: they are no longer one record. For a kind that was
 * not read live, the latest id is taken.
 */
export function soleIds(recreated: RecreatedIds, from: LoadedState, to: LoadedState): SoleIds[] {
  const found: SoleIds[] = [];
  for (const [kind, same] of recreated.groups) {
    const [here, there] = [idsIn(from, kind, [...same.keys()]), idsIn(to, kind, [...same.keys()])];
    for (const ids of new Set(same.values())) {
      const latest = (ids[0] && recreated.latest(kind, ids[0])) ?? '';
      const by = recreated.givenBy(kind, latest);
      // References to the record may have been read. If the other state is newer than the id, an earlier id may have returned.
      const unasked = (state: LoadedState, { reference: { at = '' } }: LoadedState): string | undefined =>
        by !== undefined &&
        at <= by.at &&
        state.reference.ref === 'live' &&
        state.coverage(kind, by.newScope).how === 'left_out'
          ? latest
          : undefined;
      const [ours = unasked(from, to), ...moreOurs] = ids.filter((id) => here.has(id));
      const [theirs = unasked(to, from), ...moreTheirs] = ids.filter((id) => there.has(id));
      if (moreOurs.length === 0 && moreTheirs.length === 0) found.push({ kind, ids, ours, theirs });
    }
  }
  return found;
}

/** Which of these ids the state has. */
export function idsIn(state: LoadedState, kind: Kind, ids: readonly string[]): ReadonlySet<string> {
  return new Set(Iterator.from(keysOf(state, { kinds: [kind], ids })).map(({ id }) => id));
}

/** Returns the latest id of a record that got another one; for the `idMap` of a plan. */
export function idLookup(mappings: readonly IdMapping[]): (kind: Kind, id: string) => string | undefined {
  const ids = new RecreatedIds(mappings);
  return (kind, id) => ids.latest(kind, id);
}

/** Maps each id that a record had to the latest one that it got from restores up to this one. */
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

/** The ids that restores gave a record. */
interface IdHistory {
  readonly kind: Kind;
  /** The restores that gave it an id, in their order, with its id before. */
  readonly restores: { readonly restore: number; readonly before: string }[];
  /** By id, the last restore that gave it. */
  readonly givenBy: Map<string, number>;
  /** The latest id. */
  now?: string;
}

/** The ids that records had before restores gave them other ones, for records of `soleIds`. */
export class IdHistories {
  readonly #histories = new Map<Kind, Map<string, IdHistory>>();

  constructor(mappings: readonly IdMapping[], records: readonly SoleIds[]) {
    for (const { kind, ids } of records) {
      const history: IdHistory = { kind, restores: [], givenBy: new Map() };
      const known = this.#histories.get(kind) ?? new Map<string, IdHistory>();
      this.#histories.set(kind, known);
      for (const id of ids) known.set(id, history);
    }
    for (const { kind: ofKind, restore, oldId, newId } of mappings)
      for (const kind of familyKinds(ofKind)) {
        const history = this.#histories.get(kind)?.get(oldId);
        if (history === undefined) continue;
        if (history.restores.at(-1)?.restore !== restore)
          history.restores.push({ restore, before: history.now ?? oldId });
        history.givenBy.set(newId, restore);
        history.now = newId;
      }
  }

  /**
   * For each restore that gave one of the records another id, the latest first: maps their later ids to those before it.
   * @param ask looks up the ids of the records in question; each look-up returns the same id
   */
  before(ask: (ids: MatchedIds) => void): MatchedIds[] {
    const asked = new AskedIds(this.#histories);
    ask(asked);
    const histories = [...asked.found];
    const numbers = new Set(histories.flatMap(({ restores }) => restores.map(({ restore }) => restore)));
    return [...numbers]
      .sort((a, b) => b - a)
      .map((number) => {
        const then = new MatchedIds();
        for (const { kind, restores, givenBy } of histories) {
          const before = restores.find(({ restore }) => restore >= number)?.before;
          // Only later ids: an acceptance under a later id is not about a reference by an earlier one.
          for (const [id, restore] of givenBy)
            if (before !== undefined && restore >= number && id !== before) then.pair(kind, id, before);
        }
        return then;
      });
  }
}

/** Maps no id; records which records were asked for. */
class AskedIds extends MatchedIds {
  readonly found = new Set<IdHistory>();
  readonly #histories: ReadonlyMap<Kind, ReadonlyMap<string, IdHistory>>;

  constructor(histories: ReadonlyMap<Kind, ReadonlyMap<string, IdHistory>>) {
    super();
    this.#histories = histories;
  }

  override get kinds(): readonly Kind[] {
    return [...this.#histories.keys()];
  }

  override counterpart(kind: Kind, id: string): undefined {
    const history = this.#histories.get(kind)?.get(id);
    if (history !== undefined) this.found.add(history);
  }
}

/** The ids, and after them those that the same records had or got when they were recreated. */
export function withMappedIds(kind: Kind, ids: readonly string[], mappings: readonly IdMapping[]): string[] {
  const recreated = new RecreatedIds(mappings);
  return [...new Set([...ids, ...ids.flatMap((id) => recreated.all(kind, id))])];
}

/** Returns the requested ids that name a record, whether it has them now, had them, or got them when it was recreated. */
export function idChoice(
  ids: readonly string[],
  mappings: readonly IdMapping[],
): (record: { readonly kind: Kind; readonly id: string }) => readonly string[] {
  const recreated = new RecreatedIds(mappings);
  const requested = new Set(ids);
  return ({ kind, id }) => recreated.all(kind, id).filter((each) => requested.has(each));
}

/** A place in bodies that has an id of a kind. */
interface IdPlace {
  /** `*` is any member or element. */
  readonly segments: readonly string[];
  /** The first segment as JSON text: bodies without it are skipped. */
  readonly member: string;
  readonly kind: Kind;
}

/** Replaces the ids of recreated records in bodies by those that another state has. */
export class RecreatedReferences {
  readonly #definitions: (kind: Kind) => ResourceDefinition;
  readonly #ids: MatchedIds;
  readonly #places = new Map<Kind, readonly IdPlace[]>();

  constructor(definitions: (kind: Kind) => ResourceDefinition, ids: MatchedIds) {
    this.#definitions = definitions;
    this.#ids = ids;
  }

  /**
   * The record's body with these ids replaced; everything else stays character by character.
   * @param other the record in the other state: an id that it also has, in the same place, is not replaced, or it would look
   * like a change
   * @param wasReadSince true for an id that had been replaced when `other` was read: then a reference by it is a change
   */
  renamed(
    { kind, body }: Pick<RecordState, 'kind' | 'body'>,
    other?: string,
    wasReadSince: (kind: Kind, id: string) => boolean = () => false,
  ): string {
    const places = this.#placesIn(kind).filter(({ member }) => body.includes(member));
    if (places.length === 0) return body;
    const still = new Set<string>();
    const replaced = (
      text: string,
      replacement: (name: string, place: IdPlace, id: string) => string | null,
    ) =>
      replaceValues(text, (path, value) => {
        const place = places.find(({ segments }) => isAt(segments, path));
        const name = place === undefined ? null : this.#nameFor(place.kind, value());
        return place === undefined || name === null ? null : replacement(name, place, value());
      });
    const keyOf = ({ segments }: IdPlace, id: string): string => `${pointerTo(segments)} ${id}`;
    if (other !== undefined)
      replaced(other, (_name, place, id) => {
        if (!wasReadSince(place.kind, idText(parseLossless(id)))) still.add(keyOf(place, id));
        return null;
      });
    return replaced(body, (name, place, id) => (still.has(keyOf(place, id)) ? null : name));
  }

  /** A value of a record with these ids replaced. @param pointer its place in the record */
  renamedValue(kind: Kind, pointer: string, value: JsonValue): JsonValue {
    const segments = splitPointer(pointer);
    const text = nested(segments, JSON.stringify(value));
    const renamed = this.renamed({ kind, body: text });
    if (renamed === text) return value;
    return resolvePointer(parseLossless(renamed), pointer) ?? value;
  }

  /** A place with these ids replaced in the segments that name elements by id. */
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

  /** The replacement as JSON text, of the same type: a number stays a number. */
  #nameFor(kind: Kind, text: string): string | null {
    const value = parseLossless(text);
    if (value === null || typeof value === 'boolean' || Array.isArray(value) || isJsonObject(value))
      return null;
    const name = this.#ids.counterpart(kind, idText(value));
    if (name === undefined) return null;
    return typeof value !== 'string' && /^-?(?:0|[1-9]\d*)$/.test(name) ? name : JSON.stringify(name);
  }

  #placesIn(kind: Kind): readonly IdPlace[] {
    const { kinds } = this.#ids;
    return cached(this.#places, kind, () =>
      idPlaces(this.#definitions, kind).filter((place) => kinds.includes(place.kind)),
    );
  }
}

/** A body with only this value, at this place. */
function nested(segments: readonly string[], text: string): string {
  return segments.reduceRight((inner, segment) => `{${JSON.stringify(segment)}:${inner}}`, text);
}

/** The references, fields that show ids of other kinds' records, and the parents by the names of their path parameters. */
function idPlaces(definitions: (kind: Kind) => ResourceDefinition, kind: Kind): IdPlace[] {
  const { references, restore } = definitions(kind);
  const idPointer = (target: Kind): string => pointerTo(definitions(target).idPath);
  const pointers = [
    // A reference by anything but the id (a name, an address) stays the same when ids change.
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
