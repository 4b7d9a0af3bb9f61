/** What a reader of an export should know of it: which of its collections are not as fresh as the rest. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import { groupAlike, groupText, oldestOf } from './collection-groups.ts';
import { recordFilter, type FilterOptions } from './export-selection.ts';
import { age } from './wording.ts';

/** A collection that the latest look at it did not read whole. */
export interface StaleCollection {
  readonly source: string;
  readonly kind: Kind;
  readonly scope: CollectionRow['scope'];
  readonly outcome: SweepOutcome | null;
  /** The latest whole reading: null where there never was one, or where an earlier state does not tell. */
  readonly lastComplete: { readonly run: number; readonly at: string | null } | null;
}

/** Collections named at most; `status` has the rest. */
const NAMED = 8;

/**
 * The collections within the filter that the state of `run` (null for the latest) does not hold whole and fresh. For an
 * earlier state only that run's own sweeps can tell.
 */
export function staleCollections(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  run: number | null,
): StaleCollection[] {
  const isAsked = askedCollections(mirror, sources, options, run);
  if (run !== null) {
    const source = mirror.run(run)?.source ?? '';
    return mirror
      .sweepsOf(run)
      .filter((sweep) => sweep.outcome !== 'complete' && isAsked({ ...sweep, source }))
      .map(({ kind, scope, outcome }) => ({ source, kind, scope, outcome, lastComplete: null }));
  }
  return mirror
    .collectionsOf()
    .filter((row) => row.retiredRun === null && row.lastOutcome !== 'complete')
    .filter(isAsked)
    .map(({ source, kind, scope, lastOutcome, lastCompleteRun, lastCompleteAt }) => ({
      source,
      kind,
      scope,
      outcome: lastOutcome,
      lastComplete: lastCompleteRun === null ? null : { run: lastCompleteRun, at: lastCompleteAt },
    }));
}

type Place = Pick<StaleCollection, 'source' | 'kind' | 'scope'>;

/** True for the collections of which the filter leaves something. */
export function askedCollections(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  run: number | null,
): (place: Place) => boolean {
  const { kind, organization, project } = options;
  const collections = {
    ...(kind === undefined ? {} : { kind }),
    ...(organization === undefined ? {} : { organization }),
    ...(project === undefined ? {} : { project }),
  };
  const latest = Math.max(0, ...sources.map((source) => mirror.latestRun(source)?.run ?? 0));
  const nameOf = ({ source, kind, scope }: Place): string => JSON.stringify([source, kind, scopeKey(scope)]);
  const asked = new Set(
    mirror.recordCountsAt(run ?? latest, recordFilter(sources, collections)).map((place) => nameOf(place)),
  );
  return (place) => asked.has(nameOf(place));
}

/** As lines for stderr; none where everything is fresh. */
export function staleText(
  stale: readonly StaleCollection[],
  run: number | null,
  now: number,
  isSourceNamed: boolean,
): string[] {
  if (stale.length === 0) return [];
  const when = run === null ? 'when last asked for' : `in run ${run}`;
  const groups = groupAlike(stale, ({ source, kind, outcome }) => JSON.stringify([source, kind, outcome]));
  const them = stale.length === 1 ? 'it' : 'them';
  return [
    `${plural(stale.length, 'collection')} could not be read whole ${when}: what is exported of ${them} may be old or incomplete`,
    ...groups.slice(0, NAMED).map((group) => {
      const source = isSourceNamed ? `${group[0].source}: ` : '';
      return `  ${source}${groupText(group)}: ${group[0].outcome ?? 'never asked for'}${wholeText(group, run, now)}`;
    }),
    ...(groups.length > NAMED
      ? [`  and more: see \`tidemark ${run === null ? 'status' : `runs show ${run}`}\``]
      : []),
  ];
}

function wholeText(group: readonly StaleCollection[], run: number | null, now: number): string {
  if (run !== null) return '';
  const oldest = oldestOf(group.map(({ lastComplete }) => lastComplete?.at ?? null));
  if (oldest !== null) return `; last read whole ${age(oldest, now)}`;
  return group.every(({ lastComplete }) => lastComplete === null)
    ? '; never read whole'
    : '; some never read whole';
}
