/** The state that an export holds (`file:PATH`), checked record by record. */
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { definitionOf, isKind, collectionKey } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { type Kind, nearestKind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { cached } from '../core/cached.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import type { StateReference } from '../diff/change.ts';
import { idText } from '../diff/match-records.ts';
import { pointerTo, resolvePointer } from '../core/json-pointer.ts';
import { guessText } from '../core/suggest.ts';
import { type RecordState, sortRecords } from '../diff/states.ts';
import { type ExportExtent, extentIn, findExport, requireSaysWhatItLacks } from './export.ts';
import {
  type StateFilter,
  filterParts,
  hasSelected,
  isSearched,
  keysOf,
  selectsCollection,
  selectsRecord,
} from './filter.ts';
import { projectsIn } from './live-parents.ts';
import { type UnknownRecord, type Coverage, type FilePlace, type LoadedState, recordKey } from './state.ts';

/** More than these are only counted. */
const MISTAKES_SHOWN = 10;

interface ExportChoice {
  readonly path: string;
  readonly cwd: string;
  /** The source whose records are read; null if the user named none. */
  readonly source: string | null;
  /** For an export whose secrets are fingerprints: inserts the known secrets; null if another key made the fingerprints. */
  readonly secrets?: (fingerprints: string) => ((record: RecordState) => string) | null;
}

/**
 * Reads an entire export. A comparison leaves out what it does not cover: kinds that do not occur, and collections whose
 * parent record it lacks. A missing record means a removal only if the export says that it has the entire collection.
 * @throws TidemarkError `usage` with file and line for each record that is wrong or repeated; as `findExport`
 */
export async function readExport(choice: ExportChoice): Promise<LoadedState> {
  const { path, cwd } = choice;
  const { texts, kinds, extent, fingerprints } = await findExport(path, cwd);
  const extents = extent === null ? [] : [extent];
  const found: ExportedRecord[] = [];
  const places = new Map<string, FilePlace>();
  const mistakes: string[] = [];
  let isMarked = false;
  for await (const { name, values, document, mistake } of texts) {
    if (mistake !== null) mistakes.push(`${name}:${mistake.line}: ${mistake.message}`);
    requireSaysWhatItLacks(document, name);
    const about = extentIn(document);
    if (about !== null) extents.push(about);
    for (const { line, value } of values) {
      const record = exportedRecord(value);
      const place = { file: name, line };
      if ('mistake' in record) {
        mistakes.push(`${name}:${line}: ${record.mistake}`);
        continue;
      }
      isMarked ||= isJsonObject(value) && getOwn(value, 'volatile_unknown') !== undefined;
      const key = placeKey(record);
      const first = places.get(key);
      if (first === undefined) found.push(record);
      else
        mistakes.push(
          `${name}:${line}: ${record.kind} ${JSON.stringify(record.id)} is at ${first.file}:${first.line} already`,
        );
      places.set(key, first ?? place);
    }
  }
  if (mistakes.length > 0) throw notAnExport(path, mistakes);
  if (found.length === 0 && extents.length === 0 && (kinds?.size ?? 0) === 0) throw isEmpty(path);
  const { source, records } = ofOneSource(found, choice, extents);
  const secrets = fingerprints === null ? null : (choice.secrets?.(fingerprints) ?? null);
  return new ExportState({
    path,
    source,
    places,
    records: secrets === null ? records : records.map((record) => ({ ...record, body: secrets(record) })),
    kinds,
    extents,
    isMarked,
    hasForeignSecrets: fingerprints !== null && secrets === null,
  });
}

function placeKey(record: RecordKey & { readonly source: string | null }): string {
  return JSON.stringify([record.source, recordKey(record)]);
}

function notAnExport(path: string, mistakes: readonly string[]): TidemarkError {
  const shown = mistakes.slice(0, MISTAKES_SHOWN);
  const more = mistakes.length - shown.length;
  const head = `file:${path} cannot be compared, ${mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`}:`;
  return new TidemarkError('usage', [head, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'), {
    hint: 'correct them, or write the export again with `tidemark export`',
  });
}

/** The error for an export without records that does not say what it covers either. */
function isEmpty(path: string): TidemarkError {
  return new TidemarkError('not_found', `file:${path} is empty: there is nothing in it to compare`, {
    hint: 'write the export again with `tidemark export`, or name another file',
  });
}

/** The records of the chosen source, or of the only one. */
function ofOneSource(
  records: readonly ExportedRecord[],
  { path, source }: ExportChoice,
  extents: readonly ExportExtent[],
): { source: string | null; records: readonly ExportedRecord[] } {
  const names = [...new Set(records.map((record) => record.source))];
  const [only = null, ...others] = names;
  if (only === null && others.length === 0) return { source: null, records };
  const chosen = source ?? (others.length === 0 ? only : null);
  // An export may say that some kinds of a source were not read, and then have no record of it.
  const isInExtent = extents.some(({ unread_by_source: unread = [] }) =>
    unread.some((each) => each.source === chosen),
  );
  if (!isInExtent && (chosen === null || !names.includes(chosen))) {
    const named = names.filter((name) => name !== null).join(', ');
    throw new TidemarkError(
      'usage',
      chosen === null
        ? `file:${path} holds several sources: ${named}`
        : `file:${path} holds nothing of source ${chosen}; it holds ${named}`,
      { hint: 'name one of them with --source, or export one source only' },
    );
  }
  return { source: chosen, records: records.filter((record) => record.source === chosen) };
}

interface ExportFacts {
  readonly path: string;
  readonly source: string | null;
  readonly places: ReadonlyMap<string, FilePlace>;
  readonly records: readonly RecordState[];
  /** Kinds that have a folder in it, even an empty one; null if unknown. */
  readonly kinds: ReadonlySet<Kind> | null;
  readonly extents: readonly ExportExtent[];
  /** True if records say that their values of volatile fields are unknown. */
  readonly isMarked: boolean;
  readonly hasForeignSecrets: boolean;
}

interface Against {
  readonly other: LoadedState;
  readonly filter: StateFilter;
}

/** The state for a comparison with `other` within the filter (`ExportState.against`); unchanged if it is not an export. */
export function relativeTo(state: LoadedState, other: LoadedState, filter: StateFilter): LoadedState {
  return state instanceof ExportState ? state.against({ other, filter }) : state;
}

const BELOW_UNKNOWN =
  'the export does not hold the record that they belong to: whether that was there is unknown (an export with the kinds that lead to them says it)';

const STALE = 'the run of the export could not read all of them';

class ExportState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly resolvedState = null;
  readonly hasForeignSecrets: boolean;
  readonly lacksVolatile: boolean;
  readonly #records: readonly RecordState[];
  readonly #kinds: ReadonlySet<Kind>;
  readonly #collections = new Map<string, CollectionKey>();
  readonly #keys = new Set<string>();
  /** Collections that it declares complete. */
  readonly #whole = new Set<string>();
  /** Collections that it has as of an earlier run than its own. */
  readonly #stale = new Set<string>();
  /** By collection that an earlier run read completely, since its own was limited to other kinds: the reason. */
  readonly #limited = new Map<string, string>();
  /** By collection of which its run read a part, as runs usually do: which part. */
  readonly #parts = new Map<string, string>();
  readonly #facts: ExportFacts;
  /** The state that it is compared with. */
  readonly #against: Against | null;
  readonly #isInOther = new Map<Kind, boolean>();

  constructor(facts: ExportFacts, against: Against | null = null) {
    const { path, source, records, kinds, extents } = facts;
    this.reference = { ref: `file:${path}` };
    this.source = source;
    this.hasForeignSecrets = facts.hasForeignSecrets;
    this.lacksVolatile =
      facts.isMarked || extents.some(({ volatile_unknown: unknown }) => unknown !== undefined);
    this.#facts = facts;
    this.#against = against;
    this.#records = sortRecords(records);
    this.#kinds = new Set([...(kinds ?? []), ...records.map(({ kind }) => kind)]);
    for (const { kind, scope, id } of this.#records) {
      this.#keys.add(`${kind} ${id}`);
      this.#collections.set(collectionKey({ kind, scope }), { kind, scope });
    }
    for (const { whole, stale = [] } of extents) {
      for (const key of this.#noted(whole)) this.#whole.add(key);
      for (const each of stale) {
        const { reason, is_part: isPart } = each;
        for (const key of this.#noted([each])) {
          if (reason === undefined) this.#stale.add(key);
          else (isPart === true ? this.#parts : this.#limited).set(key, reason);
        }
      }
    }
  }

  /** Adds these to the known collections, and returns their keys. */
  #noted(named: ExportExtent['whole']): string[] {
    const own = named.filter(({ source }) => source === undefined || source === this.source);
    return own.flatMap(({ kind, scopes }) =>
      scopes.map((scope) => {
        const key = collectionKey({ kind, scope });
        this.#collections.set(key, { kind, scope });
        return key;
      }),
    );
  }

  placeOf(record: RecordKey): FilePlace | undefined {
    const { places, source } = this.#facts;
    return places.get(placeKey({ ...record, source }));
  }

  collections(): readonly CollectionKey[] {
    return [...this.#collections.values()];
  }

  /**
   * The same state for a comparison: a kind that only the other state has counts as not read if the export does not state
   * its extent. A restore leaves out a kind that is missing in the export; a comparison must not call it equal, because a
   * file that was cut off between two kinds looks the same. If the export states its extent, the same applies to
   * collections that the extent selects below a parent that the export does not have.
   */
  against(against: Against): LoadedState {
    return new ExportState(this.#facts, against);
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    const own = this.#held(kind, scope);
    if (own.how !== 'left_out' || this.#against === null) return own;
    if (this.#facts.extents.length > 0)
      return own.isOfKind !== true && this.#isBelowUnknown({ kind, scope }, this.#against)
        ? { how: 'unread', reason: BELOW_UNKNOWN, code: null }
        : own;
    const isSelected = this.#against.filter.kinds?.includes(kind) !== false;
    if (!isSelected || !this.#hasOther(kind, this.#against)) return own;
    const reason = `${this.reference.ref} holds none of them, and does not say whether it left them out (an export as json says it; --kind and --organization narrow the comparison)`;
    return { how: 'unread', reason, code: null };
  }

  /** True for a collection below a record that the export lacks although its extent selects the collection. */
  #isBelowUnknown(collection: CollectionKey, { other }: Against): boolean {
    const { kind, scope } = collection;
    const isSelected = this.#facts.extents.some(
      ({ filter }) =>
        filter.ids === undefined &&
        filterParts(filter, this, other).some((part) => selectsCollection(part, kind, scope)),
    );
    return isSelected && this.#mayHold(other, collection);
  }

  /** False if the state has read the collection and found nothing. */
  #mayHold(state: LoadedState, collection: CollectionKey): boolean {
    const coverage = state.coverage(collection.kind, collection.scope);
    if (coverage.how === 'absent') return false;
    if (coverage.how !== 'read' || coverage.stale !== undefined) return true;
    const key = collectionKey(collection);
    const records = keysOf(state, { kinds: [collection.kind] });
    return Iterator.from(records).some((each) => collectionKey(each) === key);
  }

  #isUnread(kind: Kind): boolean {
    return this.#facts.extents.some(
      ({ unread = [], unread_by_source: bySource = [] }) =>
        unread.includes(kind) ||
        bySource.some(({ source, kinds }) => source === this.#facts.source && kinds.includes(kind)),
    );
  }

  #held(kind: Kind, scope: Scope): Coverage {
    const read: Coverage = this.#knowsAll(kind, scope) ? { how: 'read' } : { how: 'read', isPartial: true };
    if (this.#stale.has(collectionKey({ kind, scope })))
      return this.#holds(kind) ? { ...read, stale: STALE } : { how: 'unread', reason: STALE, code: null };
    const limited = this.#limited.get(collectionKey({ kind, scope }));
    if (limited !== undefined) {
      // If the export is of named kinds, a comparison is about these in particular.
      const isNamed = this.#facts.extents.some(({ filter }) => filter.kinds?.includes(kind) === true);
      return { ...read, ...(isNamed ? { stale: limited } : { limited }) };
    }
    const part = this.#parts.get(collectionKey({ kind, scope }));
    if (part !== undefined) return { ...read, part };
    if (this.#collections.has(collectionKey({ kind, scope }))) return read;
    if (this.#isUnread(kind))
      return { how: 'unread', reason: 'the mirror had not read it by the run of the export', code: null };
    if (!this.#kinds.has(kind))
      return { how: 'left_out', reason: 'the export holds none of this kind', isOfKind: true };
    const key = SCOPE_KEYS.findLast((each) => scope[each] !== undefined);
    const parent = key === undefined ? undefined : scope[key];
    if (key === undefined || parent === undefined) return read;
    return this.#keys.has(`${SCOPE_KIND[key]} ${parent}`) || this.#lacksParent(scope)
      ? read
      : { how: 'left_out', reason: 'the export does not hold the record that it belongs to' };
  }

  /** False for a kind outside its filter: it names such a kind only if the list was not read and leads to kinds within. */
  #holds(kind: Kind): boolean {
    const { extents } = this.#facts;
    return extents.some(({ filter }) => filter.kinds?.includes(kind) !== false);
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    if (this.#knowsAll(kind, scope)) return null;
    const covers = (): boolean => true;
    const [first] = this.#facts.extents;
    if (first === undefined) {
      const reason = `${this.reference.ref} does not say whether it holds all of them (an export as json, or into a directory, says it)`;
      return { covers, reason, isUnproven: true };
    }
    if (this.#facts.extents.some(({ filter }) => isSearched(filter, kind)))
      return {
        covers,
        reason: 'the export was narrowed to some of them',
      };
    const isStale = this.#stale.has(collectionKey({ kind, scope }));
    const reason = isStale ? STALE : 'the mirror did not have all of them when the export was written';
    return { covers, reason, isUnproven: true };
  }

  #knowsAll(kind: Kind, scope: Scope): boolean {
    const key = collectionKey({ kind, scope });
    const wasWhole =
      (this.#limited.has(key) || this.#parts.has(key)) && definitionOf(kind).reading !== 'each';
    return this.#whole.has(key) || wasWhole || this.#lacksParent(scope);
  }

  /** True if the export has all records of the parent's kind, but not the parent: then nothing is below it. */
  #lacksParent(scope: Scope): boolean {
    const key = SCOPE_KEYS.findLast((each) => scope[each] !== undefined);
    if (key === undefined) return false;
    const { [key]: parent, ...outer } = scope;
    const kind = SCOPE_KIND[key];
    return !this.#keys.has(`${kind} ${parent}`) && this.#knowsAll(kind, outer);
  }

  /** By kind, not by collection: an organization may have another id in the other state. */
  #hasOther(kind: Kind, { other, filter }: Against): boolean {
    return cached(this.#isInOther, kind, () =>
      hasSelected(other, filterParts({ ...filter, kinds: [kind] }, this, other)),
    );
  }

  *records(filter: StateFilter): Generator<RecordState> {
    for (const record of this.#records) if (selectsRecord(filter, record)) yield record;
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return projectsIn((filter) => this.records(filter), organizations);
  }

  /** An export has no hashes. */
  checked(): LoadedState {
    return this;
  }

  close(): void {}
}

// One record of an export, checked, since exports may be edited by hand.

interface ExportedRecord extends RecordState {
  /** Null if the export is of one source. */
  readonly source: string | null;
}

/** A value of `tidemark.export/1` as a record; what is wrong with it, in one line, if it is not one. */
function exportedRecord(value: JsonValue): ExportedRecord | { readonly mistake: string } {
  if (!isJsonObject(value)) return { mistake: 'expected a record: {kind, scope, id, body}' };
  const kind = getOwn(value, 'kind');
  const id = getOwn(value, 'id');
  const body = getOwn(value, 'body');
  const source = getOwn(value, 'source') ?? null;
  if (typeof kind !== 'string') return { mistake: 'kind is missing; expected the name of a kind' };
  if (!isKind(kind)) {
    return { mistake: `there is no kind ${JSON.stringify(kind)}${guessText(nearestKind(kind))}` };
  }
  const definition = definitionOf(kind);
  const scope = scopeOf(getOwn(value, 'scope') ?? {}, definition.scope);
  if (typeof scope === 'string') return { mistake: `${kind}: ${scope}` };
  if (typeof id !== 'string' || id === '') {
    const isNumber = id !== undefined && id !== null && typeof id !== 'object';
    return {
      mistake: `${kind}: ${id === undefined ? 'id is missing; ' : ''}expected id as a text${isNumber ? ', in quotes' : ''}`,
    };
  }
  const name = `${kind} ${JSON.stringify(id)}`;
  if (body === undefined) return { mistake: `${name}: body is missing` };
  if (!isJsonObject(body)) return { mistake: `${name}: expected body to be an object` };
  if (source !== null && typeof source !== 'string') return { mistake: `${name}: expected source as a text` };
  const own = definition.idPath.length === 0 ? undefined : resolvePointer(body, pointerTo(definition.idPath));
  if (own !== undefined && own !== null && idText(own) !== id) {
    return { mistake: `${name}: its body says that it is ${JSON.stringify(idText(own))}` };
  }
  return { kind, scope, id, body: JSON.stringify(body), source };
}

/** The scope with its keys in order; if it is wrong, a text that says why. */
function scopeOf(value: JsonValue, keys: readonly string[]): Scope | string {
  const expected = keys.length === 0 ? 'an empty scope' : `scope with ${keys.join(' and ')}`;
  if (!isJsonObject(value)) return `expected ${expected}`;
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown !== undefined) return `expected ${expected}, got ${JSON.stringify(unknown)}`;
  const scope: Partial<Record<(typeof SCOPE_KEYS)[number], string>> = {};
  for (const key of SCOPE_KEYS) {
    if (!keys.includes(key)) continue;
    const id = getOwn(value, key);
    if (typeof id !== 'string' || id === '') return `expected ${expected}, each a text in quotes`;
    scope[key] = id;
  }
  return scope;
}
