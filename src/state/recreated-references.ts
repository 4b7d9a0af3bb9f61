/** What a body says of records that were created again: their ids as another state knows them. */
import type { Kind, ResourceDefinition, ScopeKey } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { isJsonObject, parseLossless } from '../core/json.ts';
import { replaceValues } from '../core/json-replace.ts';
import { idText } from '../diff/match-records.ts';
import { pointerTo, splitPointer } from '../diff/pointer.ts';
import type { RecordState } from '../diff/states.ts';

/** A place of a body that holds an id of a kind. */
interface IdPlace {
  /** `*` is any member or element. */
  readonly segments: readonly string[];
  /** The first segment as it stands in a body: most bodies of some kinds have no such member. */
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
   * The record's body with those ids replaced, and everything else character by character as it stands; the same text
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
