/** `tidemark audit`: who accepted, pinned, restored, undid and forgot what, and when; newest first. */
import { resolve } from 'node:path';
import { isoTime, systemClock } from '../core/clock.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import { damageNotes, findAuditEntries } from '../daemon/http/audit-entries.ts';
import type { AuditAction } from '../mirror/audit-actions.ts';
import { auditCsv, auditEntryDocument, auditReport, type ShownEntry } from '../report/audit-report.ts';
import { renderHtml } from '../report/render-html.ts';
import { renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import { choosePeriod, type Period } from '../state/period.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { writeWhole } from './atomic-file.ts';
import { lineOptions, printDocument, printNote, printReason, type CommandContext } from './context.ts';
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

/** Exit code 0, also where no entry fits, and where one was altered: that is said on stderr, and what `verify` fails for. */
export async function audit(context: CommandContext, options: AuditOptions): Promise<ExitCode> {
  const format = formatOf(context, options);
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'audit', context.pid);
  try {
    const period = choosePeriod(mirror, options, systemClock.now());
    const { entries, of } = await findAuditEntries(mirror, config, {
      ...{ period, actions: options.action, by: options.by, sources: context.options.source },
    });
    printNote(context, [...period.notes, ...damageNotes(entries)]);
    const altered = mirror.alteredAuditEntries();
    // Also with --quiet: who reads a file of it sees nothing else of this.
    if (altered.length > 0) printReason(context, alteredText(altered));
    if (format === 'text' && options.output === undefined && entries.length === 0) {
      await printPage(
        context,
        of === 0
          ? 'the audit log is empty: nothing was accepted, pinned, restored or forgotten yet\n'
          : `no entry of the audit log matches, of ${of}\n`,
      );
      return EXIT.done;
    }
    const text = textOf(context, format, { entries, period, options });
    if (options.output === undefined) {
      await (format === 'text' ? printPage : printDocument)(context, text);
      return EXIT.done;
    }
    await writeWhole(resolve(context.cwd, options.output), [text], context);
    printNote(context, [`written to ${options.output}`]);
    return EXIT.done;
  } finally {
    mirror.close();
  }
}

/** Entries that a line names. */
const NAMED = 5;

function alteredText(entries: readonly number[]): string[] {
  const [first, ...others] = entries;
  const more = entries.length - NAMED;
  const named = `${entries.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return [
    others.length === 0
      ? `entry ${first ?? ''} of the audit log is not as it was written, or does not follow the entry before it`
      : `entries ${named} of the audit log are not as they were written, or do not follow the entries before them`,
    '  → `tidemark verify` says what else does not match',
  ];
}

interface AuditFacts {
  readonly entries: readonly ShownEntry[];
  readonly period: Period;
  readonly options: AuditOptions;
}

function textOf(
  context: CommandContext,
  format: AuditFormat,
  { entries, period, options }: AuditFacts,
): string {
  if (format === 'csv') return [...auditCsv(entries)].join('');
  const since = options.since === undefined ? null : period.since.at;
  if (format === 'json') {
    const document = {
      schema: 'tidemark.audit_log/1',
      since,
      until: period.until.at,
      entries: entries.map(auditEntryDocument),
    };
    return escapeForTerminal(`${JSON.stringify(document)}\n`);
  }
  const timeText = format === 'text' ? localTime : (at: string) => at.replace(/\.\d+Z$/, 'Z');
  const isNarrowed = options.action !== undefined || options.by !== undefined;
  const from = since === null ? 'from the beginning' : `from ${timeText(since)}`;
  const report = auditReport(entries, {
    timeText,
    namesSource: new Set(entries.flatMap(({ source }) => source ?? [])).size > 1,
    period: `${from} to ${timeText(period.until.at)}${isNarrowed ? ', only some actions or people' : ''}`,
    generatedAt: isoTime(systemClock.now()),
  });
  if (format === 'html') return renderHtml(report);
  if (format === 'markdown') return renderMarkdown(report);
  return renderText(report, lineOptions(context, { isFile: options.output !== undefined }));
}
