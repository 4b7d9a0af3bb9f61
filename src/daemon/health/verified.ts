/** Whether the mirror is what was stored: what the latest verification said, and what was found altered since. */
import { plural } from '../../core/wording.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import { age } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { isDamageFound } from '../notices/run-transitions.ts';
import type { HealthSnapshot } from './health-facts.ts';
import type { HealthReason } from './reason.ts';

/** An answer without its question. */
export interface Answered {
  readonly tone: 'good' | 'warn' | 'bad' | 'plain';
  readonly word: string;
  readonly line: string;
  /** The same with a reason in full, where `line` has it in a few words. */
  readonly whole?: string;
}

type Verifiable = Pick<HealthSnapshot, 'health' | 'lastJobs' | 'now'>;

export function verified(snapshot: Verifiable): Answered {
  const { lastJobs, now } = snapshot;
  const [job] = lastJobs.verifications;
  const problems = (job === undefined ? null : summaryOf('verify', job))?.problems ?? 0;
  // What was found since outweighs a verification that found nothing.
  const altered = problems === 0 ? alteredReasons(snapshot) : [];
  if (altered.some(({ code }) => code === 'verify_failed'))
    return { tone: 'bad', word: 'No', line: `found damaged now; ${NAMES_DAMAGE}` };
  if (altered.length > 0)
    return {
      tone: 'bad',
      word: 'No',
      line: 'not as the audit log has it now; tidemark verify names what was altered',
    };
  const since = problems === 0 ? damagedSince(lastJobs.damaged) : null;
  if (since !== null)
    return { tone: 'bad', word: 'No', line: `found damaged ${age(since, now)}; ${NAMES_DAMAGE}` };
  if (job === undefined)
    return {
      tone: 'plain',
      word: 'Not yet',
      line: 'no verification so far; a backup verifies only its own copy',
    };
  const summary = summaryOf('verify', job);
  if (summary === null) {
    const why = job.error === null ? '' : `: ${job.error}`;
    return { tone: 'warn', word: 'Failed', line: `the last verification did not complete${why}` };
  }
  const when = age(job.finishedAt ?? job.startedAt, now);
  if (summary.problems > 0)
    return { tone: 'bad', word: plural(summary.problems, 'problem'), line: `found ${when}` };
  // A daemon may verify before its first sync.
  if (summary.revisions === 0)
    return { tone: 'plain', word: 'Not yet', line: `the mirror was empty when it was verified, ${when}` };
  const asOf = summary.run === undefined ? '' : ` as of run ${summary.run}`;
  return {
    tone: 'good',
    word: 'Yes',
    line: `${plural(summary.revisions, 'revision matches', 'revisions match')}${asOf}, ${when}`,
  };
}

/** Why the mirror is not what was stored, as what was read of it now, or the latest verification, showed. */
export function alteredReasons({ health }: Pick<HealthSnapshot, 'health'>): readonly HealthReason[] {
  return health.reasons.filter(({ code }) => code === 'verify_failed' || code === 'audit_log_contradicted');
}

/** `verified` of `tidemark.status/1`: of one mirror. `found`: why it is not what was stored. */
export function verifiedDocument(snapshot: Verifiable): object {
  const [job] = snapshot.lastJobs.verifications;
  return {
    state: STATES[verified(snapshot).tone],
    at: job === undefined ? null : (job.finishedAt ?? job.startedAt),
    problems: knownProblems(snapshot, null),
    found: alteredReasons(snapshot).map(({ message }) => message),
  };
}

const STATES: Readonly<Record<Answered['tone'], string>> = {
  good: 'yes',
  bad: 'no',
  warn: 'failed',
  plain: 'not_yet',
};

/**
 * Problems of a mirror that are known: those of the latest verification, and at least one where something else found it damaged, or
 * altered, since. Null where nothing is known.
 * @param owner the source of the mirror, of many; null for the only mirror
 */
export function knownProblems(
  { health, lastJobs }: Pick<HealthSnapshot, 'health' | 'lastJobs'>,
  owner: string | null,
): number | null {
  const isOwn = ({ source }: JobRow): boolean => owner === null || source === owner;
  const [job] = lastJobs.verifications.filter(isOwn);
  // Damage that does not let it come to its end is one problem at least.
  const found =
    job === undefined ? null : (summaryOf('verify', job)?.problems ?? (isDamageFound(job) ? 1 : null));
  const { reasons = [] } =
    owner === null ? health : (health.sources.find((each) => each.source === owner) ?? {});
  const isDamaged =
    alteredReasons({ health: { ...health, reasons } }).length > 0 || lastJobs.damaged.some(isOwn);
  return isDamaged ? Math.max(found ?? 0, 1) : found;
}

const NAMES_DAMAGE = 'tidemark verify names what is damaged';

/** When the mirror was found damaged last, if that still counts; ISO 8601. */
function damagedSince(damaged: readonly JobRow[]): string | null {
  return (
    damaged
      .map(({ finishedAt, startedAt }) => finishedAt ?? startedAt)
      .toSorted()
      .at(-1) ?? null
  );
}
