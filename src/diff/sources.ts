/** Compares two sources (`diff --source A --to-source B`): every id differs, so records match by natural key. */
import { CATALOG, definitionOf, scopeKey } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition, Embedding } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { isVolatileMember, changesInside } from '../catalog/volatile-names.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  isRawNumber,
  parseLossless,
  setOwn,
} from '../core/json.ts';
import {
  type DiffDocument,
  type ParsedRecord,
  type RecordChange,
  compareRecords,
  DiffBuilder,
  fieldFilter,
  recordName,
} from './change.ts';
import { type ComparisonMode, isUserAt, isWholeMode, type Redact } from './compare.ts';
import { type RecordMatch, matchRecords, MatchedIds, idText } from './match-records.ts';
import { canonicalText } from './canonical.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { skipTest, type CompareOptions, type RecordState, type State, parseState } from './states.ts';
import type { UnmatchedParents } from './unmatched.ts';

interface SourceCompareOptions extends CompareOptions {
  /** Kinds to report; the others are only matched, to find the counterparts of parents. Default: all. */
  readonly kinds?: ReadonlySet<Kind>;
  /** Records that are counterparts according to the user, whatever their names. */
  readonly counterparts?: readonly { readonly kind: Kind; readonly from: string; readonly to: string }[];
  /** True: of the union of a family (`plugins`), compare only records that no compared list of the family has. */
  readonly isOnce?: boolean;
  /** Given if one side may have fingerprints instead of secrets: applied to both before records are matched. */
  readonly redact?: Redact;
  /** Filled by the comparison, if given. */
  readonly unmatched?: UnmatchedParents;
}

/**
 * Compares two sources. Keeps the records of both in memory, because their orders differ. Each side must contain the parents of its
 * records (organizations, projects, roles), or these are skipped. If each side has exactly one organization, these two are matched
 * whatever their names. Records with the same name, and everything below them, are skipped.
 *
 * Unless the mode is `all`, matched records are compared without what the service assigns (`portableBody`).
 * @throws TidemarkError `malformed` when a body is not JSON, `usage` when a field is not a pointer
 */
export function diffSources(from: State, to: State, options: SourceCompareOptions): DiffDocument {
  const builder = new DiffBuilder(from.reference, to.reference);
  const definitions = options.definitions ?? definitionOf;
  const isReported = (kind: Kind): boolean => options.kinds?.has(kind) ?? true;
  for (const skipped of options.skipped ?? []) builder.skip(skipped);
  const isSkipped = skipTest(options.skipped ?? []);
  for (const { kind, scope } of to.collections ?? []) {
    if (isReported(kind) && !isSkipped({ kind, scope, id: '' })) builder.collection(kind, scope);
  }
  const sides = { from: side(from, 'FROM'), to: side(to, 'TO') };
  const counterparts = new MatchedIds();
  pairOnlyRoots(sides, counterparts);
  for (const pair of options.counterparts ?? []) counterparts.pair(pair.kind, pair.from, pair.to);
  const narrow = fieldFilter(options.fields ?? []);
  for (const { kind } of CATALOG) {
    const definition = definitions(kind);
    const reporting = isReported(kind) ? builder : new DiffBuilder(from.reference, to.reference);
    const recordsOf = (side: Side): ParsedRecord[] => {
      const own = comparable(kind, side, isSkipped, reporting);
      return options.isOnce === true && isReported(kind) ? withoutListed(definition, side, own) : own;
    };
    const { redact } = options;
    const bodyOf = ({ body }: ParsedRecord): JsonValue =>
      redact === undefined ? body : parseLossless(redact(definition, canonicalText(body)));
    const match = matchRecords(definition, recordsOf(sides.from), recordsOf(sides.to), counterparts, bodyOf);
    settle(kind, match, sides, counterparts, reporting);
    options.unmatched?.matched(definition, match, {
      removed: isRead(kind, sides.to, to),
      added: isRead(kind, sides.from, from),
    });
    if (!isReported(kind)) continue;
    for (const { record, change } of recordChanges(definition, match, options.mode, counterparts, builder)) {
      const narrowed = change === null ? null : narrow(change);
      if (narrowed === null) builder.unchanged();
      else {
        builder.change(narrowed);
        if (narrowed.change !== 'changed') options.unmatched?.shown(definition, record, narrowed.change);
      }
    }
  }
  return builder.finish();
}

interface Side {
  /** For display: its source, if it has one. */
  readonly name: string;
  readonly records: ReadonlyMap<Kind, readonly RecordState[]>;
  readonly lineage: Lineage;
  /** Keys of records in the compared lists of families. */
  readonly listed: Set<string>;
}

function side({ records, reference }: State, name: string): Side {
  return {
    name: reference.source ?? name,
    records: Map.groupBy(records, (record) => record.kind),
    lineage: new Lineage(),
    listed: new Set(),
  };
}

