/** `tidemark changes`: what changed in a period, run by run, over all sources; as text, Markdown, JSON, CSV or a page with charts. */
import { resolve } from 'node:path';
import type { Scope } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { defined } from '../core/defined.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import type { DiffDocument, LeftOut } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { PlanlessRestore } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import { changesCsv } from '../report/changes-csv.ts';
import { parentTexts } from '../report/notes.ts';
import type { ReportOptions } from '../report/options.ts';
import { maskedDocument } from '../report/mask.ts';
import { renderHtml } from '../report/render-html.ts';
import { COMMENT_LENGTH, renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import { type Timeline, type TimelineEvent, timelineReport } from '../report/timeline-report.ts';
import {
  mayMissChanges,
  type UnreadOfSource,
  unreadDocument,
  unreadNotes,
  unreadReason,
} from '../report/unread-notes.ts';
import { restoresDocument } from '../state/documents.ts';
import type { StateFilter } from '../state/filter.ts';
import { forgottenInto, isPublished } from '../state/runs.ts';
import {
  alteredRows,
  deletedRunsNote,
  requireCountedWithin,
  type Sealed,
  sealedRun,
  sealNotes,
} from '../state/intact.ts';
import { parentNames } from '../state/parent-names.ts';
import { choosePeriod, isWithin, type Period, periodTexts, restoresWithin } from '../state/period.ts';
import { resolvedStateOf, resolveState } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { leftOutOfRun } from '../state/unasked.ts';
import { unreadOfSources } from '../state/unread-in-period.ts';
import { openForReading, printAltered } from './verification-note.ts';
import {
  lineOptions,
  printCsv,
  printDocument,
  printNote,
  printShownReason,
  type CommandContext,
} from './context.ts';
import { leftOutNotes, type RunChanges, runNotes, unseenRestoreNotes } from './changes-notes.ts';
import { statesAt } from './named-parents.ts';
import { withRealIds } from './real-ids.ts';
import { sourcesToRead } from './record.ts';
import { requireEverKnown, unreadQuestion } from './not-known.ts';
import { changesBetween, recordsAt } from './run-comparison.ts';
import { writeAtomically } from './atomic-file.ts';
import { type FilterOptions, recordFilter } from './filter-options.ts';
import { formatOf } from './report-output.ts';
import { printPage } from './pager.ts';
import { readConfigToShow } from './unmasked-keys.ts';

export interface ChangesOptions extends FilterOptions {
  readonly since?: string;
  readonly until?: string;
  readonly format?: 'text' | 'json' | 'csv' | 'html' | 'markdown';
  readonly output?: string;
  readonly limit?: number;
  readonly showSecrets?: boolean;
}

const DEFAULT_SINCE = '7d';
const RECORDS_SHOWN = 200; // in text; JSON and HTML hold all

/**
 * Exit code 0 whatever changed: this shows history; `diff` and `drift` have exit codes for changes. 3 if runs left
 * something unread that no later run of the period read, or if retention dropped runs whose changes are in no run that is kept. 1 if there was no run yet, or if another
 * program altered the row of a run or of a restore that is shown: the changes are printed nevertheless.
 */
export async function changes(context: CommandContext, options: ChangesOptions): Promise<ExitCode> {
  const format = formatOf(context, options, ['text', 'json', 'csv', 'html', 'markdown']);
  const config = readConfigToShow(context);
  using mirror = openForReading(context, config, 'changes');
  const all = sourcesToRead(config, mirror);
  const { since = DEFAULT_SINCE, until } = options;
  const period = choosePeriod(mirror, { since, until, sources: all }, systemClock.now());
  const isInPeriod = (run: RunRow): boolean => isWithin(period, timeOf(run), run.run);
  const { options: resolved, sources } = await withRealIds(options, config, {
    mirror: () => mirror,
    sources: all,
    states: () => Promise.resolve([since, until].flatMap((at) => statesAt(mirror, all, at))),
    isWithinStates: until !== undefined,
    takesFormerNames: true,
    note: (line) => printNote(context, [line]),
  });
  const filter = recordFilter(sources, resolved);
  requireCountedWithin(mirror, { ...filter, followsIds: true });
  // Masked with the source's own definitions: a profile may know more secrets than the catalog.
  const diffOf = (from: RunRow, to: RunRow): DiffDocument => {
    const diff = changesBetween(mirror, config, { from, to }, filter);
    return options.showSecrets === true ? diff : maskedDocument(diff, definitionsFor(config, to.source));
  };
  const found = sources
    .flatMap((source): RunChanges[] => {
      const runs = mirror.runs.list({ source }).filter(isPublished).reverse();
      const pairs = runs.flatMap((run, index) => (isInPeriod(run) ? [{ run, from: runs[index - 1] }] : []));
      const diffs = diffsOf(mirror, source, pairs, diffOf);
      return pairs.map(({ run, from }, index) => ({
        run,
        diff: diffs[index] ?? null,
        records: from === undefined ? recordsAt(mirror, run) : null,
        forgotten: forgottenInto(mirror, run.run) ?? null,
      }));
    })
    .sort((a, b) => a.run.run - b.run.run);
  const placesOf = placesIn(mirror, config, period);
  const unread = unreadOfSources(mirror, config, {
    period,
    ...unreadQuestion(context, mirror, all, { sources, options: resolved }),
    isWithin: isInPeriod,
  }).map((own) => ({
    ...own,
    placeOf: (scope: Scope) => placesOf(own.source, scope, { hasIds: false }).join(', '),
  }));
  const isEmpty = found.length === 0 && unread.every(({ runs }) => runs.length === 0);
  if (isEmpty && sources.every((source) => mirror.runs.latest(source) === undefined))
    resolvedStateOf(mirror, LATEST, {});
  const [oldest] = sources.flatMap((source) => mirror.runs.list({ source }).findLast(isPublished) ?? []);
  if (isEmpty && oldest !== undefined && unread.every(({ forgotten }) => forgotten.length === 0))
    requireBegun(mirror, sources, oldest.source, period.until.at);
  requireEverKnown(resolved, filter, { mirror, config, sources });
  const leftOut = ({ source, run }: RunRow): LeftOut[] =>
    leftOutOfRun(
      mirror,
      config.sources.find(({ name }) => name === source),
      { source, run, filter },
    );
  const never = sources
    .filter((source) => mirror.runs.latest(source) === undefined)
    .map((source) => `nothing of ${source} is in the mirror yet: run \`tidemark sync\``);
  const altered = alteredRows(mirror);
  const deleted = deletedRunsNote(mirror);
  const exit = printAltered(context, altered);
  const head = sealedRun(mirror, found.at(-1)?.run.run, altered);
  printNote(context, deleted);
  const definitions = definitionsFor(config, sources.length === 1 ? (sources[0] ?? '') : '');
  const restores = restoresWithin(mirror, { period, sources });
  const isPage = format === 'html' || format === 'markdown';
  const shared = {
    definitions,
    showsSecrets: options.showSecrets === true,
    // The reader of a page does not see stderr.
    notes: new Set([
      ...(isPage ? [...altered, ...deleted, ...sealNotes(head)] : []),
      ...runNotes(found, definitions),
      ...leftOutNotes(found, sources, { leftOut, definitions }),
      ...never,
      ...(isNarrowed(filter) ? [] : unseenRestoreNotes(restores, found, isPage ? utcText : localTime)),
      ...unreadNotes(unread, definitions),
    ])
      .values()
      .toArray(),
  };
  const isPartial = unread.some(mayMissChanges);
  const timeline = {
    ...timelineOf(period, found, sources, placesOf),
    isPartial,
    isUnknown:
      unread.some(({ forgotten }) => forgotten.length > 0) && found.every(({ diff }) => diff === null),
  };
  const texts = periodTexts(period, localTime);
  const report = timelineReport(isPage ? { ...timeline, period: exactText(period) } : timeline, {
    ...shared,
    title: isPage ? 'Changes' : `Changes from ${texts.since} to ${texts.until}`,
    ...(isPage ? {} : { timeText: localTime }),
  });
  const text = ((): string => {
    if (format === 'json')
      return escapeForTerminal(
        `${JSON.stringify(document(period, found, { unread, leftOut, head, restores, warnings: [...altered, ...deleted, ...never] }))}\n`,
      );
    if (format === 'csv') {
      const places = new Map(sources.map((source) => [source, mirror.records.listedOrganizations(source)]));
      return [...changesCsv(found, (source, project) => places.get(source)?.get(project))].join('');
    }
    if (format === 'html') return renderHtml(report);
    if (format === 'markdown') return renderMarkdown(report, { maxLength: COMMENT_LENGTH });
    const next = context.options.verbose === true ? sealNotes(head) : [];
    return renderText(
      { ...report, next },
      {
        ...lineOptions(context, { isFile: options.output !== undefined }),
        maxRecords: options.limit ?? RECORDS_SHOWN,
        moreHint: 'tidemark changes --format json',
      },
    );
  })();
  // The other formats include them.
  if (format === 'csv') printNote(context, shared.notes);
  if (format === 'json') printNote(context, never);
  printNote(context, period.notes);
  if (options.output === undefined)
    await (format === 'text' ? printPage : format === 'csv' ? printCsv : printDocument)(context, text);
  else {
    await writeAtomically(resolve(context.cwd, options.output), [text], context);
    printNote(context, [`written to ${options.output}`]);
  }
  printShownReason(context, unreadReason(unread, definitions));
  return exit === EXIT.done && isPartial ? EXIT.partial : exit;
}

/**
 * What each run of a source changed, in order; null for its first run. Comparing takes longer the more runs follow, and most runs
 * change nothing: a run without revisions reuses the comparison before it, if that found no change either.
 */
function diffsOf(
  mirror: Mirror,
  source: string,
  pairs: readonly { readonly run: RunRow; readonly from: RunRow | undefined }[],
  diffOf: (from: RunRow, to: RunRow) => DiffDocument,
): (DiffDocument | null)[] {
  const [after, upTo] = [pairs[0]?.from?.run ?? pairs[0]?.run.run ?? 0, pairs.at(-1)?.run.run ?? 0];
  const revised = mirror.records.revisedRuns({ after, upTo, source });
  let unchanged: DiffDocument | null = null;
  return pairs.map(({ run, from }) => {
    if (from === undefined) return null;
    const isRevised = revised.some((each) => each > from.run && each <= run.run);
    const diff = unchanged === null || isRevised ? diffOf(from, run) : between(unchanged, from, run);
    unchanged = isRevised ? null : diff;
    return diff;
  });
}

/** The time at which a run's changes are listed, ISO 8601. */
function timeOf({ finishedAt, startedAt }: RunRow): string {
  return finishedAt ?? startedAt;
}

/** A comparison that found nothing, as of two other runs. */
function between(unchanged: DiffDocument, ...runs: readonly [RunRow, RunRow]): DiffDocument {
  const [from, to] = runs.map((run) => ({ ref: `run:${run.run}`, run: run.run, at: timeOf(run) }));
  return { ...unchanged, from: { ...unchanged.from, ...from }, to: { ...unchanged.to, ...to } };
}

/**
 * Nothing is known of the time before the first run.
 * @throws TidemarkError as for a state at that time, if no source was read by then
 */
function requireBegun(mirror: Mirror, sources: readonly string[], source: string, at: string): void {
  const isBegun = (each: string): boolean =>
    mirror.runs.list({ source: each }).some((run) => isPublished(run) && timeOf(run) <= at);
  if (!sources.some(isBegun)) resolveState(mirror, at, { source, isEvidence: true, now: systemClock.now() });
}

function utcText(at: string): string {
  return `${at.slice(0, 16).replace('T', ' ')} UTC`;
}

/** To the second, with the runs: a reader can ask for the same period. */
function exactText(period: Period): string {
  const texts = periodTexts(period, (at) => at.slice(0, 19).replace('T', ' '));
  const { since, until } = period;
  const after = since.run === undefined ? '' : `, after run ${since.run}`;
  const upTo = until.run === undefined ? '' : `, up to run ${until.run}`;
  return `${texts.since} to ${texts.until} UTC${after}${upTo}`;
}

function document(
  period: Period,
  found: readonly RunChanges[],
  {
    unread,
    leftOut,
    warnings,
    head,
    restores,
  }: {
    readonly restores: readonly PlanlessRestore[];
    readonly head: Sealed | null;
    readonly unread: readonly UnreadOfSource[];
    readonly leftOut: (run: RunRow) => readonly LeftOut[];
    readonly warnings: readonly string[];
  },
): object {
  const summary = { added: 0, removed: 0, changed: 0 };
  const runs = found.map(({ run, diff, forgotten }) => {
    for (const { change } of diff?.changes ?? []) summary[change] += 1;
    return {
      run: run.run,
      source: run.source,
      at: timeOf(run),
      previous: diff?.from.run ?? null,
      forgotten,
      summary: diff?.summary ?? null,
      changes: diff?.changes ?? null,
      left_out: [...(diff?.left_out ?? []), ...leftOut(run)],
      first_read: diff?.first_read ?? [],
    };
  });
  const { since, until } = period;
  return {
    schema: 'tidemark.changes/1',
    ...{ since: since.at, until: until.at, head, summary, runs, restores: restoresDocument(restores) },
    ...unreadDocument(unread),
    warnings,
  };
}

/** True if the filter may leave out changes that a restore made. */
function isNarrowed({ kinds, organizations, projects, ids }: StateFilter): boolean {
  return [kinds, organizations, projects, ids].some((each) => each !== undefined);
}

/** Names the parents of a record, by source, as they were named at the end of the period. */
function placesIn(mirror: Mirror, config: Config, period: Period) {
  const options = new Map<string, Pick<ReportOptions, 'definitions' | 'parentName'>>();
  return (source: string, scope: Scope, how?: { readonly hasIds: boolean }): readonly string[] => {
    const definitions = definitionsFor(config, source);
    const known = options.get(source) ?? {
      definitions,
      parentName: parentNames(mirror, source, definitions, lastRunOf(mirror, source, period)),
    };
    options.set(source, known);
    return parentTexts(scope, known, how);
  };
}

/** The last published run of a source that ended within the period or before it; undefined if there is none. */
function lastRunOf(mirror: Mirror, source: string, { until }: Period): number | undefined {
  const upTo = { since: { at: '' }, until };
  return mirror.runs.list({ source }).find((run) => isPublished(run) && isWithin(upTo, timeOf(run), run.run))
    ?.run;
}

function timelineOf(
  { since, until }: Period,
  found: readonly RunChanges[],
  sources: readonly string[],
  placeOf: (source: string, scope: Scope) => readonly string[],
): Timeline {
  const events = found.flatMap(({ run, diff }) =>
    (diff?.changes ?? []).map(
      ({ kind, scope, id, name, change, fields, created_again: again, changed_by: by }): TimelineEvent => ({
        at: timeOf(run),
        run: run.run,
        kind,
        id,
        name,
        change,
        place: placeOf(run.source, scope),
        fields: change === 'changed' ? fields : [],
        ...defined({ created_again: again, changed_by: by }),
        ...(sources.length > 1 ? { source: run.source } : {}),
      }),
    ),
  );
  // Days before the first run of the period would only make the chart's days narrower.
  const first = found[0]?.run;
  const firstAt = first === undefined ? since.at : timeOf(first);
  const firstDay = (firstAt > since.at ? firstAt : since.at).slice(0, 10);
  return {
    firstDay: firstDay < until.at ? firstDay : until.at.slice(0, 10),
    lastDay: until.at.slice(0, 10),
    events,
  };
}
