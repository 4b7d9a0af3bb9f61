/** Matches the records of two sources, whose ids all differ: by natural key, below matched parents. Namesakes are not matched. */
import { type Scope, type ScopeKey, SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { type JsonValue, isRawNumber } from '../core/json.ts';
import { canonicalText, numberText } from './canonical.ts';
import { type ParsedRecord, recordName } from './change.ts';
import { pointerTo, resolvePointer } from '../core/json-pointer.ts';

/** For each kind, the known pairs of ids that one record has in FROM and in TO. */
export class MatchedIds {
  readonly #counterparts = new Map<Kind, Map<string, string>>();

  pair(kind: Kind, from: string, to: string): void {
    const known = this.#counterparts.get(kind) ?? new Map<string, string>();
    this.#counterparts.set(kind, known.set(from, to));
  }

  counterpart(kind: Kind, from: string): string | undefined {
    return this.#counterparts.get(kind)?.get(from);
  }

  /** A scope of FROM with the ids of TO; null if a parent has no counterpart. */
  scope(scope: Scope): Scope | null {
    const counterparts: Partial<Record<ScopeKey, string>> = {};
    for (const key of SCOPE_KEYS) {
      const value = scope[key];
      if (value === undefined) continue;
      const counterpart = this.counterpart(SCOPE_KIND[key], value);
      if (counterpart === undefined) return null;
      counterparts[key] = counterpart;
    }
    return counterparts;
  }

  // For uses in which only ids that differ are paired: every other record keeps its id.

  get isEmpty(): boolean {
    return this.#counterparts.size === 0;
  }

  get kinds(): readonly Kind[] {
    return [...this.#counterparts.keys()];
  }

  renamed(kind: Kind, id: string): string {
    return this.counterpart(kind, id) ?? id;
  }

  /** The same object if none of its ids is paired. */
  renamedScope(scope: Scope): Scope {
    let result = scope;
    for (const key of SCOPE_KEYS) {
      const id = scope[key];
      const to = id === undefined ? undefined : this.counterpart(SCOPE_KIND[key], id);
      if (to !== undefined) result = { ...result, [key]: to };
    }
    return result;
  }

  *pairs(): Generator<{ readonly kind: Kind; readonly from: string; readonly to: string }> {
    for (const [kind, ids] of this.#counterparts) for (const [from, to] of ids) yield { kind, from, to };
  }

  reversed(): MatchedIds {
    const back = new MatchedIds();
    for (const { kind, from, to } of this.pairs()) back.pair(kind, to, from);
    return back;
  }
}

/** The matched and unmatched records of one kind. */
export interface RecordMatch {
  readonly pairs: readonly { readonly from: ParsedRecord; readonly to: ParsedRecord }[];
  readonly removed: readonly ParsedRecord[];
  readonly added: readonly ParsedRecord[];
  /** Namesakes: several on one side and at least one on the other. They are not compared. */
  readonly ambiguous: readonly {
    readonly name: string;
    readonly from: readonly ParsedRecord[];
    readonly to: readonly ParsedRecord[];
  }[];
}

interface Namesakes {
  readonly from: ParsedRecord[];
  readonly to: ParsedRecord[];
}

/**
 * Matches the records of one kind: first by exact natural key, then ignoring case. A record without a natural key, or whose parent
 * has no counterpart, is not matched.
 * @param counterparts has the parents of the kind (the catalog lists them first), and pairs that the user named
 * @param bodyOf the body from which a record's natural key is read
 */
export function matchRecords(
  definition: ResourceDefinition,
  fromRecords: readonly ParsedRecord[],
  toRecords: readonly ParsedRecord[],
  counterparts: MatchedIds,
  bodyOf: (record: ParsedRecord) => JsonValue = ({ body }) => body,
): RecordMatch {
  const removed: ParsedRecord[] = [];
  const added: ParsedRecord[] = [];
  const pairs: { from: ParsedRecord; to: ParsedRecord }[] = [];
  const taken = new Set<ParsedRecord>();
  const toByScopeAndId = new Map(
    toRecords.map((record) => [`${scopeKey(record.scope)} ${record.id}`, record]),
  );
  for (const from of fromRecords) {
    // A counterpart that the user named takes precedence over the natural key.
    const scope = counterparts.scope(from.scope);
    const id = counterparts.counterpart(definition.kind, from.id);
    const to =
      scope === null || id === undefined ? undefined : toByScopeAndId.get(`${scopeKey(scope)} ${id}`);
    if (to !== undefined) {
      pairs.push({ from, to });
      taken.add(from).add(to);
    }
  }
  let open: Namesakes = {
    from: fromRecords.filter((record) => !taken.has(record)),
    to: toRecords.filter((record) => !taken.has(record)),
  };
  const ambiguous: { name: string; from: ParsedRecord[]; to: ParsedRecord[] }[] = [];
  // The exact name first: if the service is case-sensitive, both spellings may exist.
  for (const isFolded of [false, true]) {
    if (open.from.length === 0 || open.to.length === 0) break;
    const { buckets, keyless } = bucketsOf(definition, open, counterparts, isFolded, bodyOf);
    removed.push(...keyless.from);
    added.push(...keyless.to);
    open = { from: [], to: [] };
    for (const namesakes of buckets) {
      const { from, to } = namesakes;
      const [onlyFrom, onlyTo] = [from[0], to[0]];
      if (onlyFrom === undefined || onlyTo === undefined) {
        open.from.push(...from);
        open.to.push(...to);
      } else if (from.length === 1 && to.length === 1) pairs.push({ from: onlyFrom, to: onlyTo });
      else ambiguous.push({ name: recordName(definition, onlyTo.body, onlyTo.id), ...namesakes });
    }
  }
  removed.push(...open.from);
  added.push(...open.to);
  return { pairs, removed, added, ambiguous };
}

/** The records of both sides grouped by natural key, and those that have none. */
function bucketsOf(
  definition: ResourceDefinition,
  { from, to }: Namesakes,
  counterparts: MatchedIds,
  isFolded: boolean,
  bodyOf: (record: ParsedRecord) => JsonValue,
): { readonly buckets: Iterable<Namesakes>; readonly keyless: Namesakes } {
  const buckets = new Map<string, Namesakes>();
  const keyless: Namesakes = { from: [], to: [] };
  const holderOf = (key: string | null): Namesakes => {
    if (key === null) return keyless;
    const namesakes = buckets.get(key) ?? { from: [], to: [] };
    buckets.set(key, namesakes);
    return namesakes;
  };
  const keyOf = (record: ParsedRecord, ids: MatchedIds | null): string | null =>
    naturalKeyOf(definition, { ...record, body: bodyOf(record) }, ids, isFolded);
  for (const record of from) holderOf(keyOf(record, counterparts)).from.push(record);
  for (const record of to) holderOf(keyOf(record, null)).to.push(record);
  return { buckets: buckets.values(), keyless };
}

/**
 * Scope and natural key with the ids of TO as one text.
 * @param counterparts null for records of TO
 * @param isFolded ignore case, except in ids, as services compare names and addresses (wire-notes.md, Restore)
 */
function naturalKeyOf(
  definition: ResourceDefinition,
  record: ParsedRecord,
  counterparts: MatchedIds | null,
  isFolded: boolean,
): string | null {
  const scope = counterparts === null ? record.scope : counterparts.scope(record.scope);
  if (scope === null) return null;
  // The id of a kind without a natural key is that of its one parent.
  if (definition.naturalKey.length === 0) return `${scopeKey(scope)} ${record.id}`;
  const idPointer = pointerTo(definition.idPath);
  const values: JsonValue[] = [];
  for (const pointer of definition.naturalKey) {
    const value = resolvePointer(record.body, pointer);
    if (value === undefined || value === null || value === '') return null;
    const reference = definition.references.find((candidate) => candidate.pointer === pointer);
    const counterpart =
      reference === undefined || counterparts === null
        ? value
        : counterparts.counterpart(reference.kind, idText(value));
    if (counterpart === undefined) return null;
    if (reference !== undefined) values.push(idText(counterpart));
    else if (isFolded && typeof value === 'string' && pointer !== idPointer) values.push(value.toLowerCase());
    else values.push(value);
  }
  return `${scopeKey(scope)} ${canonicalText(values)}`;
}

/** The value of a reference as text, as ids are stored. */
export function idText(value: JsonValue): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || isRawNumber(value) ? numberText(value) : canonicalText(value);
}
