/** What is wrong with a source: its last complete run is too old, its last sync failed, and more. */
import type { ErrorCode } from '../../core/errors.ts';
import { DISK_FULL_HINT, resumeHint } from '../../core/hints.ts';
import { durationBeyond, elapsed, localTime, plural } from '../../core/wording.ts';
import { unendedText } from '../../mirror/unfinished-restore.ts';
import { heldAdvice, withBelow } from '../../state/held-names.ts';
import { futureRunText } from '../../state/runs.ts';
import { heldUntilText } from '../../sync/removals.ts';
import { expectedSince, isFirstSyncAtWork, isInterrupted } from './allowed-age.ts';
import { type EndedJob, endOf, type SourceFacts } from './facts.ts';
import { because, degraded, type HealthReason } from './reason.ts';
import {
  behindText,
  waitHint,
  keptText,
  limitHint,
  syncText,
  hangingSyncHint,
  unansweredHint,
} from './waits.ts';

/**
 * The reasons of one source.
 * @param allowedMs of `allowedAgeMs`
 * @param now milliseconds since the epoch
 */
export function sourceReasons(facts: SourceFacts, allowedMs: number | null, now: number): HealthReason[] {
  const ofLastRun = lastRun(facts);
  return [
    ...freshness(facts, allowedMs, now),
    ...(ofLastRun.length === 0 ? narrowedRun(facts) : ofLastRun),
    ...held(facts),
    ...interruptedRestore(facts),
    ...waitingDrift(facts),
    ...inFuture(facts, now),
  ];
}

function freshness(facts: SourceFacts, allowedMs: number | null, now: number): HealthReason[] {
  const { lastComplete, source, isSyncing } = facts;
  const waits = behindText(facts, now) ?? facts.rateWait?.message;
  const { sync = null } = facts;
  const runs = sync === null ? undefined : syncText(sync, now);
  const isFull = !isSyncing && wasDiskFull(facts);
  const isHeld = isOnlyHeld(facts);
  const removals = isHeld ? heldText(facts) : undefined;
  const held = [waits, runs, isFull ? WAS_FULL : undefined, removals]
    .map((text) => (text === undefined ? '' : `; ${text}`))
    .join('');
  // A requested sync would wait for that job too.
  const start = facts.behind === null ? `, \`tidemark sync --source ${source}\` starts one now` : '';
  const hint =
    facts.rateWait?.hint ??
    waitHint(facts) ??
    hangingSyncHint(facts) ??
    (isFull ? DISK_FULL_HINT : null) ??
    (isHeld ? heldHint(facts) : null) ??
    (isSyncing ? null : unansweredHint(latestSync(facts), source)) ??
    (isSyncing ? null : `\`tidemark runs\` shows the runs${start}`);
  if (lastComplete === null) {
    // A new source gets the same time; a restart of the daemon does not extend it.
    const since = expectedSince(facts);
    const isAtWork = isFirstSyncAtWork(facts, now);
    const isStuck = facts.firstSync.hasEnded || facts.isSilent;
    if (allowedMs !== null && (isStuck || (!isAtWork && now - Date.parse(since) > allowedMs)))
      return [
        {
          code: 'never_complete',
          state: 'failing',
          message: `no run of all kinds has been complete yet${held}`,
          since,
          hint,
        },
      ];
    return [
      {
        code: 'first_sync',
        // Without a schedule, `starting` would never end.
        state: allowedMs === null ? 'degraded' : 'starting',
        message: isSyncing
          ? `the first sync is under way${sync === null ? '' : keptText(sync)}`
          : `no run of all kinds has been complete yet${isAtWork || facts.rateWait !== null ? held : ''}`,
        since,
        hint:
          allowedMs === null
            ? `no schedule syncs this source: \`tidemark sync --source ${source}\``
            : (facts.rateWait?.hint ?? limitHint(facts)),
      },
    ];
  }
  const at = endOf(lastComplete);
  const ageMs = now - Date.parse(at);
  if (allowedMs === null || ageMs <= allowedMs) return [];
  const [age, allowed] = durationBeyond(ageMs, allowedMs, elapsed);
  const message = `the last complete run ended ${age} ago; the schedule allows ${allowed}${held}`;
  return [{ code: 'stale', state: 'failing', message, since: at, hint }];
}

const REFUSED: ReadonlySet<string> = new Set<ErrorCode>(['unauthorized', 'forbidden']);

/** The code of an attempt that read nothing; null for one that read something. */
export function failureCode({
  outcome,
  errorCode,
}: Pick<EndedJob, 'outcome' | 'errorCode'>): 'key_refused' | 'run_failed' | null {
  if (outcome === 'refused' || (outcome === 'failed' && errorCode !== null && REFUSED.has(errorCode)))
    return 'key_refused';
  return outcome === 'failed' || outcome === 'interrupted' ? 'run_failed' : null;
}

/** The latest sync of all kinds: its run, or the job if it had none. */
export function latestSync({
  lastEnded,
  lastSync,
}: Pick<SourceFacts, 'lastEnded' | 'lastSync'>): (EndedJob & { readonly run?: number | null }) | null {
  // The job began after the last run had ended: it had no run.
  const isJobNewer = lastSync !== null && (lastEnded === null || lastSync.startedAt > endOf(lastEnded));
  return isJobNewer ? lastSync : lastEnded;
}

export function isDiskFull({ errorCode }: Pick<EndedJob, 'errorCode'>): boolean {
  return errorCode === ('disk_full' satisfies ErrorCode);
}

