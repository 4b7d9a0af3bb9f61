/** What differs between two states, as data: the JSON document `tidemark.diff/1` (design.md, JSON documents). */
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { shownText } from '../catalog/masks.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import { pointerTo, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { type JsonValue, isJsonObject, isRawNumber } from '../core/json.ts';
import { numberText } from './canonical.ts';
import { type ComparisonMode, type FieldChange, compareBodies, comparedMembers, placeOf } from './compare.ts';

/** How one record differs between two states. */
export interface RecordChange {
  readonly kind: Kind;
  /** The record's scope in TO, or in FROM if it was removed. */
  readonly scope: Scope;
  readonly id: string;
  /** For people; the id where the record has no name. */
  readonly name: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** Added: every compared top-level field with `to`. Removed: with `from`. Changed: what differs; never empty. */
  readonly fields: readonly FieldChange[];
  /** Only in the changes of a run: a restore created the record again under this id. */
  readonly created_again?: Recreated;
  /** Only in the changes of a run: a restore updated, acted on or removed the record. */
  readonly changed_by?: WrittenBy;
}

/** The restore that made a change. */
export interface WrittenBy {
  readonly restore: number;
  /** Who started it. */
  readonly by: string;
  /** How they were identified; left out if the audit log does not say. */
  readonly via?: string;
  /** The paths in `fields` that the restore wrote; left out for a removal. */
  readonly paths?: readonly string[];
}

/** A record that continues under a new id. */
export interface Recreated extends Omit<WrittenBy, 'paths'> {
  /** The previous id. */
  readonly was: string;
  /** True if somebody else created it and the restore only recognised it. */
  readonly is_recognised?: true;
}

/** One side of a diff: the reference that the user gave, and the state that it stands for. */
export interface StateReference {
  readonly ref: string;
  /** The source of the state; given when two sources are compared. */
  readonly source?: string;
  readonly run?: number;
  /** ISO 8601. */
  readonly at?: string;
  /** Given for a point in time after which retention dropped runs: the state at that time may have been a different one. */
  readonly forgotten?: {
    readonly count: number;
    /** As ranges, ascending. */
    readonly runs: readonly (readonly [first: number, last: number])[];
    /** When retention dropped the last of them. */
    readonly at: string;
    /** The run that has their changes. */
    readonly into: number;
  };
  /** Given for the latest state if the newest run of its source failed: that run, as in `tidemark.drift/1`. */
  readonly failed_run?: object;
  /** Given for the latest state: the newest restore that changed the service since, or may have. */
  readonly restored_since?: number;
}

/** A collection, or some records of it, that could not be compared. */
export interface Skipped {
  readonly kind: Kind;
  /** Collections whose scope contains these values; empty: the entire kind. */
  readonly scope: Scope;
  /** One line. */
  readonly reason: string;
  /** Display name of the records, if only these are skipped and not the entire collection. */
  readonly name?: string;
  /** The number of records, if known. */
  readonly records?: number;
  /** True if records are absent from a complete live list, but not all of them were looked up by id: they count as missing. */
  readonly unconfirmed?: true;
}

/** False if the only doubt is that missing records were not looked up by id: a restore does that before it creates one. */
export function isUncompared({ unconfirmed }: Skipped): boolean {
  return unconfirmed !== true;
}

/** A collection, or some records of it, that the comparison left out by choice, not because reading failed. */
export type LeftOut = Omit<Skipped, 'unconfirmed'>;

/** Records of a collection that no run had read before: they are new to the mirror, so they are neither compared nor counted as added. */
export interface FirstRead extends CollectionKey {
  readonly records: number;
  readonly reason: string;
}

/** A collection that was compared with the data of an earlier run, because the state's own run did not read all of it. */
export interface Stale extends CollectionKey {
  /** The side with the old data. In TO it may hide a change; in FROM it only makes the time of a change less exact. */
  readonly side: 'from' | 'to';
  /** True if the state never had the entire collection: records that it lacks may have existed. */
  readonly is_partial?: true;
  /** True if the run was limited to other kinds and the user did not name this one, or if runs usually read only a part of it. */
  readonly is_limited?: true;
  /** The number of held removals, if these are the reason. */
  readonly held?: number;
  readonly reason: string;
}

/** True if the old data may hide a change, so that "no differences" would be wrong. */
export function mayHide({ side, is_partial: isPartial, is_limited: isLimited }: Stale): boolean {
  return (side === 'to' && isLimited !== true) || isPartial === true;
}

export interface DiffDocument {
  readonly schema: 'tidemark.diff/1';
  /** The source of both states; when two sources are compared, each side names its own. */
  readonly source?: string;
  readonly from: StateReference;
  readonly to: StateReference;
  readonly compared: { readonly collections: number; readonly records: number };
  readonly skipped: readonly Skipped[];
  readonly stale?: readonly Stale[];
  readonly left_out?: readonly LeftOut[];
  /** The sides without values of volatile fields, which the mode would compare; left out if both have them. */
  readonly volatile_unknown?: readonly ('from' | 'to')[];
  /** The volatile fields of the compared kinds that the catalog names. */
  readonly volatile_fields?: readonly { readonly kind: Kind; readonly fields: readonly string[] }[];
  /** Only in the changes of a run; left out if every collection had been read before. */
  readonly first_read?: readonly FirstRead[];
  /** For two sources: why records appear as removed and added although both sources have their names; one line each. */
  readonly warnings?: readonly string[];
  readonly changes: readonly RecordChange[];
  readonly summary: {
    readonly added: number;
    readonly removed: number;
    readonly changed: number;
    readonly unchanged: number;
  };
}

/** One record of a state with its body parsed. */
export interface ParsedRecord extends RecordKey {
  readonly body: JsonValue;
}

