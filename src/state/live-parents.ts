/** Whether the parent record of a collection exists in live: children of a removed parent are removed too. */
import type { ReadClient } from '../api/read-client.ts';
import { collectionKey } from '../catalog/collection-key.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { teamIds } from '../catalog/team-ids.ts';
import type { SourceConfig } from '../config/config.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { type TidemarkError, asTidemarkError, isLocalError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { RecordKey } from '../diff/order.ts';
import { type RecordState, pairByKey } from '../diff/states.ts';
import type { SweepReport } from '../sync/outcome.ts';
import { type StateFilter, filterParts } from './filter.ts';
import { runInSlices } from './run-document.ts';
import type { Coverage, CollectionKey, LoadedState } from './state.ts';

type ParentStatus = 'there' | 'gone' | Exclude<Coverage, { how: 'read' | 'absent' }>;

interface KnownParents {
  /** `kind id` of every parent record. */
  readonly ids: ReadonlySet<string>;
  readonly organizations: readonly string[];
}

export class LiveParents {
  readonly #source: SourceConfig;
  readonly #sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined;
  readonly #records: (filter: StateFilter) => Iterable<RecordState>;
  #known: KnownParents | null = null;

  constructor(
    source: SourceConfig,
    sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined,
    records: (filter: StateFilter) => Iterable<RecordState>,
  ) {
    this.#source = source;
    this.#sweepOf = sweepOf;
    this.#records = records;
  }

  /** Of the innermost record that the scope names. */
  of(scope: Scope): ParentStatus {
    const { organization_id: organization, project_id: project, role_id: role } = scope;
    if (organization !== undefined) {
      const status = this.#organization(organization);
      if (status !== 'there' || role === undefined) return status;
      return this.#listed('role_id', role, [{ organization_id: organization }]);
    }
    return project === undefined ? 'there' : this.#project(project);
  }

  #organization(id: string): ParentStatus {
    const { organizations } = this.#source;
    if (organizations !== 'all' && !organizations.includes(id)) {
      return { how: 'left_out', reason: 'outside the organizations that the configuration names' };
    }
    return this.#listed('organization_id', id, [{}]);
  }

  #project(id: string): ParentStatus {
    const { projects } = this.#source;
    if (projects !== 'all' && !projects.includes(id)) {
      return { how: 'left_out', reason: 'outside the projects that the configuration names' };
    }
    const { ids, organizations } = this.#ids();
    const lists = organizations.map((organization) => ({ organization_id: organization }));
    const root = this.#listed('organization_id', '', [{}]);
    const status = root === 'gone' ? this.#listed('project_id', id, lists) : root;
    if (ids.has(`${SCOPE_KIND.project_id} ${id}`)) return 'there';
    // It may have been removed, or belong to another organization.
    return status === 'gone' && this.#source.organizations !== 'all'
      ? { how: 'left_out', reason: 'not in the organizations that the configuration names' }
      : status;
  }

  /** By the lists of these scopes: `gone` only if all of them are complete. */
  #listed(key: keyof typeof SCOPE_KIND, id: string, scopes: readonly Scope[]): ParentStatus {
    const kind = SCOPE_KIND[key];
    if (this.#ids().ids.has(`${kind} ${id}`)) return 'there';
    for (const scope of scopes) {
      const sweep = this.#sweepOf(kind, scope);
      if (sweep?.outcome === 'complete') continue;
      const why =
        sweep === undefined ? 'were not read' : `could not be read: ${sweep.error?.message ?? sweep.outcome}`;
      return {
        how: 'unread',
        reason: `the ${kind} that it may belong to ${why}`,
        code: sweep?.error?.code ?? null,
      };
    }
    return 'gone';
  }

  #ids(): KnownParents {
    if (this.#known !== null) return this.#known;
    const ids = new Set<string>();
    const organizations: string[] = [];
    for (const { kind, id, body } of this.#records({ kinds: Object.values(SCOPE_KIND) })) {
      ids.add(`${kind} ${id}`);
      if (kind !== SCOPE_KIND.organization_id) continue;
      organizations.push(id);
      for (const team of teamIds(body)) ids.add(`${SCOPE_KIND.project_id} ${team}`);
    }
    this.#known = { ids, organizations };
    return this.#known;
  }
}

