/** What an export was asked for, held against what the mirror knows: nothing unknown is passed over in silence. */
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { runFailure } from './wording.ts';

/** The filters as the command line has them. */
export interface FilterOptions {
  readonly kind?: readonly Kind[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly id?: readonly string[];
}

/** The same for the mirror. */
export function recordFilter(
  sources: readonly string[],
  options: FilterOptions,
): RecordFilter & { readonly sources: readonly string[] } {
  return {
    sources,
    ...(options.kind === undefined ? {} : { kinds: options.kind }),
    ...(options.organization === undefined ? {} : { organizations: options.organization }),
    ...(options.project === undefined ? {} : { projects: options.project }),
    ...(options.id === undefined ? {} : { ids: options.id }),
  };
}

/** The filters as they were written, for messages. */
export function filterText(options: FilterOptions): string {
  return (['kind', 'organization', 'project', 'id'] as const)
    .flatMap((name) => (options[name] ?? []).map((value) => `--${name} ${value}`))
    .join(' ');
}

/**
 * The sources of which nothing was ever published.
 * @throws TidemarkError `mirror_missing` when that is all of them: there is no state to export
 */
export function unpublishedSources(mirror: Mirror, sources: readonly string[]): string[] {
  const unpublished = sources.filter((source) => mirror.latestRun(source) === undefined);
  if (unpublished.length < sources.length) return unpublished;
  const last = mirror.runs({ limit: 1 })[0];
  const why = last === undefined ? 'there was no run yet' : `run ${last.run} ${runFailure(last)}`;
  throw new TidemarkError('mirror_missing', `${mirror.path} holds no published run: ${why}`, {
    hint: 'run `tidemark sync`; what it reads can be exported then',
  });
}

/**
 * An id that nobody knows is a mistake and not an empty result. Organizations and projects count as known when the
 * mirror ever saw them; ids when `read` (the state asked for, filtered) holds them.
 * @throws TidemarkError `not_found` that names each unknown one
 */
export function requireKnown(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  read: () => Iterable<{ readonly id: string }>,
): void {
  for (const parent of ['organization', 'project'] as const) {
    const asked = options[parent];
    if (asked !== undefined) requireKnownParents(mirror, sources, parent, asked);
  }
  if (options.id === undefined) return;
  const missing = new Set(options.id);
  for (const { id } of read()) missing.delete(id);
  if (missing.size === 0) return;
  const others = filterText({ ...options, id: [] });
  throw new TidemarkError(
    'not_found',
    `no record has the id ${[...missing].join(', ')}${others === '' ? '' : ` (with ${others})`} in this state of the mirror`,
    {
      hint: 'it may be another kind, or removed: `--at run:N` shows an earlier state, `tidemark runs` lists them',
    },
  );
}

function requireKnownParents(
  mirror: Mirror,
  sources: readonly string[],
  parent: 'organization' | 'project',
  asked: readonly string[],
): void {
  const known = new Set(
    mirror
      .collectionsOf()
      .filter(({ source }) => sources.includes(source))
      .map(({ scope }) => scope[`${parent}_id`])
      .filter((id) => id !== undefined),
  );
  for (const id of asked) {
    if (known.has(id) || mirror.findRecords(`${parent}s`, id, { sources }).length > 0) continue;
    const near = suggest(id, known);
    throw new TidemarkError(
      'not_found',
      `the mirror knows no ${parent} ${id}${near === undefined ? '' : `; did you mean ${near}?`}`,
      { hint: `\`tidemark export --kind ${parent}s\` shows those that it holds` },
    );
  }
}
