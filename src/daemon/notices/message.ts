/** Notices: their content as the mirror stores it, and the message made of it for a channel: safe to display, without findings below its severity. */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { IMPROVEMENTS, type NoticeEvent, type TemplateValues } from '../../config/notice-events.ts';
import { withConfigOption, withSource } from '../../core/hints.ts';
import type { JsonValue } from '../../core/json.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import type { Notice } from '../../mirror/notice-rows.ts';
import type { FindingSummary } from '../jobs/summaries.ts';
import { hash } from 'node:crypto';
import { formatInteger, plural } from '../../core/wording.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import { CONTRADICTED } from '../../report/drift-document.ts';
import { escapeControlCharacters } from '../../core/escape-control.ts';

export interface Message extends NoticeContent {
  /** The same for every attempt and every channel; unique over all notices and mirrors. */
  readonly id: string;
  readonly event: string;
  readonly at: string;
  /** Empty for the mirror as a whole. */
  readonly source: string;
  /** What it is about, such as `run` or `drift`: a problem and its end have the same source and subject. */
  readonly subject: string;
  /** Where the dashboard shows more; null where no public address is configured. */
  readonly link: string | null;
  /** Findings that `findings` does not name. */
  readonly more: number;
  /** Keys of the incidents that it opens or ends: several only where a group ends incidents of single sources. */
  readonly incidents: readonly string[];
  /** Of a message about several sources; null for one about a single event. */
  readonly group: MessageGroup | null;
}

/** Events of several sources that are reported as one. */
interface MessageGroup {
  /** The same for all messages of the group: the key of its incident. */
  readonly key: string;
  /** All sources that were ever in it. */
  readonly sources: readonly string[];
  /** The sources whose problem is still open after this message. */
  readonly failing: readonly string[];
  /** What this message reports, oldest first. */
  readonly events: readonly Message[];
}

/**
 * The message that a channel with this threshold gets for a notice.
 * @param notice its number in the mirror
 * @param publicUrl of the dashboard, without a trailing slash
 * @param owner with a mirror per source, the source of the mirror: the message names it for the mirror as a whole
 * @param only the only configured source: the title names it in place of the mirror
 */
export function messageOf(
  notice: number,
  about: Notice,
  threshold: Severity,
  publicUrl: string | null = null,
  owner: string | null = null,
  only: string | null = owner,
): Message {
  const { at, subject, event } = about;
  const source = sourceOf(about, owner);
  const content = contentOf(about);
  const chosen = owner === null ? '' : `?source=${encodeURIComponent(owner)}`;
  const link = publicUrl === null ? null : `${publicUrl}${pageOf(content)}${chosen}`;
  const shown = shownOf(about, content, threshold, source);
  const whole = `${subjectName('')}: `;
  const isNamed = about.source === '' && only !== null && shown.title.startsWith(whole);
  return {
    ...content,
    ...shown,
    title: isNamed
      ? `${only}: ${shown.title.slice(whole.length).replace(/^it /, 'the mirror ')}`
      : shown.title,
    hint: owner === null || content.hint === null ? content.hint : withSource(content.hint, owner),
    id: noticeId(notice, about, owner),
    event,
    at,
    source,
    subject,
    link,
    incidents: [incidentKey(source, subject)],
    group: null,
  };
}

/** The message, with `--config FILE` in the commands that it advises. @param file undefined for the default path */
export function withConfigFile(message: Message, file: string | undefined): Message {
  if (file === undefined) return message;
  const { hint, lines, group } = message;
  return {
    ...message,
    hint: hint === null ? null : withConfigOption(hint, file),
    lines: lines.map((line) => withConfigOption(line, file)),
    group:
      group === null ? null : { ...group, events: group.events.map((event) => withConfigFile(event, file)) },
  };
}

function pageOf({ run, restore, job }: NoticeContent): string {
  if (run !== null) return `/runs/${run}`;
  if (restore !== null) return `/restores/${restore}`;
  return job === 'drift' ? '/drift' : '/';
}

