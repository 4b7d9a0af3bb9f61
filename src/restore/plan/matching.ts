/** Matches live records with desired ones: by id, then by id map, then by natural key (design.md, Restore). */
import { CATALOG, scopeKey } from '../../catalog/catalog.ts';
import { type Scope, type ScopeKey, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { type ResourceDefinition, changedDefinition } from '../../catalog/resource-definition.ts';
import { type JsonValue, isJsonObject } from '../../core/json.ts';
import { valueDigest } from '../../diff/canonical.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { comparedMembers } from '../../diff/compare.ts';
import { matchRecords, MatchedIds } from '../../diff/match-records.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { familyRecordKey, nameKey, naturalKeyDigest, PlacesOfKind } from '../records.ts';
import type { PlanInput, Adoption, PlanState } from './plan.ts';
import { bySendableKey, writableFields } from './settings.ts';

/** A desired record and the live one that matches it. */
interface Pair {
  readonly desired: ParsedRecord;
  readonly live: ParsedRecord;
}

/** A pair with different ids. */
interface Adopted extends Pair {
  readonly adoption: Adoption;
}

export interface Matching {
  readonly kinds: ReadonlyMap<Kind, KindMatch>;
  readonly adopted: readonly Adopted[];
  /** The kind under which a desired record was kept. */
  recordedKind(desired: ParsedRecord): Kind;
  /** The live id for a desired record's id; undefined if unknown. */
  liveId(kind: Kind, desiredId: string): string | undefined;
  /** A desired scope with live ids; null if a parent has none. */
  liveScope(scope: Scope): Scope | null;
}

/** Matches kind by kind, parents first. */
export function matchStates(input: PlanInput): Matching {
  const records = onePerFamily(input.desired, input.live, input.definitions);
  const desiredByKind = Map.groupBy(records.desired, ({ kind }) => kind);
  const liveByKind = Map.groupBy(records.live, ({ kind }) => kind);
  const counterparts = new MatchedIds();
  const known = knownIds(input, records.live);
  const kinds = new Map<Kind, KindMatch>();
  const adopted: Adopted[] = [];
  for (const { kind } of CATALOG) {
    const definition = input.definitions(kind);
    const desired = desiredByKind.get(kind) ?? [];
    const live = liveByKind.get(kind) ?? [];
    const places = new PlacesOfKind<ParsedRecord>();
    for (const record of live) places.set(record.scope, record.id, record);
    const sides = { places, known: known.get(kind) ?? new Set<string>() };
    const byIdMap = matchById(input, definition, desired, sides, counterparts);
    const byId = pairsOf(kind, desired, live, places, counterparts);
    const named = matchByName(input, definition, byId.desired, byId.live, counterparts);
    const rest = matchByContent(definition, named, counterparts);
    const byContent = new Set(rest.pairs.map(({ live: { id } }) => id));
    const byName = { ...rest, pairs: [...byId.pairs, ...named.pairs, ...rest.pairs] };
    for (const pair of byName.pairs) {
      counterparts.pair(kind, pair.desired.id, pair.live.id);
      if (pair.desired.id === pair.live.id) continue;
      const by = byIdMap.has(pair.desired.id)
        ? 'id_map'
        : byContent.has(pair.live.id)
          ? 'content'
          : 'natural_key';
      adopted.push({ adoption: adoptionOf(definition, pair, by), ...pair });
    }
    const { adopted: again, ...others } = recreated(input, definition, byName, counterparts);
    for (const pair of again) {
      counterparts.pair(kind, pair.desired.id, pair.live.id);
      adopted.push({ adoption: adoptionOf(definition, pair, 'id_map'), ...pair });
    }
    const match = { ...byName, ...others };
    kinds.set(kind, { definition, live, ...match, ...elsewhere(input, definition, match, counterparts) });
  }
  return {
    kinds,
    adopted,
    recordedKind: (desired) => records.kindOf.get(desired) ?? desired.kind,
    liveId: (kind, id) => counterparts.counterpart(kind, id),
    liveScope: (scope) => counterparts.scope(scope),
  };
}

function adoptionOf(definition: ResourceDefinition, { desired, live }: Pair, by: Adoption['by']): Adoption {
  return {
    kind: definition.kind,
    scope: live.scope,
    name: recordName(definition, desired.body, desired.id),
    desired_id: desired.id,
    desired_scope: desired.scope,
    live_id: live.id,
    by,
  };
}

/** By kind, the ids of live records, also of parents that are only known from the scopes of their collections. */
function knownIds(input: PlanInput, live: readonly ParsedRecord[]): ReadonlyMap<Kind, ReadonlySet<string>> {
  const known = new Map<Kind, Set<string>>();
  const add = (kind: Kind, id: string): void => {
    const ids = known.get(kind) ?? new Set<string>();
    known.set(kind, ids.add(id));
  };
  for (const { kind, id } of live) add(kind, id);
  for (const { scope } of input.live.collections) {
    for (const [key, id] of Object.entries(scope) as [ScopeKey, string][]) add(SCOPE_KIND[key], id);
  }
  return known;
}

/**
 * Pairs by id, then by id map; returns the ids that the id map paired. A live record is paired once. Below a parent with another id
 * (recreated, or of another instance), an equal integer id means nothing, so only the id map counts.
 */
function matchById(
  input: PlanInput,
  definition: ResourceDefinition,
  desired: readonly ParsedRecord[],
  sides: { readonly places: PlacesOfKind<ParsedRecord>; readonly known: ReadonlySet<string> },
  counterparts: MatchedIds,
): ReadonlySet<string> {
  const { kind } = definition;
  const { places } = sides;
  const taken = new Set<ParsedRecord>();
  const unmatchableIds = new Set<string>();
  const unmatched: { id: string; liveScope: Scope }[] = [];
  const scopes = new Map<Scope, { liveScope: Scope | null; isStable: boolean }>();
  for (const { scope, id } of desired) {
    let inScope = scopes.get(scope);
    if (inScope === undefined) {
      const found = counterparts.scope(scope);
      inScope = { liveScope: found, isStable: isIdStable(definition, scope, found) };
      scopes.set(scope, inScope);
    }
    const { liveScope, isStable } = inScope;
    if (!isStable) unmatchableIds.add(id);
    if (liveScope === null) continue;
    const there = isStable ? places.get(liveScope, id) : undefined;
    if (there !== undefined) taken.add(there);
    else unmatched.push({ id, liveScope });
  }
  // A live id means the same record on both sides, unless a later match replaces the pair.
  for (const id of sides.known) if (!unmatchableIds.has(id)) counterparts.pair(kind, id, id);
  const byIdMap = new Set<string>();
  for (const { id, liveScope } of unmatched) {
    const now = input.idMap(kind, id);
    if (now === undefined) continue;
    const there = places.get(liveScope, now);
    if (there === undefined || taken.has(there)) continue;
    taken.add(there);
    counterparts.pair(kind, id, now);
    byIdMap.add(id);
  }
  return byIdMap;
}

/** The pairs of records whose counterpart is known by now, and the records of both sides that have none. */
function pairsOf(
  kind: Kind,
  desired: readonly ParsedRecord[],
  live: readonly ParsedRecord[],
  places: PlacesOfKind<ParsedRecord>,
  counterparts: MatchedIds,
): { pairs: readonly Pair[]; desired: readonly ParsedRecord[]; live: readonly ParsedRecord[] } {
  const pairs: Pair[] = [];
  const rest: ParsedRecord[] = [];
  const taken = new Set<ParsedRecord>();
  const scopes = new Map<Scope, Scope | null>();
  for (const record of desired) {
    let scope = scopes.get(record.scope);
    if (scope === undefined) scopes.set(record.scope, (scope = counterparts.scope(record.scope)));
    const id = counterparts.counterpart(kind, record.id);
    const counterpart = scope === null || id === undefined ? undefined : places.get(scope, id);
    if (counterpart === undefined) {
      rest.push(record);
      continue;
    }
    pairs.push({ desired: record, live: counterpart });
    taken.add(counterpart);
  }
  const isWhole = taken.size === live.length;
  return { pairs, desired: rest, live: isWhole ? [] : live.filter((record) => !taken.has(record)) };
}

/** True if an equal id in live is the same record: UUIDs are unique, integer ids only below a parent with the same id. */
export function isIdStable(
  { idType }: Pick<ResourceDefinition, 'idType'>,
  desiredScope: Scope,
  liveScope: Scope | null,
): boolean {
  return idType === 'uuid' || (liveScope !== null && scopeKey(desiredScope) === scopeKey(liveScope));
}

/** Matches the remaining records by natural key; organizations only with consent, because a namesake may be somebody else's. */
function matchByName(
  input: PlanInput,
  definition: ResourceDefinition,
  desired: readonly ParsedRecord[],
  live: readonly ParsedRecord[],
  counterparts: MatchedIds,
): Pick<KindMatch, 'pairs' | 'missing' | 'extra' | 'ambiguous'> {
  const mayAdopt = definition.restore.creation.by !== 'consent' || input.options.createOrganizations;
  // Without a natural key only the id counts.
  const rules = mayAdopt ? definition : changedDefinition(definition, { naturalKey: [] });
  const match = matchRecords(rules, desired, live, counterparts);
  const bySides = ({ from, to }: { from: ParsedRecord; to: ParsedRecord }) => ({ desired: from, live: to });
  return {
    pairs: match.pairs.map(bySides),
    missing: match.removed,
    extra: match.added,
    ambiguous: match.ambiguous.map(({ name, from, to }) => ({ name, desired: from, live: to })),
  };
}

/** The parent record that a key of the scope names. */
export function parentOf(
  scope: Scope,
  key: ScopeKey,
): { readonly kind: Kind; readonly scope: Scope; readonly id: string } {
  const above: Partial<Record<ScopeKey, string>> = {};
  for (const each of SCOPE_KEYS) {
    if (each === key) break;
    // The scope of records below a project does not name the organization.
    const value = scope[each];
    if (value !== undefined) above[each] = value;
  }
  return { kind: SCOPE_KIND[key], scope: above, id: scope[key] ?? '' };
}

/**
 * Finds missing records that may not be lost:
 * - The id map leads to a live record that already matches another desired record: the state has the record both as it was before and
 *   after it was created again. It is adopted.
 * - A run found it removed, while both states have another record of the same name. It is ambiguous: a person has to decide whether
 *   that is the same record, because creating it could duplicate it.
 */
function recreated(
  input: PlanInput,
  definition: ResourceDefinition,
  { pairs, missing, ambiguous }: Pick<KindMatch, 'pairs' | 'missing' | 'ambiguous'>,
  counterparts: MatchedIds,
): { adopted: readonly Pair[] } & Pick<KindMatch, 'missing' | 'ambiguous'> {
  const isKnown = (record: ParsedRecord): boolean => input.idMap(definition.kind, record.id) !== undefined;
  const suspects = missing.filter((record) => isKnown(record) || input.goneSince?.(record) !== undefined);
  if (suspects.length === 0) return { adopted: [], missing, ambiguous };
  const places = new PlacesOfKind<ParsedRecord>();
  for (const { live } of pairs) places.set(live.scope, live.id, live);
  const namesakes = Map.groupBy(
    pairs.map(({ live }) => live),
    ({ scope, body }) => nameKey(definition, scope, body),
  );
  const adopted: Pair[] = [];
  const doubtful: KindMatch['ambiguous'][number][] = [];
  const settled = new Set<ParsedRecord>();
  for (const desired of suspects) {
    const scope = counterparts.scope(desired.scope);
    if (scope === null) continue;
    const now = input.idMap(definition.kind, desired.id);
    const live = now === undefined ? undefined : places.get(scope, now);
    const since = input.goneSince?.(desired);
    const key = nameKey(definition, scope, desired.body);
    const same = key === null ? [] : (namesakes.get(key) ?? []);
    if (live !== undefined) adopted.push({ desired, live });
    else if (since !== undefined && same.length > 0) {
      const name = recordName(definition, desired.body, desired.id);
      doubtful.push({ name, desired: [desired], live: same, goneSince: since });
    } else continue;
    settled.add(desired);
  }
  return {
    adopted,
    missing: missing.filter((record) => !settled.has(record)),
    ambiguous: [...ambiguous, ...doubtful],
  };
}

/**
 * Makes a missing record ambiguous if live has a namesake that the desired state does not have and no request sets the rest of the
 * natural key (the project of an export): if it was recreated by hand, the service may have put it elsewhere.
 */
function elsewhere(
  input: PlanInput,
  definition: ResourceDefinition,
  { missing, extra, ambiguous }: Pick<KindMatch, 'missing' | 'extra' | 'ambiguous'>,
  counterparts: MatchedIds,
): Pick<KindMatch, 'missing' | 'ambiguous'> {
  const { options, isInScope = () => true } = input;
  const byName = bySendableKey(definition);
  const { naturalKey } = byName;
  // A namesake that is pruned makes room.
  const staying = options.prune === null ? extra : extra.filter((live) => !isInScope(live));
  const isWhole = naturalKey.length === 0 || byName === definition;
  if (isWhole || staying.length === 0 || missing.length === 0) return { missing, ambiguous };
  const namesakes = Map.groupBy(staying, ({ scope, body }) => nameKey(byName, scope, body));
  const namesakesOf = (desired: ParsedRecord): readonly ParsedRecord[] => {
    const scope = counterparts.scope(desired.scope);
    const key = scope === null ? null : nameKey(byName, scope, desired.body);
    return key === null ? [] : (namesakes.get(key) ?? []);
  };
  const unsent = definition.naturalKey.filter((pointer) => !naturalKey.includes(pointer));
  const doubtful = missing.filter((desired) => namesakesOf(desired).length > 0);
  return {
    missing: missing.filter((desired) => !doubtful.includes(desired)),
    ambiguous: [
      ...ambiguous,
      ...doubtful.map((desired) => {
        const name = recordName(definition, desired.body, desired.id);
        return { name, desired: [desired], live: namesakesOf(desired), unsent };
      }),
    ],
  };
}

/**
 * The records of both states, each record of a family once, under the first writable kind: of the kinds under which both states have
 * it, else live, else the desired state. `kindOf`: the recorded kind of a record that is planned under another one.
 */
function onePerFamily(
  desired: PlanState,
  live: PlanState,
  definitions: (kind: Kind) => ResourceDefinition,
): {
  readonly desired: readonly ParsedRecord[];
  readonly live: readonly ParsedRecord[];
  readonly kindOf: ReadonlyMap<ParsedRecord, Kind>;
} {
  const inDesired = byFamilyKey(desired.records, definitions);
  const inLive = byFamilyKey(live.records, definitions);
  const kindOf = new Map<ParsedRecord, Kind>();
  const kindFor = (key: string): Kind | undefined => {
    const shown = [inDesired, inLive].map((side) => new Set(side.get(key)?.map(({ kind }) => kind)));
    const [wanted = new Set<Kind>(), there = new Set<Kind>()] = shown;
    const both = wanted.intersection(there);
    const choice = both.size > 0 ? both : there.size > 0 ? there : wanted;
    const kinds = CATALOG.map(({ kind }) => kind).filter((kind) => choice.has(kind));
    return kinds.find((kind) => writableFields(definitions(kind)).length > 0) ?? kinds[0];
  };
  const single = (
    records: readonly ParsedRecord[],
    families: ReadonlyMap<string, readonly ParsedRecord[]>,
  ): ParsedRecord[] => {
    const kept = records.filter((record) => definitions(record.kind).family === null);
    for (const [key, same] of families) {
      const kind = kindFor(key);
      const record = same.find((each) => each.kind === kind) ?? same[0];
      if (record === undefined || kind === undefined) continue;
      const planned = record.kind === kind ? record : { ...record, kind };
      if (planned !== record) kindOf.set(planned, record.kind);
      kept.push(planned);
    }
    return kept;
  };
  return { desired: single(desired.records, inDesired), live: single(live.records, inLive), kindOf };
}

/**
 * For a record, the kinds under which these records have it: its own, or several of its family. A filter for one of them selects the
 * record, whatever the kind under which it is planned.
 */
export function shownKinds(
  records: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): (record: RecordKey) => Kind[] {
  const families = byFamilyKey(records, definitions);
  return (record) =>
    families.get(familyRecordKey(definitions(record.kind), record))?.map(({ kind }) => kind) ?? [record.kind];
}

/** The records of families, by the key that is equal for all kinds of one. */
function byFamilyKey(
  records: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): Map<string, ParsedRecord[]> {
  return Map.groupBy(
    records.filter(({ kind }) => definitions(kind).family !== null),
    (record) => familyRecordKey(definitions(record.kind), record),
  );
}

type ByName = Pick<KindMatch, 'missing' | 'extra' | 'ambiguous'>;

/**
 * Matches desired records of which a part of the natural key is empty or missing with live ones of exactly the same content: somebody created them again. One on
 * each side is a match; several are ambiguous.
 */
function matchByContent(
  definition: ResourceDefinition,
  { missing, extra, ambiguous }: ByName,
  counterparts: MatchedIds,
): ByName & Pick<KindMatch, 'pairs'> {
  const none = { pairs: [], missing, extra, ambiguous };
  if (missing.length === 0 || extra.length === 0 || definition.naturalKey.length === 0) return none;
  if (writableFields(definition).length === 0 || definition.restore.creation.by !== 'request') return none;
  const contents = new Map<string, { desired: ParsedRecord[]; live: ParsedRecord[] }>();
  const add = (side: 'desired' | 'live', record: ParsedRecord): void => {
    const scope = side === 'live' ? record.scope : counterparts.scope(record.scope);
    const digest = scope === null ? null : contentDigest(definition, record.body);
    if (scope === null || digest === null) return;
    const key = `${scopeKey(scope)} ${digest}`;
    const own = contents.get(key) ?? { desired: [], live: [] };
    own[side].push(record);
    contents.set(key, own);
  };
  for (const record of missing) add('desired', record);
  if (contents.size === 0) return none;
  for (const record of extra) add('live', record);
  const both = [...contents.values()].filter(({ desired, live }) => desired.length > 0 && live.length > 0);
  const matched = new Set(both.flatMap(({ desired, live }) => [...desired, ...live]));
  return {
    pairs: both.flatMap(({ desired: [from, ...others], live: [to, ...more] }) =>
      from !== undefined && to !== undefined && others.length + more.length === 0
        ? [{ desired: from, live: to }]
        : [],
    ),
    missing: missing.filter((record) => !matched.has(record)),
    extra: extra.filter((record) => !matched.has(record)),
    ambiguous: [
      ...ambiguous,
      ...both
        .filter(({ desired, live }) => desired.length + live.length > 2)
        .map(({ desired, live }) => {
          const [first] = desired;
          const name = first === undefined ? '' : recordName(definition, first.body, first.id);
          return { name, desired, live };
        }),
    ],
  };
}

/** The digest of the managed fields; null for a record that has a name or no managed field. */
function contentDigest(definition: ResourceDefinition, body: JsonValue): string | null {
  if (!isJsonObject(body) || naturalKeyDigest(definition, body) !== null) return null;
  const members = comparedMembers(definition, body, 'managed');
  return members.length === 0 ? null : valueDigest(members);
}

export interface KindMatch {
  readonly definition: ResourceDefinition;
  readonly pairs: readonly Pair[];
  /** Desired records that live lacks. */
  readonly missing: readonly ParsedRecord[];
  /** Live records that the desired state lacks. */
  readonly extra: readonly ParsedRecord[];
  readonly ambiguous: readonly {
    readonly name: string;
    readonly desired: readonly ParsedRecord[];
    readonly live: readonly ParsedRecord[];
    /** Given if a run found the desired record gone and the live one matches another desired record: that run. */
    readonly goneSince?: number;
    /** Given if they may differ in pointers that no request sets: these. */
    readonly unsent?: readonly string[];
  }[];
  /** All live records of the kind. */
  readonly live: readonly ParsedRecord[];
}
