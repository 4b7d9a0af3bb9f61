/** The facts from which the health of a source is assessed. */
import type { Config } from '../../config/config.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { latestUnfinished } from '../../mirror/unfinished-restore.ts';
import type { SourceStatus } from '../../state/source-status.ts';
import { SILENT_MS } from '../jobs/queue.ts';
import type { LastJobs } from '../last-jobs.ts';
import { waitProblemOf } from '../problems.ts';
import type { DaemonView } from '../view.ts';
import { isInterrupted } from './allowed-age.ts';
import { endOf, type SourceFacts } from './facts.ts';
import { failureCode } from './source-reasons.ts';

/** What was read of the sources of a mirror, by source; as in `SourceFacts`, if not said otherwise. */
export interface SourceInputs {
  /** The latest sync of all kinds. */
  readonly wholeSyncs: ReadonlyMap<string, JobRow | null>;
  readonly failingSince: ReadonlyMap<string, string | null>;
  readonly firstSyncs: ReadonlyMap<string, SourceFacts['firstSync']>;
  /** The latest restore that has not ended. */
  readonly restores: ReadonlyMap<string, ReturnType<typeof latestUnfinished>>;
  /** Since when drift is not reported. */
  readonly driftWaits: ReadonlyMap<string, string | null>;
}

/** What health is assessed from: the running daemon, or what the command line knows without one. */
export type HealthView = Pick<
  DaemonView,
  | 'startedAt'
  | 'addedAt'
  | 'scheduledAt'
  | 'config'
  | 'configProblem'
  | 'mirror'
  | 'completeRuns'
  | 'backups'
  | 'schedules'
  | 'intervalChange'
  | 'running'
  | 'unwritten'
  | 'queued'
  | 'problems'
> & {
  /** Set by the command line, which sends no notices: the daemon and `daemon --once` store in the mirror which channels can send. */
  readonly readsChannels?: true;
};

/** What a source is assessed by beside its mirror. */
export type SourceView = Pick<
  HealthView,
  'addedAt' | 'scheduledAt' | 'schedules' | 'intervalChange' | 'running' | 'queued' | 'problems'
>;

const NO_ATTEMPTS: SourceFacts['firstSync'] = { hasEnded: false, wasInterrupted: false };
/** The number of attempts that are read: more than are made before somebody should have noticed that they fail. */
const ATTEMPTS_READ = 500;

/** The facts about a source of a mirror that was read. */
export function sourceFacts(
  view: HealthView,
  config: Config,
  sourceStatus: SourceStatus,
  { wholeSyncs, failingSince: failing, firstSyncs, restores, driftWaits }: SourceInputs,
): SourceFacts {
  const { source, lastComplete, lastEnded, lastWholeEnded, firstTriedAt, held, unreadCount } = sourceStatus;
  const narrowed = lastEnded?.kinds ?? null;
  const restore = restores.get(source);
  const interrupted = restore?.isAtWork === true ? null : (restore?.row ?? null);
  return {
    ...unreadSource(view, config, source),
    lastComplete,
    lastEnded: lastWholeEnded,
    lastSync: wholeSyncs.get(source) ?? null,
    failingSince: failing.get(source) ?? null,
    firstSync: firstSyncs.get(source) ?? NO_ATTEMPTS,
    interrupted,
    driftWaitsSince: driftWaits.get(source) ?? null,
    lastNarrowed: lastEnded === null || narrowed === null ? null : { ...lastEnded, kinds: narrowed },
    firstTriedAt,
    held: {
      records: held.reduce((sum, { records }) => sum + records, 0),
      ceiling: held.reduce((sum, { records, below }) => sum + records + below, 0),
      lists: held,
    },
    // A list with held removals was read.
    unread: unreadCount - sourceStatus.unread.filter(({ outcome }) => outcome === 'held').length,
  };
}

