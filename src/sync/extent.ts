/** How far a run reaches: what the configuration allows, narrowed by what the caller asks for. Pure. */
import { isWithin, parentsOf } from '../catalog/lineage.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';

/** Narrows a run; what is not named is not narrowed. With both, projects count only within the organizations. */
export interface Only {
  /** These organizations: their own records, and everything below them, their projects' recordings included. */
  readonly organizations?: readonly string[];
  /**
   * These projects and everything below them; of the organizations only the projects lists, and what leads there. Those
   * show other projects too.
   */
  readonly projects?: readonly string[];
}

/** Which parents a run asks below of. */
export interface ParentLimits {
  readonly organizations: 'all' | readonly string[];
  readonly projects: 'all' | readonly string[];
  /** False where a project counts only when this run sees it within the organizations: anything else may be outside. */
  readonly areProjectsTrusted: boolean;
}

/** The parents that both the configuration and the caller allow. */
export function parentLimits(
  source: Pick<SourceConfig, 'organizations' | 'projects'>,
  only: Only = {},
): ParentLimits {
  return {
    organizations: common(source.organizations, only.organizations),
    projects: common(source.projects, only.projects),
    // A project that the configuration names is allowed wherever it is listed; the caller only narrows that.
    areProjectsTrusted:
      only.organizations === undefined &&
      (only.projects === undefined || source.organizations === 'all' || source.projects !== 'all'),
  };
}

function common(
  allowed: 'all' | readonly string[],
  asked: readonly string[] | undefined,
): 'all' | readonly string[] {
  if (asked === undefined) return allowed;
  const distinct = [...new Set(asked)];
  return allowed === 'all' ? distinct : distinct.filter((id) => allowed.includes(id));
}

/**
 * The kinds that a run reads: those asked for (all that the source includes, where none are named), and the parents
 * that must be read to find their collections.
 */
export function wantedKinds(
  source: SourceConfig,
  asked: readonly Kind[] | null,
  only: Only = {},
): ReadonlySet<Kind> {
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const included = source.definitions.filter((definition) => isIncluded(source, definition));
  const isAsked = (definition: ResourceDefinition): boolean =>
    only.projects === undefined || isWithin(definition, 'project_id');
  const kinds = (asked ?? included.map(({ kind }) => kind)).filter((kind) => {
    const definition = definitions.get(kind);
    return definition !== undefined && isAsked(definition);
  });
  const wanted = new Set(kinds);
  if (asked === null && only.projects === undefined) return wanted;
  // Named projects need not be looked for.
  const areProjectsKnown = only.projects !== undefined && parentLimits(source, only).areProjectsTrusted;
  const parentKinds = kinds.flatMap((kind) => {
    const definition = definitions.get(kind);
    if (definition === undefined) return [];
    const parents = parentsOf(definition);
    const isBelowProject = areProjectsKnown && definition.scope.includes('project_id');
    return isBelowProject
      ? parents.filter((parent) => definitions.get(parent)?.scope.includes('project_id') === true)
      : parents;
  });
  for (const parent of parentKinds) {
    // A parent that the configuration excludes stays unread; the mirror and `teams` then tell the scopes.
    if (included.some((each) => each.kind === parent)) wanted.add(parent);
  }
  return wanted;
}

/**
 * The kinds that a run is narrowed to by what its caller asks for; null where it reads all that the configuration includes,
 * also by name.
 */
export function narrowedKinds(
  source: SourceConfig,
  asked: readonly Kind[] | null,
  only: Only = {},
): readonly Kind[] | null {
  const isWithinParents = only.organizations !== undefined || only.projects !== undefined;
  if (asked === null && !isWithinParents) return null;
  const own = asked ?? [...wantedKinds(source, null, only)];
  if (isWithinParents) return own;
  const wanted = wantedKinds(source, own);
  return [...wantedKinds(source, null)].every((kind) => wanted.has(kind)) ? null : own;
}

/** True when the configuration lets the kind be read. */
function isIncluded(source: SourceConfig, { kind, reading }: ResourceDefinition): boolean {
  const { include, exclude } = source.kinds;
  if (include !== null && !include.includes(kind)) return false;
  return !exclude.includes(kind) && (reading !== 'each' || source.recordings.sharingPerRun !== 0);
}
