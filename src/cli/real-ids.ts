/** Names and masked ids, as reports show them, in the place of ids: resolved by the records of the mirror. */
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isMaskedId } from '../report/mask.ts';
import { nameText } from '../report/value-text.ts';
import { idsMaskedAs, idsNamed, recordNote, recordsNear, throwSeveral, withParentIds } from './record.ts';

/** Whom to ask. */
export interface KnownTo {
  /** Called only where it is needed; null if there is none. */
  readonly mirror: () => Mirror | null;
  /** Whose records; none named: every source's. */
  readonly sources: readonly string[];
  /** Shows which record a part of a name was taken for. */
  readonly note: (line: string) => void;
  /** False where a part of a name is refused: a restore that writes without asking. True when left out. */
  readonly isPartEnough?: boolean;
}

/** Ids of services: no name that was mistyped. */
const ID = /^(?:\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/**
 * The options with each masked id, and each name that is not an id, replaced by the real one, and each part of the name of
 * one record only. So are the names of organizations and projects. What the mirror does not know stays: it may be the id of
 * a record that only the service or an export has.
 * @throws TidemarkError `reference_unknown` for a masked id that no record of the mirror has, now or before, and for a text
 * that resembles a name; `usage` for a name, or a part of the names, of several records
 */
export function withRealIds<
  T extends {
    readonly id?: readonly string[];
    readonly kind?: readonly Kind[];
    readonly organization?: readonly string[];
    readonly project?: readonly string[];
  },
>(asked: T, config: Config, known: KnownTo): T {
  if ([asked.id, asked.organization, asked.project].every((given) => given === undefined)) return asked;
  const held = known.mirror();
  const filter = { sources: known.sources.length > 0 ? known.sources : (held?.runs.sources() ?? []) };
  const options = held === null ? asked : withParentIds(asked, config, held, filter.sources);
  if (options.id === undefined) return options;
  const real = options.id.flatMap((id) => {
    const kinds = options.kind ?? KINDS;
    if (!isMaskedId(id)) {
      if (held === null || kinds.some((kind) => held.records.find(kind, id, filter).length > 0)) return [id];
      const within = {
        ...filter,
        ...(options.organization === undefined ? {} : { organizations: options.organization }),
        ...(options.project === undefined ? {} : { projects: options.project }),
      };
      const named = idsNamed(held, config, { kinds, name: id }, within);
      if (named.length > 0 || ID.test(id)) return named.length > 0 ? named : [id];
      const { parts, near } = recordsNear(held, config, { kinds, text: id }, within);
      const [only] = parts;
      if (parts.length > 1 || (only !== undefined && known.isPartEnough === false)) throwSeveral(parts, id);
      if (only !== undefined) {
        known.note(recordNote(only, id));
        return [only.row.id];
      }
      if (near === undefined) return [id];
      throw new TidemarkError(
        'reference_unknown',
        `the mirror has no record with the id or name "${nameText(id)}"; did you mean "${nameText(near)}"?`,
        { hint: 'name it in full, by a part of its name, or by its id: `tidemark export` lists all' },
      );
    }
    const ids = held === null ? [] : kinds.flatMap((kind) => idsMaskedAs(held, config, kind, id, filter));
    if (ids.length > 0) return ids;
    throw new TidemarkError('reference_unknown', `the mirror has no record with an id masked as ${id}`, {
      hint: 'run `tidemark sync` and try again, or give the id in clear text (`--show-secrets` prints it)',
    });
  });
  return { ...options, id: [...new Set(real)] };
}
