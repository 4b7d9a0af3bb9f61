/**
 * The live state of organizations that the user named, some of which may be gone: the list of organizations shows that, while
 * a request for each would only fail. If the user agrees, a missing one, and everything below it, can then be recreated.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RecordState } from '../diff/states.ts';
import type { StateFilter } from './filter.ts';
import type { LoadedState } from './state.ts';

const ROOT = SCOPE_KIND.organization_id;

interface NamedLive {
  readonly live: LoadedState;
  /** The organizations that were read: the named ones, and those that may be one of them under another id. */
  readonly organizations: readonly string[];
}

interface NamedRead {
  /** As the user named them. */
  readonly asked: readonly string[];
  /** Every id that an organization ever had, including this one. */
  readonly namesOf: (id: string) => readonly string[];
  readonly filter: Omit<StateFilter, 'organizations'>;
  /** The state that live is compared with. */
  readonly against: LoadedState;
  readonly readLive: (filter: StateFilter) => Promise<LoadedState>;
  /** True if the list has every organization, and not only those that the configuration names. */
  readonly areAllShown: boolean;
  /** True if one that is gone may be matched by its name with one of another id. */
  readonly mayAdopt: boolean;
}

/**
 * Reads the named organizations live.
 * @throws TidemarkError `reference_unknown` for an organization that neither side has; what reading live throws
 */
export async function readNamed({
  asked,
  namesOf,
  filter,
  against,
  readLive,
  areAllShown,
  mayAdopt,
}: NamedRead): Promise<NamedLive> {
  const organizations = [...new Set(asked.flatMap(namesOf))];
  const named = await readLive({ ...filter, organizations });
  if (!areAllShown || !isOneUnknown(named, filter, organizations)) return { live: named, organizations };
  const all = await readLive({ kinds: [ROOT] });
  if (all.coverage(ROOT, {}).how !== 'read') return { live: named, organizations };
  const listed = [...all.records({ kinds: [ROOT] })].map(({ id }) => id);
  const known = new Set([...against.records({ kinds: [ROOT] })].map(({ id }) => id));
  for (const { scope } of against.collections()) {
    if (scope.organization_id !== undefined) known.add(scope.organization_id);
  }
  const unknown = asked.find((id) => !namesOf(id).some((each) => known.has(each) || listed.includes(each)));
  if (unknown !== undefined) {
    throw new TidemarkError(
      'reference_unknown',
      `no organization has the id or name ${unknown}, neither in FROM nor live`,
      {
        hint: "correct --organization; `tidemark export --kind organizations | jq -c '[.id, .body.name]'` lists those of the mirror",
      },
    );
  }
  const existing = organizations.filter((id) => listed.includes(id));
  const others = mayAdopt ? listed.filter((id) => !known.has(id) && !existing.includes(id)) : [];
  if (others.length === 0)
    return {
      live: namedState(all, existing.length === 0 ? null : named, new Set(existing)),
      organizations,
    };
  const found = [...existing, ...others];
  const below = await readLive({ ...filter, organizations: found });
  return { live: namedState(all, below, new Set(found)), organizations: [...organizations, ...others] };
}

/** True if the service did not know one of them. */
function isOneUnknown(
  live: LoadedState,
  { kinds }: Omit<StateFilter, 'organizations'>,
  organizations: readonly string[],
): boolean {
  const isUnknown = (kind: Kind, scope: Scope): boolean => {
    const coverage = live.coverage(kind, scope);
    return coverage.how === 'unread' && coverage.code === 'not_found';
  };
  if (kinds?.includes(ROOT) !== false) return isUnknown(ROOT, {});
  // The organizations themselves were not requested: what is below an unknown one is not found either.
  return organizations.some((id) => kinds.some((kind) => isUnknown(kind, { organization_id: id })));
}

/** The list of organizations of one reading, and what is below the existing ones of another; null if none exists. */
function namedState(all: LoadedState, below: LoadedState | null, existing: ReadonlySet<string>): LoadedState {
  const isGone = ({ organization_id: id }: Scope): boolean => id !== undefined && !existing.has(id);
  return {
    reference: (below ?? all).reference,
    source: all.source,
    resolvedState: null,
    collections: () => [
      ...all.collections().filter(({ kind }) => kind === ROOT),
      ...(below?.collections() ?? []).filter(({ kind, scope }) => kind !== ROOT && !isGone(scope)),
    ],
    coverage: (kind, scope) => {
      if (kind === ROOT) return all.coverage(kind, scope);
      return below === null || isGone(scope) ? { how: 'absent' } : below.coverage(kind, scope);
    },
    unknownIn: (kind, scope) => {
      if (kind === ROOT) return all.unknownIn(kind, scope);
      return isGone(scope) ? null : (below?.unknownIn(kind, scope) ?? null);
    },
    records: (filter) => namedRecords(all, below, filter),
    projectsOf: (organizations) => below?.projectsOf(organizations) ?? [],
    checked: () => namedState(all.checked(), below?.checked() ?? null, existing),
    close: () => {
      all.close();
      below?.close();
    },
  };
}

function* namedRecords(
  all: LoadedState,
  below: LoadedState | null,
  filter: StateFilter,
): Generator<RecordState> {
  // Organizations come first in the order of records.
  if (filter.kinds?.includes(ROOT) !== false) yield* all.records({ ...filter, kinds: [ROOT] });
  for (const record of below?.records(filter) ?? []) if (record.kind !== ROOT) yield record;
}