/** The source of a notice; for a notice about a mirror that belongs to one source, that source. */
export function sourceOf({ source }: Pick<Notice, 'source'>, owner: string | null): string {
  return source === '' ? (owner ?? '') : source;
}

/** The id of a notice's message: the same for every attempt and every channel. */
export function noticeId(notice: number, about: Notice, owner: string | null): string {
  const { at, subject, event } = about;
  return shortHash([notice, at, sourceOf(about, owner), subject, event]);
}

/** A hash of the parts: 32 hexadecimal digits. */
export function shortHash(parts: readonly (string | number)[]): string {
  return hash('sha256', JSON.stringify(parts), 'hex').slice(0, 32);
}

/** The key of an incident: the same for the notice that opens it and the one that ends it. */
export function incidentKey(source: string, subject: string): string {
  return `tidemark/${subjectName(source)}/${subject}`;
}

/** The severity of what stays open after a notice, for a channel with this threshold; null if nothing does. */
export function leftOpen(about: Notice, threshold: Severity): Severity | null {
  const content = contentOf(about);
  const { isResolved, severity } = shownOf(about, content, threshold, '');
  return isResolved ? null : severity;
}

function shownOf(about: Notice, content: NoticeContent, threshold: Severity, source: string) {
  const lines = content.lines.map((line) => escapeControlCharacters(line));
  if (content.severities === null)
    return {
      severity: content.severity,
      title: escapeControlCharacters(content.title),
      lines,
      more: 0,
      isResolved: content.isResolved,
    };
  const isReported = (severity: Severity): boolean => compareSeverities(severity, threshold) <= 0;
  const { severities: all } = content;
  const reported = SEVERITIES.filter((severity) => isReported(severity) && all[severity] > 0);
  const count = reported.reduce((sum, severity) => sum + all[severity], 0);
  const severities = Object.fromEntries(
    SEVERITIES.map((severity) => [severity, isReported(severity) ? all[severity] : 0]),
  ) as Record<Severity, number>;
  const findings = content.findings.filter(({ severity }) => isReported(severity));
  // Missing in notices that an earlier version stored.
  const open = (content as Partial<NoticeContent>).stillOpen ?? null;
  const left =
    open === null ? [] : SEVERITIES.filter((severity) => isReported(severity) && open[severity] > 0);
  const rest =
    open === null || left.length === 0
      ? ''
      : `; ${formatInteger(left.reduce((sum, severity) => sum + open[severity], 0))} still open (${countsText(open, left)})`;
  return {
    severity: worst(left.length > 0 ? left : reported),
    // Everything that is reported to this channel has ended, whatever else is open.
    isResolved: content.isResolved || (open !== null && left.length === 0),
    severities,
    count,
    title: `${subjectName(source)}: ${driftTitle(about.event, severities)}${acceptedText(content, reported, count)}${rest}`,
    lines,
    findings,
    more: Math.max(0, count - findings.length),
  };
}

/** `: 2 accepted, 11 gone`; empty if none of these was accepted. */
function acceptedText(content: NoticeContent, reported: readonly Severity[], count: number): string {
  // Missing in notices that an earlier version stored.
  const known = (content as Partial<NoticeContent>).accepted ?? null;
  const accepted =
    known === null ? 0 : reported.reduce((sum, severity) => sum + known.severities[severity], 0);
  if (known === null || accepted === 0) return '';
  const others = count - accepted;
  const gone = others > 0 && known.areOthersGone ? `, ${formatInteger(others)} gone` : '';
  return `: ${formatInteger(accepted)} accepted${gone}`;
}

function countsText(counts: Readonly<Record<Severity, number>>, shown: readonly Severity[]): string {
  return shown.map((severity) => `${counts[severity]} ${severity}`).join(', ');
}

/** `2 new findings of drift (1 critical, 1 high)`. */
export function driftTitle(event: string, severities: Readonly<Record<Severity, number>>): string {
  const shown = SEVERITIES.filter((severity) => severities[severity] > 0);
  const count = shown.reduce((sum, severity) => sum + severities[severity], 0);
  return `${driftWords(event, count)} (${countsText(severities, shown)})`;
}

