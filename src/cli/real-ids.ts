/** Names and masked ids, as reports show them, in the place of ids: resolved by the records of the mirror. */
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isMaskedId } from '../report/mask.ts';
import { idsMaskedAs, idsNamed } from './record.ts';

/** Whom to ask. */
export interface KnownTo {
  /** Called only where it is needed; null where there is none. */
  readonly mirror: () => Mirror | null;
  /** Whose records; none named: every source's. */
  readonly sources: readonly string[];
}

/**
 * The options with each masked id, and each name that is no id, replaced by the real one. What the mirror does not know
 * stays: it may be the id of a record that only the service or an export has.
 * @throws TidemarkError `reference_unknown` for a masked id that no record of the mirror has, now or before; `usage` for a
 * name of several records
 */
export function withRealIds<
  T extends {
    readonly id?: readonly string[];
    readonly kind?: readonly Kind[];
    readonly organization?: readonly string[];
    readonly project?: readonly string[];
  },
>(options: T, config: Config, { mirror, sources }: KnownTo): T {
  if (options.id === undefined) return options;
  const held = mirror();
  const real = options.id.flatMap((id) => {
    const kinds = options.kind ?? KINDS;
    const filter = { sources: sources.length > 0 ? sources : (held?.runs.sources() ?? []) };
    if (!isMaskedId(id)) {
      if (held === null || kinds.some((kind) => held.records.find(kind, id, filter).length > 0)) return [id];
      const named = idsNamed(
        held,
        config,
        { kinds, name: id },
        {
          ...filter,
          ...(options.organization === undefined ? {} : { organizations: options.organization }),
          ...(options.project === undefined ? {} : { projects: options.project }),
        },
      );
      return named.length > 0 ? named : [id];
    }
    const ids = held === null ? [] : kinds.flatMap((kind) => idsMaskedAs(held, config, kind, id, filter));
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
