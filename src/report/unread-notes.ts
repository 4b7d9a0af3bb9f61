/** What the runs of a period could not read, as text and as keys of `tidemark.changes/1`. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { groupsBy } from '../core/group.ts';
import { firstWords, plural } from '../core/wording.ts';
import { type Skipped, type Stale, mayHide } from '../diff/change.ts';
import { groupedNotes, heldOnce, hidingLines, type PlaceOf, staleFromLines } from './notes.ts';
import type { ForgottenRuns } from '../state/runs.ts';
import type { UnreadInPeriod, UnreadRun } from '../state/unread-in-period.ts';

export interface UnreadOfSource extends UnreadInPeriod {
  readonly source: string;
  /** Writes the parents of a collection; by default by their ids. */
  readonly placeOf?: PlaceOf;
}

type Listed = UnreadInPeriod & Pick<UnreadOfSource, 'placeOf'>;

type Definitions = (kind: Kind) => ResourceDefinition;

const LINES_SHOWN = 10; // the JSON document has all
const RUNS_NAMED = 6;

/** True if changes of the period may be missing. */
export function mayMissChanges(own: UnreadInPeriod): boolean {
  return own.forgotten.length > 0 || isUnread(own);
}

function isUnread({ runs, skipped, stale }: UnreadInPeriod): boolean {
  return skipped.length > 0 || stale.some(mayHide) || runs.some(({ readAgain }) => readAgain === null);
}

/** The runs that were partial or failed, with the lists that they did not read; a line for all runs that are alike. */
export function unreadNotes(unread: readonly UnreadOfSource[], definitions: Definitions): string[] {
  const lines = unread.flatMap((own) => {
    const of = unread.length > 1 ? ` of ${own.source}` : '';
    return [
      ...own.forgottenLines,
      ...failedLines(own.runs, of),
      ...listLines(own, of, definitions),
      ...elsewhere(own, of, definitions),
      ...limitedNotes([own], definitions),
    ];
  });
  const more = lines.length - LINES_SHOWN;
  return [
    ...lines.slice(0, LINES_SHOWN),
    ...(more > 0 ? [`${plural(more, 'more line')} like these: \`tidemark changes --json\` has all`] : []),
  ];
}

/** The lists that the last run of the period did not read, because it was limited to other kinds. */
export function limitedNotes(unread: readonly Listed[], definitions: Definitions): string[] {
  return unread.flatMap((own) => staleFromLines(own, definitions, own.placeOf));
}

/** Why changes may be missing; empty if every list was read by the end of the period, and no run of it was dropped. */
export function unreadReason(unread: readonly UnreadOfSource[], definitions: Definitions): string[] {
  const forgotten = unread.flatMap(({ forgottenLines }) =>
    forgottenLines.map((text) => `changes may be missing: ${text}`),
  );
  const missing = unread.filter(isUnread);
  if (missing.length === 0) return forgotten;
  const lines = missing.flatMap((own) => {
    const of = unread.length > 1 ? ` of ${own.source}` : '';
    const open = own.runs.filter(({ readAgain }) => readAgain === null);
    const state = stateLines(own, of, definitions);
    return [
      ...failedLines(open, of),
      ...(state.length === 0 ? listLines({ ...own, runs: open }, of, definitions) : state),
    ];
  });
  return [
    ...forgotten,
    missing.some(({ runs }) => runs.some((run) => run.readAgain === null && run.lists.some(isHeld)))
      ? 'changes may be missing: not everything was read, or removals were held, by the end of the period'
      : 'changes may be missing: not everything was read by the end of the period',
    ...lines.map((line) => `  ${line}`),
    ...new Set(missing.map(hintOf)),
  ];
}

function hintOf({ isForLimit, runs }: UnreadInPeriod): string {
  return isForLimit && runs.every(({ readAgain }) => readAgain !== null)
    ? '  → `tidemark sync` reads all kinds'
    : '  → `tidemark doctor` shows what the key can read, `tidemark status` what the mirror lacks';
}

/** @returns the keys `not_read`, `skipped`, `stale` and `forgotten` */
export function unreadDocument(unread: readonly UnreadOfSource[]): object {
  const of = <T extends Skipped | Omit<Stale, 'side'> | ForgottenRuns>(
    all: (own: UnreadOfSource) => readonly T[],
  ): object[] => unread.flatMap((own) => all(own).map((each) => ({ source: own.source, ...each })));
  return {
    not_read: unread
      .flatMap(({ runs }) => runs)
      .toSorted((a, b) => a.run - b.run)
      .map(({ readAgain, ...run }) => ({ ...run, read_again: readAgain })),
    skipped: of(({ skipped }) => skipped),
    stale: of(({ stale }) => stale.map(({ side: _side, ...each }) => each)),
    forgotten: of(({ forgotten }) => forgotten),
  };
}

function failedLines(runs: readonly UnreadRun[], of: string): string[] {
  const failed = runs.filter(({ outcome }) => outcome === 'failed');
  return groupsBy(failed, ({ error, readAgain }) => JSON.stringify([error?.message, readAgain])).map(
    (same) => {
      const message = same[0].error?.message ?? '';
      return `${runsText(same)}${of} failed${againText(same[0])}${message === '' ? '' : `: ${message}`}`;
    },
  );
}

function listLines(
  { runs, placeOf }: Pick<Listed, 'runs' | 'placeOf'>,
  of: string,
  definitions: Definitions,
): string[] {
  const partial = runs.filter(({ outcome }) => outcome === 'partial');
  return groupsBy(partial, ({ lists, readAgain }) => JSON.stringify([lists, readAgain])).flatMap((same) => {
    const [{ lists }] = same;
    const by = `${runsText(same)}${of}${againText(same[0])}`;
    if (lists.length === 0) return [`partial: ${by}`];
    const held = heldOnce(lists.filter(isHeld)).map((list) => ({
      ...list,
      reason: list.reason.replace(/^held: /, ''),
    }));
    const unread = lists.filter((list) => !isHeld(list));
    return [
      ...groupedNotes(`not read by ${by}`, unread, definitions, { placeOf }),
      // These lists were read; the records that they did not show are kept.
      ...groupedNotes(`removals held by ${by}`, held, definitions, { placeOf }),
    ];
  });
}

function isHeld({ outcome }: UnreadRun['lists'][number]): boolean {
  return outcome === 'held';
}

function stateLines({ skipped, stale, placeOf }: Listed, of: string, definitions: Definitions): string[] {
  return [
    ...groupedNotes(`not read${of}`, skipped, definitions, { placeOf }),
    ...hidingLines({ stale }, definitions, { placeOf }),
  ];
}

/** The lists that are missing although no run of the period failed to read them: earlier runs did, or they are excluded. */
function elsewhere(own: Listed, of: string, definitions: Definitions): string[] {
  const isOpen = own.runs.some(({ readAgain }) => readAgain === null);
  return isOpen ? [] : stateLines(own, of, definitions);
}

function runsText(runs: readonly UnreadRun[]): string {
  const numbers = runs.map(({ run }) => String(run));
  return `${numbers.length === 1 ? 'run' : 'runs'} ${firstWords(numbers, RUNS_NAMED)}`;
}

function againText({ readAgain }: UnreadRun): string {
  return readAgain === null ? '' : ` (read again by run ${readAgain})`;
}
