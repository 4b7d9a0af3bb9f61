/**
 * Counts how many records of a kind have which field with a value of which JSON type. Bodies are counted where they are parsed
 * anyway, and changes update the counts: a run that changes nothing counts nothing.
 *
 * The record's members are counted, and those of objects that the catalog documents (`/user/email`), but not those of objects with
 * arbitrary keys. If the catalog documents other objects than when the counts were made (`field_shape_bases`), the next run counts
 * the kind again.
 */
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';

export const JSON_TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

/** The most fields of a kind, and characters of a name, that are counted. */
export const MAX_FIELDS = 500;
const MAX_NAME_LENGTH = 200;

/** In place of a pointer: the kind has more fields than are counted. */
export const UNWATCHED = '*';

const NULL = 0;
const OBJECT = 5;

/** What happened to one field: how its counts changed, and whether records that stayed lost it. */
export interface FieldMoves {
  /** RFC 6901 pointer; empty for the record itself. */
  readonly field: string;
  /** By the index of `JSON_TYPES`. */
  readonly counts: readonly number[];
  /** True if a record that stayed no longer has it, although its parent is still an object. */
  readonly isDropped: boolean;
  /** By the index of `JSON_TYPES`: true if a record that stayed had this type and has another one now. */
  readonly isLeft: readonly boolean[];
}

class FieldCounter implements FieldMoves {
  readonly field: string;
  readonly counts = [0, 0, 0, 0, 0, 0];
  readonly isLeft = [false, false, false, false, false, false];
  isDropped = false;
  /** Null if members are not counted. */
  readonly members: Map<string, FieldCounter> | null;

  constructor(field: string, hasMembers: boolean) {
    this.field = field;
    this.members = hasMembers ? new Map() : null;
  }

  move(type: number, step: number): void {
    this.counts[type] = (this.counts[type] ?? 0) + step;
  }
}

/** Names of the fields whose members are counted too, sorted. */
export function documentedObjects(kind: Kind): string[] {
  return definitionOf(kind)
    .fields.filter(({ type }) => type === 'object')
    .map(({ name }) => name)
    .sort();
}

/** The counts of one kind, or how they changed. */
export class KindShapes {
  readonly #root = new FieldCounter('', true);
  readonly #documented: ReadonlySet<string>;
  readonly #counters: FieldCounter[] = [this.#root];
  #isFull: boolean;
  #isTouched = false;

  /** @param known the fields that are counted already @param isFull true if no further field is counted */
  constructor(kind: Kind, known: Iterable<string>, isFull: boolean) {
    this.#documented = new Set(documentedObjects(kind));
    this.#isFull = false;
    for (const field of known) {
      const [name, inner] = field.split('/').slice(1).map(unescaped);
      if (name === undefined) continue;
      const counter = this.#member(this.#root, name);
      if (inner !== undefined && counter !== undefined) this.#member(counter, inner);
    }
    this.#isFull = isFull;
  }

  /** False until something is counted. */
  get isTouched(): boolean {
    return this.#isTouched;
  }

  /** True if a field was not counted because there were too many. */
  get isFull(): boolean {
    return this.#isFull;
  }

  fields(): readonly FieldMoves[] {
    return this.#counters;
  }

  /** A new parsed body. */
  add(body: unknown): void {
    this.#count(body, 1);
  }

  /** A parsed body that is gone. */
  remove(body: unknown): void {
    this.#count(body, -1);
  }

  /** The parsed body of a record was replaced by another. */
  replace(before: unknown, after: unknown): void {
    this.#count(before, -1);
    this.#count(after, 1);
    const types = new Map<FieldCounter, number>();
    this.#visit(after, (counter, type) => types.set(counter, type));
    this.#visit(before, (counter, type, parent) => {
      const now = types.get(counter);
      if (now === undefined) {
        if (parent !== null && types.get(parent) === OBJECT) counter.isDropped = true;
      } else if (now !== type && now !== NULL) counter.isLeft[type] = true;
    });
  }

  /** The hot path: called for each new record and member. */
  #count(body: unknown, step: number): void {
    this.#isTouched = true;
    this.#root.move(typeOf(body), step);
    this.#countMembers(this.#root, body, step);
  }

  #countMembers(parent: FieldCounter, value: unknown, step: number): void {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const object = value as Record<string, unknown>;
    for (const name of Object.keys(object)) {
      const counter = this.#member(parent, name);
      if (counter === undefined) continue;
      const member = object[name];
      counter.move(typeOf(member), step);
      if (counter.members !== null) this.#countMembers(counter, member, step);
    }
  }

  #visit(
    body: unknown,
    see: (counter: FieldCounter, type: number, parent: FieldCounter | null) => void,
  ): void {
    const visit = (parent: FieldCounter, value: unknown): void => {
      if (typeOf(value) !== OBJECT) return;
      const object = value as Record<string, unknown>;
      for (const name of Object.keys(object)) {
        const counter = this.#member(parent, name);
        if (counter === undefined) continue;
        see(counter, typeOf(object[name]), parent);
        if (counter.members !== null) visit(counter, object[name]);
      }
    };
    see(this.#root, typeOf(body), null);
    visit(this.#root, body);
  }

  #member(parent: FieldCounter, name: string): FieldCounter | undefined {
    return parent.members?.get(name) ?? this.#newMember(parent, name);
  }

  #newMember(parent: FieldCounter, received: string): FieldCounter | undefined {
    const { members } = parent;
    if (members === null) return undefined;
    // SQLite stores complete characters only: a name with a lone surrogate would come back as another one.
    const name = received.toWellFormed();
    const known = members.get(name);
    if (known !== undefined) return known;
    if (this.#isFull || this.#counters.length > MAX_FIELDS || name.length > MAX_NAME_LENGTH) {
      this.#isFull = true;
      return undefined;
    }
    const isDocumented = parent === this.#root && this.#documented.has(name);
    const counter = new FieldCounter(`${parent.field}/${escaped(name)}`, isDocumented);
    members.set(name, counter);
    this.#counters.push(counter);
    return counter;
  }
}

/** The index in `JSON_TYPES`. */
function typeOf(value: unknown): number {
  switch (typeof value) {
    case 'string':
      return 3;
    case 'number':
      return 2;
    case 'boolean':
      return 1;
    default:
      return value === null ? NULL : Array.isArray(value) ? 4 : OBJECT;
  }
}

/** The pointer of the object that contains a field; `''` is the record. */
export function parentField(field: string): string {
  return field.slice(0, field.lastIndexOf('/'));
}

/** RFC 6901, section 3. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function unescaped(segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~');
}
