/** Formats and writes reports: `--format`, `--output`, and several sources in one report. */
import { resolve } from 'node:path';
import { collectionKey } from '../catalog/catalog.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { DiffDocument, Skipped, Stale } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { diffReport } from '../report/diff-report.ts';
import {
  groupedNotes,
  hidingLines,
  KINDS_SHOWN,
  type PlaceOf,
  readingsThatMayHideChanges,
} from '../report/notes.ts';
import { renderHtml } from '../report/render-html.ts';
import { COMMENT_LENGTH, renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import { renderJunit } from '../report/junit.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import type { ReportOptions } from '../report/options.ts';
import { renderPatch } from '../report/patch.ts';
import { renderSarif } from '../report/sarif.ts';
import { BASELINE } from '../state/reference.ts';
import { neverAsked } from '../state/unasked.ts';
import { printNote, printReason, type CommandContext, lineOptions, printDocument } from './context.ts';
import { reportFailure } from './failure.ts';
import type { StateOpener } from './state-opener.ts';
import { writeAtomically } from './atomic-file.ts';
import { isDetailed } from '../core/logger.ts';
import { printPage } from './pager.ts';

export type ReportFormat = 'text' | 'json' | 'markdown' | 'html' | 'junit' | 'sarif' | 'patch';

export interface OutputOptions {
  readonly format?: ReportFormat;
  readonly output?: string;
  readonly showSecrets?: boolean;
}

/** The report about one source. */
export interface SourceReport {
  readonly source: string | null;
  readonly exitCode: ExitCode;
  /** Lines that say why it failed or is partial; empty if it is neither. */
  readonly reason: readonly string[];
  /** The JSON document, without a line break at the end. */
  readonly json: () => string;
  readonly render: (format: Exclude<ReportFormat, 'json'>) => string;
}

/** The report about one source, or why there is none. */
type SourceResult = SourceReport | { readonly source: string | null; readonly error: TidemarkError };

/** Makes the report of each source in turn. If one fails, its error is the result, and the others continue. */
export async function reportEach<Source extends string | null>(
  sources: readonly Source[],
  { signal, opener }: { readonly signal: AbortSignal; readonly opener: Pick<StateOpener, 'closeStates'> },
  reportOf: (source: Source) => Promise<SourceReport>,
): Promise<SourceResult[]> {
  const results: SourceResult[] = [];
  for (const source of sources) {
    try {
      results.push(await reportOf(source));
    } catch (error) {
      signal.throwIfAborted();
      results.push({ source, error: asTidemarkError(error) });
    } finally {
      opener.closeStates();
    }
  }
  return results;
}

const ENDINGS: readonly (readonly [ending: RegExp, format: string])[] = [
  [/\.sarif(?:\.json)?$/i, 'sarif'],
  [/\.json$/i, 'json'],
  [/\.csv$/i, 'csv'],
  [/\.html?$/i, 'html'],
  [/\.(?:md|markdown)$/i, 'markdown'],
  [/\.xml$/i, 'junit'],
  [/\.(?:patch|diff)$/i, 'patch'],
];

/**
 * The format given with `--json` or `--format`; without either, the one that the ending of the `--output` file stands for.
 * @throws TidemarkError `usage` if `--json` and `--format` contradict each other, or the ending stands for a format that the
 * command does not write
 */
export function formatOf<Format extends string>(
  context: CommandContext,
  { format, output = '' }: { readonly format?: Format | undefined; readonly output?: string },
  offered: readonly Format[] = [],
): Format | 'json' | 'text' {
  if (context.options.json === true && format !== undefined && format !== 'json') {
    throw new TidemarkError('usage', `--json and --format ${format} exclude each other`, {
      hint: 'leave one of them out',
    });
  }
  if (context.options.json === true) return 'json';
  const ofFile = ENDINGS.find(([ending]) => ending.test(output))?.[1];
  if (format !== undefined || ofFile === undefined) return format ?? 'text';
  const known = offered.find((each) => each === ofFile);
  if (known !== undefined) return known;
  throw new TidemarkError(
    'usage',
    `${output} is the name of a file of the format ${ofFile}, which this command does not write`,
    {
      hint: `name the format with --format: ${offered.join(', ')}`,
    },
  );
}

/** Renders a document. Formats without an element for stale readings get these as skipped collections. */
export function renderDocument(
  context: CommandContext,
  document: DiffDocument,
  format: Exclude<ReportFormat, 'json'>,
  options: ReportOptions & { readonly isFile: boolean },
): string {
  switch (format) {
    case 'text':
      return renderText(diffReport(document, options), lineOptions(context, options));
    case 'markdown':
      return renderMarkdown(diffReport(document, options), { maxLength: COMMENT_LENGTH });
    case 'html':
      return renderHtml(diffReport(document, options));
    case 'junit':
      return renderJunit(withStale(document), options);
    case 'sarif':
      return renderSarif(withStale(document), options);
    case 'patch':
      return renderPatch(document, options);
  }
}

/** For machine formats that know only "could not be checked". */
function withStale(document: DiffDocument): DiffDocument {
  const stale = readingsThatMayHideChanges(document).map(({ kind, scope, reason }) => ({
    kind,
    scope,
    reason: `not fresh: ${reason}`,
  }));
  return { ...document, skipped: [...document.skipped, ...stale] };
}

/** Writes the reports, prints what failed, and returns the exit code for all. If the only result is a failure, it is thrown. */
export async function deliver(
  context: CommandContext,
  options: OutputOptions,
  results: readonly SourceResult[],
): Promise<ExitCode> {
  const format = formatOf(context, options);
  const reports = results.filter((result) => 'render' in result);
  const failures = results.filter((result) => 'error' in result);
  const [failure] = failures;
  if (reports.length === 0 && failure !== undefined && failures.length === 1) throw failure.error;
  for (const { source, error } of failures) {
    const isVerbose = isDetailed(context.options.logLevel);
    const named = new TidemarkError(error.code, `${source ?? ''}: ${error.message}`, {
      hint: error.hint,
      cause: error,
    });
    reportFailure(context, named, {
      isVerbose,
      isJson: false,
      hasBegun: false,
      options: { ...context.options, ...(source === null ? {} : { source: [source] }) },
    });
    context.onReasonPrinted?.();
  }
  const isPartial = reports.some(({ exitCode }) => exitCode === EXIT.partial);
  if (reports.length > 0 || format === 'json')
    await write(context, { output: options.output, format }, textOf(reports, failures, format), isPartial);
  for (const { source, reason } of reports) {
    const of = reports.length > 1 && source !== null ? `${source}: ` : '';
    printReason(
      context,
      reason.map((line) => (line.startsWith(' ') ? line : `${of}${line}`)),
    );
  }
  return exitCodeOf(reports, failures);
}

/** Lines that say why a comparison is partial: what it could not compare, and what it compared with an old reading. */
export function comparisonReason(
  document: DiffDocument,
  definitions: ReportOptions['definitions'],
  {
    mirror,
    source,
    placeOf,
  }: { readonly mirror: Mirror | null; readonly source: string | null; readonly placeOf: PlaceOf },
): string[] {
  const lines = [
    ...groupedNotes('not compared', document.skipped, definitions, { placeOf, most: KINDS_SHOWN }),
    ...hidingLines(document, definitions, { placeOf, most: KINDS_SHOWN }),
  ];
  if (lines.length > 0)
    return [
      ...lines,
      ...(mirror === null || source === null ? [UNREAD_REMEDY] : remedies(document, mirror, source)),
    ];
  return document.compared.collections === 0 && document.compared.records === 0
    ? ['nothing was compared: no record matches the filters', UNREAD_REMEDY]
    : [];
}

const UNREAD_REMEDY =
  '  → `tidemark doctor` shows what the key can read, `tidemark status` what the mirror lacks';

/** True for a list that the run did not read only because it was limited to other kinds: read completely before, or never. */
function isForLimitOf(mirror: Mirror, source: string, run: number): (each: Skipped | Stale) => boolean {
  const kinds = mirror.runs.get(run)?.kinds ?? null;
  const seen = new Map(mirror.runs.sweepsAsOf(source, run).map((each) => [collectionKey(each), each]));
  const never = neverAsked(mirror, { source, run });
  return (each) => {
    if (kinds === null || kinds.includes(each.kind)) return false;
    if ('side' in each) return each.side === 'to' && seen.get(collectionKey(each))?.outcome === 'complete';
    return never(each.kind) !== null;
  };
}

/** What to do about it. If only FROM lacks a list that the newest run has, another FROM helps: key and mirror are all right. */
function remedies({ from, to, skipped, stale = [] }: DiffDocument, mirror: Mirror, source: string): string[] {
  const hiding = [...skipped, ...readingsThatMayHideChanges({ stale })];
  if (to.run !== undefined && hiding.every(isForLimitOf(mirror, source, to.run)))
    return [`  → run ${to.run} was limited to some kinds: \`tidemark sync\` reads all, compare with its run`];
  const latest = mirror.runs.latest(source);
  if (from.run === undefined || from.ref.startsWith('file:') || latest === undefined) return [UNREAD_REMEDY];
  const unread = (run: number): Set<string> =>
    new Set(
      mirror.runs
        .sweepsAsOf(source, run)
        .flatMap((seen) => (seen.completeRun === null ? [collectionKey(seen)] : [])),
    );
  const [then, now] = [unread(from.run), unread(latest.run)];
  // Not if TO is stale: that is not a defect of FROM, which may be older than the parent of the list.
  const isOfFrom = hiding.map((each) => {
    const key = collectionKey(each);
    return !('side' in each && each.side === 'to') && then.has(key) && !now.has(key);
  });
  const way =
    from.ref === BASELINE.text
      ? 'make a complete run the baseline (`tidemark snapshots pin NAME --baseline`)'
      : 'compare with a later run';
  return [
    ...(isOfFrom.includes(true)
      ? [`  → run ${from.run} lacks what the newest run has: to compare it, ${way}`]
      : []),
    ...(isOfFrom.includes(false) ? [UNREAD_REMEDY] : []),
  ];
}

function textOf(
  reports: readonly SourceReport[],
  failures: readonly { readonly source: string | null; readonly error: TidemarkError }[],
  format: ReportFormat,
): string {
  const [only, ...others] = reports;
  const isOne = others.length === 0 && failures.length === 0;
  if (format === 'json') {
    return escapeForTerminal(isOne ? `${only?.json() ?? ''}\n` : jsonOfSeveral(reports, failures));
  }
  if (others.length > 0 && format !== 'text' && format !== 'markdown') {
    throw new TidemarkError('usage', `--format ${format} holds one source`, {
      hint: `name it with --source: ${reports.map(({ source }) => source).join(', ')}`,
    });
  }
  return reports.map((report) => report.render(format)).join('\n');
}

/** `tidemark.reports/1`, with its documents indented as single ones are. */
function jsonOfSeveral(
  reports: readonly SourceReport[],
  failures: readonly { readonly source: string | null; readonly error: TidemarkError }[],
): string {
  const errors = failures.map(({ source, error: { code, message } }) => ({ source, code, message }));
  // No JSON text has a line break within a string: indenting its lines changes no value.
  const indented = (json: string): string => json.replaceAll('\n', '\n    ');
  const documents = reports.map((report) => `\n    ${indented(report.json())}`).join(',');
  return `{
  "schema": "tidemark.reports/1",
  "documents": [${documents}${documents === '' ? '' : '\n  '}],
  "errors": ${JSON.stringify(errors, null, 2).replaceAll('\n', '\n  ')}
}\n`;
}

async function write(
  context: CommandContext,
  { output, format }: { readonly output?: string | undefined; readonly format: ReportFormat },
  text: string,
  isPartial: boolean,
): Promise<void> {
  if (output === undefined) return (format === 'text' ? printPage : printDocument)(context, text);
  await writeAtomically(resolve(context.cwd, output), [text], context);
  printNote(context, [
    `written to ${output}${isPartial ? '; not everything could be compared; the file lists what, and why' : ''}`,
  ]);
}

/** Partial comes before differences; the code of a failure counts only if there is no report at all. */
function exitCodeOf(
  reports: readonly SourceReport[],
  failures: readonly { readonly error: TidemarkError }[],
): ExitCode {
  const [failure] = failures;
  if (reports.length === 0) return failure === undefined ? EXIT.failed : exitCodeFor(failure.error.code);
  const codes = reports.map(({ exitCode }) => exitCode);
  if (failures.length > 0 || codes.includes(EXIT.partial)) return EXIT.partial;
  return codes.includes(EXIT.differences) ? EXIT.differences : EXIT.done;
}
