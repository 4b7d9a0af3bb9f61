/**
 * Looks up records that another state has and a live list did not show. As in a sync, an absence needs proof
 * (`proofOfAbsence`): a retrieve of each record or, for kinds without one, a list in one page or a second reading of a
 * longer list.
 */
import type { ReadClient } from '../api/read-client.ts';
import { definitionOf, collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import { cached } from '../core/cached.ts';
import type { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { storedName } from '../diff/change.ts';
import { type RecordState, pairByKey, runInSlices } from '../diff/states.ts';
import { confirmAbsent, proofOfAbsence } from '../sync/absence.ts';
import { type StateFilter, filterParts, keysOf, selectsRecord } from './filter.ts';
import type { LoadedState } from './state.ts';

/** Ids looked up per collection, one request each. The others count as absent, and the collection as stale. */
export const MAX_LOOKUPS = 200;
/** Records compared before the event loop gets control. */
const RECORDS_PER_STEP = 1000;

/** The result of looking up the records that the list of a collection did not show. */
export interface Absence extends CollectionKey {
  /** How many of them exist. */
  readonly leaked: number;
  /** The existing ones that the live state does not have yet. */
  readonly found: readonly RecordState[];
  /** Ids whose look-up failed. */
  readonly unknown: ReadonlySet<string>;
  /** How many records the list did not show. */
  readonly count: number;
  /** How many of them were not looked up (`MAX_LOOKUPS`). */
  readonly unconfirmed: number;
  /** The first error of a look-up. */
  readonly error: TidemarkError | null;
}

/** The live state while absent records are looked up. */
export interface LiveLists extends Pick<LoadedState, 'projectsOf' | 'unknownIn'> {
  /** In the order of `compareKeys`. */
  keys(filter: StateFilter): Iterable<RecordKey>;
  /** How many pages the collection's list had; null if it is not proved complete, or there is none. */
  pagesOf(kind: Kind, scope: Scope): number | null;
  /** Reads these kinds once more and adds their records. */
  readAgain(kinds: readonly Kind[]): Promise<void>;
  settle(absence: Absence): void;
}

export interface AbsenceOptions {
  readonly source: SourceConfig;
  readonly client: ReadClient;
  readonly filter: StateFilter;
  /** The state that live is compared with. */
  readonly against: LoadedState;
  /** The mirror's latest state, if `against` is another state: it may have a lost record of that under another id. */
  readonly latest?: LoadedState;
  /**
   * The new id of a record that a restore recreated. If a list shows that id, the old one is known to be gone and is not
   * looked up; otherwise both are.
   */
  readonly newIdOf?: (kind: Kind, id: string) => string | undefined;
  /** True for records that are looked up in addition to the first `MAX_LOOKUPS`. */
  readonly isNamed?: (record: Pick<RecordKey, 'kind' | 'id'>) => boolean;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/**
 * Looks up what the lists of live did not show. Parents first: collections below a parent that no list showed were not
 * read. Last, records that may be lost ones under another id.
 */
export async function resolveLiveAbsences(live: LiveLists, options: AbsenceOptions): Promise<void> {
  const { ids, kinds, ...within } = options.filter;
  if (ids !== undefined || kinds !== undefined) {
    const parents = Object.values(SCOPE_KIND);
    const others = parents.filter((kind) => ids !== undefined || kinds?.includes(kind) !== true);
    await resolvePart(live, options, { ...within, kinds: others });
  }
  await resolvePart(live, options, options.filter);
  await settleNamesakes(live, options);
}

async function resolvePart(live: LiveLists, options: AbsenceOptions, filter: StateFilter): Promise<void> {
  const { source, log } = options;
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const all = [...(await absentFrom(live, options, filter)).values()].map((absent) => {
    const { kind, scope } = absent;
    const definition = definitions.get(kind) ?? definitionOf(kind);
    return { ...absent, definition, proof: proofOfAbsence(definition, live.pagesOf(kind, scope) === 1) };
  });
  const again = all.filter(({ proof }) => proof === 'second walk');
  if (again.length > 0) {
    const kinds = [...new Set(again.map(({ kind }) => kind))];
    await live.readAgain(kinds);
    const still = await absentFrom(live, options, { ...filter, kinds });
    for (const { kind, scope, count } of again) {
      // The state has the records of both readings.
      const leaked = count - (still.get(collectionKey({ kind, scope }))?.count ?? 0);
      if (leaked === 0) continue;
      log.warn(
        { kind, scope, records: leaked },
        'a list that was read completely did not show records that its second reading did',
      );
      live.settle({
        kind,
        scope,
        leaked,
        found: [],
        unknown: new Set(),
        count: 0,
        unconfirmed: 0,
        error: null,
      });
    }
  }
  for (const absent of all) if (absent.proof === 'retrieve') await lookUpEach(live, options, absent);
}

async function lookUpEach(
  live: LiveLists,
  { source, client, log, signal }: AbsenceOptions,
  { kind, scope, ids, count, lookedUp, definition }: Absent & { readonly definition: ResourceDefinition },
): Promise<void> {
  const reader = { client, concurrency: Math.max(1, source.rate.concurrency), signal, log };
  const found: RecordState[] = [];
  const unknown = new Set<string>();
  const { leaked, error } = await confirmAbsent(reader, { definition, scope }, ids, {
    exists: (id, body) => found.push({ kind, scope, id, body }),
    isUnknown: (id) => unknown.add(id),
  });
  live.settle({ kind, scope, leaked, count, unconfirmed: count - lookedUp, found, unknown, error });
}

/**
 * Looks up the records of the mirror's latest state that no list showed and that have the name of a record that live
 * lacks: somebody may have created that record again, and it must not be created a second time.
 */
async function settleNamesakes(live: LiveLists, options: AbsenceOptions): Promise<void> {
  const { against, latest, filter, source, newIdOf } = options;
  if (latest === undefined) return;
  const hidden = [...(await absentFrom(live, { ...options, against: latest }, filter)).values()];
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  for (const kind of new Set(hidden.map((each) => each.kind))) {
    const definition = definitions.get(kind) ?? definitionOf(kind);
    if (proofOfAbsence(definition, false) !== 'retrieve') continue;
    const parts = filterParts({ ...filter, kinds: [kind] }, against, latest, live);
    const nameOf = ({ id, body }: RecordState): string =>
      storedName(definition, parseLossless(body), id).toLowerCase();
    const lost = new Set<string>();
    const lookedUp = new Set<string>();
    for (const part of parts) {
      for (const { from, to } of pairByKey(against.records(part), live.keys(part))) {
        if (from === undefined) continue;
        lookedUp.add(from.id).add(newIdOf?.(kind, from.id) ?? from.id);
        if (to === undefined) lost.add(nameOf(from));
      }
    }
    const namesakes = new Map<string, Absent>();
    for (const part of lost.size === 0 ? [] : parts) {
      for (const { from, to } of pairByKey(latest.records(part), live.keys(part))) {
        if (from === undefined || to !== undefined || lookedUp.has(from.id)) continue;
        const { scope, id } = from;
        if (live.pagesOf(kind, scope) === null || !lost.has(nameOf(from))) continue;
        addAbsent(namesakes, { kind, scope, id }, options);
      }
    }
    for (const absent of namesakes.values()) await lookUpEach(live, options, { ...absent, definition });
  }
}

/** The records of a collection that its list did not show. */
interface Absent extends CollectionKey {
  /** Ids to look up: those of the first records, and of named ones. */
  readonly ids: Set<string>;
  /** How many records there are. A recreated one may have two ids in `ids`. */
  count: number;
  /** How many of the records are in `ids`. */
  lookedUp: number;
}

/** @param now the new id of a recreated record, if it is to be looked up too */
function addAbsent(
  absent: Map<string, Absent>,
  { kind, scope, id }: RecordKey,
  { isNamed }: Pick<AbsenceOptions, 'isNamed'>,
  now: string | null = null,
): void {
  const own = cached(absent, collectionKey({ kind, scope }), () => ({
    ...{ kind, scope, ids: new Set<string>(), count: 0, lookedUp: 0 },
  }));
  const ids = now === null ? [id] : [id, now];
  // A state may have a record both under its old id and under the new one.
  const isCounted = own.ids.has(id);
  if (!isCounted) own.count += 1;
  const isLookedUp =
    isCounted || own.ids.size < MAX_LOOKUPS || ids.some((each) => isNamed?.({ kind, id: each }) === true);
  if (!isLookedUp) return;
  if (!isCounted) own.lookedUp += 1;
  for (const each of ids) own.ids.add(each);
}

async function absentFrom(
  live: LiveLists,
  options: AbsenceOptions,
  filter: StateFilter,
): Promise<ReadonlyMap<string, Absent>> {
  const { against, newIdOf, signal } = options;
  const absent = new Map<string, Absent>();
  const parts = filterParts(filter, against, live);
  /** Recreated records with their new ids. */
  const recreated: { readonly record: RecordKey; readonly now: string }[] = [];
  const steps = function* (): Generator<undefined, undefined, undefined> {
    let compared = 0;
    for (const part of parts) {
      for (const { from, to } of pairByKey(keysOf(against, part), live.keys(part))) {
        compared += 1;
        if (compared % RECORDS_PER_STEP === 0) yield undefined;
        if (to !== undefined) continue;
        const { kind, scope, id } = from;
        if (definitionOf(kind).reading === 'each' || live.pagesOf(kind, scope) === null) continue;
        if (live.unknownIn(kind, scope)?.covers(id) === true) continue;
        const now = newIdOf?.(kind, id);
        if (now === undefined) addAbsent(absent, from, options);
        else recreated.push({ record: { kind, scope, id }, now });
      }
    }
    if (recreated.length === 0) return undefined;
    const hidden = new Set(recreated.map(({ record: { kind }, now }) => `${kind} ${now}`));
    // Without the ids of the filter: the new id of a named record need not be named.
    const { ids: _named, ...within } = filter;
    const whole = filterParts(within, against, live);
    for (const part of whole) {
      for (const { kind, id } of live.keys(part)) {
        compared += 1;
        if (compared % RECORDS_PER_STEP === 0) yield undefined;
        hidden.delete(`${kind} ${id}`);
      }
    }
    for (const { record, now } of recreated) {
      if (!hidden.has(`${record.kind} ${now}`)) continue;
      const isSelected = whole.some((part) => selectsRecord(part, { ...record, id: now }));
      addAbsent(absent, record, options, isSelected ? now : null);
    }
    return undefined;
  };
  await runInSlices(steps(), signal);
  return absent;
}
