/** A comparison that compared nothing is an error, never "no changes" (design.md, invariant 10). */
import { scopeText } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey } from '../catalog/order.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { firstWords, formatInteger, plural } from '../core/wording.ts';
import type { DiffDocument, Skipped } from '../diff/change.ts';
import { filterParts, hasSelected, keysIn, type StateFilter } from './filter.ts';
import type { Coverage, LoadedState } from './state.ts';
import { EXCLUDED } from './unasked.ts';

/** A list that a side could not read. */
export type UnreadList = Extract<Coverage, { how: 'unread' }> & Pick<CollectionKey, 'kind'>;

interface Question {
  readonly filter: StateFilter;
  readonly unread: readonly UnreadList[];
  /** Given if both states have the same ids. */
  readonly sides?: readonly [LoadedState, LoadedState];
  /** The ids of the filter as the user typed them: an id that was typed masked is never shown. */
  readonly typedIds?: readonly string[] | undefined;
}

const MOST_NAMED = 5; // kinds or collections; more are counted

const REFUSED: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** The error that says why, with the code of the service if it gave one: a key that was refused is not a failure. */
export function nothingCompared(
  { skipped, left_out: leftOut = [] }: Pick<DiffDocument, 'skipped' | 'left_out'>,
  { filter, unread, sides, typedIds }: Question,
): TidemarkError {
  const asked = filterText(filter.ids === undefined ? filter : { ...filter, ids: typedIds ?? filter.ids });
  // If the service refused or failed, that is why, whatever an export holds.
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
    const kinds = firstWords([...new Set(alike.map(({ kind }) => kind))], MOST_NAMED);
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
  const isSelected = (state: LoadedState): boolean => hasSelected(state, filterParts(filter, state));
  // An id that neither state has is not missing because some kinds were left out.
  const isUnknownId =
    filter.ids !== undefined && filter.kinds === undefined && sides?.some(isSelected) === false;
  const chosen = isUnknownId ? undefined : leftOut[0];
  const reason =
    chosen === undefined
      ? asked === ''
        ? 'neither state holds a collection'
        : `no record of either state matches ${asked}`
      : `${chosen.kind}: ${chosen.reason}${leftOut.length > 1 ? ` (and ${plural(leftOut.length - 1, 'other collection')})` : ''}`;
  // An unknown id is a mistake in the command, like an unknown organization.
  const code = chosen === undefined && (filter.ids ?? []).length > 0 ? 'reference_unknown' : 'not_found';
  return new TidemarkError(code, `nothing was compared: ${reason}`, {
    hint:
      asked === ''
        ? 'look at `tidemark status` for what the mirror holds'
        : 'correct the filter, or leave it out',
  });
}

/**
 * The error for an export that has nothing in common with the other side: that side was not asked for the kinds of the
 * export, or only that side has records that match the filter. Null if the reason is another one.
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
  const held = keysIn([exported], parts);
  const excluded = held.filter(({ kind, scope }) => {
    const coverage = other.coverage(kind, scope);
    return coverage.how === 'left_out'
      ? coverage.isOfKind === true
      : 'unasked' in coverage && coverage.unasked.by === 'kind';
  });
  if (excluded.length > 0) {
    const kinds = [...new Set(excluded.map(({ kind }) => kind))];
    return new TidemarkError(
      'not_found',
      `nothing was compared: ${firstWords(kinds, MOST_NAMED)}: ${EXCLUDED}`,
      {
        hint: `name the ${kinds.length === 1 ? 'kind' : 'kinds'} to compare anyway: ${kinds.map((kind) => `--kind ${kind}`).join(' ')}`,
      },
    );
  }
  const count = keysIn([other], parts).length;
  if (asked === '' || held.length > 0 || count === 0) return null;
  const { ref } = exported.reference;
  // Such a reason only repeats that the export holds none of them.
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
 * The error if no run was asked for a kind, or if one side is a state of the mirror from before the first reading of every
 * skipped collection; undefined if there are other reasons as well.
 */
export function neverRead(
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  skipped: DiffDocument['skipped'],
  isExcluded: (kind: Kind) => boolean,
): TidemarkError | undefined {
  const isAll = (state: LoadedState, expected: Coverage['how']): boolean =>
    skipped.length > 0 && skipped.every(({ kind, scope }) => state.coverage(kind, scope).how === expected);
  const { from, to } = sides;
  const [never] = skipped.filter(({ kind }) => (to.neverAsked?.(kind) ?? null) !== null);
  if (never !== undefined)
    return new TidemarkError('never_read', `nothing was compared: ${never.kind}: ${never.reason}`, {
      hint: isExcluded(never.kind) ? INCLUDE_FIRST : SYNC_FIRST,
    });
  const pairs = [
    [from, to],
    [to, from],
  ] as const;
  const [lacking] = pairs.find(([one, other]) => isAll(one, 'unread') && isAll(other, 'read')) ?? [];
  const resolved = lacking?.resolvedState ?? null;
  if (lacking === undefined || resolved === null) return undefined;
  const { ref, run } = resolved;
  const runs = lacking.firstReadsAfter?.(skipped) ?? skipped.map(() => null);
  const named = notRead(
    lacking,
    skipped.map(({ kind, scope }, index) => ({ kind, scope, since: runs[index] ?? null })),
  );
  const all = runs.every((since) => since !== null) ? Math.max(...runs) : null;
  const state = ref === `run:${run}` ? ref : `${ref} (run ${run})`;
  // If a later run read them, they were not excluded then.
  const areExcluded = all === null && skipped.every(({ kind }) => isExcluded(kind));
  const why = areExcluded ? `: ${EXCLUDED}` : '';
  return new TidemarkError(
    'never_read',
    `nothing was compared: ${state} holds no reading of ${firstWords(named, MOST_NAMED)}${why}`,
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

interface NotRead extends CollectionKey {
  readonly since: number | null;
}

/** Only the kind is named if the state has read none of its collections, and one run was the first to read them all. */
function notRead(lacking: LoadedState, all: readonly NotRead[]): string[] {
  const readBefore = new Set(
    lacking
      .collections()
      .flatMap(({ kind, scope }) => (lacking.coverage(kind, scope).how === 'read' ? [kind] : [])),
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

/** The filter as options of the command line. */
function filterText({ kinds = [], organizations = [], projects = [], ids = [] }: StateFilter): string {
  return [
    ...kinds.map((kind) => `--kind ${kind}`),
    ...organizations.map((id) => `--organization ${id}`),
    ...projects.map((id) => `--project ${id}`),
    ...ids.map((id) => `--id ${id}`),
  ].join(' ');
}
