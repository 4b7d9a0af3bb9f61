/** The filters of the command line: `--kind`, `--organization`, `--project`, `--id`. */
import type { Kind } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { StateFilter } from '../state/filter.ts';

export interface FilterOptions {
  readonly kind?: readonly Kind[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly id?: readonly string[];
}

/** The filters as states take them, each value once. */
export function filterOf({ kind, organization, project, id }: FilterOptions): StateFilter {
  const once = <T>(values: readonly T[] | undefined): T[] | undefined => values && [...new Set(values)];
  return defined({
    kinds: once(kind),
    organizations: once(organization),
    projects: once(project),
    ids: once(id),
  });
}

/** The filters as the mirror takes them. */
export function recordFilter(
  sources: readonly string[],
  options: FilterOptions,
): RecordFilter & { readonly sources: readonly string[] } {
  return { sources, ...filterOf(options) };
}

/** The filters as given, for messages. */
export function filterText(options: FilterOptions): string {
  return (['kind', 'organization', 'project', 'id'] as const)
    .flatMap((name) => (options[name] ?? []).map((value) => `--${name} ${value}`))
    .join(' ');
}