/** The change from one record to the other, null if they are equal. At least one is given; kind, scope and id come from `to` if it is. */
export function compareRecords(
  definition: ResourceDefinition,
  from: ParsedRecord | undefined,
  to: ParsedRecord | undefined,
  mode: ComparisonMode,
): RecordChange | null {
  const record = to ?? from;
  if (record === undefined) throw new Error('a change needs at least one record');
  const { kind, scope, id, body } = record;
  const head = { kind, scope, id, name: recordName(definition, body, id) };
  if (from === undefined) {
    return { ...head, change: 'added', fields: wholeRecord(definition, body, mode, 'to') };
  }
  if (to === undefined) {
    return { ...head, change: 'removed', fields: wholeRecord(definition, body, mode, 'from') };
  }
  const fields = compareBodies(definition, from.body, to.body, mode);
  return fields.length === 0 ? null : { ...head, change: 'changed', fields };
}

/** Every compared field of a record that was added (`side` is `to`) or removed (`from`). */
export function wholeRecord(
  definition: ResourceDefinition,
  body: JsonValue,
  mode: ComparisonMode,
  side: 'from' | 'to',
): FieldChange[] {
  const members: [string, JsonValue][] = isJsonObject(body)
    ? comparedMembers(definition, body, mode).map(([name, value]) => [pointerTo([name]), value])
    : [['', body]];
  return members.map(([path, value]) => (side === 'to' ? { path, to: value } : { path, from: value }));
}

/** Collects a diff: what was compared, what differs, what could not be compared. */
export class DiffBuilder {
  readonly #from: StateReference;
  readonly #to: StateReference;
  readonly #collections = new Set<string>();
  readonly #changes: RecordChange[] = [];
  readonly #skipped: Skipped[] = [];
  readonly #summary = { added: 0, removed: 0, changed: 0, unchanged: 0 };

  constructor(from: StateReference, to: StateReference) {
    this.#from = from;
    this.#to = to;
  }

  /** Marks a collection as compared, also an empty one. Repeated calls count once. */
  collection(kind: Kind, scope: Scope): void {
    this.#collections.add(collectionKey({ kind, scope }));
  }

  /** Counts records that are equal on both sides. */
  unchanged(count = 1): void {
    this.#summary.unchanged += count;
  }

  change(change: RecordChange): void {
    this.#changes.push(change);
    this.#summary[change.change] += 1;
  }

  skip(skipped: Skipped): void {
    this.#skipped.push(skipped);
  }

  /** The document so far; more can be added afterwards. */
  finish(): DiffDocument {
    const { added, removed, changed, unchanged } = this.#summary;
    return {
      schema: 'tidemark.diff/1',
      from: this.#from,
      to: this.#to,
      compared: { collections: this.#collections.size, records: added + removed + changed + unchanged },
      skipped: [...this.#skipped],
      changes: [...this.#changes],
      summary: { added, removed, changed, unchanged },
    };
  }
}

/**
 * The exit code of a diff (design.md, Commands): 1 if nothing was compared; 3 if something could not be compared, TO was not read
 * completely, or FROM never was; 2 if there are differences; else 0. 3 wins over 2, because unread data may hide differences.
 */
export function diffExitCode(document: DiffDocument): ExitCode {
  if (document.compared.collections === 0 && document.compared.records === 0) return EXIT.failed;
  if (document.skipped.length > 0 || document.stale?.some(mayHide) === true) return EXIT.partial;
  return document.changes.length > 0 ? EXIT.differences : EXIT.done;
}

/** The name for display: `storedName` without the secrets in a URL that serves as the name. */
export function recordName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  const name = storedName(definition, body, id);
  return name === id ? id : shownText(name, definition);
}

/** The name for look-ups, else the id. It may contain a secret. */
export function storedName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  return nameIn(definition, body) ?? id;
}

/** The first non-empty text or number at the definition's `nameFrom` pointers; null if there is none. */
export function nameIn(definition: ResourceDefinition, body: JsonValue): string | null {
  for (const pointer of definition.nameFrom) {
    const value = resolvePointer(body, pointer);
    if (typeof value === 'string' && value !== '') return value;
    if (typeof value === 'number' || isRawNumber(value)) return numberText(value);
  }
  return null;
}

// `--field /json/pointer`: only the changes at, below or above the named places.

/**
 * Narrows a change to the fields at, below or above these pointers; null if none is left. Without pointers, everything passes. A
 * change above one passes too: replacing `/destination` changes `/destination/type`.
 * @throws TidemarkError `usage` when one is not an RFC 6901 pointer
 */
export function fieldFilter(pointers: readonly string[]): (change: RecordChange) => RecordChange | null {
  for (const pointer of pointers) {
    try {
      splitPointer(pointer);
    } catch (error) {
      throw new TidemarkError('usage', `not a JSON pointer: ${JSON.stringify(pointer)}`, {
        hint: 'write the field with a slash in front, for example --field /destination/config',
        cause: error,
      });
    }
  }
  if (pointers.length === 0) return (change) => change;
  return (change) => {
    // By the displayed path, or by the place, which names elements by id.
    const fields = change.fields.filter((field) =>
      [field.path, placeOf(field)].some((path) => overlapsPointer(path, pointers)),
    );
    if (fields.length === 0) return null;
    return fields.length === change.fields.length ? change : { ...change, fields };
  };
}

/** True for a path at, below or above one of the pointers. */
export function overlapsPointer(path: string, pointers: readonly string[]): boolean {
  return pointers.some((pointer) => isPointerWithin(path, pointer) || isPointerWithin(pointer, path));
}

/** True for a pointer at or below another one. */
export function isPointerWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(`${outer}/`);
}
