/**
 * Records that another state holds and a live list did not show. As in a sync, an absence needs proof (`proofOfAbsence`):
 * a retrieve of each record or, for kinds without one, a list in one page or a second reading of a longer one.
 */
import type { ReadClient } from '../api/read-client.ts';
import { definitionOf, collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { type RecordState, pairByKey, runInSlices } from '../diff/states.ts';
import { confirmAbsent, proofOfAbsence } from '../sync/absence.ts';
import { type StateFilter, filterParts } from './filter.ts';
import type { LoadedState } from './state.ts';

/** Records looked up per collection, one request each. Further ones count as absent, and the collection as stale. */
export const MAX_LOOKUPS = 200;
/** Records compared before the event loop gets control. */
const RECORDS_PER_STEP = 1000;

/** The records of a collection that its list did not show, after looking them up. */
export interface Absence extends CollectionKey {
  /** How many of them exist. */
  readonly leaked: number;
  /** These, where the state does not hold them yet. */
  readonly found: readonly RecordState[];
  /** Ids of those whose look-up failed. */
  readonly unknown: ReadonlySet<string>;
  /** How many were not looked up (`MAX_LOOKUPS`). */
  readonly unconfirmed: number;
  /** The first error of a look-up. */
  readonly error: TidemarkError | null;
}

/** The live state while absences are being settled. */
export interface LiveLists extends Pick<LoadedState, 'projectsOf' | 'unknownIn'> {
  /** In the order of `compareKeys`. */
  keys(filter: StateFilter): Iterable<RecordKey>;
  /** How many pages the collection's list had; null if it is not proved complete, or there is none. */
  pagesOf(kind: Kind, scope: Scope): number | null;
  /** Reads these kinds once more and adds what they show. */
  readAgain(kinds: readonly Kind[]): Promise<void>;
  settle(absence: Absence): void;
}

export interface AbsenceOptions {
  readonly source: SourceConfig;
  readonly client: ReadClient;
  readonly filter: StateFilter;
  /** The state that live is compared with. */
  readonly against: LoadedState;
  /**
   * The new id of a record that a restore recreated. If a list shows that id, the old one is known to be gone and is not
   * looked up.
   */
  readonly newIdOf?: (kind: Kind, id: string) => string | undefined;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Settles parents first: collections below a parent that no list showed were not read. */
export async function settleLive(live: LiveLists, options: AbsenceOptions): Promise<void> {
  const { ids, kinds, ...within } = options.filter;
  if (ids !== undefined || kinds !== undefined) {
    const parents = Object.values(SCOPE_KIND);
    const others = parents.filter((kind) => ids !== undefined || kinds?.includes(kind) !== true);
    await settlePart(live, options, { ...within, kinds: others });
  }
  await settlePart(live, options, options.filter);
}

async function settlePart(live: LiveLists, options: AbsenceOptions, filter: StateFilter): Promise<void> {
  const { source, client, log, signal } = options;
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
        'a proven list did not show records that its second reading did',
      );
      live.settle({ kind, scope, leaked, found: [], unknown: new Set(), unconfirmed: 0, error: null });
    }
  }
  const reader = { client, concurrency: Math.max(1, source.rate.concurrency), signal, log };
  for (const { kind, scope, ids, count, definition, proof } of all) {
    if (proof !== 'retrieve') continue;
    const found: RecordState[] = [];
    const unknown = new Set<string>();
    const { leaked, error } = await confirmAbsent(reader, { definition, scope }, ids, {
      exists: (id, body) => found.push({ kind, scope, id, body }),
      isUnknown: (id) => unknown.add(id),
    });
    live.settle({ kind, scope, leaked, unconfirmed: count - ids.length, found, unknown, error });
  }
}

interface Absent extends CollectionKey {
  /** The first ones. */
  readonly ids: string[];
  count: number;
}

async function absentFrom(
  live: LiveLists,
  { against, newIdOf, signal }: AbsenceOptions,
  filter: StateFilter,
): Promise<ReadonlyMap<string, Absent>> {
  const absent = new Map<string, Absent>();
  const parts = filterParts(filter, against, live);
  const count = ({ kind, scope, id }: RecordKey): void => {
    const key = collectionKey({ kind, scope });
    const own = absent.get(key) ?? { kind, scope, ids: [], count: 0 };
    absent.set(key, own);
    own.count += 1;
    if (own.ids.length < MAX_LOOKUPS) own.ids.push(id);
  };
  /** Records that were recreated, with their new ids. */
  const recreated: { readonly record: RecordKey; readonly now: string }[] = [];
  const steps = function* (): Generator<undefined, undefined, undefined> {
    let seen = 0;
    for (const part of parts) {
      for (const { from, to } of pairByKey(against.keys?.(part) ?? against.records(part), live.keys(part))) {
        seen += 1;
        if (seen % RECORDS_PER_STEP === 0) yield undefined;
        if (to !== undefined) continue;
        const { kind, scope, id } = from;
        if (definitionOf(kind).reading === 'each' || live.pagesOf(kind, scope) === null) continue;
        if (live.unknownIn(kind, scope)?.covers(id) === true) continue;
        const now = newIdOf?.(kind, id);
        if (now === undefined) count(from);
        else recreated.push({ record: { kind, scope, id }, now: `${kind} ${now}` });
      }
    }
    if (recreated.length === 0) return undefined;
    const hidden = new Set(recreated.map(({ now }) => now));
    for (const part of parts) {
      for (const { kind, id } of live.keys(part)) {
        seen += 1;
        if (seen % RECORDS_PER_STEP === 0) yield undefined;
        hidden.delete(`${kind} ${id}`);
      }
    }
    for (const { record, now } of recreated) if (hidden.has(now)) count(record);
    return undefined;
  };
  await runInSlices(steps(), signal);
  return absent;
}
