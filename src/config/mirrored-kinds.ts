/**
 * Which kinds a source mirrors: those that its configuration leaves in, and the parents that lead to them. What only an
 * excluded parent leads to goes with it (design.md, invariant 10). Pure.
 */
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { parentsOf } from '../catalog/lineage.ts';
import type { SourceConfig } from './config.ts';

/** What of a source decides which kinds it mirrors. */
export interface KindChoice extends Pick<SourceConfig, 'organizations' | 'projects' | 'kinds'> {
  readonly recordings: Pick<SourceConfig['recordings'], 'sharingPerRun'>;
}

/** What decides how the collections of a kind can be found. */
interface Ways {
  /** True for a kind whose records need not be looked for: their ids are given. */
  readonly isNamed: (kind: Kind) => boolean;
  readonly mayRead: (kind: Kind) => boolean;
}

/** Kinds whose records another kind's name too: organizations' `teams` are projects (design.md, The sync). */
const ALSO_SHOWN_BY: Partial<Record<Kind, Kind>> = { projects: 'organizations' };

/** The kinds to read so that the collections of this one are found; null where nothing that may be read leads to them. */
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

/** Kinds whose ids a source, or the call, names instead of having them looked for. */
export function isNamedIn(limits: Pick<KindChoice, 'organizations' | 'projects'>): Ways['isNamed'] {
  return (kind) => (kind === 'organizations' || kind === 'projects') && limits[kind] !== 'all';
}

/** The kinds that a source mirrors; those of the parents that must be read to find them included. */
export function mirroredKinds(choice: KindChoice): ReadonlySet<Kind> {
  const ways = waysOf(choice);
  const found = chosen(choice).map(({ kind }) => ({ kind, leading: kindsLeadingTo(kind, ways) }));
  const mirrored = new Set(
    found.flatMap(({ kind, leading }) => (leading === null ? [] : [...leading, kind])),
  );
  return new Set(CATALOG.map(({ kind }) => kind).filter((kind) => mirrored.has(kind)));
}

/** The others. */
export function excludedKinds(choice: KindChoice): Kind[] {
  const mirrored = mirroredKinds(choice);
  return KINDS.filter((kind) => !mirrored.has(kind));
}

/** What an exclusion takes along: by excluded kind, the kinds that are left in and that nothing leads to without it. */
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

/** Kinds that are found without the list of an excluded parent, since another kind's records name it: by that parent. */
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

/** What is left in by name, parents not yet considered. */
function chosen({ kinds: { include, exclude }, recordings }: KindChoice): readonly ResourceDefinition[] {
  return CATALOG.filter(
    ({ kind, reading }) =>
      (include === null || include.includes(kind)) &&
      !exclude.includes(kind) &&
      (reading !== 'each' || recordings.sharingPerRun !== 0),
  );
}

/** True for kinds that a source leaves out; for none where the configuration does not name the source. */
export function isExcludedBy(
  {
    sources,
  }: { readonly sources: readonly (Parameters<typeof mirroredKinds>[0] & { readonly name: string })[] },
  source: string,
): (kind: Kind) => boolean {
  const configured = sources.find(({ name }) => name === source);
  if (configured === undefined) return () => false;
  const mirrored = mirroredKinds(configured);
  return (kind) => !mirrored.has(kind);
}
