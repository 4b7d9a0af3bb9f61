/** What differs between two states, as data: the JSON document `tidemark.diff/1` (design.md, JSON documents). */
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { shownText } from '../catalog/masks.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import { escapeSegment, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { type JsonValue, isJsonObject, isRawNumber } from '../core/json.ts';
import { numberText } from './canonical.ts';
import { type ComparisonMode, type FieldChange, compareBodies, comparedMembers, placeOf } from './compare.ts';

/** What differs for one record. */
export interface RecordChange {
  readonly kind: Kind;
  /** Of the record in TO; in FROM where it was removed. */
  readonly scope: Scope;
  readonly id: string;
  /** For people; the id where the record has no name. */
  readonly name: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** Added: every compared top-level field with `to`. Removed: with `from`. Changed: what differs; never empty. */
  readonly fields: readonly FieldChange[];
  /** Given in the changes of a run, for a record that a restore created again under this id. */
  readonly created_again?: Recreated;
  /** Given in the changes of a run, for a record that a restore updated, acted on, or removed. */
  readonly changed_by?: WrittenBy;
}

/** The restore that made a change. */
export interface WrittenBy {
  readonly restore: number;
  /** Who started it. */
  readonly by: string;
  /** How the program knew them; left out where the audit log does not say. */
  readonly via?: string;
  /** Which of the changed fields it wrote, as in `fields`; left out for a removal. */
  readonly paths?: readonly string[];
}

/** A record that continues under a new id. */
export interface Recreated {
  /** The id before. */
  readonly was: string;
  /** The restore that created it, or that recognised what somebody else had created. */
  readonly restore: number;
  /** Who started that restore. */
  readonly by: string;
  /** As of `WrittenBy`. */
  readonly via?: string;
  /** True where somebody else created it and the restore only recognised it. */
  readonly is_recognised?: true;
}

/** One side of a diff, as the user named it and what it turned out to be. */
export interface StateReference {
  readonly ref: string;
  /** The source that it is a state of; given when two sources are compared. */
  readonly source?: string;
  readonly run?: number;
  /** ISO 8601. */
  readonly at?: string;
  /** Given for a time after which retention dropped runs: the state may have been another one then. */
  readonly forgotten?: {
    readonly count: number;
    /** As ranges, ascending. */
    readonly runs: readonly (readonly [first: number, last: number])[];
    /** When retention dropped the last of them. */
    readonly at: string;
    /** The run that has their changes. */
    readonly into: number;
  };
  /** Given for the latest state where the newest run of its source failed: that run, as `tidemark.drift/1` has it. */
  readonly failed_run?: object;
  /** Given for the latest state: the newest restore that changed the service since, or may have. */
  readonly restored_since?: number;
}

/** A collection, or named records of it, that could not be compared, and why in one line. */
export interface Skipped {
  readonly kind: Kind;
  /** Collections whose scope contains these values; empty: the entire kind. */
  readonly scope: Scope;
  readonly reason: string;
  /** Display name of the records, where only these and not their collection are left out. */
  readonly name?: string;
  /** How many records that is, where it is known. */
  readonly records?: number;
  /** True where records are missing from a complete list of live and were not all looked up one by one: they count as missing. */
  readonly unconfirmed?: true;
}

/** False where nothing is unknown but whether each missing record was looked up: a restore does that before it creates one. */
export function isUncompared({ unconfirmed }: Skipped): boolean {
  return unconfirmed !== true;
}

/** A collection that the comparison left out by choice, not for want of an answer, and why in one line. */
export interface LeftOut {
  readonly kind: Kind;
  /** As in `Skipped`. */
  readonly scope: Scope;
  readonly reason: string;
  /** As in `Skipped`. */
  readonly name?: string;
  /** How many records of the collection, where not all of it is left out. */
  readonly records?: number;
}

/** Records that are new to the mirror, because no run had read their collection before: neither added nor compared. */
export interface FirstRead extends CollectionKey {
  readonly records: number;
  readonly reason: string;
}

/** A collection that was compared as it was last read, because the state's own run could not read all of it. */
export interface Stale extends CollectionKey {
  /** Which state it is. In TO, the old truth may hide a change; in FROM it only dates one. */
  readonly side: 'from' | 'to';
  /** True if the state never had the entire collection: records that it does not hold may have existed. */
  readonly is_partial?: true;
  /**
   * True if the state's run was limited to other kinds, and the comparison is not about this one in particular, or if runs mostly read
   * only a part of it.
   */
  readonly is_limited?: true;
  /** How many removals are held, where this is why. */
  readonly held?: number;
  readonly reason: string;
}

