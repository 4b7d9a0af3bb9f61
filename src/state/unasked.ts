/**
 * What the configuration now leaves out: the mirror has it as of the last run that asked for it. The one place that decides
 * it, for comparisons, drift, exports and status.
 */
import { activityKinds, collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { compareKeys, type RecordKey } from '../catalog/order.ts';
import { groupsBy } from '../core/group.ts';
import { plural } from '../core/wording.ts';
import { type KindChoice, excludedKinds, isExcludedBy } from '../config/mirrored-kinds.ts';
import type { LeftOut, Skipped } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { SeenCollection, UnaskedCollection } from '../mirror/sweeps-as-of.ts';
import type { StateFilter } from './filter.ts';
import type { LoadedState, Unasked } from './state.ts';

export const EXCLUDED = 'the configuration excludes the kind';

/** In the same words as live states. */
const REASON: Readonly<Record<UnaskedCollection['by'], string>> = {
  kind: EXCLUDED,
  organization_id: 'outside the organizations that the configuration names',
  project_id: 'outside the projects that the configuration names',
  organization_of_project: 'outside the organizations that the configuration names',
};

/**
 * Kinds that the configuration excludes and of which neither state has a list, with the reason: they must not pass for
 * compared. Without activity data, which comparisons leave out anyway.
 * @param configured the source; undefined if it is not in the configuration
 */
export function kindsOfNeither(
  configured: KindChoice | undefined,
  states: readonly Pick<LoadedState, 'collections'>[],
  filter: StateFilter,
): ReadonlyMap<Kind, string> {
  if (configured === undefined || filter.kinds !== undefined) return new Map();
  const known = new Set(states.flatMap((state) => state.collections().map(({ kind }) => kind)));
  const excluded = excludedKinds(configured).filter((kind) => !known.has(kind));
  const activity = activityKinds();
  return new Map(excluded.filter((kind) => !activity.includes(kind)).map((kind) => [kind, EXCLUDED]));
}

/**
 * Returns why nothing is known of a kind as of a run: no run asked for it, because runs were limited to other kinds, or
 * because the configuration left it out. Null if a run asked for it, and if no parent has such a list.
 */
export function neverAsked(
  mirror: Pick<Mirror, 'runs' | 'records'>,
  { source, run }: StateOfRun,
): (kind: Kind) => string | null {
  const known = new Set(mirror.runs.collections(source).map(({ kind }) => kind));
  const hasAny = (kind: Kind): boolean =>
    mirror.records.countsAt(run, { sources: [source], kinds: [kind] }).some(({ records }) => records > 0);
  const isMissing = (kind: Kind): boolean => {
    if (known.has(kind)) return false;
    const { from } = definitionOf(kind).discovery;
    return from === 'root' || isMissing(from) || hasAny(from);
  };
  return (kind) => {
    if (!isMissing(kind)) return null;
    // The run may be of another source of the mirror.
    const [own] = mirror.runs.list({ source, isPublished: true, upTo: run, limit: 1 });
    if (own === undefined) return `no run of source ${source} up to run ${run} read it`;
    return own.kinds === null
      ? `no run up to run ${own.run} read it`
      : `run ${own.run} was limited to ${own.kinds.join(', ')}, and no earlier run read it`;
  };
}

/**
 * Kinds of which no run of a configured source read a list, in catalog order, with the reason: `EXCLUDED`, or as in
 * `neverAsked`. Empty if no run was published: then nothing is known of any kind.
 */
export function kindsNeverRead(
  mirror: Pick<Mirror, 'runs' | 'records'>,
  config: Parameters<typeof isExcludedBy>[0],
  source: string,
): ReadonlyMap<Kind, string> {
  const latest = mirror.runs.latest(source);
  if (latest === undefined || !config.sources.some(({ name }) => name === source)) return new Map();
  const isExcluded = isExcludedBy(config, source);
  const reasonOf = neverAsked(mirror, { source, run: latest.run });
  return new Map(
    KINDS.flatMap((kind): [Kind, string][] => {
      const reason = reasonOf(kind);
      return reason === null ? [] : [[kind, isExcluded(kind) ? EXCLUDED : reason]];
    }),
  );
}

/**
 * Kinds of which neither state has a list because no run was asked for them. They are `skipped` if the filter names kinds.
 * @param leaveOut kinds that are left out for another reason
 */
export function neverAskedKinds(
  states: readonly Pick<LoadedState, 'collections' | 'neverAsked'>[],
  { kinds }: StateFilter,
  leaveOut: ReadonlyMap<Kind, string>,
): { readonly skipped: readonly Skipped[]; readonly leftOut: readonly LeftOut[] } {
  const known = new Set(states.flatMap((state) => state.collections().map(({ kind }) => kind)));
  const activity = activityKinds();
  const compared = kinds ?? KINDS.filter((kind) => !activity.includes(kind) && !leaveOut.has(kind));
  const found = compared
    .filter((kind) => !known.has(kind))
    .flatMap((kind) => {
      const [reason] = states.flatMap((state) => state.neverAsked?.(kind) ?? []);
      return reason === undefined ? [] : [{ kind, scope: {}, reason }];
    });
  return kinds === undefined ? { skipped: [], leftOut: found } : { skipped: found, leftOut: [] };
}

/** A state of the mirror, or the part of it that a filter selects. */
interface StateOfRun {
  readonly source: string;
  readonly run: number;
  readonly filter?: RecordFilter;
}

interface UnnamedRecords {
  readonly kind: Kind;
  readonly records: number;
  /** The run that asked for `asked` of the `of` records in the mirror. */
  readonly askedRun: number;
  readonly asked: number;
  readonly of: number;
  /** The last run before it that read more of them; null if none is known. */
  readonly run: number | null;
}

/** What a run did not ask for, of one source. */
export class UnaskedInRun {
  readonly collections: readonly UnaskedCollection[];
  readonly #byKey: ReadonlyMap<string, UnaskedCollection>;
  /** Organizations of which the run asked for nothing. */
  readonly #organizations: ReadonlyMap<string, UnaskedCollection>;

  constructor(collections: readonly UnaskedCollection[]) {
    this.collections = collections;
    this.#byKey = new Map(collections.map((each) => [collectionKey(each), each]));
    this.#organizations = new Map(
      collections.flatMap((each) => {
        const { by, scope } = each;
        return by === 'organization_id' && scope.organization_id !== undefined
          ? [[scope.organization_id, each]]
          : [];
      }),
    );
  }

  of(kind: Kind, scope: Scope): (Unasked & Pick<UnaskedCollection, 'readRun'>) | undefined {
    const found = this.#byKey.get(collectionKey({ kind, scope }));
    return found && { by: found.by, reason: REASON[found.by], readRun: found.readRun };
  }

  /** The records that the run did not ask for, although it read others of their collection. */
  recordsIn(
    mirror: Pick<Mirror, 'records'>,
    { source, run, filter = {} }: StateOfRun,
  ): { readonly kind: Kind; readonly run: number | null }[] {
    const kind = SCOPE_KIND.organization_id;
    if (this.#organizations.size === 0 || this.of(kind, {}) !== undefined) return [];
    if (filter.kinds?.includes(kind) === false) return [];
    const keys = mirror.records.keysAt(run, { ...filter, kinds: [kind], sources: [source] });
    return [...keys].flatMap(({ id }) => {
      const found = this.#organizations.get(id);
      return found === undefined ? [] : [{ kind, run: found.readRun }];
    });
  }

  /**
   * The number of organizations that the run did not ask for, if it is unknown which: it asked for nothing below those that
   * the configuration named. Null if there are none.
   */
  unnamed(
    mirror: Pick<Mirror, 'records' | 'runs'>,
    { source, run, filter = {} }: StateOfRun,
  ): UnnamedRecords | null {
    const kind = SCOPE_KIND.organization_id;
    if (filter.kinds?.includes(kind) === false) return null;
    const named = mirror.runs.namedSweep(source, run, kind);
    if (named === null) return null;
    const count = (narrowed: RecordFilter): number =>
      mirror.records
        .countsAt(run, { ...narrowed, kinds: [kind], sources: [source] })
        .reduce((sum, { records }) => sum + records, 0);
    const of = count({});
    const known = this.recordsIn(mirror, { source, run }).length;
    const records = Math.min(of - named.records - known, count(filter));
    if (records <= 0) return null;
    return { kind, records, askedRun: named.run, asked: named.records, of, run: named.widerRun };
  }

  /** As `LoadedState.unaskedRecord`. */
  record({ kind, id }: Pick<RecordKey, 'kind' | 'id'>): string | null {
    return kind === SCOPE_KIND.organization_id && this.#organizations.has(id) ? REASON.organization_id : null;
  }
}

/** What a published run did not ask for. @param seen `sweepsAsOf` of the run, if the caller has it */
export function unaskedInRun(
  mirror: Pick<Mirror, 'runs'>,
  source: string,
  run: number,
  seen?: readonly SeenCollection[],
): UnaskedInRun {
  return new UnaskedInRun(mirror.runs.unaskedCollections(source, run, seen));
}

/** The entries of `left_out` for a comparison with the run: what is not compared unless the filter names it. */
export function leftOutOfRun(
  mirror: Mirror,
  configured: KindChoice | undefined,
  { source, run, filter = {} }: StateOfRun,
): LeftOut[] {
  const states = [
    { collections: () => mirror.runs.collections(source), neverAsked: neverAsked(mirror, { source, run }) },
  ];
  const never = kindsOfNeither(configured, states, filter);
  const unasked = unaskedInRun(mirror, source, run);
  const asked = new Set(
    unasked.collections.length === 0
      ? []
      : mirror.records.countsAt(run, { ...filter, sources: [source] }).map(collectionKey),
  );
  const lists = unasked.collections
    .filter((each) => asked.has(collectionKey(each)) && !isNamedAnyway(filter, each))
    .map(({ kind, scope, by }) => ({ kind, scope: by === 'kind' ? {} : scope, reason: REASON[by] }));
  const { kind, title } = definitionOf(SCOPE_KIND.organization_id);
  const records = isNamedAnyway(filter, { by: 'organization_id' })
    ? 0
    : unasked.recordsIn(mirror, { source, run, filter }).length;
  const name = plural(records, title.one, title.many);
  return [
    ...[...never].map(([each, reason]) => ({ kind: each, scope: {}, reason })),
    ...neverAskedKinds(states, filter, never).leftOut,
    ...new Map(lists.map((each) => [`${collectionKey(each)} ${each.reason}`, each])).values(),
    ...(records === 0
      ? []
      : [{ kind, scope: {}, name, reason: `${name}: ${REASON.organization_id}`, records }]),
  ];
}

/** True if the filter names what the configuration leaves out: then it is compared as it was last read. */
export function isNamedAnyway(filter: StateFilter, { by }: Pick<Unasked, 'by'>): boolean {
  switch (by) {
    case 'kind':
      return filter.kinds !== undefined;
    case 'organization_id':
      return filter.organizations !== undefined;
    case 'project_id':
      return filter.projects !== undefined;
    case 'organization_of_project':
      return filter.organizations !== undefined || filter.projects !== undefined;
  }
}

/** Records of one kind that are left out for one reason. */
export interface UnaskedKind {
  readonly kind: Kind;
  readonly reason: string;
  readonly collections: number;
  readonly records: number;
  /** The last run that read one of them; null if none did. */
  readonly run: number | null;
}

/** The records of the state that were no longer read, in catalog order. */
export function unaskedKinds(mirror: Mirror, unasked: UnaskedInRun, state: StateOfRun): UnaskedKind[] {
  const unnamed = unasked.unnamed(mirror, state);
  if (unasked.collections.length === 0 && unnamed === null) return [];
  const { source, run, filter = {} } = state;
  const counts = mirror.records.countsAt(run, { ...filter, sources: [source] });
  const records = new Map(counts.map((each) => [collectionKey(each), each.records]));
  const parts = unasked.collections.map(({ kind, scope, by, readRun }) => ({
    ...{ kind, scope, reason: REASON[by], run: readRun, collections: 1 },
    records: records.get(collectionKey({ kind, scope })) ?? 0,
  }));
  const ofOrganizations = unasked.recordsIn(mirror, state).map((each) => ({
    ...{ ...each, scope: {}, reason: REASON.organization_id, collections: 0, records: 1 },
  }));
  if (unnamed !== null) {
    const { kind, records: count, run: readRun } = unnamed;
    ofOrganizations.push({
      ...{ kind, run: readRun, scope: {}, reason: REASON.organization_id },
      ...{ collections: 0, records: count },
    });
  }
  const all = [...ofOrganizations, ...parts].sort((a, b) => compareKeys({ ...a, id: '' }, { ...b, id: '' }));
  return groupsBy(all, (each) => JSON.stringify([each.kind, each.reason])).map((same): UnaskedKind => {
    const [{ kind, reason }] = same;
    const runs = same.flatMap((each) => each.run ?? []);
    return {
      ...{ kind, reason },
      collections: same.reduce((sum, each) => sum + each.collections, 0),
      records: same.reduce((sum, each) => sum + each.records, 0),
      run: runs.length === 0 ? null : Math.max(...runs),
    };
  });
}

/** E.g. `4 records of domains, invites no longer read, as of run 1 (the configuration excludes the kind)`; a line each reason. */
export function unaskedLines(kinds: readonly UnaskedKind[]): string[] {
  const held = kinds.filter(({ records }) => records > 0);
  return groupsBy(held, ({ reason, run }) => JSON.stringify([reason, run])).map((same) => {
    const [{ reason, run }] = same;
    const records = same.reduce((sum, each) => sum + each.records, 0);
    const since = run === null ? '' : `, as of run ${run}`;
    return `${plural(records, 'record')} of ${same.map(({ kind }) => kind).join(', ')} no longer read${since} (${reason})`;
  });
}
