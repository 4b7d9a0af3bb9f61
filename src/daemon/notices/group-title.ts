/** The title of a message about several sources, and the reason of each source. */
import type { Severity } from '../../catalog/definition.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { MergedDrift } from './merged-drift.ts';
import { type Message, subjectName } from './message.ts';
import { CHAIN_SUBJECT } from './run-transitions.ts';

/** Titles for several sources, by event. */
const SHARED_TITLES = {
  run_failed: 'the sync failed',
  run_partial: 'the sync was incomplete',
  run_recovered: 'the sync works again',
  key_refused: 'the service refused the key',
  sync_overdue: 'no complete sync for longer than the schedule allows',
  sync_on_time: 'no sync is overdue any more',
  removals_held: 'records are missing from the service, and kept for now',
  removals_settled: 'no removal waits any more',
  restore_interrupted: 'a restore was interrupted',
  restore_settled: 'no restore is interrupted any more',
  schema_changed: 'the service changed the form of its records',
  drift_new: 'new findings of drift',
  drift_changed: 'findings of drift changed again',
  drift_resolved: 'findings of drift are no longer open',
  mirror_gone: 'the mirror is gone from its place',
  mirror_back: 'the mirror is in its place again',
  verify_failed: 'the contents do not match the stored hashes',
  verify_recovered: 'the contents match the stored hashes again',
  drill_fell: 'the drill restored less than before',
  drill_recovered: 'the drill restored as much as before',
  backup_failed: 'the backup failed',
  backup_recovered: 'the backup works again',
  backup_overdue: 'a backup is overdue',
  backup_on_time: 'no backup is overdue any more',
  job_failed: 'a job failed',
  job_recovered: 'the job works again',
  source_removed: 'no longer configured',
  test: 'a test notice',
} as const satisfies Record<NoticeEvent, string>;

/** The parts of a `NoticeGroup` that its title depends on. */
interface TitledGroup {
  readonly cause: string;
  readonly subject: string;
  readonly sources: readonly string[];
  readonly failing: Readonly<Record<string, { readonly event: string; readonly severity: Severity }>>;
}

interface TitleFacts {
  readonly lead: Message;
  readonly worse: readonly Message[];
  readonly better: number;
  readonly configured: number;
  readonly isResolved: boolean;
  readonly news: MergedDrift | null;
  /** `assumedText` of ends of problems that were perhaps never reported; null for others. */
  readonly assumed: string | null;
}

/** Titles ends of problems that were perhaps never reported: their common reason, or a general one. */
export function assumedText(ends: readonly Message[]): string {
  const [reason = '', ...others] = new Set(ends.map(reasonOf));
  if (others.length > 0) return 'all is well; it is not known whether anything else was reported';
  // For a source, `it` is the mirror: `it is in its place`.
  return reason.replace(/^it /, 'the mirror ');
}

/** The title of a message about a group. */
export function groupTitle(
  group: TitledGroup,
  { lead, worse, better, configured, isResolved, news, assumed }: TitleFacts,
): string {
  const [only, ...more] = group.sources;
  if (only !== undefined && more.length === 0) return lead.title;
  const at = group.cause.includes('://') ? ` at ${group.cause}` : '';
  const failing = Object.values(group.failing);
  if (isResolved && assumed !== null) return `${plural(group.sources.length, 'source')}${at}: ${assumed}`;
  if (isResolved) {
    // The problems of the others were over before.
    const isRest = lead.event === 'source_removed' && better < group.sources.length;
    const over = isRest ? 'over: the rest is no longer configured' : sharedTitle(group, lead.event);
    return `${plural(group.sources.length, 'source')}${at}: ${over}`;
  }
  if (worse.length === 0) {
    const left = failing.length === 0 ? '' : `; ${failing.length} of ${group.sources.length} not yet`;
    return `${plural(better, 'source')}${at}: ${sharedTitle(group, lead.event)}${left}`;
  }
  if (news !== null)
    return `${worse.length} of ${plural(Math.max(configured, worse.length), 'source')}${at}: ${news.title}`;
  // If no event ends the group, only the new events are known.
  const byEvent = Map.groupBy(failing.length > 0 ? failing : worse, ({ event }) => event);
  const [first, ...others] = [...byEvent].sort(
    ([, a], [, b]) =>
      compareSeverities(worst(a.map(severityOf)), worst(b.map(severityOf))) || b.length - a.length,
  );
  if (first === undefined) return lead.title;
  const [event, all] = first;
  const rest = others.map(([other, { length }]) => `; ${length}: ${sharedTitle(group, other)}`).join('');
  return `${all.length} of ${plural(Math.max(configured, all.length), 'source')}${at}: ${sharedTitle(group, event)}${rest}`;
}

function severityOf({ severity }: { readonly severity: Severity }): Severity {
  return severity;
}

function sharedTitle({ subject }: Pick<TitledGroup, 'subject'>, event: string): string {
  if (subject === 'audit_log' && event === 'verify_failed') return 'the mirror does not match its audit log';
  if (subject === 'audit_log' && event === 'verify_recovered')
    return 'the mirror matches its audit log again';
  if (subject === CHAIN_SUBJECT && event === 'verify_failed')
    return 'a backup is not in the chain of the mirror';
  if (subject === CHAIN_SUBJECT && event === 'verify_recovered')
    return 'every backup is in the chain of the mirror again';
  return SHARED_TITLES[event as NoticeEvent];
}

/** What a message says of its source, without the name of the source. */
export function reasonOf({ source, event, title, error, lines }: Message): string {
  // All lines: the targets that failed, and those that have the backup.
  if (event === 'backup_failed' && lines.length > 0) return lines.join('; ');
  const own = `${subjectName(source)}: `;
  const what = title.startsWith(own) ? title.slice(own.length) : title;
  const [why] = lines;
  return error === null || why === undefined ? what : why;
}
