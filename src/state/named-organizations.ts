/**
 * The live state of organizations that the user named, of which some may be gone: the list of organizations shows that,
 * while a request for each would only fail. A missing one, and everything below it, can then be created again if the
 * user agrees.
 */
import type { CollectionKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { TidemarkError } from '../core/errors.ts';
import type { StateReference } from '../diff/change.ts';
import type { RecordState } from '../diff/states.ts';
import type { StateFilter } from './filter.ts';
import type { UnknownRecord, Coverage, LoadedState } from './state.ts';

const ROOT = SCOPE_KIND.organization_id;

interface NamedLive {
  readonly live: LoadedState;
  /** What was read: the named organizations, and those that could be one of them under another id. */
  readonly organizations: readonly string[];
}

interface NamedRead {
  /** As the user named them. */
  readonly asked: readonly string[];
  /** Every id that an organization ever had, its own included. */
  readonly namesOf: (id: string) => readonly string[];
  readonly filter: Omit<StateFilter, 'organizations'>;
  /** What live is held against. */
  readonly against: LoadedState;
  readonly readLive: (filter: StateFilter) => Promise<LoadedState>;
  /** True where the service shows every organization, and not only those that the configuration names. */
  readonly areAllShown: boolean;
  /** True where one that is gone may be found under another id: by its name. */
  readonly mayAdopt: boolean;
}

/**
 * Reads them.
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
  const there = organizations.filter((id) => listed.includes(id));
  const strangers = mayAdopt ? listed.filter((id) => !known.has(id) && !there.includes(id)) : [];
  if (strangers.length === 0) {
    return { live: new NamedState(all, there.length === 0 ? null : named, new Set(there)), organizations };
  }
  const found = [...there, ...strangers];
  const below = await readLive({ ...filter, organizations: found });
  return {
    live: new NamedState(all, below, new Set(found)),
    organizations: [...organizations, ...strangers],
  };
}

/** True where the service did not know one of them. */
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
  // Read only to find what is below it, it says nothing of itself.
  return organizations.some((id) => kinds.some((kind) => isUnknown(kind, { organization_id: id })));
}

/** The list of organizations from one reading, what is below some of them from another. */
class NamedState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly resolvedState = null;
  readonly #all: LoadedState;
  readonly #below: LoadedState | null;
  readonly #there: ReadonlySet<string>;

  constructor(all: LoadedState, below: LoadedState | null, there: ReadonlySet<string>) {
    this.reference = (below ?? all).reference;
    this.source = all.source;
    this.#all = all;
    this.#below = below;
    this.#there = there;
  }

  collections(): readonly CollectionKey[] {
    const below = this.#below?.collections() ?? [];
    return [
      ...this.#all.collections().filter(({ kind }) => kind === ROOT),
      ...below.filter(({ kind, scope }) => kind !== ROOT && !this.#isGone(scope)),
    ];
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    if (kind === ROOT) return this.#all.coverage(kind, scope);
    if (this.#below === null || this.#isGone(scope)) return { how: 'absent' };
    return this.#below.coverage(kind, scope);
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    if (kind === ROOT) return this.#all.unknownIn(kind, scope);
    return this.#isGone(scope) ? null : (this.#below?.unknownIn(kind, scope) ?? null);
  }

  *records(filter: StateFilter): Generator<RecordState> {
    const { kinds, ...rest } = filter;
    // The root is the first kind of the order.
    if (kinds?.includes(ROOT) !== false) yield* this.#all.records({ ...rest, kinds: [ROOT] });
    if (this.#below === null) return;
    for (const record of this.#below.records(filter)) if (record.kind !== ROOT) yield record;
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return this.#below?.projectsOf(organizations) ?? [];
  }

  checked(): LoadedState {
    return new NamedState(this.#all.checked(), this.#below?.checked() ?? null, this.#there);
  }

  close(): void {
    this.#all.close();
    this.#below?.close();
  }

  #isGone({ organization_id: id }: Scope): boolean {
    return id !== undefined && !this.#there.has(id);
  }
}
