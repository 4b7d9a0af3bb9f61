/** Which live record is which desired one: by id, then by id map, then by natural key (design.md, Restore). */
import type { Kind, ResourceDefinition, Scope, ScopeKey } from '../catalog/definition.ts';
import { SCOPE_KEYS } from '../catalog/definition.ts';
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { recordName } from '../diff/name.ts';
import { matchTwins, TwinIds } from '../diff/natural-key.ts';
import { withoutDoubles } from './families.ts';
import type { Adoption } from './plan.ts';
import type { PlanInput } from './plan-input.ts';
import { placeOf } from './record-place.ts';

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
  }[];
  /** All live records of the kind. */
  readonly live: readonly ParsedRecord[];
}

export interface Matching {
  readonly kinds: ReadonlyMap<Kind, KindMatch>;
  readonly adopted: readonly Adoption[];
  /** The kind under which a desired record was kept. */
  recordedKind(desired: ParsedRecord): Kind;
  /** The live id of a desired record's id; undefined where none is known. */
  liveId(kind: Kind, desiredId: string): string | undefined;
  /** A desired scope in live ids; null where a parent has none. */
  liveScope(scope: Scope): Scope | null;
}

/** Matches kind by kind, parents first. */
export function matchStates(input: PlanInput): Matching {
  const records = withoutDoubles(input.desired, input.live, input.definitions);
  const desiredByKind = Map.groupBy(records.desired, ({ kind }) => kind);
  const liveByKind = Map.groupBy(records.live, ({ kind }) => kind);
  const twins = new TwinIds();
  const known = knownIds(input, records.live);
  const kinds = new Map<Kind, KindMatch>();
  const adopted: Adoption[] = [];
  for (const { kind } of CATALOG) {
    const definition = input.definitions(kind);
    const desired = desiredByKind.get(kind) ?? [];
    const live = liveByKind.get(kind) ?? [];
    const sides = { live, known: known.get(kind) ?? new Set<string>() };
    const byIdMap = matchById(input, definition, desired, sides, twins);
    const byName = matchByName(input, definition, desired, live, twins);
    for (const pair of byName.pairs) {
      twins.pair(kind, pair.desired.id, pair.live.id);
      if (pair.desired.id === pair.live.id) continue;
      adopted.push({
        kind,
        scope: pair.live.scope,
        name: recordName(definition, pair.desired.body, pair.desired.id),
        desired_id: pair.desired.id,
        live_id: pair.live.id,
        by: byIdMap.has(pair.desired.id) ? 'id_map' : 'natural_key',
      });
    }
    kinds.set(kind, { definition, live, ...byName });
  }
  return {
    kinds,
    adopted,
    recordedKind: (desired) => records.kindOf.get(desired) ?? desired.kind,
    liveId: (kind, id) => twins.twin(kind, id),
    liveScope: (scope) => twins.scope(scope),
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
 * Pairs by id, then by id map; returns the ids that the id map paired. A live record is taken once. Below a parent that
 * has another id by now (made again, another instance) the id map goes first, and an equal id tells nothing.
 */
function matchById(
  input: PlanInput,
  definition: ResourceDefinition,
  desired: readonly ParsedRecord[],
  sides: { readonly live: readonly ParsedRecord[]; readonly known: ReadonlySet<string> },
  twins: TwinIds,
): ReadonlySet<string> {
  const { kind } = definition;
  const keys = new Set(sides.live.map(({ scope, id }) => placeOf(kind, scope, id)));
  const taken = new Set<string>();
  const strangers = new Set<string>();
  const lost: { id: string; liveScope: Scope }[] = [];
  for (const { scope, id } of desired) {
    const liveScope = twins.scope(scope);
    if (liveScope === null) {
      if (!isIdLasting(definition, scope, null)) strangers.add(id);
      continue;
    }
    const key = placeOf(kind, liveScope, id);
    const isLasting = isIdLasting(definition, scope, liveScope);
    if (isLasting && keys.has(key)) taken.add(key);
    else lost.push({ id, liveScope });
    if (!isLasting) strangers.add(id);
  }
  // An id that live knows means the same record on both sides, unless a match says otherwise.
  for (const id of sides.known) if (!strangers.has(id)) twins.pair(kind, id, id);
  const byIdMap = new Set<string>();
  for (const { id, liveScope } of lost) {
    const now = input.idMap(kind, id);
    if (now === undefined) continue;
    const key = placeOf(kind, liveScope, now);
    if (!keys.has(key) || taken.has(key)) continue;
    taken.add(key);
    twins.pair(kind, id, now);
    byIdMap.add(id);
  }
  return byIdMap;
}

/**
 * True where an equal id in live is the same record: its parent kept its id too, or ids of the kind are never given
 * twice. Numbers are counted anew by every instance.
 */
export function isIdLasting(
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
  twins: TwinIds,
): Pick<KindMatch, 'pairs' | 'missing' | 'extra' | 'ambiguous'> {
  const mayAdopt = definition.restore.creation.by !== 'consent' || input.options.createOrganizations;
  // Without a natural key only the id counts.
  const rules = mayAdopt ? definition : { ...definition, naturalKey: [] };
  const match = matchTwins(rules, desired, live, twins);
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
    // A project's own collection stands below its organization, which its scope does not name.
    const value = scope[each];
    if (value !== undefined) above[each] = value;
  }
  return { kind: SCOPE_KIND[key], scope: above, id: scope[key] ?? '' };
}