/** The facts about a source without the mirror. */
export function unreadSource(view: SourceView, config: Config, source: string): SourceFacts {
  const schedule = view.schedules().find((each) => each.schedule === 'sync' && each.sources.includes(source));
  const sync = view.running().find((job) => job.name === 'sync' && job.source === source);
  const queued = view.queued().find((job) => job.name === 'sync' && job.source === source);
  const wait = view.problems().find(({ about }) => about === waitProblemOf(source))?.error;
  return {
    source,
    schedule:
      schedule === undefined
        ? null
        : {
            intervalMs: schedule.intervalMs,
            jitterMs: config.schedules.sync?.jitterMs ?? 0,
            change: view.intervalChange('sync'),
            sourceSince: view.scheduledAt(source),
          },
    isSyncing: sync !== undefined,
    sync:
      sync === undefined
        ? null
        : {
            startedAt: sync.startedAt,
            silentMs: sync.silentMs ?? 0,
            pausedUntil: sync.pausedUntil,
            waitingUntil: sync.progress?.waitingUntil,
          },
    isSilent: (sync?.silentMs ?? 0) >= SILENT_MS,
    behind: queued === undefined ? null : (view.running()[0] ?? null),
    isQueued: queued !== undefined,
    limitHeldBy: queued?.waitsFor ?? null,
    rateWait: wait === undefined ? null : { message: wait.message, hint: wait.hint ?? null },
    pausedUntil: schedule?.paused?.find((each) => each.source === source)?.until ?? null,
    lastComplete: null,
    lastEnded: null,
    lastSync: null,
    firstSync: NO_ATTEMPTS,
    lastNarrowed: null,
    addedAt: view.addedAt(source),
    firstTriedAt: null,
    held: { records: 0, ceiling: 0, lists: [] },
    interrupted: null,
    driftWaitsSince: null,
    unread: 0,
  };
}

/** The latest syncs of all kinds that ended, newest first. */
function endedSyncs(mirror: Mirror, source: string, limit: number): (RunRow | JobRow)[] {
  const runs = mirror.runs.list({ source, isOfAllKinds: true, limit });
  // The end of a job with a run is that of the run.
  const jobs = mirror.daemon.jobs({ name: 'sync', source, limit }).filter(({ run }) => run === null);
  return [...runs, ...jobs]
    .filter(({ outcome }) => outcome !== 'running')
    .toSorted((a, b) => (a.startedAt > b.startedAt ? -1 : 1));
}

/** Since when syncs of all kinds fail, one after the other, in the way of the latest; ISO 8601, null if that did not fail. */
export function failingSince(mirror: Mirror, source: string): string | null {
  // Two of each, because one may be running.
  const [latest] = endedSyncs(mirror, source, 2);
  const code = latest === undefined ? null : failureCode(latest);
  if (code === null) return null;
  const all = endedSyncs(mirror, source, ATTEMPTS_READ);
  const other = all.findIndex((sync) => failureCode(sync) !== code);
  const first = other === -1 ? all.at(-1) : all[other - 1];
  return first === undefined ? null : endOf(first);
}

/** How the syncs of a source ended before its first complete run. */
export function firstSyncOf(
  mirror: Mirror,
  source: string,
  lastComplete: SourceFacts['lastComplete'],
): SourceFacts['firstSync'] {
  if (lastComplete !== null) return NO_ATTEMPTS;
  const ended = endedSyncs(mirror, source, ATTEMPTS_READ);
  return { hasEnded: !ended.every(isInterrupted), wasInterrupted: ended.some(isInterrupted) };
}

/** The latest sync of a source, if it was one of all kinds; null otherwise. */
export function lastSyncOfAllKinds(mirror: Mirror, source: string, jobs: LastJobs): JobRow | null {
  const row = jobs.one('sync', source);
  const run = row?.run ?? null;
  const kinds = run === null ? null : (mirror.runs.get(run)?.kinds ?? null);
  return kinds === null ? row : null;
}
