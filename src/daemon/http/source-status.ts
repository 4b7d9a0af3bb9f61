/** The freshness and completeness of a source in the mirror, by a few cheap queries: no record is read or counted. */
import type { ErrorCode } from '../../core/errors.ts';
import { duration, plural } from '../../core/wording.ts';
import type { KindStatus, UnreadCollection } from '../../mirror/collection-status.ts';
import type { HeldRemovals } from '../../mirror/held-removals.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { SourceState } from '../../state/status-document.ts';
import { lastCompleteRun, lastEndedRunOfAllKinds } from '../../state/whole-run.ts';
import type { EndedJob, SourceFacts, HealthReason } from './health-input.ts';
import { tookMs } from './wording.ts';

export interface SourceStatus {
  readonly source: string;
  /** False for a source that the configuration no longer names. */
  readonly isConfigured: boolean;
  readonly state: SourceState;
  readonly records: number;
  /** In catalog order. */
  readonly kinds: readonly KindStatus[];
  /** In catalog order, at most `UNREAD_READ`. */
  readonly unread: readonly UnreadCollection[];
  /** How many there are in all. */
  readonly unreadCount: number;
  readonly oldestWholeAt: string | null;
  readonly lastRun: RunRow | null;
  readonly lastEnded: RunRow | null;
  /** Likewise, of runs that were not limited to some kinds. */
  readonly lastWholeEnded: RunRow | null;
  readonly lastPublished: RunRow | null;
  /** Of all kinds as well. */
  readonly lastComplete: RunRow | null;
  /** When the oldest known run began, ISO 8601. */
  readonly firstTriedAt: string | null;
  readonly held: readonly HeldRemovals[];
}

const UNREAD_READ = 200;
/** A crashed writer leaves its run without an end until the next one starts: there may be a few. */
const UNENDED_RUNS = 5;

/** Call it within `atOnce`, so that all queries see one snapshot. */
function readSourceStatus(mirror: Mirror, source: string, isConfigured: boolean): SourceStatus {
  const newest = mirror.runs.list({ source, limit: UNENDED_RUNS });
  const kinds = mirror.runs.kindStatuses(source);
  const unreadCount = kinds.reduce((sum, { collections, whole }) => sum + collections - whole, 0);
  const oldest = kinds.map(({ oldestWholeAt }) => oldestWholeAt);
  const known = {
    source,
    isConfigured,
    records: kinds.reduce((sum, { records }) => sum + records, 0),
    kinds,
    unread: unreadCount === 0 ? [] : mirror.runs.unreadCollections(source, UNREAD_READ),
    unreadCount,
    oldestWholeAt: oldest.includes(null) ? null : (oldest.toSorted()[0] ?? null),
    lastRun: newest[0] ?? null,
    lastEnded: newest.find(({ outcome }) => isEnded(outcome)) ?? null,
    lastWholeEnded: lastEndedRunOfAllKinds(mirror, source),
    lastPublished: mirror.runs.latest(source) ?? null,
    lastComplete: lastCompleteRun(mirror, source),
    firstTriedAt: mirror.runs.firstStartedAt(source),
    held: mirror.runs.heldRemovals(source),
  };
  return { ...known, state: stateOf(known) };
}

/** The configured sources first, then the other ones of the mirror. */
export function readSourceStatuses(mirror: Mirror, configured: readonly string[]): SourceStatus[] {
  const others = mirror.runs.sources().filter((name) => !configured.includes(name));
  return [
    ...configured.map((name) => readSourceStatus(mirror, name, true)),
    ...others.map((name) => readSourceStatus(mirror, name, false)),
  ];
}

function isEnded(outcome: string): boolean {
  return outcome !== 'running';
}

function stateOf({
  lastRun,
  lastEnded,
  lastWholeEnded,
  lastPublished,
  unreadCount,
  held,
}: Omit<SourceStatus, 'state'>): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  const isDone = lastEnded?.outcome === 'complete' && lastWholeEnded?.outcome === 'complete';
  return isDone && held.length === 0 && unreadCount === 0 ? 'whole' : 'partial';
}

// The problems of one source: the age of its last complete run, how its last run ended, what is pending. Pure.

/** Two intervals: one sync may be late or fail if the next succeeds. */
const INTERVALS_ALLOWED = 2;

/** The allowed age of a source's last complete run: two intervals, the jitter, and the duration of that run. */
export function allowedAgeMs({
  schedule,
  lastComplete,
}: Pick<SourceFacts, 'schedule' | 'lastComplete'>): number | null {
  if (schedule === null) return null;
  const ownMs = lastComplete === null ? null : tookMs(lastComplete);
  return INTERVALS_ALLOWED * schedule.intervalMs + schedule.jitterMs + (ownMs ?? 0);
}

/** From when on a complete run is expected: the daemon's start, or the first known attempt. */
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
    // A new source gets the same time; a restart of the daemon does not extend it.
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
        // Without a schedule, `starting` would never end.
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

function lastRun({ lastEnded, lastSync, unread, source }: SourceFacts): HealthReason[] {
  // A job without a run ended after the last run.
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
  const what = unread === 0 ? '' : `: ${plural(unread, 'collection')} not whole`;
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

/** Errors of a run of some kinds are reported until a run of all kinds. */
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