function isRead(kind: Kind, { records }: Side, { collections }: State): boolean {
  return (
    records.has(kind) || collections === undefined || [...collections].some((each) => each.kind === kind)
  );
}

/** Without records that were already compared in the list of a family (the catalog has these lists before their union). */
function withoutListed(
  { family, isUnionOfFamily }: ResourceDefinition,
  { listed }: Side,
  records: ParsedRecord[],
): ParsedRecord[] {
  if (family === null) return records;
  const placeOf = ({ scope, id }: ParsedRecord): string => `${family} ${scopeKey(scope)} ${id}`;
  if (isUnionOfFamily === true) return records.filter((record) => !listed.has(placeOf(record)));
  for (const record of records) listed.add(placeOf(record));
  return records;
}

/** Pairs the only organization of one side with the only one of the other. */
function pairOnlyRoots(sides: { from: Side; to: Side }, counterparts: MatchedIds): void {
  for (const { kind } of CATALOG.filter(({ discovery }) => discovery.from === 'root')) {
    const [from, ...moreFrom] = sides.from.records.get(kind) ?? [];
    const [to, ...moreTo] = sides.to.records.get(kind) ?? [];
    if (from === undefined || to === undefined || moreFrom.length > 0 || moreTo.length > 0) continue;
    counterparts.pair(kind, from.id, to.id);
  }
}

/** The side's comparable records of a kind, parsed. Skips each collection whose parent is not comparable. */
function comparable(
  kind: Kind,
  { records, lineage }: Side,
  isSkipped: (key: RecordState) => boolean,
  builder: DiffBuilder,
): ParsedRecord[] {
  const named = new Set<string>();
  const kept: ParsedRecord[] = [];
  for (const record of records.get(kind) ?? []) {
    const obstacle = lineage.obstacle(record.scope);
    if (isSkipped(record)) {
      lineage.add(kind, record.id, `the ${kind} that it belongs to were skipped`);
    } else if (obstacle !== null) {
      lineage.add(kind, record.id, obstacle);
      const collection = scopeKey(record.scope);
      if (!named.has(collection)) builder.skip({ kind, scope: record.scope, reason: obstacle });
      named.add(collection);
    } else {
      lineage.add(kind, record.id, null);
      kept.push(parseState(record));
    }
  }
  return kept;
}

/** Remembers the counterparts for their children, and skips the namesakes. */
function settle(
  kind: Kind,
  match: RecordMatch,
  sides: { from: Side; to: Side },
  counterparts: MatchedIds,
  builder: DiffBuilder,
): void {
  for (const pair of match.pairs) counterparts.pair(kind, pair.from.id, pair.to.id);
  for (const { name, from, to } of match.ambiguous) {
    const count = `${from.length} in ${sides.from.name} and ${to.length} in ${sides.to.name}`;
    const reason = `ambiguous: ${count} are called ${JSON.stringify(name)}`;
    builder.skip({ kind, scope: to[0]?.scope ?? {}, reason, name });
    for (const record of from) sides.from.lineage.add(kind, record.id, `its parent is ${reason}`);
    for (const record of to) sides.to.lineage.add(kind, record.id, `its parent is ${reason}`);
  }
}

function* recordChanges(
  definition: ResourceDefinition,
  match: RecordMatch,
  mode: ComparisonMode,
  counterparts: MatchedIds,
  builder: DiffBuilder,
): Generator<{ readonly record: ParsedRecord; readonly change: RecordChange | null }> {
  const { kind } = definition;
  for (const { from, to } of match.pairs) {
    builder.collection(kind, to.scope);
    if (isWholeMode(mode)) {
      yield { record: to, change: compareRecords(definition, from, to, mode) };
      continue;
    }
    const change = compareRecords(
      definition,
      { ...from, body: portableBody(definition, from.body, counterparts) },
      { ...to, body: portableBody(definition, to.body, null) },
      mode,
    );
    // Named by the entire body: what names a record may be response-only.
    yield {
      record: to,
      change: change && { ...change, name: recordName(definition, to.body, to.id) },
    };
  }
  for (const record of match.removed) {
    builder.collection(kind, counterparts.scope(record.scope) ?? record.scope);
    yield { record, change: compareRecords(definition, record, undefined, mode) };
  }
  for (const record of match.added) {
    builder.collection(kind, record.scope);
    yield { record, change: compareRecords(definition, undefined, record, mode) };
  }
}

/** Whether the records of a side can be compared: only with their parents. Filled from parents to children. */
class Lineage {
  readonly #obstacles = new Map<string, string | null>();

  /** Adds a record. `obstacle`: why the records below it cannot be compared, in one line; null if they can. */
  add(kind: Kind, id: string, obstacle: string | null): void {
    this.#obstacles.set(`${kind} ${id}`, obstacle);
  }

