/** A comparison that compared nothing is an error, never "no changes" (design.md, Never broken 10). */
import { scopeText } from '../catalog/catalog.ts';
import type { CollectionKey } from '../catalog/order.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { StateFilter } from './filter.ts';
import type { Coverage, LoadedState } from './state.ts';

type Unread = Extract<Coverage, { how: 'unread' }>;

const REFUSED: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** Why nothing was, with the service's own code where it said why: refused for everything is not the same as failed. */
export function nothingCompared(
  { skipped, left_out: leftOut = [] }: Pick<DiffDocument, 'skipped' | 'left_out'>,
  filter: StateFilter,
  unread: readonly Unread[],
): TidemarkError {
  const [first] = skipped;
  const asked = filterText(filter);
  if (first !== undefined) {
    const more = skipped.length > 1 ? ` (and ${plural(skipped.length - 1, 'other collection')})` : '';
    const withCode = unread.find(({ code }) => code !== null);
    const isRefused = unread.length > 0 && unread.every(({ code }) => code !== null && REFUSED.has(code));
    const { permission } = withCode ?? {};
    return new TidemarkError(
      isRefused || (withCode?.code !== undefined && !REFUSED.has(withCode.code ?? 'internal'))
        ? (withCode?.code ?? 'not_found')
        : 'not_found',
      `nothing was compared: ${first.kind}: ${first.reason}${more}`,
      {
        ...(permission === undefined ? {} : { permission }),
        hint: isRefused
          ? withCode?.code === 'unauthorized'
            ? 'check apiKey or apiKeyFile of the source: `tidemark doctor` tries it'
            : `give the key the permission ${permission ?? 'to read'}, or look at \`tidemark status\` for what it may read`
          : withCode === undefined && asked !== ''
            ? 'correct the filter, or leave it out'
            : withCode?.code === undefined || withCode.code === null || REFUSED.has(withCode.code)
              ? 'look at `tidemark status` for what could not be read'
              : 'run `tidemark doctor`: it tries the service and says what fails',
      },
    );
  }
  const chosen = leftOut[0];
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
 * The error where one side is a state of the mirror from before the first reading of every collection that was skipped; undefined where it
 * is not only that.
 */
export function neverRead(
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  skipped: DiffDocument['skipped'],
): TidemarkError | undefined {
  const how = (state: LoadedState): Coverage['how'][] =>
    skipped.map(({ kind, scope }) => state.coverage(kind, scope).how);
  const isAll = (state: LoadedState, expected: Coverage['how']): boolean =>
    skipped.length > 0 && how(state).every((each) => each === expected);
  const { from, to } = sides;
  const lacking =
    isAll(from, 'unread') && isAll(to, 'read')
      ? from
      : isAll(to, 'unread') && isAll(from, 'read')
        ? to
        : null;
  if (lacking === null || lacking.point === null) return undefined;
  const { ref, run } = lacking.point;
  const runs = lacking.firstReadsAfter?.(skipped) ?? skipped.map(() => null);
  const named = notRead(
    lacking,
    skipped.map(({ kind, scope }, index) => ({ kind, scope, since: runs[index] ?? null })),
  );
  const all = runs.every((since) => since !== null) ? Math.max(...runs) : null;
  const state = ref === `run:${run}` ? ref : `${ref} (run ${run})`;
  return new TidemarkError(
    'never_read',
    `nothing was compared: ${state} holds no reading of ${listed(named)}`,
    {
      hint:
        all === null
          ? 'run `tidemark sync`, and compare with its run'
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
