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
import { naturalKeyDigest, PlacesOfKind } from '../records.ts';
import type { PlanInput, Adoption, PlanState } from './plan.ts';
import { bySendableKey, writableFields } from './settings.ts';

/** A desired record that was found under another id, and the live one that it is. */
interface Adopted {
  readonly adoption: Adoption;
  readonly desired: ParsedRecord;
  readonly live: ParsedRecord;
}

export interface Matching {
  readonly kinds: ReadonlyMap<Kind, KindMatch>;
  readonly adopted: readonly Adopted[];
  /** The kind under which a desired record was kept. */
  recordedKind(desired: ParsedRecord): Kind;
  /** The live id of a desired record's id; undefined if none is known. */
  liveId(kind: Kind, desiredId: string): string | undefined;
  /** A desired scope in live ids; null where a parent has none. */
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

/** A desired record and the live one that it is. */
type Pair = KindMatch['pairs'][number];

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

/** Ids of live parents, also of those that only their collections name: desired scopes may name them too. */
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
 * Pairs by id, then by id map; returns the ids that the id map paired. A live record is taken once. Below a parent
 * that has another id by now (recreated, or another instance) the id map goes first, and an equal id means nothing.
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
  // An id that live knows means the same record on both sides, unless a match says otherwise.
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

interface MatchesAndRest {
  readonly pairs: KindMatch['pairs'];
  /** Those without a counterpart. */
  readonly desired: readonly ParsedRecord[];
  readonly live: readonly ParsedRecord[];
}

/** The records whose counterpart is known by now, and the others. */
function pairsOf(
  kind: Kind,
  desired: readonly ParsedRecord[],
  live: readonly ParsedRecord[],
  places: PlacesOfKind<ParsedRecord>,
  counterparts: MatchedIds,
): MatchesAndRest {
  const pairs: { desired: ParsedRecord; live: ParsedRecord }[] = [];
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

/**
 * True where an equal id in live is the same record: UUIDs are unique; integer ids only below a parent with the same id,
 * since every instance counts its own.
 */
export function isIdStable(
  { idType }: Pick<ResourceDefinition, 'idType'>,
  desiredScope: Scope,
  liveScope: Scope | null,
): boolean {
  return idType === 'uuid' || (liveScope !== null && scopeKey(desiredScope) === scopeKey(liveScope));
}

/** What is left matches by natural key. The root kind only with consent: its namesake may be somebody else's. */
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

/** The part of a scope that names the parent record of that key, with the kind of it. */
export function parentOf(
  scope: Scope,
  key: ScopeKey,
): { readonly kind: Kind; readonly scope: Scope; readonly id: string } {
  const above: Partial<Record<ScopeKey, string>> = {};
  for (const each of SCOPE_KEYS) {
    if (each === key) break;
    // A project's own collection is below its organization, which its scope does not name.
    const value = scope[each];
    if (value !== undefined) above[each] = value;
  }
  return { kind: SCOPE_KIND[key], scope: above, id: scope[key] ?? '' };
}

// Desired records that are missing and not lost: what they were made into is there, and is a desired record itself.

/**
 * Missing records that may not be lost: one that the id map leads to a live record which matches another desired record
 * already (a state that has the record both before and after it was created again), and one that a run found removed
 * while both states have another record of the same name, whoever created it. Whether that is the same record is for a
 * person to decide, because creating it could duplicate it.
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
  const namesakes = new Map<string, ParsedRecord[]>();
  const nameIn = (scope: Scope, { body }: ParsedRecord): string | null => {
    const digest = naturalKeyDigest(definition, body);
    return digest === null ? null : `${scopeKey(scope)} ${digest}`;
  };
  for (const { live } of pairs) {
    places.set(live.scope, live.id, live);
    const name = nameIn(live.scope, live);
    if (name !== null) namesakes.set(name, [...(namesakes.get(name) ?? []), live]);
  }
  const adopted: Pair[] = [];
  const doubtful: KindMatch['ambiguous'][number][] = [];
  const settled = new Set<ParsedRecord>();
  for (const desired of suspects) {
    const scope = counterparts.scope(desired.scope);
    if (scope === null) continue;
    const now = input.idMap(definition.kind, desired.id);
    const live = now === undefined ? undefined : places.get(scope, now);
    const since = input.goneSince?.(desired);
    const same = namesakes.get(nameIn(scope, desired) ?? '') ?? [];
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
 * Missing records of which live has a namesake that the desired state does not have, where no request takes the rest of the natural key
 * (the project of an export): recreated by hand, the service may have put it elsewhere.
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
  // What is pruned makes room.
  const staying = options.prune === null ? extra : extra.filter((live) => !isInScope(live));
  const isWhole = naturalKey.length === 0 || byName === definition;
  if (isWhole || staying.length === 0 || missing.length === 0) return { missing, ambiguous };
  const nameIn = (scope: Scope | null, { body }: ParsedRecord): string | null => {
    const digest = scope === null ? null : naturalKeyDigest(byName, body);
    return scope === null || digest === null ? null : `${scopeKey(scope)} ${digest}`;
  };
  const namesakes = Map.groupBy(staying, (live) => nameIn(live.scope, live));
  const namesakesOf = (desired: ParsedRecord): readonly ParsedRecord[] => {
    const name = nameIn(counterparts.scope(desired.scope), desired);
    return name === null ? [] : (namesakes.get(name) ?? []);
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

interface SingleStates {
  readonly desired: readonly ParsedRecord[];
  readonly live: readonly ParsedRecord[];
  /** The kind under which a desired record was kept, where it is planned as another one. */
  readonly kindOf: ReadonlyMap<ParsedRecord, Kind>;
}

/**
 * The records of both states, each family's record once: under the first kind that can be written, of those under which
 * both states show it, else live, else the desired one.
 */
function onePerFamily(
  desired: PlanState,
  live: PlanState,
  definitions: (kind: Kind) => ResourceDefinition,
): SingleStates {
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
 * For any record of the family, the kinds under which it is shown in these records: what is asked for by one of them is
 * meant, whichever kind it is planned as. Only its own kind where it has no family.
 */
export function shownKinds(
  records: Iterable<ParsedRecord>,
  definitions: (kind: Kind) => ResourceDefinition,
): (record: RecordKey) => Iterable<Kind> {
  const shown = new Map<string, Set<Kind>>();
  for (const record of records) {
    const { kind } = record;
    const { family } = definitions(kind);
    if (family === null) continue;
    const key = familyKey(family, record);
    const kinds = shown.get(key);
    if (kinds === undefined) shown.set(key, new Set([kind]));
    else kinds.add(kind);
  }
  return (record) => {
    const { family } = definitions(record.kind);
    return (family === null ? undefined : shown.get(familyKey(family, record))) ?? [record.kind];
  };
}

function familyKey(family: string, { scope, id }: RecordKey): string {
  return `${family} ${scopeKey(scope)} ${id}`;
}

function byFamilyKey(
  records: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): Map<string, ParsedRecord[]> {
  const families = new Map<string, ParsedRecord[]>();
  for (const record of records) {
    const { family } = definitions(record.kind);
    if (family === null) continue;
    const key = familyKey(family, record);
    const same = families.get(key);
    if (same === undefined) families.set(key, [record]);
    else same.push(record);
  }
  return families;
}

type ByName = Pick<KindMatch, 'missing' | 'extra' | 'ambiguous'>;

/**
 * Desired records without a natural key that exist live with exactly the same content under another id: somebody
 * created them again. One on each side is a match; several cannot be distinguished.
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
        .map(({ desired, live }) => ({
          name: contentName(definition, desired[0] ?? live[0]),
          desired,
          live,
        })),
    ],
  };
}

function contentName(definition: ResourceDefinition, record: ParsedRecord | undefined): string {
  return record === undefined ? '' : recordName(definition, record.body, record.id);
}

/** Null for a record that has a name, or nothing that restore manages. */
function contentDigest(definition: ResourceDefinition, body: JsonValue): string | null {
  if (!isJsonObject(body) || naturalKeyDigest(definition, body) !== null) return null;
  const members = comparedMembers(definition, body, 'managed');
  return members.length === 0 ? null : valueDigest(members);
}

export interface KindMatch {
  readonly definition: ResourceDefinition;
  readonly pairs: readonly { readonly desired: ParsedRecord; readonly live: ParsedRecord }[];
  /** Desired, and not found live. */
  readonly missing: readonly ParsedRecord[];
  /** Live, and not desired. */
  readonly extra: readonly ParsedRecord[];
  readonly ambiguous: readonly {
    readonly name: string;
    readonly desired: readonly ParsedRecord[];
    readonly live: readonly ParsedRecord[];
    /** The run that found the desired one gone, if that is the reason: the live one is another desired record too. */
    readonly goneSince?: number;
    /** The pointers in which they differ, where that is the reason: no request takes these. */
    readonly unsent?: readonly string[];
  }[];
  /** All live records of the kind. */
  readonly live: readonly ParsedRecord[];
}