function driftWords(event: string, count: number): string {
  if (event === 'drift_new') return plural(count, 'new finding of drift', 'new findings of drift');
  const findings = plural(count, 'finding of drift', 'findings of drift');
  return `${findings} ${event === 'drift_changed' ? 'changed again' : count === 1 ? 'is no longer open' : 'are no longer open'}`;
}

/** The details below the title, one line each, findings included. */
export function linesOf({ lines, findings, more }: Message): string[] {
  return [
    ...lines,
    ...findings.map((finding) => findingLine(finding)),
    ...(more === 0 ? [] : [`… and ${formatInteger(more)} more`]),
  ];
}

/** The lines as one text; the title if there are none. */
export function textOf(message: Message): string {
  const lines = linesOf(message);
  return lines.length === 0 ? message.title : lines.join('\n');
}

/** One line for a finding. It never names a person: their level says how much it matters. */
export function findingLine(finding: FindingSummary): string {
  const { severity, kind, id, name, level, in: within, change, path, place = path, reopened } = finding;
  const where = within === undefined ? '' : ` in ${within}`;
  const role = level === undefined ? '' : ` (${LEVELS[level] ?? `level ${level}`})`;
  const why = reopened === undefined ? '' : ` (${CONTRADICTED})`;
  return escapeControlCharacters(
    `${severity}: ${kind} ${name ?? id}${where}${role}: ${path === '' ? change : place}${why}`,
  );
}

const LEVELS: Readonly<Record<number, string>> = { 1: 'member', 8: 'administrator', 15: 'owner' };

/** Events that the document of a group names; the others are counted. */
const EVENTS_IN_DOCUMENT = 1000;

/** The JSON document `tidemark.notice/1`: what webhooks are sent and commands read. */
export function noticeDocument(message: Message): object {
  const { group } = message;
  return {
    schema: 'tidemark.notice/1',
    ...eventDocument(message),
    group:
      group === null
        ? null
        : {
            key: group.key,
            sources: group.sources,
            failing: group.failing,
            events: group.events.slice(0, EVENTS_IN_DOCUMENT).map((event) => eventDocument(event)),
            more: Math.max(0, group.events.length - EVENTS_IN_DOCUMENT),
          },
  };
}

function eventDocument(message: Message): object {
  const {
    id,
    event,
    at,
    source,
    severity,
    title,
    hint,
    link,
    job,
    run,
    error,
    count,
    severities,
    findings,
    more,
    isAssumed,
    since,
  } = message;
  return {
    id,
    event,
    at,
    source: source === '' ? null : source,
    severity,
    title,
    text: textOf(message),
    hint,
    link,
    job,
    run,
    error,
    count,
    severities,
    findings,
    more,
    since,
    is_assumed: isAssumed,
  };
}

/** The values of the placeholders of a template. */
export function templateValues(message: Message): TemplateValues {
  const { error, severities, count, run } = message;
  const number = (value: number | null | undefined): string =>
    value === null || value === undefined ? '' : String(value);
  return {
    id: message.id,
    event: message.event,
    at: message.at,
    source:
      message.group === null ? subjectName(message.source) : plural(message.group.sources.length, 'source'),
    severity: message.severity,
    title: message.title,
    text: textOf(message),
    hint: message.hint ?? '',
    link: message.link ?? '',
    job: message.job ?? '',
    run: number(run),
    count: number(count),
    'error.code': error?.code ?? '',
    'error.message': escapeControlCharacters(error?.message ?? ''),
    critical: number(severities?.critical),
    high: number(severities?.high),
    medium: number(severities?.medium),
    low: number(severities?.low),
  };
}

/** The most findings that a notice names; the others are counted. */
export const NAMED_IN_NOTICE = 20;
/** The most lines of a notice; the others are counted. */
const LINES_IN_NOTICE = 10;

export interface AcceptedFindings {
  readonly severities: Readonly<Record<Severity, number>>;
  /** True if none of the others differs any more; false if a rule may ignore some of them. */
  readonly areOthersGone: boolean;
}

