/** A comparison that compared nothing is an error, never "no changes" (design.md, invariant 10). */
import { scopeText } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { DiffDocument, Skipped } from '../diff/change.ts';
import { filterParts, type StateFilter } from './filter.ts';
import type { Coverage, LoadedState } from './state.ts';
import { EXCLUDED } from './unasked.ts';

/** A list that a side could not read. */
export type UnreadList = Extract<Coverage, { how: 'unread' }> & Pick<CollectionKey, 'kind'>;

interface Question {
  readonly filter: StateFilter;
  readonly unread: readonly UnreadList[];
  /** The two states, where they have the same ids. */
  readonly sides?: readonly [LoadedState, LoadedState];
  /** Ids of the filter as the user gave them: one that was given masked is never written out. */
  readonly typedIds?: readonly string[] | undefined;
}

const REFUSED: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** Why nothing was, with the service's own code where it said why: refused for everything is not the same as failed. */
export function nothingCompared(
  { skipped, left_out: leftOut = [] }: Pick<DiffDocument, 'skipped' | 'left_out'>,
  { filter, unread, sides, typedIds }: Question,
): TidemarkError {
  const asked = filterText(filter.ids === undefined ? filter : { ...filter, ids: typedIds ?? filter.ids });
  // Where the service did not give what an export holds, the rest of the export does not matter.
  const answered = unread.filter(({ code }) => code !== null);
  const ofExport =
    answered.length > 0 || sides === undefined
      ? null
      : apartFromExport(sides, filter, { asked, first: skipped[0] });
  if (ofExport !== null) return ofExport;
  const [first] = skipped.filter(
    ({ kind }) => answered.length === 0 || answered.some((each) => each.kind === kind),
  );
  if (first !== undefined) {
    const alike = answered.length === 0 ? [first] : skipped.filter(({ reason }) => reason === first.reason);
    const kinds = listed([...new Set(alike.map(({ kind }) => kind))]);
    const others = skipped.length - alike.length;
    const more = others > 0 ? ` (and ${plural(others, 'other collection')})` : '';
    const failed = answered.find(({ code }) => code !== null && !REFUSED.has(code));
    const isRefused = answered.length > 0 && failed === undefined;
    const { code, permission } = failed ?? answered[0] ?? {};
    return new TidemarkError(code ?? 'not_found', `nothing was compared: ${kinds}: ${first.reason}${more}`, {
      ...(permission === undefined ? {} : { permission }),
      hint: isRefused
        ? code === 'unauthorized'
          ? 'check apiKey or apiKeyFile of the source: `tidemark doctor` tries it'
          : `give the key the permission ${permission ?? 'to read'}, or look at \`tidemark status\` for what it may read`
        : failed !== undefined
          ? failed.code === 'throttled'
            ? 'compare again once requests are accepted: `tidemark status` shows until when the service asked to wait'
            : 'run `tidemark doctor`: it tries the service and says what fails'
          : asked !== ''
            ? 'correct the filter, or leave it out'
            : 'look at `tidemark status` for what could not be read',
    });
  }
  const isSelected = (state: LoadedState): boolean =>
    filterParts(filter, state).some((part) => {
      for (const _key of state.keys?.(part) ?? state.records(part)) return true;
      return false;
    });
  // What is left out of a comparison that names no kind has no part in an id that nobody has.
  const isNobodys =
    filter.ids !== undefined && filter.kinds === undefined && sides?.some(isSelected) === false;
  const chosen = isNobodys ? undefined : leftOut[0];
  const reason =
    chosen === undefined
      ? asked === ''
        ? 'neither state holds a collection'
        : `no record of either state matches ${asked}`
      : `${chosen.kind}: ${chosen.reason}${leftOut.length > 1 ? ` (and ${plural(leftOut.length - 1, 'other collection')})` : ''}`;
  // An id that nobody has is a mistake of the command, as an unknown organization is.
  const code = chosen === undefined && (filter.ids ?? []).length > 0 ? 'reference_unknown' : 'not_found';
  return new TidemarkError(code, `nothing was compared: ${reason}`, {
    hint:
      asked === ''
        ? 'look at `tidemark status` for what the mirror holds'
        : 'correct the filter, or leave it out',
  });
}

/**
 * The error where an export and the other side have nothing in common: the other side was not asked for the kinds of the export, or
 * only it has records that match the filter. Null where that is not why.
 */
