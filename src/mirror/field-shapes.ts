/**
 * How many records of a kind carry which field with a value of which JSON type. Counted where bodies are parsed anyway,
 * and moved by what changes: a run that changes nothing counts nothing.
 *
 * Watched are the record's members, and one level down those of objects that the catalog documents (`/user/email`);
 * objects with keys of anybody's choice are not looked into. When the catalog documents other objects than the counts were
 * made by (`field_shape_bases`), the next run counts the kind again.
 */
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';

export const JSON_TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

/** Fields of one kind that are watched at most, and characters of a member's name. What is beyond is not counted. */
export const MAX_FIELDS = 500;
const MAX_NAME_LENGTH = 200;

/** Marks a kind that has more fields than are watched, in place of a pointer. */
export const UNWATCHED = '*';

const NULL = 0;
const OBJECT = 5;

/** What happened to one field: how its counts moved, and how records that stayed gave it up. */
export interface FieldMoves {
  /** RFC 6901 pointer; empty for the record itself. */
  readonly field: string;
  /** By the index of `JSON_TYPES`. */
  readonly counts: readonly number[];
  /** True when a record that stayed no longer has it, though its parent is still an object. */
  readonly isDropped: boolean;
  /** By the index of `JSON_TYPES`: true when a record that stayed has another type now. */
  readonly isLeft: readonly boolean[];
}

class FieldCounter implements FieldMoves {
  readonly field: string;
  readonly counts = [0, 0, 0, 0, 0, 0];
  readonly isLeft = [false, false, false, false, false, false];
  isDropped = false;
  /** Null where members are not watched. */
  readonly members: Map<string, FieldCounter> | null;

  constructor(field: string, hasMembers: boolean) {
    this.field = field;
    this.members = hasMembers ? new Map() : null;
  }

  move(type: number, step: number): void {
    this.counts[type] = (this.counts[type] ?? 0) + step;
  }
}

/** Names of the fields whose members are watched too, in order. */
export function documentedObjects(kind: Kind): string[] {
  return definitionOf(kind)
    .fields.filter(({ type }) => type === 'object')
    .map(({ name }) => name)
    .sort();
}

/** The counts of one kind, or how they moved. */
export class KindShapes {
  readonly #root = new FieldCounter('', true);
  readonly #documented: ReadonlySet<string>;
  readonly #counters: FieldCounter[] = [this.#root];
  #isFull: boolean;
  #isTouched = false;

  /** `known`: the fields that are watched already. `isFull`: no further one is watched. */
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

  /** False as long as nothing was counted. */
  get isTouched(): boolean {
    return this.#isTouched;
  }

  /** True when there was a field for which no room was left. */
  get isFull(): boolean {
    return this.#isFull;
  }

  fields(): readonly FieldMoves[] {
    return this.#counters;
  }

  /** A parsed body that is there now. */
  add(body: unknown): void {
    this.#count(body, 1);
  }

  /** A parsed body that is not there any more. */
  remove(body: unknown): void {
    this.#count(body, -1);
  }

  /** One record's body became another. */
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

  /** The hot path: once per new record and member. */
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
    // SQLite keeps complete characters only: a lone surrogate would come back as another name.
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

/** Index in `JSON_TYPES`. */
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
