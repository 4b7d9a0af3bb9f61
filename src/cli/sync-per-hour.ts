/** Whether the scheduled syncs fit into `rate.perHour`, which all sources with the same key share. */
import { existsSync } from 'node:fs';
import type { Schedule, SourceConfig } from '../config/config.ts';
import { type LoadedConfig, mirrorConfigs } from '../config/mirrors.ts';
import { keyFingerprint } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { firstError, TidemarkError } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { parseCron } from '../daemon/schedule/cron.ts';
import { estimateFromMirror } from '../doctor/estimate.ts';
import { openMirrorAsItIs } from '../mirror/open.ts';
import { wantedKinds } from '../sync/run-extent.ts';
import type { CommandContext } from './context.ts';

/** About how many requests one sync of a source needs. */
export interface SyncCost {
  readonly source: SourceConfig;
  readonly requests: number;
}

/** Estimates the syncs of the wanted sources from their mirrors, also for sources that `--source` leaves out. */
export function syncCosts(
  context: CommandContext,
  loaded: LoadedConfig,
  isWanted: (source: SourceConfig) => boolean,
): SyncCost[] {
  return mirrorConfigs({ ...loaded, sources: loaded.configured }).flatMap(({ mirror: path, sources }) => {
    const wanted = sources.filter(isWanted);
    if (wanted.length === 0 || !existsSync(path)) return [];
    try {
      using mirror = openMirrorAsItIs(path, { command: 'estimate', clock: systemClock, pid: context.pid });
      if (mirror === null) return [];
      return wanted.flatMap((source) => {
        const run = mirror.runs.latest(source.name);
        if (run === undefined) return [];
        const { collections } = estimateFromMirror({
          ...{ mirror, source, run, kinds: wantedKinds(source, null) },
          isWhole: false,
          parents: 'budget',
          now: systemClock.now(),
        });
        return [{ source, requests: collections.reduce((sum, { requests }) => sum + requests, 0) }];
      });
    } catch (error) {
      // The result is only for a warning: `doctor` reports what is wrong with a mirror.
      if (firstError(error) instanceof TidemarkError) return [];
      throw error;
    }
  });
}

/** The requests with the key of a source in the busiest hour of the schedule; null for a source that the schedule does not sync. */
export type HourNeed = { readonly requests: number; readonly warning: string | null } | null;

/**
 * A function that returns what the busiest hour needs for a source.
 * @param costs of all scheduled sources, also those with other keys
 * @param times how many syncs that hour has (`syncsInBusiestHour`)
 */
export function hourNeeds(
  costs: readonly SyncCost[],
  schedule: Schedule | null,
  times: number,
): (source: SourceConfig) => HourNeed {
  const scheduled = new Set(schedule?.sources);
  const byKey = Map.groupBy(costs, ({ source }) => keyFingerprint(source));
  return (source) => {
    if (!scheduled.has(source.name)) return null;
    const sharing = byKey.get(keyFingerprint(source)) ?? [];
    const each = sharing.reduce((sum, { requests }) => sum + requests, 0);
    const requests = each * times;
    const { perHour } = source.rate;
    const isWithin = perHour === 0 || requests <= perHour;
    return { requests, warning: isWithin ? null : hourWarning(source, sharing, each, times) };
  };
}

/** @param each the requests of one sync of all sources that share the key */
function hourWarning(
  { name, rate: { perHour } }: SourceConfig,
  sharing: readonly SyncCost[],
  each: number,
  times: number,
): string {
  const isShared = sharing.length > 1;
  const first = sharing.slice(0, NAMED).map((cost) => `${cost.source.name} ${formatInteger(cost.requests)}`);
  const more = sharing.length > NAMED ? ` and ${formatInteger(sharing.length - NAMED)} more` : '';
  const whose = isShared ? `${first.join(', ')}${more}, with one key` : name;
  const isOneTooMany = each > perHour;
  const changes = [
    ...(times > 1 && !isOneTooMany ? ['sync less often'] : []),
    isOneTooMany ? 'raise rate.perHour or retry.maxWaitSeconds' : 'raise rate.perHour',
    isShared ? 'exclude kinds, or give each source a key of its own' : 'or exclude kinds',
  ].join(', ');
  const needs = `about ${plural(each, 'request')} (${whose})`;
  const allowed = `rate.perHour allows ${formatInteger(perHour)}`;
  return isOneTooMany
    ? `schedules.sync: one sync needs ${needs}, and ${allowed}: it is partial, and lists below others, such as role_memberships, may never be read; ${changes}`
    : `schedules.sync: ${plural(times, 'sync', 'syncs')} in an hour at ${needs} need ${formatInteger(each * times)}, ${allowed}; ${changes}`;
}

/** A warning names at most this many sources. */
const NAMED = 10;
const HOUR_MS = 3_600_000;
/** From the first tick on: long enough for every day of a week. */
const SPAN_MS = 8 * 24 * HOUR_MS;
const MOST_TICKS = 1000;

/** How many syncs the busiest hour of a schedule has. Takes time: call it once for all sources. */
export function syncsInBusiestHour({ cron: expression, zone }: Schedule): number {
  const cron = parseCron(expression, zone);
  const ticks: number[] = [];
  let most = 0;
  let at = cron.next(systemClock.now());
  const until = at + SPAN_MS;
  for (let n = 0; at < until && n < MOST_TICKS; n += 1, at = cron.next(at)) {
    ticks.push(at);
    while ((ticks[0] ?? at) <= at - HOUR_MS) ticks.shift();
    most = Math.max(most, ticks.length);
  }
  return most;
}