function apartFromExport(
  sides: readonly [LoadedState, LoadedState],
  filter: StateFilter,
  { asked, first }: { readonly asked: string; readonly first: Skipped | undefined },
): TidemarkError | null {
  const isExport = ({ reference }: LoadedState): boolean => reference.ref.startsWith('file:');
  const [exported, other] = isExport(sides[0]) ? sides : [sides[1], sides[0]];
  if (!isExport(exported) || isExport(other)) return null;
  const parts = filterParts(filter, ...sides);
  const matching = (state: LoadedState): RecordKey[] =>
    parts.flatMap((part) => [...(state.keys?.(part) ?? state.records(part))]);
  const held = matching(exported);
  const excluded = held.filter(({ kind, scope }) => {
    const coverage = other.coverage(kind, scope);
    return coverage.how === 'left_out'
      ? coverage.isOfKind === true
      : 'unasked' in coverage && coverage.unasked.by === 'kind';
  });
  if (excluded.length > 0) {
    const kinds = [...new Set(excluded.map(({ kind }) => kind))];
    return new TidemarkError('not_found', `nothing was compared: ${listed(kinds)}: ${EXCLUDED}`, {
      hint: `name the ${kinds.length === 1 ? 'kind' : 'kinds'} to compare anyway: ${kinds.map((kind) => `--kind ${kind}`).join(' ')}`,
    });
  }
  const count = matching(other).length;
  if (asked === '' || held.length > 0 || count === 0) return null;
  const { ref } = exported.reference;
  // That it holds none of them is said already.
  const why = first === undefined || first.reason.startsWith(ref) ? '' : ` (${first.kind}: ${first.reason})`;
  return new TidemarkError(
    'not_found',
    `nothing was compared: ${ref} holds no record that matches ${asked}; ${other.reference.ref} has ${formatInteger(count)}${why}`,
    {
      hint: `leave the filter out, or compare with an export that has them: \`tidemark export ${asked} --format json\``,
    },
  );
}

const SYNC_FIRST = 'run `tidemark sync`, and compare with its run';
const INCLUDE_FIRST =
  'leave the kind in (kinds.include, kinds.exclude, recordings.sharingPerRun), then run `tidemark sync`';

/**
 * The error where no run was asked for a kind, or one side is a state of the mirror from before the first reading of every collection that was skipped; undefined where it
 * is not only that.
 */
export function neverRead(
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  skipped: DiffDocument['skipped'],
  isExcluded: (kind: Kind) => boolean = () => false,
): TidemarkError | undefined {
  const how = (state: LoadedState): Coverage['how'][] =>
    skipped.map(({ kind, scope }) => state.coverage(kind, scope).how);
  const isAll = (state: LoadedState, expected: Coverage['how']): boolean =>
    skipped.length > 0 && how(state).every((each) => each === expected);
  const { from, to } = sides;
  const [never] = skipped.filter(({ kind }) => (to.neverAsked?.(kind) ?? null) !== null);
  if (never !== undefined)
    return new TidemarkError('never_read', `nothing was compared: ${never.kind}: ${never.reason}`, {
      hint: isExcluded(never.kind) ? INCLUDE_FIRST : SYNC_FIRST,
    });
  const lacking =
    isAll(from, 'unread') && isAll(to, 'read')
      ? from
      : isAll(to, 'unread') && isAll(from, 'read')
        ? to
        : null;
  if (lacking === null || lacking.resolvedState === null) return undefined;
  const { ref, run } = lacking.resolvedState;
  const runs = lacking.firstReadsAfter?.(skipped) ?? skipped.map(() => null);
  const named = notRead(
    lacking,
    skipped.map(({ kind, scope }, index) => ({ kind, scope, since: runs[index] ?? null })),
  );
  const all = runs.every((since) => since !== null) ? Math.max(...runs) : null;
  const state = ref === `run:${run}` ? ref : `${ref} (run ${run})`;
  // A later run that read them was before they were excluded.
  const areExcluded = all === null && skipped.every(({ kind }) => isExcluded(kind));
  const why = areExcluded ? `: ${EXCLUDED}` : '';
  return new TidemarkError(
    'never_read',
    `nothing was compared: ${state} holds no reading of ${listed(named)}${why}`,
    {
      hint:
        all === null
          ? areExcluded
            ? INCLUDE_FIRST
            : SYNC_FIRST
          : `compare with run:${all} or a later run, or make such a run the baseline: \`tidemark snapshots pin NAME run:${all} --baseline\``,
    },
  );
}

/** More are counted. */
const MOST_NAMED = 5;

interface NotRead extends CollectionKey {
  readonly since: number | null;
}

function listed(named: readonly string[]): string {
  const more = named.length - MOST_NAMED;
  return `${named.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** A kind stands for its collections where the state has read none of it, and one run was the first to read them all. */
function notRead(lacking: LoadedState, all: readonly NotRead[]): string[] {
  const readBefore = new Set(
    lacking.collections().flatMap(({ kind, scope }) => {
      return lacking.coverage(kind, scope).how === 'read' ? [kind] : [];
    }),
  );
  const first = (since: number | null): string =>
    since === null ? '(nor does a later run)' : `(first read by run ${since})`;
  return [...Map.groupBy(all, ({ kind }) => kind)].flatMap(([kind, own]) => {
    const isWhole = !readBefore.has(kind) && own.every(({ since }) => since === own[0]?.since);
    if (isWhole) return [`${kind} ${first(own[0]?.since ?? null)}`];
    return own.map(({ scope, since }) => {
      const where = scopeText(scope);
      return `${kind}${where === '' ? '' : ` of ${where}`} ${first(since)}`;
    });
  });
}

/** The filter as it was written on the command line. */
function filterText({ kinds = [], organizations = [], projects = [], ids = [] }: StateFilter): string {
  return [
    ...kinds.map((kind) => `--kind ${kind}`),
    ...organizations.map((id) => `--organization ${id}`),
    ...projects.map((id) => `--project ${id}`),
    ...ids.map((id) => `--id ${id}`),
  ].join(' ');
}
