/** Whether the syncs of the schedule fit into `rate.perHour`, which all sources with the same key share. */
import { existsSync } from 'node:fs';
import type { Schedule, SourceConfig } from '../config/config.ts';
import { type LoadedConfig, mirrorConfigs } from '../config/mirrors.ts';
import { keyFingerprint } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { count, plural } from '../core/wording.ts';
import { parseCron } from '../daemon/schedule/cron.ts';
import { estimateFromMirror } from '../doctor/estimate.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirrorAsItIs } from '../mirror/open.ts';
import { wantedKinds } from '../sync/run-extent.ts';
import type { CommandContext } from './context.ts';

/** About how many requests one sync of a source sends. */
export interface SyncCost {
  readonly source: SourceConfig;
  readonly requests: number;
}

/** What the mirrors tell of those configured sources that are wanted, also of sources that `--source` leaves out. */
export function syncCosts(
  context: CommandContext,
  loaded: LoadedConfig,
  isWanted: (source: SourceConfig) => boolean,
): SyncCost[] {
  return mirrorConfigs({ ...loaded, sources: loaded.configured }).flatMap(({ mirror: path, sources }) => {
    const wanted = sources.filter(isWanted);
    if (wanted.length === 0 || !existsSync(path)) return [];
    let mirror: Mirror | null = null;
    try {
      mirror = openMirrorAsItIs(path, { command: 'estimate', clock: systemClock, pid: context.pid });
      return wanted.flatMap((source) => {
        const run = mirror?.runs.latest(source.name);
        if (mirror === null || run === undefined) return [];
        const kinds = wantedKinds(source, null);
        const of = {
          mirror,
          source,
          run,
          kinds,
          isWhole: false,
          parents: 'budget',
          now: systemClock.now(),
        } as const;
        const { collections } = estimateFromMirror(of);
        return [{ source, requests: collections.reduce((sum, { requests }) => sum + requests, 0) }];
      });
    } catch (error) {
      // For a warning only: what is wrong with a mirror is for `doctor` to say.
      if (error instanceof TidemarkError) return [];
      throw error;
    } finally {
      mirror?.close();
    }
  });
}

/**
 * What the busiest hour of the schedule needs of the key of a source.
 * @param costs of all sources that are synced by the schedule, also those with other keys
 * @returns null for a source that the schedule does not sync
 */
export function neededPerHour(
  source: SourceConfig,
  costs: readonly SyncCost[],
  schedule: Schedule | null,
): { readonly requests: number; readonly warning: string | null } | null {
  if (schedule?.sources.includes(source.name) !== true) return null;
  const key = keyFingerprint(source);
  const sharing = costs.filter((each) => keyFingerprint(each.source) === key);
  const each = sharing.reduce((sum, { requests }) => sum + requests, 0);
  const times = syncsInBusiestHour(schedule);
  const requests = each * times;
  const { perHour } = source.rate;
  if (perHour === 0 || requests <= perHour) return { requests, warning: null };
  const isShared = sharing.length > 1;
  const names = sharing.map((cost) => `${cost.source.name} ${count(cost.requests)}`);
  const whose = isShared ? `${names.join(', ')}, with one key` : source.name;
  const isOneTooMany = each > perHour;
  const changes = [
    ...(times > 1 && !isOneTooMany ? ['sync less often'] : []),
    'raise rate.perHour',
    isShared ? 'exclude kinds, or give each source a key of its own' : 'or exclude kinds',
  ].join(', ');
  const needs = `about ${plural(each, 'request')} (${whose})`;
  const allowed = `rate.perHour allows ${count(perHour)}`;
  return {
    requests,
    warning: isOneTooMany
      ? `schedules.sync: one sync needs ${needs}, and ${allowed}: it is partial, and the next ones read first what it missed; ${changes}`
      : `schedules.sync: ${plural(times, 'sync', 'syncs')} in an hour at ${needs} need ${count(requests)}, ${allowed}; ${changes}`,
  };
}

const HOUR_MS = 3_600_000;
/** Weeks of a usual schedule. */
const MOST_TICKS = 1000;

function syncsInBusiestHour({ cron: expression, zone }: Schedule): number {
  const cron = parseCron(expression, zone);
  const ticks: number[] = [];
  let most = 0;
  for (let n = 0, at = systemClock.now(); n < MOST_TICKS; n += 1) {
    at = cron.next(at);
    ticks.push(at);
    while ((ticks[0] ?? at) <= at - HOUR_MS) ticks.shift();
    most = Math.max(most, ticks.length);
  }
  return most;
}
