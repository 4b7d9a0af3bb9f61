/** What a run covers: what the configuration allows, narrowed by what the caller requests. Pure. */
import { isWithin, parentsOf } from '../catalog/lineage.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { isNamedIn, kindsLeadingTo, mirroredKinds } from '../config/mirrored-kinds.ts';

/** Narrows a run. With both, projects count only within the organizations. */
export interface ParentFilter {
  /** The records of these organizations and everything below, including the recordings of their projects. */
  readonly organizations?: readonly string[];
  /**
   * These projects and everything below; of the organizations, only the lists of projects and what is needed to find
   * them. These lists also show other projects.
   */
  readonly projects?: readonly string[];
}

/** The parents whose children a run reads. */
export interface ParentLimits {
  readonly organizations: 'all' | readonly string[];
  readonly projects: 'all' | readonly string[];
  /** False if a project counts only if it is known to be within the organizations. */
  readonly areProjectsTrusted: boolean;
}

/** The parents that both the configuration and the caller allow. */
export function parentLimits(
  source: Pick<SourceConfig, 'organizations' | 'projects'>,
  only: ParentFilter = {},
): ParentLimits {
  return {
    organizations: common(source.organizations, only.organizations),
    projects: common(source.projects, only.projects),
    // A project that the configuration names is allowed in any organization. The caller can only narrow that.
    areProjectsTrusted:
      only.organizations === undefined && (source.organizations === 'all' || source.projects !== 'all'),
  };
}

function common(
  allowed: 'all' | readonly string[],
  requested: readonly string[] | undefined,
): 'all' | readonly string[] {
  if (requested === undefined) return allowed;
  const distinct = [...new Set(requested)];
  return allowed === 'all' ? distinct : distinct.filter((id) => allowed.includes(id));
}

/**
 * The kinds that a run reads: the requested ones (all kinds that the source mirrors, if null), and the parents that
 * must be read to find their collections.
 */
export function wantedKinds(
  source: SourceConfig,
  asked: readonly Kind[] | null,
  only: ParentFilter = {},
): ReadonlySet<Kind> {
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const mirrored = mirroredKinds(source);
  const isAsked = (definition: ResourceDefinition): boolean =>
    only.projects === undefined || isWithin(definition, 'project_id');
  const kinds = (asked ?? [...mirrored]).filter((kind) => {
    const definition = definitions.get(kind);
    return definition !== undefined && isAsked(definition);
  });
  const wanted = new Set(kinds);
  if (asked === null && only.projects === undefined) return wanted;
  const limits = parentLimits(source, only);
  // Named projects need not be found first.
  const areProjectsKnown = only.projects !== undefined && limits.areProjectsTrusted;
  for (const kind of kinds) {
    const definition = definitions.get(kind);
    if (definition === undefined) continue;
    const isBelowProject = areProjectsKnown && definition.scope.includes('project_id');
    for (const parent of parentsOf(definition)) {
      const isOutside = isBelowProject && definitions.get(parent)?.scope.includes('project_id') !== true;
      if (mirrored.has(parent) && !isOutside) wanted.add(parent);
    }
    for (const parent of needed(source, kind, limits)) wanted.add(parent);
  }
  return wanted;
}

/**
 * The parents needed to find the collections of a kind. If these include excluded kinds, they are read nevertheless,
 * because the request for the kind takes precedence over the configuration.
 */
function needed(source: SourceConfig, kind: Kind, limits: ParentLimits): ReadonlySet<Kind> {
  const isNamed = isNamedIn({
    organizations: limits.organizations,
    projects: limits.areProjectsTrusted ? limits.projects : 'all',
  });
  const mayRead = (parent: Kind): boolean => !source.kinds.exclude.includes(parent);
  return (
    kindsLeadingTo(kind, { isNamed, mayRead }) ??
    kindsLeadingTo(kind, { isNamed, mayRead: () => true }) ??
    new Set()
  );
}

/**
 * The kinds to which the caller narrows a run; null if it reads all kinds that the source mirrors, even if the caller
 * names them.
 */
export function narrowedKinds(
  source: SourceConfig,
  asked: readonly Kind[] | null,
  only: ParentFilter = {},
): readonly Kind[] | null {
  const isWithinParents = only.organizations !== undefined || only.projects !== undefined;
  if (asked === null && !isWithinParents) return null;
  const own = asked ?? [...wantedKinds(source, null, only)];
  if (isWithinParents) return own;
  const wanted = wantedKinds(source, own);
  return [...wantedKinds(source, null)].every((kind) => wanted.has(kind)) ? null : own;
}

/** True if a feed need not be read in full yet. `lastFullAt`: when it was last read in full. */
export function isFullReadRecent(
  lastFullAt: string | null,
  { recordings }: Pick<SourceConfig, 'recordings'>,
  now: number,
): boolean {
  if (lastFullAt === null) return false;
  const age = now - Date.parse(lastFullAt);
  // The age is negative if the clock was set back; then the feed is read in full.
  return age >= 0 && age < recordings.fullSweepEveryMs;
}
