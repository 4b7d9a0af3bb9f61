/** The changes between two runs of a source, and the notes of a comparison. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { formatInteger } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import { compareKeys, type RecordKey } from '../catalog/order.ts';
import { countRepeats, inBoth, repeatingKinds, withoutRepeats } from '../diff/families.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { groupedNotes, leftOutLine, type PlaceOf, staleFromLines } from '../report/notes.ts';
import { openMirrorState, diffRuns } from '../state/mirror-diff.ts';
import { newlyReadRecords } from '../state/unknown-records.ts';
import type { ResolvedState } from '../state/resolved-state.ts';
import { RecreatedBetween } from '../state/recreated.ts';
import { RestoreWrites } from '../state/written-by-restore.ts';

/** The state as of a run. */
export function stateOfRun({ run, finishedAt, startedAt }: RunRow): ResolvedState {
  return { ref: `run:${run}`, run, at: finishedAt ?? startedAt, isLatest: false };
}

/** The changes from one published run to a later one of the same source. */
export function changesBetween(
  mirror: Mirror,
  config: Config,
  runs: { readonly from: RunRow; readonly to: RunRow },
  filter: RecordFilter = {},
): DiffDocument {
  const { source } = runs.to;
  const [from, to] = [stateOfRun(runs.from), stateOfRun(runs.to)];
  const firstReads = newlyReadRecords(openMirrorState(mirror, source, from));
  const definitions = definitionsFor(config, source);
  const again = RecreatedBetween.runs(mirror, runs, definitions);
  const selected = { ...filter, sources: [source], followsIds: true };
  const document = diffRuns(mirror, from, to, {
    mode: 'default',
    filter: selected,
    definitions,
    isUnknown: (key, change) => firstReads.isUnknown(key, change),
    through: (changes) => again.joined(changes),
  });
  const repeating = { ...selected, kinds: repeatingKinds(filter.kinds) };
  const keysAt = ({ run }: RunRow): Iterable<RecordKey> =>
    repeating.kinds.length === 0 ? [] : mirror.records.keysAt(run, repeating);
  const once = withoutRepeats(document, filter.kinds, inBoth(keysAt(runs.from), keysAt(runs.to)));
  const writes = new RestoreWrites(mirror, source);
  const changes = once.changes
    .map((change) => writes.marked(again.withRecreation(change), runs))
    .sort(compareKeys);
  return { ...once, changes, left_out: firstReads.leftOut() };
}

/**
 * The number of records as of the oldest kept run of a source: those that it added, or all, if retention dropped runs before
 * it. A component that is in two lists counts once.
 */
export function recordsAt(mirror: Mirror, { run, source, added }: RunRow): number {
  if (mirror.retention.forgottenBefore(run) === undefined) return added;
  const sources = [source];
  const all = mirror.records.countsAt(run, { sources }).reduce((sum, { records }) => sum + records, 0);
  return all - countRepeats(mirror.records.keysAt(run, { sources, kinds: repeatingKinds() }));
}

/**
 * Lines about what was left out by choice, and about stale readings that only affect FROM. Readings that may hide a change are
 * in the report itself (`report/notes.ts`).
 */
export function comparisonNotes(
  document: DiffDocument,
  definitions: (kind: Kind) => ResourceDefinition,
  placeOf: PlaceOf,
): string[] {
  return notesInText(document, definitions, { placeOf, isVerbose: true });
}

/** The same for a text report on stdout: unless `isVerbose`, one line about everything that was left out. */
export function notesInText(
  document: DiffDocument,
  definitions: (kind: Kind) => ResourceDefinition,
  { placeOf, isVerbose }: { readonly placeOf: PlaceOf; readonly isVerbose: boolean },
): string[] {
  return [
    ...staleFromLines(document, definitions, placeOf),
    ...(isVerbose
      ? groupedNotes('left out', document.left_out ?? [], definitions, { placeOf })
      : leftOutLine(document, definitions)),
    ...volatileNote(document),
  ];
}

/** At most this many fields are named; the JSON document has all. */
const FIELDS_NAMED = 5;

function volatileNote(document: DiffDocument): string[] {
  const { volatile_unknown: sides, volatile_fields: unknown = [] } = document;
  if (sides === undefined) return [];
  const fields = unknown.flatMap(({ kind, fields: own }) => own.map((field) => ({ kind, field })));
  const more = fields.length - FIELDS_NAMED;
  const named = [
    ...[...Map.groupBy(fields.slice(0, FIELDS_NAMED), ({ kind }) => kind)].map(
      ([kind, own]) => `${kind}: ${own.map(({ field }) => field).join(', ')}`,
    ),
    ...(more > 0 ? [`and ${formatInteger(more)} more`] : []),
  ].join('; ');
  const states = sides.map((side) => document[side].ref).join(' and ');
  return [
    `fields that change on their own are not compared${named === '' ? '' : ` (${named})`}: their values as of ${states} are not known`,
  ];
}
