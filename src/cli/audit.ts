/** `tidemark audit`: who accepted, pinned, restored, undid and forgot what, and when; newest first. */
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { formatInteger, localTime } from '../core/wording.ts';
import { AuditWalk, contradictedLines, damageNotes, plainLines } from '../daemon/http/audit-entries.ts';
import type { AuditAction } from '../mirror/audit-actions.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { auditCsv, auditEntryDocument, type AuditHead, auditReport } from '../report/audit-report.ts';
import { htmlPieces } from '../report/render-html.ts';
import { markdownPieces } from '../report/render-markdown.ts';
import { textPieces } from '../report/render-text.ts';
import { choosePeriod, type Period, periodTexts } from '../state/period.ts';
import { readConfig } from '../wire.ts';
import { inChunks, writeAtomically, yieldToEventLoop } from './atomic-file.ts';
import {
  isOneOutput,
  lineOptions,
  printCsv,
  printDocument,
  printNote,
  printReason,
  terminalWidth,
  type CommandContext,
} from './context.ts';
import { printPage } from './pager.ts';
import { formatOf } from './report-output.ts';
import { openForReading } from './verification-note.ts';

type AuditFormat = 'text' | 'json' | 'csv' | 'html' | 'markdown';

interface AuditOptions {
  readonly since?: string;
  readonly until?: string;
  readonly action?: readonly AuditAction[];
  readonly by?: readonly string[];
  readonly format?: AuditFormat;
  readonly output?: string;
}

/** Exit code 0, also if no entry matches; 1, as for `verify`, if any entry or a run was altered or is missing. The result is written in any case. */
export async function audit(context: CommandContext, options: AuditOptions): Promise<ExitCode> {
  const format = formatOf(context, options, ['text', 'json', 'csv', 'html', 'markdown']);
  const config = readConfig(context, context.options, 'unused');
  using mirror = openForReading(context, config, 'audit');
  const period = choosePeriod(mirror, { ...options, sources: context.options.source }, systemClock.now());
  printNote(context, period.notes);
  const { action: actions, by } = options;
  const walk = new AuditWalk(mirror, config, { period, actions, by, sources: context.options.source });
  const ofMirror = context.ofSeveral === undefined ? null : (config.sources[0]?.name ?? null);
  await write(
    context,
    options,
    piecesOf(context, format, { mirror, walk, period, options, ofMirror }),
    format,
  );
  printNote(context, damageNotes(walk.damage));
  if (walk.count === 0) printNote(context, otherOriginNotes(mirror, config, { period, options }, context));
  const contradicted = contradictedLines(walk.altered, mirror);
  const isShown = format === 'text' && options.output === undefined && walk.count > 0;
  if (isShown && isOneOutput(context)) context.onReasonPrinted?.();
  else printReason(context, contradicted);
  if (options.output !== undefined) printNote(context, [`written to ${options.output}`]);
  return contradicted.length === 0 ? EXIT.done : EXIT.failed;
}

/** Names that are suggested. */
const NAMES = 5;

/**
 * If nothing is found: a name with @ that people gave is found only with its origin, `NAME (*)`; any other name may be a part of
 * longer ones.
 */
function otherOriginNotes(
  mirror: Mirror,
  config: Config,
  { period, options }: { readonly period: Period; readonly options: AuditOptions },
  context: CommandContext,
): string[] {
  const filter = { period, actions: options.action, by: undefined, sources: context.options.source };
  const longerNames = (part: string): string[] => {
    const { people } = new AuditWalk(mirror, config, filter).survey();
    const longer = [...people].filter((who) => who.toLowerCase().includes(part.toLowerCase())).toSorted();
    const commands = longer.slice(0, NAMES).map((who) => `\`tidemark audit --by ${shellWord(who)}\``);
    const more = longer.length > NAMES ? ` and ${formatInteger(longer.length - NAMES)} more` : '';
    return longer.length === 0
      ? []
      : [`nobody is named just ${part}; a part of the name: ${commands.join(', ')}${more}`];
  };
  return (options.by ?? []).flatMap((name) => {
    if (!name.includes('@')) return longerNames(name);
    const ofAny = `${name} (*)`;
    const { count } = new AuditWalk(mirror, config, { ...filter, by: [ofAny] }).survey();
    if (count === 0) return [];
    const are = count === 1 ? 'is 1 entry' : `are ${formatInteger(count)} entries`;
    return [`of the name ${name} there ${are}, whoever gave it: \`tidemark audit --by ${shellWord(ofAny)}\``];
  });
}

