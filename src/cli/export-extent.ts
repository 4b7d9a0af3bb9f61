/** What an export says of itself, so that whoever reads it back knows what its silence about a record means. */
import { KINDS, type Kind, type Scope } from '../catalog/definition.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ExportExtent } from '../state/export-extent.ts';
import { isSearched } from '../state/filter.ts';
import { openMirrorState } from '../state/mirror-state.ts';
import { type Point, resolvePoint } from '../state/point.ts';
import { askedCollections } from './export-remarks.ts';
import type { FilterOptions } from './export-selection.ts';

/**
 * The filter, and the collections of which the export holds all that there was as of the point (null: the latest of each
 * source). A collection that no sync ever read whole is not among them, nor one of which records were picked by id.
 */
export function extentOf(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  point: Point | null,
): ExportExtent {
  const { kind, organization, project, id } = options;
  const filter = {
    ...(kind === undefined ? {} : { kinds: kind }),
    ...(organization === undefined ? {} : { organizations: organization }),
    ...(project === undefined ? {} : { projects: project }),
    ...(id === undefined ? {} : { ids: id }),
  };
  const isAsked = askedCollections(mirror, sources, options, point?.run ?? null);
  const whole = sources.flatMap((source) => {
    if (mirror.latestRun(source) === undefined) return [];
    const at = point ?? resolvePoint(mirror, 'latest', { source });
    const state = openMirrorState(mirror, source, at);
    const retired = new Set(
      mirror
        .collectionsOf(source)
        .filter(({ retiredRun }) => retiredRun !== null && retiredRun <= at.run)
        .map((collection) => nameOf(collection)),
    );
    const own = state.collections().filter(({ kind: each, scope }) => {
      if (retired.has(nameOf({ kind: each, scope })) || !isAsked({ source, kind: each, scope })) return false;
      if (isSearched(filter, each)) return false;
      const coverage = state.coverage(each, scope);
      return coverage.how === 'read' && coverage.isPartial !== true && state.blindSpot(each, scope) === null;
    });
    return [...Map.groupBy(own, (collection) => collection.kind)].map(([each, collections]) => ({
      ...(sources.length > 1 ? { source } : {}),
      kind: each,
      scopes: collections.map(({ scope }) => scope),
    }));
  });
  return { filter, whole };
}

function nameOf({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return JSON.stringify([kind, scope]);
}

/** The same of one kind. */
export function extentOfKind({ filter, whole }: ExportExtent, kind: Kind): ExportExtent {
  return {
    filter: { ...filter, kinds: KINDS.filter((each) => each === kind) },
    whole: whole.filter((each) => each.kind === kind),
  };
}
