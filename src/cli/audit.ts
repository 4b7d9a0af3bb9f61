/** `tidemark audit`: who accepted, pinned, restored, undid and forgot what, and when; newest first. */
import { resolve } from 'node:path';
import { isoTime, systemClock } from '../core/clock.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import { AuditWalk, contradictedLines, damageNotes } from '../daemon/http/audit-entries.ts';
import type { AuditAction } from '../mirror/audit-actions.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { auditCsv, auditEntryDocument, auditReport } from '../report/audit-report.ts';
import { htmlPieces } from '../report/render-html.ts';
import { markdownPieces } from '../report/render-markdown.ts';
import { textPieces } from '../report/render-text.ts';
import { choosePeriod, type Period } from '../state/period.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { inChunks, writeWhole, yieldToEventLoop } from './atomic-file.ts';
import {
  lineOptions,
  printDocument,
  printNote,
  printReason,
  terminalWidth,
  type CommandContext,
} from './context.ts';
import { printPage } from './pager.ts';
import { formatOf } from './report-output.ts';

type AuditFormat = 'text' | 'json' | 'csv' | 'html' | 'markdown';

export interface AuditOptions {
  readonly since?: string;
  readonly until?: string;
  readonly action?: readonly AuditAction[];
  readonly by?: readonly string[];
  readonly format?: AuditFormat;
  readonly output?: string;
}

/** Exit code 0, also where no entry fits, and where one was altered or is gone: that is said on stderr, and what `verify` fails for. */
export async function audit(context: CommandContext, options: AuditOptions): Promise<ExitCode> {
  const format = formatOf(context, options);
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'audit', context.pid);
  try {
    const period = choosePeriod(mirror, options, systemClock.now());
    printNote(context, period.notes);
    const walk = new AuditWalk(mirror, config, {
      ...{ period, actions: options.action, by: options.by, sources: context.options.source },
    });
    await write(context, options, piecesOf(context, format, { mirror, walk, period, options }), format);
    printNote(context, damageNotes(walk.damage));
    // Also with --quiet: who reads a file of it sees nothing else of this.
    printReason(context, contradictedLines(walk.altered, mirror));
    if (options.output !== undefined) printNote(context, [`written to ${options.output}`]);
    return EXIT.done;
  } finally {
    mirror.close();
  }
}

async function write(
  context: CommandContext,
  { output }: AuditOptions,
  pieces: Iterable<string>,
  format: AuditFormat,
): Promise<void> {
  if (output !== undefined) await writeWhole(resolve(context.cwd, output), pieces, context);
  else if (format === 'text' && terminalWidth(context) !== undefined)
    await printPage(context, [...pieces].join(''));
  else {
    for (const chunk of inChunks(pieces)) {
      await yieldToEventLoop(context.signal);
      await printDocument(context, chunk);
    }
  }
}

interface AuditFacts {
  readonly mirror: Mirror;
  readonly walk: AuditWalk;
  readonly period: Period;
  readonly options: AuditOptions;
}

/** As `verify` prints them; none where an entry was altered: what does not match its seal proves nothing. */
function sealsOf(mirror: Mirror, { altered }: AuditWalk): [label: string, hash: string][] {
  const entry = mirror.lastEntry();
  if (entry === null || altered.length > 0) return [];
  const latest = mirror.runs.list().find(({ root }) => root !== null);
  return [
    [`audit log up to entry ${entry.entry}`, entry.hash],
    ...(typeof latest?.root === 'string'
      ? [[`sealed up to run ${latest.run}`, latest.root] as [string, string]]
      : []),
  ];
}

function* piecesOf(context: CommandContext, format: AuditFormat, facts: AuditFacts): Generator<string> {
  const { walk, period, options } = facts;
  const since = options.since === undefined ? null : period.since.at;
  if (format === 'csv') yield* auditCsv(walk);
  else if (format === 'json') {
    const head = JSON.stringify({ schema: 'tidemark.audit_log/1', since, until: period.until.at });
    yield `${head.slice(0, -1)},"entries":[`;
    let before = '';
    for (const entry of walk) {
      yield before + escapeForTerminal(JSON.stringify(auditEntryDocument(entry)));
      before = ',';
    }
    yield ']}\n';
  } else yield* reportPieces(context, format, { ...facts, since });
}

/** The entries are read once to count them, and again to write them (as text also for the widths of its columns): none is kept. */
function reportPieces(
  context: CommandContext,
  format: 'text' | 'html' | 'markdown',
  { mirror, walk, period, options, since }: AuditFacts & { readonly since: string | null },
): Iterable<string> {
  const { count, of, sources } = walk.survey();
  if (format === 'text' && options.output === undefined && count === 0) {
    return [
      of === 0
        ? 'the audit log is empty: nothing was accepted, pinned, restored or forgotten yet\n'
        : `no entry of the audit log matches, of ${of}\n`,
    ];
  }
  const timeText = format === 'text' ? localTime : (at: string) => at.replace(/\.\d+Z$/, 'Z');
  const isNarrowed = options.action !== undefined || options.by !== undefined;
  const from = since === null ? 'from the beginning' : `from ${timeText(since)}`;
  const report = auditReport(walk, {
    ...{ timeText, count },
    namesSource: sources.size > 1,
    period: `${from} to ${timeText(period.until.at)}${isNarrowed ? ', only some actions or people' : ''}`,
    generatedAt: isoTime(systemClock.now()),
    seals: format === 'text' ? [] : sealsOf(mirror, walk),
  });
  if (format === 'html') return htmlPieces(report);
  if (format === 'markdown') return markdownPieces(report);
  return textPieces(report, lineOptions(context, { isFile: options.output !== undefined }));
}
