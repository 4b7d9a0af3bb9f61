/** Records asked for by id, and the sources that have none of them as no run read a list in which they would be. */
import { definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { unreadOfSources } from '../state/unread-in-period.ts';
import type { CommandContext } from './context.ts';
import { type FilterOptions, recordFilter } from './export-notes.ts';
import { UnknownParent } from './named-parents.ts';

export const UNREAD_HINT =
  '`tidemark doctor` shows what the key can read, `tidemark status` what the mirror lacks';

/** A kind of which a source lacks a list. */
export interface NotKnown {
  readonly source: string;
  readonly kind: Kind;
  readonly reason: string;
}

/** No record has the id, though one of these kinds may. */
export class UnknownRecord extends UnknownParent {
  notKnown: readonly NotKnown[] = [];
}

/** The kinds of the records with these ids, removed ones too. */
function kindsOfIds(
  mirror: Mirror,
  sources: readonly string[],
  { id: ids = [], kind: kinds = KINDS }: FilterOptions,
): Kind[] {
  return kinds.filter((kind) => ids.some((id) => mirror.records.find(kind, id, { sources }).length > 0));
}

/**
 * Whose lists matter. With an id, those of the kinds of the records that have it: also in the sources in which nothing has it, or its name,
 * unless what was asked for is below an organization or project of others.
 */
export function unreadQuestion(
  { ofSeveral }: CommandContext,
  mirror: Mirror,
  all: readonly string[],
  { sources, options }: { readonly sources: readonly string[]; readonly options: FilterOptions },
): { readonly sources: readonly string[]; readonly filter: ReturnType<typeof recordFilter> } {
  const filter = recordFilter(sources, options);
  if (options.id === undefined) return { sources, filter };
  const kinds = kindsOfIds(mirror, sources, options);
  ofSeveral?.onFound(kinds);
  const isBelow = options.organization !== undefined || options.project !== undefined;
  return {
    sources: isBelow ? sources : all,
    filter: { ...filter, ...(kinds.length === 0 ? {} : { kinds }) },
  };
}

/** Of each source that has none of the records, the kinds of which it lacks a list. */
export function notKnownIn(
  mirror: Mirror,
  config: Config,
  sources: readonly string[],
  {
    id: ids = [],
    kind: kinds = KINDS,
  }: { readonly id?: readonly string[] | undefined; readonly kind?: readonly Kind[] | undefined },
): NotKnown[] {
  const lacking = sources.filter(
    (source) => kindsOfIds(mirror, [source], { id: ids, kind: kinds }).length === 0,
  );
  const filter = { kinds };
  return unreadOfSources(mirror, config, { sources: lacking, filter, isWithin: () => true }).flatMap(
    ({ source, skipped }) =>
      [...new Map(skipped.map(({ kind, reason }) => [kind, reason]))].map(([kind, reason]) => ({
        ...{ source, kind, reason },
      })),
  );
}

/** A line for each source and reason. */
export function notKnownLines(all: readonly NotKnown[], isSourceNamed = true): string[] {
  return [...Map.groupBy(all, ({ source, reason }) => JSON.stringify([source, reason])).values()].map(
    (same) => {
      const titles = same.map(({ kind }) => definitionOf(kind).title.many).join(', ');
      const of = isSourceNamed ? ` of ${same[0]?.source ?? ''}` : '';
      return `${titles}${of} are not known: ${same[0]?.reason ?? ''}`;
    },
  );
}
