/** The stored content of a notice, for any channel: facts and lines, no values of fields, no secrets. */
import type { Severity } from '../../catalog/definition.ts';
import { IMPROVEMENTS, type NoticeEvent } from '../../config/notice-events.ts';
import type { JsonValue } from '../../core/json.ts';
import type { JobName, Notice } from '../../mirror/daemon.ts';
import type { FindingSummary } from '../jobs/summaries.ts';

/** Findings that a notice names; the rest is only counted. */
export const NAMED_IN_NOTICE = 20;
/** Lines of a notice about anything else. */
const LINES_IN_NOTICE = 10;

export interface NoticeContent {
  /** How much it matters. Of drift: the worst finding. */
  readonly severity: Severity;
  /** One line. */
  readonly title: string;
  readonly lines: readonly string[];
  /** What to do about it; null where nothing is to be done. */
  readonly hint: string | null;
  readonly job: JobName | null;
  readonly run: number | null;
  readonly error: { readonly code: string | null; readonly message: string } | null;
  /** Findings, collections, removals or problems; null for what is not counted. */
  readonly count: number | null;
  /** All findings that it reports, by severity; null for other events than drift. */
  readonly severities: Readonly<Record<Severity, number>> | null;
  /** The worst of them, at most `NAMED_IN_NOTICE`. */
  readonly findings: readonly FindingSummary[];
  /** True where what it is about is as it should be again: it ends an incident. */
  readonly isResolved: boolean;
}

const EMPTY: Omit<NoticeContent, 'severity' | 'title' | 'isResolved'> = {
  lines: [],
  hint: null,
  job: null,
  run: null,
  error: null,
  count: null,
  severities: null,
  findings: [],
};

interface NoticeOf {
  readonly at: string;
  /** Empty for the mirror as a whole. */
  readonly source: string;
  readonly subject: string;
  readonly event: NoticeEvent;
}

/** A notice as the mirror keeps it. Lines beyond the limit are counted in a last one. */
export function noticeOf(
  of: NoticeOf,
  content: Pick<NoticeContent, 'severity' | 'title'> & Partial<NoticeContent>,
): Notice {
  const isResolved = IMPROVEMENTS.has(of.event);
  const whole = { ...EMPTY, isResolved, ...content, lines: cutLines(content.lines ?? []) };
  return { ...of, content: whole as unknown as Notice['content'] };
}

function cutLines(lines: readonly string[]): readonly string[] {
  if (lines.length <= LINES_IN_NOTICE) return lines;
  return [...lines.slice(0, LINES_IN_NOTICE - 1), `… and ${lines.length - LINES_IN_NOTICE + 1} more`];
}

/** Reads back what `noticeOf` wrote. */
export function contentOf({
  content,
}: {
  readonly content: Readonly<Record<string, JsonValue>>;
}): NoticeContent {
  return content as unknown as NoticeContent;
}

// Short forms in notices: they are read on a telephone, not in a terminal.

/** What a notice is about, before its colon. */
export function subjectName(source: string): string {
  return source === '' ? 'mirror' : source;
}

/** `45 min`, `26 h`. */
export function span(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
