/** What a run changed: against the run of the same source that was published before it, by the one comparison. */
import { createColors } from 'picocolors';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source-definitions.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, NewlyRead } from '../diff/change.ts';
import { compareKeys } from '../diff/order.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { maskedDocument } from '../report/mask.ts';
import { renderText } from '../report/text.ts';
import { type RecreatedCount, recreatedIn, RecreatedBetween } from '../state/recreated.ts';
import { FullSweeps } from '../state/full-sweeps.ts';
import { diffPoints } from '../state/mirror-diff.ts';
import { openMirrorState } from '../state/mirror-state.ts';
import { parentNames } from '../state/parent-names.ts';
import type { Point } from '../state/point.ts';
import { isPublished, previousRun } from '../state/published-run.ts';
import { comparisonNotes } from './comparison-notes.ts';
import { isColoured, type CommandContext } from './context.ts';

/** Records of a run that are printed before the rest is only counted: a run can change everything. */
const RECORDS_SHOWN = 100;

/** The changes from one published run to a later one of the same source. */
export function changesBetween(
  mirror: Mirror,
  config: Config,
  runs: { readonly from: RunRow; readonly to: RunRow },
  filter: RecordFilter = {},
): DiffDocument {
  const { source } = runs.to;
  const point = ({ run, finishedAt, startedAt }: RunRow): Point => ({
    ref: `run:${run}`,
    run,
    at: finishedAt ?? startedAt,
    isLatest: false,
  });
  const [from, to] = [point(runs.from), point(runs.to)];
  const looks = new FullSweeps(openMirrorState(mirror, source, from));
  const definitions = definitionsFor(config, source);
  const again = RecreatedBetween.runs(mirror, runs, definitions);
  const document = diffPoints(mirror, from, to, {
    mode: 'default',
    filter: { ...again.widened(filter), sources: [source] },
    definitions,
    // As in a diff: whoever names the kind sees them all.
    isUnknown: (key, change) => filter.kinds?.includes(key.kind) !== true && looks.isUnknown(key, change),
    through: (changes) => again.joined(changes, filter),
  });
  const changes = document.changes.map((change) => again.told(change)).sort(compareKeys);
  return { ...document, changes, left_out: looks.leftOut() };
}

/** Records of its source as of a run: what a first run added is not that where retention dropped the runs before it. */
export function recordsAt(mirror: Mirror, { run, source }: RunRow): number {
  return mirror.recordCountsAt(run, { sources: [source] }).reduce((sum, { records }) => sum + records, 0);
}

/** The `changes` of a run's JSON document; null for a source's first run, where all is new, and for one not published. */
export function runChangesDocument(mirror: Mirror, config: Config, run: RunRow): DiffDocument | null {
  const from = isPublished(run) ? previousRun(mirror, run) : undefined;
  if (from === undefined) return null;
  return maskedDocument(
    changesBetween(mirror, config, { from, to: run }),
    definitionsFor(config, run.source),
  );
}

/** A run's changes for people. */
export interface PrintedChanges {
  /** One or several lines; empty for a run that was not published. */
  readonly text: string;
  /** Of the same comparison; null for a source's first run, and for one that was not published. */
  readonly summary: DiffDocument['summary'] | null;
  readonly firstReads: readonly NewlyRead[];
  readonly createdAgain: readonly RecreatedCount[];
}

export function printRunChanges(
  context: CommandContext,
  mirror: Mirror,
  config: Config,
  run: RunRow,
): PrintedChanges {
  if (!isPublished(run)) return { text: '', summary: null, firstReads: [], createdAgain: [] };
  const from = previousRun(mirror, run);
  if (from === undefined) {
    const kept = mirror.forgottenBefore(run.run) === undefined ? '' : ' that is kept';
    const records = plural(recordsAt(mirror, run), 'record');
    return {
      text: `the first run of ${run.source}${kept}: ${records}, all new\n`,
      summary: null,
      firstReads: [],
      createdAgain: [],
    };
  }
  const definitions = definitionsFor(config, run.source);
  const document = changesBetween(mirror, config, { from, to: run });
  const text = renderText(document, {
    definitions,
    notes: comparisonNotes(document, definitions),
    parentName: parentNames(mirror, run.source, definitions),
    colors: createColors(isColoured(context)),
    width: context.stdout.columns ?? 100,
    maxRecords: RECORDS_SHOWN,
    moreHint: `tidemark diff run:${from.run} run:${run.run}`,
  });
  return {
    text,
    summary: document.summary,
    firstReads: document.first_read ?? [],
    createdAgain: recreatedIn(mirror, { from, to: run }),
  };
}
