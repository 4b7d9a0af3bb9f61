/** Whether the mirror is what was stored: what the latest verification found, and what was found altered since. */
import { plural } from '../../core/wording.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import { age } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import { isDamageFound } from '../notices/run-transitions.ts';
import { endOf } from './facts.ts';
import type { HealthSnapshot } from './health-facts.ts';
import { because, type HealthReason } from './reason.ts';

/** An answer without its question. */
export interface Answered {
  readonly tone: 'good' | 'warn' | 'bad' | 'plain';
  readonly word: string;
  readonly line: string;
  /** The same with a reason in full, where `line` has it in a few words. */
  readonly whole?: string;
}

type Verifiable = Pick<HealthSnapshot, 'health' | 'lastJobs' | 'now'>;

/** The answer to: is the mirror verified? */
export function verified(snapshot: Verifiable): Answered {
  const { lastJobs, now } = snapshot;
  const [job] = lastJobs.verifications;
  const summary = job === undefined ? null : summaryOf('verify', job);
  const no = (line: string): Answered => ({ tone: 'bad', word: 'No', line });
  const notYet = (line: string): Answered => ({ tone: 'plain', word: 'Not yet', line });
  // Damage that was found since outweighs a verification that found nothing.
  if ((summary?.problems ?? 0) === 0) {
    const altered = alteredReasons(snapshot);
    if (altered.some(({ code }) => code === 'verify_failed')) return no(`found damaged now; ${NAMES_DAMAGE}`);
    if (altered.length > 0)
      return no('not as the audit log has it now; tidemark verify names what was altered');
    const since = lastJobs.damaged.map(endOf).sort().at(-1);
    if (since !== undefined) return no(`found damaged ${age(since, now)}; ${NAMES_DAMAGE}`);
  }
  if (job === undefined) return notYet('no verification so far; a backup verifies only its own copy');
  if (summary === null) {
    const line = `the last verification did not complete${because(job)}`;
    return { tone: 'warn', word: 'Failed', line };
  }
  const when = age(endOf(job), now);
  if (summary.problems > 0)
    return { tone: 'bad', word: plural(summary.problems, 'problem'), line: `found ${when}` };
  // A daemon may verify before its first sync.
  if (summary.revisions === 0) return notYet(`the mirror was empty when it was verified, ${when}`);
  const asOf = summary.run === undefined ? '' : ` as of run ${summary.run}`;
  return {
    tone: 'good',
    word: 'Yes',
    line: `${plural(summary.revisions, 'revision matches', 'revisions match')}${asOf}, ${when}`,
  };
}

/** Why the mirror is not what was stored, by what was read of it now, or by the latest verification. */
export function alteredReasons({ health }: Pick<HealthSnapshot, 'health'>): readonly HealthReason[] {
  return health.reasons.filter(({ code }) => code === 'verify_failed' || code === 'audit_log_contradicted');
}

/** `verified` of `tidemark.status/1`, for one mirror. */
export function verifiedDocument(snapshot: Verifiable): object {
  const [job] = snapshot.lastJobs.verifications;
  return {
    state: STATES[verified(snapshot).tone],
    at: job === undefined ? null : endOf(job),
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
 * The number of known problems of a mirror: of the latest verification, and at least one if it was found damaged, or altered, since.
 * Null if nothing is known.
 * @param owner with many mirrors, the source of this one; null for the only mirror
 */
export function knownProblems(
  { health, lastJobs }: Pick<HealthSnapshot, 'health' | 'lastJobs'>,
  owner: string | null,
): number | null {
  const isOwn = ({ source }: JobRow): boolean => owner === null || source === owner;
  const [job] = lastJobs.verifications.filter(isOwn);
  // A verification that damage has stopped found at least one problem.
  const found =
    job === undefined ? null : (summaryOf('verify', job)?.problems ?? (isDamageFound(job) ? 1 : null));
  const { reasons = [] } =
    owner === null ? health : (health.sources.find((each) => each.source === owner) ?? {});
  const isDamaged =
    alteredReasons({ health: { ...health, reasons } }).length > 0 || lastJobs.damaged.some(isOwn);
  return isDamaged ? Math.max(found ?? 0, 1) : found;
}

const NAMES_DAMAGE = 'tidemark verify names what is damaged';
