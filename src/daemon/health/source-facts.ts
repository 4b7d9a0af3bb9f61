/** The facts about a source that its health follows from. */
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
import type { SourceFacts } from './facts.ts';
import { failureCode } from './source-reasons.ts';

/** What was read of the sources of a mirror. */
export interface SourceInputs {
  /** The latest syncs of all kinds, by source. */
  readonly wholeSyncs: ReadonlyMap<string, JobRow | null>;
  /** By source, as in `SourceFacts`. */
  readonly failingSince: ReadonlyMap<string, string | null>;
  /** By source. */
  readonly firstSyncs: ReadonlyMap<string, SourceFacts['firstSync']>;
  /** By source, its latest restore that has not ended. */
  readonly restores: ReadonlyMap<string, ReturnType<typeof latestUnfinished>>;
  /** The sources whose drift is not reported yet, and since when. */
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
  /** For the command line, which sends no notices: the mirror has what the daemon or `daemon --once` knows of channels. */
  readonly readsChannels?: true;
};

/** What a source is assessed by beside its mirror. */
export type SourceView = Pick<
  HealthView,
  'addedAt' | 'scheduledAt' | 'schedules' | 'intervalChange' | 'running' | 'queued' | 'problems'
>;

const NO_ATTEMPTS: SourceFacts['firstSync'] = { hasEnded: false, wasInterrupted: false };
/** Attempts of a source without a complete run that are looked at: more than were made before somebody should have known of it. */
const ATTEMPTS_READ = 500;

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
    behind: behindOf(view, source),
    isQueued: queuedSync(view, source) !== undefined,
    limitHeldBy: queuedSync(view, source)?.waitsFor ?? null,
    rateWait: rateWait(view, source),
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

function behindOf(view: SourceView, source: string): SourceFacts['behind'] {
  return (queuedSync(view, source) === undefined ? undefined : view.running()[0]) ?? null;
}

function queuedSync(view: SourceView, source: string): ReturnType<SourceView['queued']>[number] | undefined {
  return view.queued().find((job) => job.name === 'sync' && job.source === source);
}

function rateWait(view: SourceView, source: string): SourceFacts['rateWait'] {
  const error = view.problems().find(({ about }) => about === waitProblemOf(source))?.error;
  return error === undefined ? null : { message: error.message, hint: error.hint ?? null };
}

/** When the first of the latest syncs of all kinds ended that failed in the same way one after the other, ISO 8601; null where the latest did not. */
export function failingSince(mirror: Mirror, source: string): string | null {
  const attempts = (limit: number): (RunRow | JobRow)[] => {
    const runs = mirror.runs.list({ source, isOfAllKinds: true, limit });
    // Of one with a run, the run says how it ended.
    const jobs = mirror.daemon.jobs({ name: 'sync', source, limit }).filter(({ run }) => run === null);
    return [...runs, ...jobs]
      .filter(({ outcome }) => outcome !== 'running')
      .toSorted((a, b) => (a.startedAt > b.startedAt ? -1 : 1));
  };
  // One of each may be at work.
  const [latest] = attempts(2);
  const code = latest === undefined ? null : failureCode(latest);
  if (code === null) return null;
  const all = attempts(ATTEMPTS_READ);
  const other = all.findIndex((each) => failureCode(each) !== code);
  const first = other === -1 ? all.at(-1) : all[other - 1];
  return first?.finishedAt ?? first?.startedAt ?? null;
}

export function firstSyncOf(
  mirror: Mirror,
  source: string,
  lastComplete: SourceFacts['lastComplete'],
): SourceFacts['firstSync'] {
  if (lastComplete !== null) return NO_ATTEMPTS;
  const runs = mirror.runs.list({ source, isOfAllKinds: true, limit: ATTEMPTS_READ });
  // Of one with a run, the run says how it ended.
  const jobs = mirror.daemon
    .jobs({ name: 'sync', source, limit: ATTEMPTS_READ })
    .filter(({ run }) => run === null);
  const ended = [...runs, ...jobs].filter(({ outcome }) => outcome !== 'running');
  return { hasEnded: !ended.every(isInterrupted), wasInterrupted: ended.some(isInterrupted) };
}

/** The latest sync of all kinds of a source, where the latest sync was one. */
export function lastSyncOfAllKinds(mirror: Mirror, source: string, jobs: LastJobs): JobRow | null {
  const row = jobs.one('sync', source);
  const run = row?.run ?? null;
  const kinds = run === null ? null : (mirror.runs.get(run)?.kinds ?? null);
  return kinds === null ? row : null;
}
