/** The facts that health is judged by, from the living daemon and the mirror. */
import type { Config } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, isLocalError } from '../../core/errors.ts';
import type { JobName, JobRow } from '../../mirror/daemon.ts';
import type { Delivery } from '../../mirror/daemon.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { BackupsShown } from '../../backup/work.ts';
import { summaryOf } from '../jobs/summaries.ts';
import type { DaemonView } from '../view.ts';
import type { HealthFacts, SourceFacts } from './health-input.ts';
import { type Health, assessHealth } from './health.ts';
import { type LastJobs, drillScores, readLastJobs } from '../last-jobs.ts';
import { lastCompleteRun } from '../../state/whole-run.ts';
import {
  type SourceStatus,
  allowedAgeMs,
  expectedSince,
  firstTriedAt,
  readSourceStatuses,
} from './source-status.ts';

/** All that a page says of the whole, of one moment. */
export interface HealthSnapshot {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly health: Health;
  /** Null where the mirror cannot be read: then nothing below is known. */
  readonly mirror: Mirror | null;
  /** The configured sources first. */
  readonly sourceStatuses: readonly SourceStatus[];
  readonly lastJobs: LastJobs;
  /** Notices that wait for their delivery. */
  readonly pending: readonly Delivery[];
}

const NO_JOBS: LastJobs = { of: () => [], one: () => null, finished: () => [] };
/** Jobs looked through for the newest backup. */
const BACKUP_JOBS_READ = 50;
/** Deliveries looked through for channels that gave up. */
const DELIVERIES_READ = 200;
/** Longer than most syncs of other processes take. */
const LOCKED_LONG_MS = 15 * 60_000;
/** A notice that is pending for longer did not arrive at the first attempts. */
const OWED_LONG_MS = 15 * 60_000;

/** Never throws for a mirror that cannot be read: that is part of the snapshot. */
export function readHealthSnapshot(view: DaemonView, now: number): HealthSnapshot {
  const config = view.config();
  const configProblem = view.configProblem()?.message ?? null;
  const base = { now, startedAt: view.startedAt, configProblem };
  try {
    const mirror = view.mirror();
    return mirror.atOnce((): HealthSnapshot => {
      const sourceStatuses = readSourceStatuses(
        mirror,
        config.sources.map(({ name }) => name),
      );
      const lastJobs = readLastJobs(mirror);
      const state = mirror.daemonState();
      const pending = state.pendingDeliveries();
      const facts: HealthFacts = {
        ...base,
        problems: [...lastingProblems(view, now), ...unreportedJobProblems(view, lastJobs)],
        mirrorProblem: null,
        backups: backupFacts(view, mirror, now),
        sources: sourceStatuses.flatMap((sourceStatus) =>
          sourceStatus.isConfigured
            ? [sourceFacts(view, config, sourceStatus, lastWholeSync(mirror, sourceStatus, lastJobs))]
            : [],
        ),
        ...jobFacts(mirror, lastJobs),
        failingChannels: failingChannels(pending, state.deliveries(DELIVERIES_READ), now),
      };
      return { now, health: assessHealth(facts), mirror, sourceStatuses, lastJobs, pending };
    });
  } catch (error) {
    const { code, message, hint } = asTidemarkError(error);
    const isSyncing = [...view.running(), ...view.queued()].some(({ name }) => name === 'sync');
    // One that was there and is gone is not made anew.
    const isComing = code === 'mirror_missing' && isSyncing && !isMirrorGone(view);
    const mirrorProblem = { message, hint: hint ?? null, isComing };
    const problems = lastingProblems(view, now);
    const nothing = {
      // A mirror that is to come holds nothing of any of them yet; of one that cannot be read nothing is known.
      sources: isComing ? config.sources.map(({ name }) => unreadSource(view, config, name)) : [],
      backups: null,
      verify: null,
      drills: [],
      failedJobs: [],
      failingChannels: [],
    };
    const health = assessHealth({ ...base, ...nothing, problems, mirrorProblem });
    return { now, health, mirror: null, sourceStatuses: [], lastJobs: NO_JOBS, pending: [] };
  }
}