async function write(
  context: CommandContext,
  { output }: AuditOptions,
  pieces: Iterable<string>,
  format: AuditFormat,
): Promise<void> {
  if (output !== undefined) await writeAtomically(resolve(context.cwd, output), pieces, context);
  else if (format === 'text' && terminalWidth(context) !== undefined)
    await printPage(context, [...pieces].join(''));
  else {
    for (const chunk of inChunks(pieces)) {
      await yieldToEventLoop(context.signal);
      await (format === 'csv' ? printCsv : printDocument)(context, chunk);
    }
  }
}

interface AuditFacts {
  readonly mirror: Mirror;
  readonly walk: AuditWalk;
  readonly period: Period;
  readonly options: AuditOptions;
  /** The source of the mirror, if the logs of several mirrors are written; null otherwise. */
  readonly ofMirror: string | null;
}

/**
 * The last hashes, as `verify` prints them. Null if there is no entry, or if an entry or a run was altered or is missing: a log that
 * does not match its seals proves nothing.
 */
function headOf(mirror: Mirror, contradicted: readonly string[]): AuditHead | null {
  const last = mirror.lastEntry();
  if (last === null || contradicted.length > 0) return null;
  const { run = null, root = null } = mirror.runs.list().find((each) => each.root !== null) ?? {};
  return { entry: last.entry, hash: last.hash, run, root };
}

function* piecesOf(context: CommandContext, format: AuditFormat, facts: AuditFacts): Generator<string> {
  const { mirror, walk, period, options, ofMirror } = facts;
  const since = options.since === undefined ? null : period.since.at;
  if (format === 'csv') yield* auditCsv(walk);
  else if (format === 'json') {
    const first = JSON.stringify({ schema: 'tidemark.audit_log/1', since, until: period.until.at });
    yield `${first.slice(0, -1)},"entries":[`;
    let before = '';
    for (const entry of walk) {
      const document = { ...auditEntryDocument(entry), ...(ofMirror === null ? {} : { mirror: ofMirror }) };
      yield before + escapeForTerminal(JSON.stringify(document));
      before = ',';
    }
    const contradicted = contradictedLines(walk.altered, mirror);
    const head = headOf(mirror, contradicted);
    const heads = head === null ? [] : [{ mirror: ofMirror, ...head }];
    const last = JSON.stringify({
      ...(ofMirror === null ? { head } : { head: null, heads }),
      warnings: plainLines(contradicted),
    });
    yield `],${last.slice(1)}\n`;
  } else yield* reportPieces(context, format, { ...facts, since });
}

/** Reads the entries once to count them, again to write them, and for text a third time for the widths of its columns: none is kept. */
function reportPieces(
  context: CommandContext,
  format: 'text' | 'html' | 'markdown',
  { mirror, walk, period, options, since }: AuditFacts & { readonly since: string | null },
): Iterable<string> {
  const { count, of, sources } = walk.survey();
  if (format === 'text' && options.output === undefined && count === 0) {
    if (of > 0) return [`no entry of the audit log matches, of ${of}\n`];
    const isAltered = contradictedLines(walk.altered, mirror).length > 0;
    return [
      isAltered
        ? 'the audit log is empty, and another program altered the mirror\n'
        : 'the audit log is empty: nothing was accepted, pinned, restored or forgotten yet\n',
    ];
  }
  const contradicted = contradictedLines(walk.altered, mirror);
  const timeText = format === 'text' ? localTime : (at: string) => at.replace(/\.\d+Z$/, 'Z');
  const isNarrowed = options.action !== undefined || options.by !== undefined;
  const texts = periodTexts(period, timeText);
  const from = since === null ? 'from the beginning' : `from ${texts.since}`;
  const report = auditReport(walk, {
    ...{ timeText, count },
    namesSource: sources.size > 1,
    period: `${from} to ${texts.until}${isNarrowed ? ', only some actions or people' : ''}`,
    generatedAt: isoTime(systemClock.now()),
    contradicted: plainLines(contradicted),
    head: format === 'text' ? null : headOf(mirror, contradicted),
    hasHashes: format !== 'text' && contradicted.length === 0,
  });
  if (format === 'html') return htmlPieces(report);
  if (format === 'markdown') return markdownPieces(report);
  return textPieces(report, lineOptions(context, { isFile: options.output !== undefined }));
}