export const WAS_FULL = 'the disk was full at the last sync';

/** True if the latest sync of all kinds failed because the disk was full. */
export function wasDiskFull(facts: SourceFacts): boolean {
  const last = latestSync(facts);
  return last !== null && isDiskFull(last);
}

function lastRun(facts: SourceFacts): HealthReason[] {
  const {
    lastEnded,
    failingSince,
    unread,
    held: { records: heldCount },
    source,
  } = facts;
  const last = latestSync(facts);
  if (last === null) return [];
  // A job that failed before its run began is in no list of runs.
  const run = last.run ?? null;
  const code = failureCode(last);
  const since = (code === null ? null : failingSince) ?? endOf(last);
  if (code === 'key_refused') {
    const error = last.error ?? 'the service refused the key';
    const hint = `give ${source} a valid key; \`tidemark doctor --source ${source}\` tries it`;
    return [degraded(code, `the last sync failed: ${error}`, since, hint)];
  }
  if (code === 'run_failed') {
    const doctor = unansweredHint(last, source);
    const first = doctor === null ? '' : `${doctor}; `;
    const pause = pauseText(facts);
    const { rateWait } = facts;
    const next = rateWait !== null ? `; ${rateWait.message}` : pause === '' ? '; the next sync retries' : '';
    return [
      degraded(
        code,
        `the last sync ${isInterrupted(last) ? 'was interrupted' : 'failed'}${run === null ? ' before its run began' : ''}${because(last)}${pause}`,
        since,
        run === null
          ? `${first}no run was begun${isDiskFull(last) ? ': free space on the volume of the mirror' : ''}${next}`
          : `${first}\`tidemark runs show ${run}\` shows the reason${next}`,
      ),
    ];
  }
  // Held removals are a reason of their own.
  if (lastEnded?.outcome !== 'partial' || (unread === 0 && heldCount > 0)) return [];
  const what = unread === 0 ? '' : `: ${plural(unread, 'collection')} incomplete`;
  const hint = `\`tidemark runs show ${lastEnded.run}\` names them`;
  return [degraded('run_partial', `the last sync was partial${what}`, since, hint)];
}

function pauseText({ pausedUntil = null, source }: SourceFacts): string {
  if (pausedUntil === null) return '';
  const until = localTime(pausedUntil).slice(11);
  return `; not synced on schedule until ${until}, as the service did not answer: \`tidemark sync --source ${source}\` tries now`;
}

/** The error of a run of some kinds is a reason until a run of all kinds ends. */
function narrowedRun({ lastNarrowed: last, rateWait }: SourceFacts): HealthReason[] {
  if (last === null || last.outcome === 'complete') return [];
  const isPartial = last.outcome === 'partial';
  const outcome = isPartial ? 'was partial' : isInterrupted(last) ? 'was interrupted' : 'failed';
  return [
    degraded(
      isPartial ? 'run_partial' : 'run_failed',
      `the last sync of ${last.kinds.join(', ')} only ${outcome}${because(last)}`,
      endOf(last),
      `\`tidemark runs show ${last.run}\` says why${isPartial || rateWait === null ? '' : `; ${rateWait.message}`}`,
    ),
  ];
}

/** True if the latest sync was partial only because of held removals: another one would be too. */
function isOnlyHeld(facts: SourceFacts): boolean {
  const last = latestSync(facts);
  return last?.outcome === 'partial' && facts.unread === 0 && facts.held.records > 0;
}

function heldHint({ held: { ceiling, lists }, source }: SourceFacts): string {
  return `${heldUntilText(lists)}; ${heldAdvice(lists, source, 'them')}; if they were really removed: \`tidemark sync --source ${source} --accept-removals ${ceiling}\``;
}

/** Counts the records below too, as `sync` and `status` do: accepting the removals removes all of them. */
function heldText({ held: { records, ceiling } }: SourceFacts): string {
  return `${withBelow(plural(records, 'removal'), records, ceiling - records)} held`;
}

function held(facts: SourceFacts): HealthReason[] {
  if (facts.held.records === 0) return [];
  return [degraded('removals_held', heldText(facts), null, heldHint(facts))];
}

/** Runs of some kinds do not end it: without a run of all kinds, no drift would ever be reported again. */
function waitingDrift({ driftWaitsSince: since, source }: SourceFacts): HealthReason[] {
  if (since === null) return [];
  return [
    degraded(
      'drift_waiting',
      'until a run of all kinds has read the source, drift is not reported, and nothing is committed to git (if that is configured): the mirror was restored from a backup',
      since,
      `\`tidemark sync --source ${source}\`, without \`--kind\`, \`--organization\` and \`--project\`, reads all of it`,
    ),
  ];
}

function inFuture({ lastNarrowed, lastEnded, lastComplete }: SourceFacts, now: number): HealthReason[] {
  const message = futureRunText([lastNarrowed, lastEnded, lastComplete], now);
  if (message === null) return [];
  const hint = 'set the clock by NTP; until then, nothing shows how old the mirror is';
  return [degraded('run_in_future', message, null, hint)];
}

/** The service may be restored only in part. */
function interruptedRestore({ interrupted }: SourceFacts): HealthReason[] {
  if (interrupted === null) return [];
  const { restore, startedAt } = interrupted;
  const message = unendedText(`restore ${restore}`, interrupted);
  return [degraded('restore_interrupted', message, startedAt, resumeHint(restore, null))];
}