  /** Why records of this scope cannot be compared; null if they can. */
  obstacle(scope: Scope): string | null {
    for (const key of SCOPE_KEYS) {
      const id = scope[key];
      if (id === undefined) continue;
      const known = this.#obstacles.get(`${SCOPE_KIND[key]} ${id}`);
      if (known === undefined) return `the record that ${key} names was not read`;
      if (known !== null) return known;
    }
    return null;
  }
}

/**
 * The body without what the service assigns and therefore differs between sources: the id, documented response-only fields, and
 * undocumented members with names as in `ASSIGNED_BY_SERVICE` (at the top level, and in records embedded in response-only fields).
 * Of an embedded user, the address is kept. Values of unknown shape are kept entirely, because such names in them may be
 * configuration.
 *
 * References stay. Those in the body of FROM (if `counterparts` is given) are replaced by their counterparts in TO; one without a
 * counterpart stays, and therefore differs. References to kinds that are matched later cannot be resolved, and are left out.
 */
function portableBody(
  definition: ResourceDefinition,
  body: JsonValue,
  counterparts: MatchedIds | null,
): JsonValue {
  if (!isJsonObject(body)) return body;
  const references = [
    ...definition.references,
    ...SCOPE_KEYS.map((key) => ({ pointer: `/${key}`, kind: SCOPE_KIND[key] })),
  ].map(({ pointer, kind }) => ({
    segments: splitPointer(pointer),
    kind,
    isLater: KINDS.indexOf(kind) > KINDS.indexOf(definition.kind),
  }));
  const fields = definition.fieldsByName;
  const portable: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    const inside = references.filter(({ segments }) => segments[0] === name);
    const isWritable = fields.get(name)?.isWritable === true;
    // If the payload is not documented, "not writable" says nothing about who sets the field.
    const isOwned =
      (definition.hasDocumentedFields && fields.has(name) && !isWritable) ||
      (!isWritable &&
        (ASSIGNED_BY_SERVICE.has(name) || isVolatileMember(definition, fields.get(name), name)));
    const isId = definition.idPath.length === 1 && definition.idPath[0] === name;
    if (isId || inside.some(({ isLater }) => isLater) || (isOwned && inside.length === 0)) continue;
    const embedding = isWritable ? undefined : definition.embedding.inside.get(name);
    let shown = withoutPlaces(
      value,
      inside.length > 0 && !isUserAt(embedding, value) ? undefined : embedding,
    );
    for (const { segments, kind } of counterparts === null ? [] : inside) {
      shown = replaced(shown, segments.slice(1), (id) =>
        matchOf(id, counterparts?.counterpart(kind, idText(id))),
      );
    }
    setOwn(portable, name, shown);
  }
  return portable;
}

/** The value without assigned members of embedded records and users, as far as their positions are known. */
function withoutPlaces(value: JsonValue, embedding: Embedding | undefined): JsonValue {
  if (embedding === undefined) return value;
  if (Array.isArray(value)) return value.map((element) => withoutPlaces(element, embedding.inside.get('*')));
  if (!isJsonObject(value)) return value;
  const isUser = isUserAt(embedding, value);
  const email = getOwn(value, 'email') ?? null;
  // The ids of users differ between instances, and users can change their names.
  if (isUser && email !== null) return { email };
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const isOwn =
      (isUser || embedding.holds === 'record') && (ASSIGNED_BY_SERVICE.has(name) || changesInside(name));
    if (!isOwn) setOwn(kept, name, withoutPlaces(member, embedding.inside.get(name)));
  }
  return kept;
}

/** The value with the value at these segments replaced; `*` is every element. */
function replaced(
  value: JsonValue,
  segments: readonly string[],
  replace: (value: JsonValue) => JsonValue,
): JsonValue {
  const [segment, ...rest] = segments;
  if (segment === undefined) return replace(value);
  if (Array.isArray(value) && segment === '*')
    return value.map((element) => replaced(element, rest, replace));
  if (!isJsonObject(value)) return value;
  const copy: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    setOwn(copy, name, name === segment ? replaced(member, rest, replace) : member);
  }
  return copy;
}

/** The counterpart's id in the type of the reference: a number stays a number. */
function matchOf(id: JsonValue, counterpart: string | undefined): JsonValue {
  if (counterpart === undefined) return id;
  const isNumber = typeof id === 'number' || isRawNumber(id);
  return isNumber && /^-?[0-9]+$/.test(counterpart) ? parseLossless(counterpart) : counterpart;
}

/** Members with the record's identity or location, not its configuration. */
const ASSIGNED_BY_SERVICE: ReadonlySet<string> = new Set([
  'id',
  'uuid',
  'created_at',
  'created_by',
  'joined_at',
  'organization',
  'organization_id',
  'organization_name',
  'team',
  'team_id',
  'project',
  'project_id',
  'role_id',
  'user_uuid',
  'api_token',
  'secret_api_token',
  'secret_api_token_backup',
  'live_events_token',
]);