/** How old the last complete run of a source is, and may be. */
export interface Freshness {
  readonly source: string;
  /** When its last complete run ended, ISO 8601; null where there never was one. */
  readonly completeAt: string | null;
  /** From when on one can be expected: when the daemon first had the source. */
  readonly expectedSince: string;
  /** The longest that a complete run may lie back, milliseconds. */
  readonly allowedMs: number;
}

/**
 * The freshness of configured sources that a schedule syncs, and the mirror that says so; null where it cannot be read.
 * @param names the sources that are asked for; all without
 */
export function readFreshness(
  view: DaemonView,
  names?: readonly string[],
): { readonly mirror: Mirror; readonly sources: readonly Freshness[] } | null {
  const config = view.config();
  const configured = config.sources.map(({ name }) => name);
  try {
    const mirror = view.mirror();
    const sources = mirror.atOnce(() =>
      configured
        .filter((name) => names?.includes(name) !== false)
        .flatMap((source): Freshness[] => {
          const lastComplete = lastCompleteRun(mirror, source);
          const tried = { firstTriedAt: firstTriedAt(mirror, source), lastComplete };
          const facts = { ...unreadSource(view, config, source), ...tried };
          const allowedMs = allowedAgeMs(facts);
          if (allowedMs === null) return [];
          const expected = expectedSince(facts, view.startedAt);
          return [
            { source, completeAt: lastComplete?.finishedAt ?? null, expectedSince: expected, allowedMs },
          ];
        }),
    );
    return { mirror, sources };
  } catch {
    // Health and the jobs tell what keeps it from being read.
    return null;
  }
}

/** The backups in their directory, waited for a moment; null where there are none to be known. */
export async function lookAtBackups(view: DaemonView): Promise<BackupsShown | null> {
  const { backup } = view.config();
  if (backup === null) return null;
  let mirror: Mirror;
  try {
    mirror = view.mirror();
  } catch {
    // Health tells what keeps it from being read.
    return null;
  }
  return view.backups.look(backup.directory, mirror);
}

/** True while the mirror is away that was there before. */
export function isMirrorGone(view: Pick<DaemonView, 'problems'>): boolean {
  return view.problems().some(({ about, error }) => about === 'mirror' && error.code === 'mirror_missing');
}

/** Those that no other reason tells; that another process writes the mirror for a while is nothing yet. */
function lastingProblems(view: DaemonView, now: number): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    if (about === 'config' || about === 'mirror' || about.startsWith('job:')) return [];
    if (about === 'lock' && now - Date.parse(since) < LOCKED_LONG_MS) return [];
    return [{ message: error.message, hint: error.hint ?? null, since }];
  });
}

/**
 * Jobs that failed for an error of this machine (the disk is full, the mirror is damaged or cannot be written) and have no
 * row that says so: until the next one of their name gets further.
 */
function unreportedJobProblems(view: DaemonView, jobs: LastJobs): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    const [word, name, ...rest] = about.split(':');
    if (word !== 'job' || name === undefined || !isLocalError(error.code)) return [];
    const source = rest.length === 0 ? null : rest.join(':');
    const row = jobs.of(name as JobName).find((each) => each.source === source);
    if (row?.errorCode === error.code) return [];
    const message = `the last ${name}${source === null ? '' : ` of ${source}`} failed: ${error.message}`;
    return [{ message, hint: error.hint ?? null, since }];
  });
}

/** The latest sync of all kinds of a source, where the latest sync was one. */
function lastWholeSync(mirror: Mirror, { source }: SourceStatus, jobs: LastJobs): JobRow | null {
  const row = jobs.one('sync', source);
  const run = row?.run ?? null;
  const kinds = run === null ? null : (mirror.run(run)?.kinds ?? null);
  return kinds === null ? row : null;
}

