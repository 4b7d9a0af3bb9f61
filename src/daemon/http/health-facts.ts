/** The facts that health is judged by, from the living daemon and the mirror. */
import type { Config } from '../../config/config.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { Delivery, JobRow } from '../../mirror/daemon-state.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { summaryOf } from '../jobs/summaries.ts';
import type { DaemonView } from '../view.ts';
import type { HealthFacts, SourceFacts } from './health-input.ts';
import type { Health } from './health.ts';
import { assessHealth } from './health.ts';
import type { LastJobs } from './last-jobs.ts';
import { drillScores, readLastJobs } from './last-jobs.ts';
import type { SourceStanding } from './standing.ts';
import { readStandings } from './standing.ts';

/** All that a page says of the whole, of one moment. */
export interface Situation {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly health: Health;
  /** Null where the mirror cannot be read: then nothing below is known. */
  readonly mirror: Mirror | null;
  /** The configured sources first. */
  readonly standings: readonly SourceStanding[];
  readonly lastJobs: LastJobs;
  /** Notices that wait for their delivery. */
  readonly owed: readonly Delivery[];
}

const NO_JOBS: LastJobs = { of: () => [], one: () => null };
/** Deliveries looked through for channels that gave up. */
const DELIVERIES_READ = 200;
/** Longer than most syncs of other processes take. */
const LOCKED_LONG_MS = 15 * 60_000;
/** A notice that is owed for longer did not arrive at the first attempts. */
const OWED_LONG_MS = 15 * 60_000;

/** Never throws for a mirror that cannot be read: that is part of the situation. */
export function readSituation(view: DaemonView, now: number): Situation {
  const config = view.config();
  const configTrouble = view.configTrouble()?.message ?? null;
  const base = { now, startedAt: view.startedAt, configTrouble, troubles: lastingTroubles(view, now) };
  try {
    const mirror = view.mirror();
    return mirror.atOnce((): Situation => {
      const standings = readStandings(
        mirror,
        config.sources.map(({ name }) => name),
      );
      const lastJobs = readLastJobs(mirror);
      const state = mirror.daemonState();
      const owed = state.owedDeliveries();
      const facts: HealthFacts = {
        ...base,
        mirrorTrouble: null,
        sources: standings.flatMap((standing) =>
          standing.isConfigured ? [sourceFacts(view, config, standing, lastJobs)] : [],
        ),
        ...jobFacts(mirror, lastJobs),
        silentChannels: silentChannels(owed, state.deliveries(DELIVERIES_READ), now),
      };
      return { now, health: assessHealth(facts), mirror, standings, lastJobs, owed };
    });
  } catch (error) {
    const { code, message, hint } = asTidemarkError(error);
    const isSyncing = [...view.running(), ...view.queued()].some(({ name }) => name === 'sync');
    const mirrorTrouble = { message, hint: hint ?? null, isComing: code === 'mirror_missing' && isSyncing };
    const nothing = { sources: [], verify: null, drills: [], failedJobs: [], silentChannels: [] };
    const health = assessHealth({ ...base, ...nothing, mirrorTrouble });
    return { now, health, mirror: null, standings: [], lastJobs: NO_JOBS, owed: [] };
  }
}

/** Those that no other reason tells; that another process writes the mirror for a while is nothing yet. */
function lastingTroubles(view: DaemonView, now: number): HealthFacts['troubles'] {
  return view.troubles().flatMap(({ about, since, error }) => {
    if (about === 'config' || about === 'mirror' || about.startsWith('job:')) return [];
    if (about === 'lock' && now - Date.parse(since) < LOCKED_LONG_MS) return [];
    return [{ message: error.message, hint: error.hint ?? null, since }];
  });
}

function sourceFacts(
  view: DaemonView,
  config: Config,
  standing: SourceStanding,
  jobs: LastJobs,
): SourceFacts {
  const { source, lastComplete, lastEnded, held, troubledCount } = standing;
  const schedule = view.schedules().find((each) => each.schedule === 'sync' && each.sources.includes(source));
  return {
    source,
    schedule:
      schedule === undefined
        ? null
        : { intervalMs: schedule.intervalMs, jitterMs: config.schedules.sync?.jitterMs ?? 0 },
    isSyncing: view.running().some((job) => job.name === 'sync' && job.source === source),
    lastComplete,
    lastEnded,
    lastSync: jobs.one('sync', source),
    held: {
      records: held.reduce((sum, { records }) => sum + records, 0),
      ceiling: held.reduce((sum, { records, below }) => sum + records + below, 0),
    },
    troubled: troubledCount,
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
    // What a check found is told by itself; a check that could not be made is not.
    failedJobs: (['drift', 'verify', 'forget', 'drill', 'copy'] as const).flatMap((name) =>
      jobs.of(name).filter(hasFailed),
    ),
  };
}

function hasFailed(row: JobRow): boolean {
  const isFound = (summaryOf('verify', row)?.problems ?? 0) > 0;
  return (row.outcome === 'failed' || row.outcome === 'refused') && !isFound;
}

/** Channels of which the newest settled notice was given up, or that owe one for long. */
function silentChannels(
  owed: readonly Delivery[],
  recent: readonly Delivery[],
  now: number,
): HealthFacts['silentChannels'] {
  const channels = [...new Set([...owed, ...recent].map(({ channel }) => channel))].sort();
  return channels.flatMap((channel) => {
    const late = owed.filter(
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
        owed: all.length,
        since: first,
        error: all.find(({ error }) => error !== null)?.error ?? null,
      },
    ];
  });
}