interface NoticeContent {
  /** Of drift: that of the worst finding; if some are no longer open, of the worst that still is. */
  readonly severity: Severity;
  /** One line. */
  readonly title: string;
  readonly lines: readonly string[];
  /** What to do about it; null if nothing has to be done. */
  readonly hint: string | null;
  readonly job: JobName | null;
  readonly run: number | null;
  readonly restore: number | null;
  readonly error: { readonly code: string | null; readonly message: string } | null;
  /** The number of findings, collections, removals or problems; null where nothing is counted. */
  readonly count: number | null;
  /** Numbers of all findings that it reports; null for other events than drift. */
  readonly severities: Readonly<Record<Severity, number>> | null;
  /** Of an end of drift: numbers of the findings that stay open; null for other events. */
  readonly stillOpen: Readonly<Record<Severity, number>> | null;
  /** Of an end of drift: how many of these findings were accepted; null for other events. */
  readonly accepted: AcceptedFindings | null;
  /** Of an end of drift: since when the oldest of these findings was open, ISO 8601; null for other events. */
  readonly since: string | null;
  /** The worst findings, at most `NAMED_IN_NOTICE`. */
  readonly findings: readonly FindingSummary[];
  /** True if the problem is over: it ends an incident. */
  readonly isResolved: boolean;
  /** True for the end of a problem that was perhaps never reported: it goes to programs, and to people only if `isForPeople`. */
  readonly isAssumed: boolean;
  readonly isForPeople: boolean;
  /** The event that reported its cause: a channel that has that event does not get this notice. Null for none. */
  readonly follows: NoticeEvent | null;
}

const EMPTY: Omit<NoticeContent, 'severity' | 'title' | 'isResolved'> = {
  lines: [],
  hint: null,
  job: null,
  run: null,
  restore: null,
  error: null,
  count: null,
  severities: null,
  stillOpen: null,
  accepted: null,
  since: null,
  findings: [],
  isAssumed: false,
  isForPeople: false,
  follows: null,
};

/** What a notice is about, when, and its event. An empty `source` is the mirror as a whole. */
export type NoticeKey = Pick<Notice, 'at' | 'source' | 'subject'> & { readonly event: NoticeEvent };

type Given = Pick<NoticeContent, 'severity' | 'title'> & Partial<NoticeContent>;

/** A notice as the mirror stores it; what is not given is empty. Lines beyond the limit are counted in a last one. */
export function noticeOf(key: NoticeKey, content: Given): Notice {
  const isResolved = IMPROVEMENTS.has(key.event);
  const whole = { ...EMPTY, isResolved, ...content, lines: cutLines(content.lines ?? []) };
  return { ...key, content: whole as unknown as Notice['content'] };
}

/** The same with the source (or `mirror`) before the title. */
export function namedNotice(key: NoticeKey, content: Given): Notice {
  return noticeOf(key, { ...content, title: `${subjectName(key.source)}: ${content.title}` });
}

function cutLines(lines: readonly string[]): readonly string[] {
  if (lines.length <= LINES_IN_NOTICE) return lines;
  return [...lines.slice(0, LINES_IN_NOTICE - 1), `… and ${lines.length - LINES_IN_NOTICE + 1} more`];
}

/** The content that `noticeOf` stored. */
export function contentOf({
  content,
}: {
  readonly content: Readonly<Record<string, JsonValue>>;
}): NoticeContent {
  return content as unknown as NoticeContent;
}

// Short forms: notices are read on a phone, not in a terminal.

/** The name of a source in a notice; of the mirror as a whole, `mirror`. */
export function subjectName(source: string): string {
  return source === '' ? 'mirror' : source;
}

/** The most names in one line. */
const NAMES_IN_LINE = 10;

/** The first of these names, and the number of the others. */
export function firstNames(names: readonly string[]): string {
  const more = names.length - NAMES_IN_LINE;
  return more <= 0
    ? names.join(', ')
    : `${names.slice(0, NAMES_IN_LINE).join(', ')} and ${formatInteger(more)} more`;
}

/** A duration: `30 s`, `45 min`, `26 h`. */
export function span(ms: number): string {
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