/** The daemon's own backups by its jobs, all others as they stand in the directory. */
function backupFacts(view: DaemonView, mirror: Mirror, now: number): HealthFacts['backups'] {
  const { backup } = view.config();
  if (backup === null) return null;
  const found = view.backups.known(backup.directory, mirror)?.whole ?? [];
  const made = mirror
    .daemonState()
    .jobs({ name: 'backup', limit: BACKUP_JOBS_READ })
    .find(({ summary }) => typeof summary['file'] === 'string');
  const times = [made?.finishedAt ?? null, ...found.map(({ madeAt }) => madeAt)].flatMap((at) =>
    // Of the future, made before the clock stepped back: such a one says nothing, for long.
    at === null || Date.parse(at) > now ? [] : [isoTime(Date.parse(at))],
  );
  return { everyMs: backup.everyMs, lastAt: times.sort().at(-1) ?? null };
}

function sourceFacts(
  view: DaemonView,
  config: Config,
  sourceStatus: SourceStatus,
  lastSync: JobRow | null,
): SourceFacts {
  const { source, lastComplete, lastEnded, lastWholeEnded, firstTriedAt, held, unreadCount } = sourceStatus;
  const narrowed = lastEnded?.kinds ?? null;
  return {
    ...unreadSource(view, config, source),
    lastComplete,
    lastEnded: lastWholeEnded,
    lastSync,
    lastNarrowed: lastEnded === null || narrowed === null ? null : { ...lastEnded, kinds: narrowed },
    firstTriedAt,
    held: {
      records: held.reduce((sum, { records }) => sum + records, 0),
      ceiling: held.reduce((sum, { records, below }) => sum + records + below, 0),
    },
    unread: unreadCount,
  };
}

/** What is known of a source without the mirror. */
function unreadSource(view: DaemonView, config: Config, source: string): SourceFacts {
  const schedule = view.schedules().find((each) => each.schedule === 'sync' && each.sources.includes(source));
  return {
    source,
    schedule:
      schedule === undefined
        ? null
        : { intervalMs: schedule.intervalMs, jitterMs: config.schedules.sync?.jitterMs ?? 0 },
    isSyncing: view.running().some((job) => job.name === 'sync' && job.source === source),
    lastComplete: null,
    lastEnded: null,
    lastSync: null,
    lastNarrowed: null,
    firstTriedAt: null,
    held: { records: 0, ceiling: 0 },
    unread: 0,
  };
}

function jobFacts(mirror: Mirror, jobs: LastJobs): Pick<HealthFacts, 'verify' | 'drills' | 'failedJobs'> {
  const verify = jobs.of('verify')[0];
  return {
    verify: verify === undefined ? null : { ...verify, problems: summaryOf('verify', verify)?.problems ?? 0 },
    drills: jobs.of('drill').map((drill) => {
      const { last, before } = drillScores(mirror, drill.source);
      return { ...drill, score: last, scoreBefore: before };
    }),
    // What a check found is reported separately; a check that could not be made is not.
    failedJobs: (['drift', 'verify', 'forget', 'drill', 'backup'] as const).flatMap((name) =>
      jobs.of(name).filter(hasFailed),
    ),
  };
}

function hasFailed(row: JobRow): boolean {
  const isFound = (summaryOf('verify', row)?.problems ?? 0) > 0;
  return (row.outcome === 'failed' || row.outcome === 'refused') && !isFound;
}

/** Channels of which the newest settled notice was given up, or that owe one for long. */
function failingChannels(
  pending: readonly Delivery[],
  recent: readonly Delivery[],
  now: number,
): HealthFacts['failingChannels'] {
  const channels = [...new Set([...pending, ...recent].map(({ channel }) => channel))].sort();
  return channels.flatMap((channel) => {
    const late = pending.filter(
      (each) =>
        each.channel === channel && each.attempts > 0 && now - Date.parse(each.about.at) > OWED_LONG_MS,
    );
    const settled = recent.filter(
      (each) => each.channel === channel && (each.deliveredAt ?? each.givenUpAt) !== null,
    );
    const arrived = settled.findIndex(({ deliveredAt }) => deliveredAt !== null);
    const givenUp = arrived === -1 ? settled : settled.slice(0, arrived);
    const all = [...late, ...givenUp];
    const first = all.map(({ about }) => about.at).sort()[0];
    if (first === undefined) return [];
    return [
      {
        channel,
        pending: all.length,
        since: first,
        error: all.find(({ error }) => error !== null)?.error ?? null,
      },
    ];
  });
}