/** True where an old reading may hide a change, and so speaks against "no differences". */
export function mayHide({ side, is_partial: isPartial, is_limited: isLimited }: Stale): boolean {
  return (side === 'to' && isLimited !== true) || isPartial === true;
}

export interface DiffDocument {
  readonly schema: 'tidemark.diff/1';
  /** The source that both states are of; where two are compared, each side names its own. */
  readonly source?: string;
  readonly from: StateReference;
  readonly to: StateReference;
  readonly compared: { readonly collections: number; readonly records: number };
  readonly skipped: readonly Skipped[];
  readonly stale?: readonly Stale[];
  readonly left_out?: readonly LeftOut[];
  /** The sides that have no values of volatile fields, which the mode would compare; missing where both have them. */
  readonly volatile_unknown?: readonly ('from' | 'to')[];
  /** Those of the fields that the catalog names, for the kinds compared. */
  readonly volatile_fields?: readonly { readonly kind: Kind; readonly fields: readonly string[] }[];
  /** Of what a run changed; missing where every collection had been read before. */
  readonly first_read?: readonly FirstRead[];
  /** Of two sources: why records are removed and added although their names are in both, a line each. */
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

/**
 * The change that leads from one record to the other; null when they are equal. At least one side is given; kind, scope
 * and id are those of `to` where it is given.
 */
export function compareRecords(
  definition: ResourceDefinition,
  from: ParsedRecord | undefined,
  to: ParsedRecord | undefined,
  mode: ComparisonMode,
): RecordChange | null {
  const record = to ?? from;
  if (record === undefined) throw new Error('a change needs at least one record');
  const head = {
    kind: record.kind,
    scope: record.scope,
    id: record.id,
    name: recordName(definition, record.body, record.id),
  };
  if (from === undefined) {
    return { ...head, change: 'added', fields: wholeRecord(definition, record.body, mode, 'to') };
  }
  if (to === undefined) {
    return { ...head, change: 'removed', fields: wholeRecord(definition, record.body, mode, 'from') };
  }
  const fields = compareBodies(definition, from.body, to.body, mode);
  return fields.length === 0 ? null : { ...head, change: 'changed', fields };
}

function wholeRecord(
  definition: ResourceDefinition,
  body: JsonValue,
  mode: ComparisonMode,
  side: 'from' | 'to',
): FieldChange[] {
  const members: [string, JsonValue][] = isJsonObject(body)
    ? comparedMembers(definition, body, mode).map(([name, value]) => [`/${escapeSegment(name)}`, value])
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

  /** Counts a collection as compared; the same one twice counts once. An empty collection is compared as well. */
  collection(kind: Kind, scope: Scope): void {
    this.#collections.add(collectionKey({ kind, scope }));
  }

  /** Records that are equal on both sides. */
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

  /** The document; the builder may continue and be finished again. */
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
 * The exit code of a diff (design.md, Commands): 1 nothing was compared, 3 something could not be, or TO could not be read
 * completely, or FROM never was, 2 differences, 0 none. 3 takes precedence over 2: what could not be read may hide differences.
 */
export function diffExitCode(document: DiffDocument): ExitCode {
  if (document.compared.collections === 0 && document.compared.records === 0) return EXIT.failed;
  if (document.skipped.length > 0 || document.stale?.some(mayHide) === true) return EXIT.partial;
  return document.changes.length > 0 ? EXIT.differences : EXIT.done;
}

/** For display: as `storedName`, without the secrets of a URL that serves as the name. */
export function recordName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  const name = storedName(definition, body, id);
  return name === id ? id : shownText(name, definition);
}

/** For look-ups: the name, else the id. It may hold a secret. */
export function storedName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  return nameIn(definition, body) ?? id;
}

/** The first of the definition's `nameFrom` pointers that holds a non-empty text or a number; null without one. */
export function nameIn(definition: ResourceDefinition, body: JsonValue): string | null {
  for (const pointer of definition.nameFrom) {
    const value = resolvePointer(body, pointer);
    if (typeof value === 'string' && value !== '') return value;
    if (typeof value === 'number' || isRawNumber(value)) return numberText(value);
  }
  return null;
}

// `--field /json/pointer`: only the changes at, below or above the named places.

/** Narrows a change to what the filter lets through; null when the unfinished backup was removed. */
type FieldFilter = (change: RecordChange) => RecordChange | null;

/**
 * A filter for these pointers; without any, everything passes. A change above a named place passes as well: replacing
 * `/destination` changes `/destination/type`.
 * @throws TidemarkError `usage` when one is not an RFC 6901 pointer
 */
export function fieldFilter(pointers: readonly string[]): FieldFilter {
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
    // By the path as it is shown, or by the place that names elements by their ids.
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
