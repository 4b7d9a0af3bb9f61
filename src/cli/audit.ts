/** `tidemark audit`: who accepted, pinned, restored, undid and forgot what, and when; newest first. */
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import { EXIT, type ExitCode, TidemarkError } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import type { AuditLogEntry, AuditSubject } from '../mirror/audit-entries.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { auditCsv, auditEntryDocument, auditReport, type ShownEntry } from '../report/audit-report.ts';
import { maskedId, maskedPlace } from '../report/mask.ts';
import { renderHtml } from '../report/render-html.ts';
import { renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import { choosePeriod, isWithin, type Period } from '../state/period.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { writeWhole } from './atomic-file.ts';
import { lineOptions, printDocument, printNote, type CommandContext } from './context.ts';
import { shownName } from './drift-accepted.ts';
import { printPage } from './pager.ts';
import { formatOf } from './report-output.ts';

type AuditFormat = 'text' | 'json' | 'csv' | 'html' | 'markdown';

export interface AuditOptions {
  readonly since?: string;
  readonly until?: string;
  readonly action?: readonly AuditLogEntry['action'][];
  readonly by?: readonly string[];
  readonly format?: AuditFormat;
  readonly output?: string;
}

/** Exit code 0, also where no entry fits: whether one was altered is what `verify` finds out. */
export async function audit(context: CommandContext, options: AuditOptions): Promise<ExitCode> {
  const format = formatOf(context, options);
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'audit', context.pid);
  try {
    const period = choosePeriod(mirror, options, systemClock.now());
    const all = mirror.auditLog();
    const entries = all
      .filter((entry) => isWithin(period, entry.at) && isAskedFor(entry, options, context.options.source))
      .reverse()
      .map((entry) => shownEntry(mirror, config, entry));
    printNote(context, [...period.notes, ...damageNotes(entries)]);
    if (format === 'text' && options.output === undefined && entries.length === 0) {
      await printPage(
        context,
        all.length === 0
          ? 'the audit log is empty: nothing was accepted, pinned, restored or forgotten yet\n'
          : `no entry of the audit log matches, of ${all.length}\n`,
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

function isAskedFor(
  { action, by, via, subject }: AuditLogEntry,
  options: AuditOptions,
  sources: readonly string[] | undefined,
): boolean {
  const isBy = (name: string): boolean =>
    [by, via].some((known) => known.toLowerCase() === name.toLowerCase());
  return (
    options.action?.includes(action) !== false &&
    options.by?.some(isBy) !== false &&
    sources?.some((source) => isAbout(subject, source)) !== false
  );
}

/** A snapshot is a state of every source. */
function isAbout(subject: AuditSubject, source: string): boolean {
  if (subject.about === 'snapshot') return true;
  return 'sources' in subject ? subject.sources.includes(source) : subject.source === source;
}

/** An entry, and why the name of its record cannot be read; null where it can, or there is none. */
type NamedEntry = ShownEntry & { readonly damage: TidemarkError | null };

function shownEntry(mirror: Mirror, config: Config, entry: AuditLogEntry): NamedEntry {
  const { subject } = entry;
  const shown = { ...entry, recordName: null, damage: null };
  switch (subject.about) {
    case 'acceptance': {
      const definitions = definitionsFor(config, subject.source);
      const definition = definitions(subject.kind);
      const masked = {
        ...subject,
        id: maskedId(subject.id, definition),
        path: maskedPlace(subject.path, definition),
      };
      const named = nameOrDamage(mirror, subject, definition);
      return { ...shown, ...named, subject: masked, source: subject.source, definitions };
    }
    case 'snapshot': {
      // Of a run that retention dropped nobody knows whose it was, where the mirror has several sources.
      const [only, ...others] = mirror.runs.sources();
      const source = mirror.runs.get(subject.run)?.source ?? (others.length === 0 ? (only ?? null) : null);
      return { ...shown, source, definitions: definitionsFor(config, source ?? '') };
    }
    case 'restore':
      return { ...shown, source: subject.source, definitions: definitionsFor(config, subject.source) };
    case 'forget':
    case 'backup': {
      const [source, ...others] = subject.sources;
      const only = source === undefined || others.length > 0 ? null : source;
      return { ...shown, source: only, definitions: definitionsFor(config, only ?? '') };
    }
  }
}

/** The audit log is read most where the mirror is damaged: a record without a sound body goes by its id. */
function nameOrDamage(...of: Parameters<typeof shownName>): Pick<NamedEntry, 'recordName' | 'damage'> {
  try {
    return { recordName: shownName(...of), damage: null };
  } catch (thrown) {
    if (!(thrown instanceof TidemarkError) || thrown.code !== 'mirror_corrupt') throw thrown;
    return { recordName: null, damage: thrown };
  }
}

function damageNotes(entries: readonly NamedEntry[]): string[] {
  const damage = entries.find((entry) => entry.damage !== null)?.damage;
  if (damage === undefined || damage === null) return [];
  return [
    `${damage.message}; its records go by their ids here`,
    ...(damage.hint === undefined ? [] : [damage.hint]),
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
