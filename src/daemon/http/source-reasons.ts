/** What is wrong with the copy of one source: how old it is, how its last run ended, what waits. Pure. */
import type { ErrorCode } from '../../core/errors.ts';
import { duration, plural } from '../../core/wording.ts';
import type { EndedJob, SourceFacts } from './health-input.ts';
import type { HealthReason } from './health-reason.ts';
import { tookMs } from './wording.ts';

/** Two intervals: one sync may be late or fail, the next makes up for it. */
const INTERVALS_ALLOWED = 2;

/** How old a source's last complete run may be: two intervals, the jitter, and as long as that run itself took. */
export function allowedAgeMs({
  schedule,
  lastComplete,
}: Pick<SourceFacts, 'schedule' | 'lastComplete'>): number | null {
  if (schedule === null) return null;
  const ownMs = lastComplete === null ? null : tookMs(lastComplete);
  return INTERVALS_ALLOWED * schedule.intervalMs + schedule.jitterMs + (ownMs ?? 0);
}

/** From when on a complete run can be expected: the daemon's beginning, or the first attempt that is known. */
export function expectedSince(
  { firstTriedAt }: Pick<SourceFacts, 'firstTriedAt'>,
  startedAt: string,
): string {
  return firstTriedAt !== null && firstTriedAt < startedAt ? firstTriedAt : startedAt;
}

/**
 * @param allowedMs of `allowedAgeMs`
 * @param now milliseconds since the epoch
 * @param startedAt when the daemon began, ISO 8601
 */
export function sourceReasons(
  facts: SourceFacts,
  allowedMs: number | null,
  now: number,
  startedAt: string,
): HealthReason[] {
  const ofLastRun = lastRun(facts);
  return [
    ...freshness(facts, allowedMs, now, startedAt),
    ...(ofLastRun.length === 0 ? narrowedRun(facts) : ofLastRun),
    ...held(facts),
  ];
}

function freshness(
  facts: SourceFacts,
  allowedMs: number | null,
  now: number,
  startedAt: string,
): HealthReason[] {
  const { lastComplete, source, isSyncing } = facts;
  const hint = `\`tidemark runs\` shows the runs, \`tidemark sync --source ${source}\` starts one now`;
  if (lastComplete === null) {
    // A source that is new is given the time that any copy is given; a daemon that begins again gets no more of it.
    const since = expectedSince(facts, startedAt);
    const isLate = allowedMs !== null && now - Date.parse(since) > allowedMs;
    if (isLate)
      return [
        {
          code: 'never_complete',
          state: 'failing',
          message: 'no run of all kinds has been complete yet',
          since,
          hint,
        },
      ];
    return [
      {
        code: 'first_sync',
        // Where no schedule comes, starting would never end.
        state: allowedMs === null ? 'degraded' : 'starting',
        message: isSyncing ? 'the first sync is under way' : 'no run of all kinds has been complete yet',
        since,
        hint:
          allowedMs === null ? `no schedule syncs this source: \`tidemark sync --source ${source}\`` : null,
      },
    ];
  }
  const at = lastComplete.finishedAt ?? lastComplete.startedAt;
  const ageMs = now - Date.parse(at);
  if (allowedMs === null || ageMs <= allowedMs) return [];
  const message = `the last complete run ended ${duration(ageMs)} ago; the schedule allows ${duration(allowedMs)}`;
  return [{ code: 'stale', state: 'failing', message, since: at, hint }];
}

const REFUSED: ReadonlySet<string> = new Set<ErrorCode>(['unauthorized', 'forbidden']);

function lastRun({ lastEnded, lastSync, troubled, source }: SourceFacts): HealthReason[] {
  // A job that came to no run ended after the last run did.
  const isJobNewer =
    lastSync !== null &&
    (lastEnded === null || lastSync.startedAt > (lastEnded.finishedAt ?? lastEnded.startedAt));
  const last: (EndedJob & { readonly run?: number }) | null = isJobNewer ? lastSync : lastEnded;
  if (last === null) return [];
  const since = last.finishedAt ?? last.startedAt;
  const show = last.run === undefined ? '`tidemark runs`' : `\`tidemark runs show ${last.run}\``;
  const why = last.error === null ? '' : `: ${last.error}`;
  if (
    last.outcome === 'refused' ||
    (last.outcome === 'failed' && last.errorCode !== null && REFUSED.has(last.errorCode))
  ) {
    return [
      {
        code: 'key_refused',
        state: 'degraded',
        message: `the service refused the key${why}`,
        since,
        hint: `give ${source} a key that is in force; \`tidemark doctor --source ${source}\` tries it`,
      },
    ];
  }
  if (last.outcome === 'failed' || last.outcome === 'interrupted') {
    return [
      {
        code: 'run_failed',
        state: 'degraded',
        message: `the last sync ${last.outcome === 'failed' ? 'failed' : 'was interrupted'}${why}`,
        since,
        hint: `${show} says why; the next one tries again`,
      },
    ];
  }
  if (lastEnded?.outcome !== 'partial') return [];
  const what = troubled === 0 ? '' : `: ${plural(troubled, 'collection')} not whole`;
  return [
    {
      code: 'run_partial',
      state: 'degraded',
      message: `the last sync was partial${what}`,
      since,
      hint: `\`tidemark runs show ${lastEnded.run}\` names them`,
    },
  ];
}

/** What a run of some kinds met is told until one of all kinds tells the whole. */
function narrowedRun({ lastNarrowed: last }: SourceFacts): HealthReason[] {
  if (last === null || last.outcome === 'complete') return [];
  const isPartial = last.outcome === 'partial';
  return [
    {
      code: isPartial ? 'run_partial' : 'run_failed',
      state: 'degraded',
      message: `the last sync of ${last.kinds.join(', ')} only ${isPartial ? 'was partial' : 'failed'}${last.error === null ? '' : `: ${last.error}`}`,
      since: last.finishedAt ?? last.startedAt,
      hint: `\`tidemark runs show ${last.run}\` says why`,
    },
  ];
}

function held({ held: { records, ceiling }, source }: SourceFacts): HealthReason[] {
  if (records === 0) return [];
  return [
    {
      code: 'removals_held',
      state: 'degraded',
      message: `${plural(records, 'removal')} held: too many to believe at once`,
      since: null,
      hint: `if they really went: \`tidemark sync --source ${source} --accept-removals ${ceiling}\``,
    },
  ];
}
