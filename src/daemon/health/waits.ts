/** What a sync waits for, and what a person can do about it. */
import type { ErrorCode } from '../../core/errors.ts';
import { isoTime } from '../../core/clock.ts';
import { duration, localTime } from '../../core/wording.ts';
import type { RunningJob } from '../view.ts';
import type { SourceFacts, EndedJob } from './facts.ts';
import type { HealthCode, HealthReason } from './reason.ts';

/** What the next sync of a source waits for: a free slot, or the running job of its mirror or rate limit. Null if it waits for nothing. */
export function behindText(
  facts: Pick<SourceFacts, 'source' | 'behind' | 'isQueued' | 'limitHeldBy'>,
  now: number,
): string | null {
  const { behind, limitHeldBy } = facts;
  if (limitHeldBy !== null) return `the next sync waits for ${limitHolderText(limitHeldBy)}`;
  if (waitsForSlot(facts)) return 'the next sync waits for a free slot';
  if (behind === null) return null;
  const { name, source = null, startedAt, silentMs, pausedUntil, waitsFor = null } = behind;
  if (name === 'sync') {
    // The text of a running sync already says that the source's own sync runs.
    if (source === facts.source) return null;
    const runs = syncText({ startedAt, silentMs: silentMs ?? 0, pausedUntil }, now);
    return source === null ? runs : `the next sync waits for that of ${source}: ${runs}`;
  }
  const target = waitsFor === null ? '' : `, and waits for ${waitsFor} to answer`;
  return `the next sync waits for the ${name} job, which has run for ${duration(now - Date.parse(startedAt))}${target}`;
}

/** What a sync waits for if another one with the same rate limit is running. */
export function limitHolderText(source: string): string {
  return `the sync of ${source}, which has the same rate limit`;
}

/** What to do about a wait for other sources; null without one. */
export function waitHint(facts: Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy'>): string | null {
  if (facts.limitHeldBy !== null)
    return 'sources with one address and key are synced one at a time: sync them less often';
  return waitsForSlot(facts) ? SLOT_HINT : null;
}

/** So long without a byte, a person would call a service silent; most responses take less. */
const SILENT_MS = 30_000;

type Kept = Pick<RunningJob, 'silentMs' | 'pausedUntil'> & {
  /** As in the `progress` of `RunningJob`. */
  readonly waitingUntil?: number | null | undefined;
};

/** The command that shows how long a first sync takes under its rate limit, if it waits for that; null otherwise. */
export function limitHint({ source, sync = null }: Pick<SourceFacts, 'source' | 'sync'>): string | null {
  const isWaiting = (sync?.waitingUntil ?? null) !== null && sync?.pausedUntil === undefined;
  return isWaiting
    ? `\`tidemark estimate --source ${source}\` shows how long the rate limit lets it take`
    : null;
}

/** How long a sync has been running, and what it waits for. */
export function syncText(sync: NonNullable<SourceFacts['sync']>, now: number): string {
  return `a sync has run for ${duration(now - Date.parse(sync.startedAt))}${keptText(sync)}`;
}

/** Until when a sync waits because the service asked for it, or for the rate limit, or how long it has received nothing; else empty. */
export function keptText({ silentMs, pausedUntil, waitingUntil = null }: Kept): string {
  if (pausedUntil !== undefined)
    return `; it waits until ${localTime(isoTime(pausedUntil)).slice(11)}: the service asked for it (429 or 503)`;
  if (waitingUntil !== null)
    return `; waiting for the rate limit until ${localTime(isoTime(waitingUntil)).slice(11)}`;
  return silentMs === undefined || silentMs === null || silentMs < SILENT_MS
    ? ''
    : `; nothing received for ${duration(silentMs)}`;
}

/** What to do about a sync that receives nothing, the source's own or one that its next sync waits for; null if there is none. */
export function hangingSyncHint({
  source,
  sync = null,
  behind,
}: Pick<SourceFacts, 'source' | 'sync' | 'behind'>): string | null {
  return hangHint(sync === null ? behind : { name: 'sync', source, silentMs: sync.silentMs });
}

/** What to do about a sync that receives nothing; null for another job. */
export function hangHint(
  job: Pick<NonNullable<SourceFacts['behind']>, 'name' | 'source' | 'silentMs'> | null,
): string | null {
  if (job?.name !== 'sync' || (job.silentMs ?? 0) < SILENT_MS) return null;
  const of = job.source === null || job.source === undefined ? '' : ` --source ${job.source}`;
  return `\`tidemark doctor${of}\` shows whether the service responds`;
}

/** The command that shows whether the service responds again, for a sync that failed because it did not; null for others. */
export function unansweredHint(
  sync: Pick<EndedJob, 'outcome' | 'errorCode'> | null,
  source: string,
): string | null {
  if (sync?.outcome !== 'failed' || sync.errorCode === null || !UNANSWERED.has(sync.errorCode)) return null;
  return `\`tidemark doctor --source ${source}\` shows whether the service responds`;
}

const UNANSWERED: ReadonlySet<string> = new Set<ErrorCode>(['unreachable', 'timeout', 'unresponsive']);

export const SLOT_HINT = 'raise `daemon.slots`, or sync less often';

/** True if its next sync waits for a slot: with a mirror per source, jobs of other mirrors take them. */
export function waitsForSlot({
  behind,
  isQueued,
  limitHeldBy,
}: Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy'>): boolean {
  return isQueued && behind === null && limitHeldBy === null;
}

/** Of several reasons that mention the same wait for requests, the first of these is kept. */
const BY_WAIT: readonly HealthCode[] = ['stale', 'never_complete', 'run_failed', 'daemon_problem'];

/** Without reasons that others mention: the same held removals, or a wait for requests that makes a source late or its last sync fail. */
export function withoutRepeatedReasons<Reason extends HealthReason>(all: readonly Reason[]): Reason[] {
  const waits = all.flatMap(({ code, message }) => (code === 'daemon_problem' ? message : []));
  const mentions = ({ message, hint }: Reason, wait: string): boolean =>
    `${message} ${hint ?? ''}`.includes(wait);
  const rankOf = ({ code }: Reason): number => BY_WAIT.indexOf(code);
  return all.filter((reason, n) => {
    if (reason.code === 'removals_held') return all.findIndex(({ hint }) => hint === reason.hint) === n;
    const isWorse = (other: Reason): boolean => rankOf(other) !== -1 && rankOf(other) < rankOf(reason);
    return !waits.some(
      (wait) => mentions(reason, wait) && all.some((other) => isWorse(other) && mentions(other, wait)),
    );
  });
}