// Records that another state holds and a live list did not show. As in a sync, an absence needs proof (design.md, The sync:
// Absence): a retrieve of each record or, for kinds without one, a list in one page or a second reading of a longer one.

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
  readonly against: LoadedState;
  readonly filter: StateFilter;
  readonly client: ReadClient;
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  readonly concurrency: number;
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
  const parents = Object.values(SCOPE_KIND);
  const isParentAsked = ids === undefined && kinds === undefined;
  if (!isParentAsked) {
    const others = parents.filter((kind) => ids !== undefined || kinds?.includes(kind) !== true);
    await settlePart(live, options, { ...within, kinds: others });
  }
  await settlePart(live, options, options.filter);
}

async function settlePart(live: LiveLists, options: AbsenceOptions, filter: StateFilter): Promise<void> {
  const absent = await absentFrom(live, options, filter);
  const again = [...absent.values()].filter(
    ({ kind, scope }) => !isRetrievable(options, kind) && live.pagesOf(kind, scope) !== 1,
  );
  if (again.length > 0) {
    const kinds = [...new Set(again.map(({ kind }) => kind))];
    await live.readAgain(kinds);
    const still = await absentFrom(live, options, { ...filter, kinds });
    for (const { kind, scope, count } of again) {
      const shown = count - (still.get(collectionKey({ kind, scope }))?.count ?? 0);
      if (shown > 0) live.settle(leaking(options, { kind, scope }, shown));
    }
  }
  for (const { kind, scope, ids, count } of absent.values()) {
    if (isRetrievable(options, kind)) live.settle(await lookUp(options, { kind, scope }, ids, count));
  }
}

function isRetrievable({ definitionOf }: AbsenceOptions, kind: Kind): boolean {
  return definitionOf(kind).operation('retrieve') !== undefined;
}

/** A list whose second reading showed records that the first did not; the state has the records of both. */
function leaking({ log }: AbsenceOptions, place: CollectionKey, shown: number): Absence {
  log.warn({ ...place, records: shown }, 'a proven list did not show records that its second reading did');
  return { ...place, leaked: shown, found: [], unknown: new Set(), unconfirmed: 0, error: null };
}

interface Absent extends CollectionKey {
  /** The first ones. */
  readonly ids: string[];
  count: number;
}

async function absentFrom(
  live: LiveLists,
  { against, definitionOf, newIdOf, signal }: AbsenceOptions,
  filter: StateFilter,
): Promise<ReadonlyMap<string, Absent>> {
  const absent = new Map<string, Absent>();
  const organizations = filter.organizations ?? [];
  const parts = filterParts(filter, () => [
    ...new Set([...against.projectsOf(organizations), ...live.projectsOf(organizations)]),
  ]);
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

async function lookUp(
  { client, definitionOf, concurrency, log, signal }: AbsenceOptions,
  { kind, scope }: CollectionKey,
  ids: readonly string[],
  count: number,
): Promise<Absence> {
  const found: RecordState[] = [];
  const unknown = new Set<string>();
  let error: TidemarkError | null = null;
  await eachConcurrently(ids, concurrency, async (id) => {
    try {
      const answer = await client.retrieve(definitionOf(kind), scope, id, signal);
      if (!answer.found) return;
      log.warn({ kind, scope, id }, 'a proven list did not show a record that exists');
      found.push({ kind, scope, id, body: answer.text });
    } catch (failure) {
      signal.throwIfAborted();
      const known = asTidemarkError(failure);
      if (isLocalError(known.code)) throw failure;
      unknown.add(id);
      error ??= known;
    }
  });
  return { kind, scope, leaked: found.length, found, unknown, unconfirmed: count - ids.length, error };
}

// Which projects an organization has: those of its projects list, and those of its `teams`.

/** The ids, from the records of a state. */
export function projectsIn(
  records: (filter: StateFilter) => Iterable<RecordState>,
  organizations: readonly string[],
): readonly string[] {
  const found = new Set<string>();
  for (const { kind, id, body } of records({ kinds: ['organizations', 'projects'], organizations })) {
    if (kind === 'projects') found.add(id);
    else for (const team of teamIds(body)) found.add(team);
  }
  return [...found];
}
