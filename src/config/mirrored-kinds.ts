/**
 * Which kinds a source mirrors: those that its configuration includes, and the parents that lead to them. Kinds to
 * which only an excluded parent leads are excluded too (design.md, invariant 10). Pure.
 */
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { parentsOf } from '../catalog/lineage.ts';
import type { SourceConfig } from './config.ts';

/** The options of a source that determine which kinds it mirrors. */
export interface KindChoice extends Pick<SourceConfig, 'organizations' | 'projects' | 'kinds'> {
  readonly recordings: Pick<SourceConfig['recordings'], 'sharingPerRun'>;
}

/** How the collections of a kind can be found. */
interface Ways {
  /** True for a kind whose ids the configuration names. */
  readonly isNamed: (kind: Kind) => boolean;
  readonly mayRead: (kind: Kind) => boolean;
}

/** Kinds whose ids are also in records of another kind: `teams` of organizations are projects (design.md, The sync). */
const ALSO_SHOWN_BY: Partial<Record<Kind, Kind>> = { projects: 'organizations' };

/** The kinds to read in order to find the collections of this one; null if none that may be read leads to them. */
export function kindsLeadingTo(kind: Kind, ways: Ways): ReadonlySet<Kind> | null {
  const { from } = definitionOf(kind).discovery;
  if (from === 'root' || ways.isNamed(from)) return new Set();
  for (const parent of [from, ALSO_SHOWN_BY[from]]) {
    if (parent === undefined || !ways.mayRead(parent)) continue;
    const above = kindsLeadingTo(parent, ways);
    if (above !== null) return new Set([...above, parent]);
  }
  return null;
}

/** True for kinds whose ids are named. */
export function isNamedIn(limits: Pick<KindChoice, 'organizations' | 'projects'>): Ways['isNamed'] {
  return (kind) => (kind === 'organizations' || kind === 'projects') && limits[kind] !== 'all';
}

/** The kinds that a source mirrors, including the parents that must be read to find them. */
export function mirroredKinds(choice: KindChoice): ReadonlySet<Kind> {
  const ways = waysOf(choice);
  const found = chosen(choice).map(({ kind }) => ({ kind, leading: kindsLeadingTo(kind, ways) }));
  const mirrored = new Set(
    found.flatMap(({ kind, leading }) => (leading === null ? [] : [...leading, kind])),
  );
  return new Set(CATALOG.map(({ kind }) => kind).filter((kind) => mirrored.has(kind)));
}

/** The kinds that a source does not mirror. */
export function excludedKinds(choice: KindChoice): Kind[] {
  const mirrored = mirroredKinds(choice);
  return KINDS.filter((kind) => !mirrored.has(kind));
}

/** By excluded kind: the kinds that are not excluded, but cannot be found without it. */
export function takenAlong(choice: KindChoice): ReadonlyMap<Kind, readonly Kind[]> {
  const ways = waysOf(choice);
  const taken = new Map<Kind, Kind[]>();
  for (const definition of chosen(choice)) {
    if (kindsLeadingTo(definition.kind, ways) !== null) continue;
    const by = parentsOf(definition).findLast((parent) => !ways.mayRead(parent));
    if (by !== undefined) taken.set(by, [...(taken.get(by) ?? []), definition.kind]);
  }
  return taken;
}

/** By excluded parent: the kinds that are found without it, because records of another kind have its ids. */
export function foundOtherwise(choice: KindChoice): ReadonlyMap<Kind, readonly Kind[]> {
  const ways = waysOf(choice);
  const found = new Map<Kind, Kind[]>();
  for (const { kind, discovery } of chosen(choice)) {
    const { from } = discovery;
    if (from === 'root' || ways.isNamed(from) || ways.mayRead(from)) continue;
    if (kindsLeadingTo(kind, ways) !== null) found.set(from, [...(found.get(from) ?? []), kind]);
  }
  return found;
}

function waysOf(choice: KindChoice): Ways {
  return { isNamed: isNamedIn(choice), mayRead: (kind) => !choice.kinds.exclude.includes(kind) };
}

/** The kinds that `include` and `exclude` select, without regard to parents. */
function chosen({ kinds: { include, exclude }, recordings }: KindChoice): readonly ResourceDefinition[] {
  return CATALOG.filter(
    ({ kind, reading }) =>
      (include === null || include.includes(kind)) &&
      !exclude.includes(kind) &&
      (reading !== 'each' || recordings.sharingPerRun !== 0),
  );
}

/** True for kinds that a source does not mirror; false for all if the configuration does not have the source. */
export function isExcludedBy(
  { sources }: { readonly sources: readonly (KindChoice & { readonly name: string })[] },
  source: string,
): (kind: Kind) => boolean {
  const configured = sources.find(({ name }) => name === source);
  if (configured === undefined) return () => false;
  const mirrored = mirroredKinds(configured);
  return (kind) => !mirrored.has(kind);
}
