/** What one run changed, compared with the published run before it: of `tidemark runs show`. */
import { collectionKey } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, FirstRead, LeftOut, Skipped, Stale } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { diffReport } from '../report/diff-report.ts';
import { maskedDocument } from '../report/mask.ts';
import { namedPlaces } from '../report/notes.ts';
import { renderText } from '../report/render-text.ts';
import { requireCountedWithin } from '../state/intact.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { parentNames } from '../state/parent-names.ts';
import { type RecreatedCount, recreatedIn } from '../state/recreated.ts';
import { isPublished, previousRun } from '../state/runs.ts';
import { staleReading } from '../state/state.ts';
import { type CommandContext, lineOptions } from './context.ts';
import { changesBetween, comparisonNotes, recordsAt } from './run-comparison.ts';

/** Records of a run that are printed; the rest is only counted, since a run can change everything. */
const RECORDS_SHOWN = 100;

/** @throws TidemarkError `mirror_corrupt` where records were deleted: their changes would be missing */
function changesOfRun(
  mirror: Mirror,
  config: Config,
  runs: Parameters<typeof changesBetween>[2],
): DiffDocument {
  requireCountedWithin(mirror, { sources: [runs.to.source] });
  const document = changesBetween(mirror, config, runs);
  const { skipped, stale, leftOut } = notReadBy(mirror, runs);
  return {
    ...document,
    skipped: [...document.skipped, ...skipped],
    stale: [...(document.stale ?? []), ...stale],
    left_out: [...(document.left_out ?? []), ...leftOut],
  };
}

/** Collections that a run did not read completely, as a comparison names them: what changed there is not known. */
function notReadBy(
  mirror: Mirror,
  { from, to }: Parameters<typeof changesBetween>[2],
): { readonly skipped: Skipped[]; readonly stale: Stale[]; readonly leftOut: LeftOut[] } {
  const [before, after] = [from, to].map(({ run, source, finishedAt, startedAt }) =>
    openMirrorState(mirror, source, { ref: `run:${run}`, run, at: finishedAt ?? startedAt, isLatest: false }),
  );
  const found = { skipped: new Array<Skipped>(), stale: new Array<Stale>(), leftOut: new Array<LeftOut>() };
  if (before === undefined || after === undefined) return found;
  const known = new Set(before.collections().map(collectionKey));
  for (const { kind, scope } of after.collections()) {
    const now = after.coverage(kind, scope);
    if (now.how !== 'read' && now.how !== 'unread') continue;
    if (now.unasked !== undefined) found.leftOut.push({ kind, scope, reason: now.unasked.reason });
    else if (now.how === 'read') found.stale.push(...staleReading({ kind, scope }, 'to', now, undefined));
    // Offered neither then nor now: there is nothing that could differ.
    else if (now.code !== 'not_found') found.skipped.push({ kind, scope, reason: now.reason });
    if (now.how === 'read' && known.has(collectionKey({ kind, scope })))
      found.stale.push(...staleReading({ kind, scope }, 'from', before.coverage(kind, scope), undefined));
  }
  return found;
}

/** The `changes` of a run's JSON document; null for a source's first run and for one that was not published. */
export function runChangesDocument(
  mirror: Mirror,
  config: Config,
  run: RunRow,
  { showsSecrets }: { readonly showsSecrets: boolean },
): DiffDocument | null {
  const from = isPublished(run) ? previousRun(mirror, run) : undefined;
  if (from === undefined) return null;
  const document = changesOfRun(mirror, config, { from, to: run });
  return showsSecrets ? document : maskedDocument(document, definitionsFor(config, run.source));
}

/** A run's changes for people. */
export interface PrintedChanges {
  /** One or several lines; empty for a run that was not published. */
  readonly text: string;
  /** Of the same comparison; null for a source's first run, and for one that was not published. */
  readonly summary: DiffDocument['summary'] | null;
  readonly firstReads: readonly FirstRead[];
  readonly createdAgain: readonly RecreatedCount[];
}

export const NOTHING_COMPARED = {
  ...{ summary: null, firstReads: [], createdAgain: [] },
} as const satisfies Omit<PrintedChanges, 'text'>;

export function printRunChanges(
  context: CommandContext,
  mirror: Mirror,
  config: Config,
  run: RunRow,
  { showsSecrets }: { readonly showsSecrets: boolean },
): PrintedChanges {
  if (!isPublished(run)) return { text: '', ...NOTHING_COMPARED };
  const from = previousRun(mirror, run);
  if (from === undefined) {
    const kept = mirror.retention.forgottenBefore(run.run) === undefined ? '' : ' that is kept';
    const records = plural(recordsAt(mirror, run), 'record');
    return {
      text: `the first run of ${run.source}${kept}: ${records}, all new\n`,
      ...NOTHING_COMPARED,
    };
  }
  const definitions = definitionsFor(config, run.source);
  const document = changesOfRun(mirror, config, { from, to: run });
  const named = { definitions, parentName: parentNames(mirror, run.source, definitions, run.run) };
  const report = diffReport(document, {
    ...named,
    showsSecrets,
    notes: comparisonNotes(document, definitions, namedPlaces(named)),
  });
  const text = renderText(report, {
    ...lineOptions(context),
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
