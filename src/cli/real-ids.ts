/** `--id`, `--organization` and `--project`: replaces names, and masked ids as reports show them, by ids. */
import { shownText } from '../catalog/masks.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isMaskedId, maskedId } from '../report/mask.ts';
import { nameText, quotedName } from '../report/value-text.ts';
import { filterParts, type StateFilter } from '../state/filter.ts';
import type { LoadedState } from '../state/state.ts';
import {
  areNamesAmong,
  ID,
  type Namesake,
  namesakesIn,
  onlyIds,
  type ParentOptions,
  REMOVED,
  requireNamesIntact,
  type ResolvedParents,
  SourceChoice,
  type SourceState,
  withParentIds,
} from './named-parents.ts';
import { recordNote, recordsNear, throwSeveral } from './record.ts';
import { formerNamesakes, idsMaskedAs, namesakeNotes, namesakesOf } from './record-names.ts';

/** Where names are looked up. */
export interface KnownTo {
  /** Called only if it is needed; null if there is no mirror. */
  readonly mirror: () => Mirror | null;
  /** Empty for all sources. */
  readonly sources: readonly string[];
  /** Opens the stored states that the command works with, besides the newest; called only if names are given. */
  readonly states?: () => Promise<readonly SourceState[]>;
  /** True if these are the two ends of the period shown: a record that neither has does not count if one of them has another. */
  readonly isWithinStates?: boolean;
  /** True if the command also reads the service. */
  readonly readsLive?: boolean;
  /** Prints which record a name, or a part of one, stands for. */
  readonly note: (line: string) => void;
  /** True if former names count too; only for commands that change nothing. */
  readonly takesFormerNames?: boolean;
  /** False if a part of a name is refused, as for a restore that writes without asking. Default: true. */
  readonly isPartEnough?: boolean;
}

/**
 * Replaces each masked id, each name, and each part of a name that only one record has, by the id; also the names of
 * organizations and projects. Names are looked up in the newest state and in those that the command works with. What the
 * mirror does not know stays: it may be the id of a record that only the service or an export has.
 * @throws TidemarkError `reference_unknown` for a masked id that no record of the mirror has or had, and for a text that
 * resembles a name; `usage` for a name, or a part of one, of several records; as `withParentIds`
 */
export async function withRealIds<
  T extends ParentOptions & { readonly id?: readonly string[]; readonly kind?: readonly Kind[] },
>(asked: T, config: Config, known: KnownTo): Promise<ResolvedParents<T>> {
  if ([asked.id, asked.organization, asked.project].every((given) => given === undefined))
    return { options: asked, sources: known.sources };
  const held = known.mirror();
  const filter = { sources: known.sources.length > 0 ? known.sources : (held?.runs.sources() ?? []) };
  const kinds = asked.kind ?? KINDS;
  const isKnown = (id: string): boolean =>
    held !== null && kinds.some((kind) => held.records.find(kind, id, filter).length > 0);
  const needsStates =
    areNamesAmong(asked, held, filter.sources) ||
    asked.id?.some((id) => !isMaskedId(id) && !isKnown(id)) === true;
  const states = needsStates ? ((await known.states?.()) ?? []) : [];
  const { note, sources, readsLive = false } = known;
  const formerly = (
    text: string,
    within: Omit<Parameters<typeof formerNamesakes>[3], 'sources'>,
    own: readonly string[],
    isPart = false,
  ): ReturnType<typeof formerNamesakes> =>
    held === null || known.takesFormerNames !== true
      ? []
      : formerNamesakes(config, held, text, { ...within, sources: own }, isPart);
  const parents = withParentIds(asked, config, held, {
    ...{ sources, states, readsLive, note },
    formerly: (kind, name, within, own) => formerly(name, { ...within, kinds: [kind] }, own),
  });
  const { options } = parents;
  if (options.id === undefined) return parents;
  const choice = new SourceChoice(parents.sources);
  const real = options.id.flatMap((id) => {
    if (!isMaskedId(id)) {
      if (isKnown(id)) return [id];
      const { organization: organizations, project: projects } = options;
      const below = defined({ organizations, projects });
      const within = { sources: choice.sources.length > 0 ? choice.sources : filter.sources, ...below };
      const own = states.filter(({ source }) => source === null || within.sources.includes(source));
      if (own.some(({ state }) => hasRecord(state, { ...below, kinds, ids: [id] }))) return [id];
      const newest = held === null ? [] : namesakesOf(held, config, { kinds, name: id }, within);
      const former = formerly(id, { ...below, kinds }, within.sources);
      const inStates = own.flatMap((state) => namesakesIn(config, state, id, { ...below, kinds }));
      const isInStates = (each: Namesake): boolean =>
        inStates.some(
          (other) =>
            other.kind === each.kind &&
            other.id === each.id &&
            (other.source === null || other.source === each.source),
        );
      const isLimited = known.isWithinStates === true && inStates.length > 0;
      const named = [...(isLimited ? newest.filter(isInStates) : newest), ...inStates];
      const there = named.filter(({ where }) => where !== REMOVED);
      const exact = [there, named].find(({ length }) => length > 0) ?? former;
      const { parts, near } =
        exact.length > 0 || held === null || ID.test(id)
          ? { parts: [], near: undefined }
          : recordsNear(held, config, { kinds, text: id }, within);
      const [only] = parts;
      if (parts.length > 1 || (only !== undefined && known.isPartEnough === false)) throwSeveral(parts, id);
      if (only !== undefined) {
        const whose = choice.take([only.row.source]);
        note(`${recordNote(only, id)}${whose}`);
        return [only.row.id];
      }
      const isPart = exact.length === 0 && !ID.test(id);
      const before = isPart ? formerly(id, { ...below, kinds }, within.sources, true) : former;
      const found = isPart ? before : exact;
      const [first] = found;
      if (first !== undefined) {
        requireNamesIntact(own, found);
        const ids = onlyIds(held, id, found);
        const whose = choice.take(found.map(({ source }) => source));
        const now =
          newest.length > 0
            ? undefined
            : before.find((each) => each.kind === first.kind && each.id === first.id);
        const meant = found.map((each) => ({ ...each, source: each.source ?? '' }));
        const others = held === null ? [] : namesakeNotes(held, meant, before);
        note(
          `${quotedName(shownText(id, first.definition))} is ${first.definition.title.one} ${ids.map((each) => nameText(maskedId(each, first.definition))).join(', ')}${whose}${now === undefined ? '' : `, ${now.where}`}${others.map((text) => `; ${text}`).join('')}`,
        );
        return ids;
      }
      if (near === undefined) return [id];
      throw new TidemarkError(
        'reference_unknown',
        `the mirror has no record with the id or name ${quotedName(id)}; did you mean ${quotedName(near)}?`,
        { hint: 'name it in full, by a part of its name, or by its id: `tidemark export` lists all' },
      );
    }
    const ids = held === null ? [] : kinds.flatMap((kind) => idsMaskedAs(held, config, kind, id, filter));
    if (ids.length > 0) return ids;
    throw new TidemarkError('reference_unknown', `the mirror has no record with an id masked as ${id}`, {
      hint: 'run `tidemark sync` and try again, or give the id in clear text (`--show-secrets` prints it)',
    });
  });
  return { options: { ...options, id: [...new Set(real)] }, sources: choice.sources };
}

function hasRecord(state: LoadedState, filter: StateFilter): boolean {
  return filterParts(filter, state).some((part) => {
    for (const _record of state.keys?.(part) ?? state.records(part)) return true;
    return false;
  });
}
