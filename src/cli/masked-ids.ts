/** Masked ids, as reports show them, as arguments: resolved by the records of the mirror. */
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { isMaskedId, isSecretId, maskedId } from '../report/mask.ts';

/** Whom to ask. */
export interface KnownTo {
  /** Called only where it is needed; null where there is none. */
  readonly mirror: () => Mirror | null;
  /** Whose records; none named: every source's. */
  readonly sources: readonly string[];
}

/**
 * The options with each masked id replaced by the real one.
 * @throws TidemarkError `reference_unknown` for one that no record of the mirror has, now or before
 */
export function withRealIds<T extends { readonly id?: readonly string[]; readonly kind?: readonly Kind[] }>(
  options: T,
  config: Config,
  { mirror, sources }: KnownTo,
): T {
  if (options.id?.some(isMaskedId) !== true) return options;
  const held = mirror();
  const real = options.id.flatMap((id) => {
    if (!isMaskedId(id)) return [id];
    const kinds = options.kind ?? KINDS;
    const ids =
      held === null
        ? []
        : kinds.flatMap((kind) =>
            idsMaskedAs(held, config, kind, id, {
              sources: sources.length > 0 ? sources : held.runs.sources(),
            }),
          );
    if (ids.length > 0) return ids;
    throw new TidemarkError(
      'reference_unknown',
      `no record that the mirror knows has an id masked as ${id}`,
      {
        hint: 'after the next `tidemark sync` it may know it; `--show-secrets` prints ids in clear, which always do',
      },
    );
  });
  return { ...options, id: [...new Set(real)] };
}

/** Ids of records of a kind, removed ones too, that are masked like this. */
export function idsMaskedAs(
  mirror: Mirror,
  config: Config,
  kind: Kind,
  text: string,
  filter: RecordFilter & { readonly sources: readonly string[] },
): string[] {
  const isMeant = ({ source, id }: { readonly source: string; readonly id: string }): boolean =>
    maskedId(id, definitionsFor(config, source)(kind)) === text;
  const own = filter.sources.filter((source) => isSecretId(definitionsFor(config, source)(kind)));
  if (own.length === 0) return [];
  const all = { ...filter, sources: own, kinds: [kind] };
  const ids = new Set<string>();
  for (const records of [mirror.records.read(all), mirror.records.removed(all)])
    for (const record of records) if (isMeant(record)) ids.add(record.id);
  return [...ids];
}
