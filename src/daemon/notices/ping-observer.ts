/** Tells the dead man's switch of syncs of all kinds: what a narrowed one did says nothing of the whole. */
import type { Mirror } from '../../mirror/mirror.ts';
import type { JobObserver } from '../jobs/observer.ts';
import type { Pinger } from './pings.ts';

/** @param sources names of the configured ones */
export function createPingObserver(pinger: Pinger, sources: () => readonly string[]): JobObserver {
  return {
    name: 'pings',
    began: async ({ row: { name, source }, kinds }, { signal }) => {
      if (name !== 'sync' || source === null || kinds !== null) return;
      pinger.started(source);
      await pinger.settled(signal);
    },
    ended: async ({ row, kinds, report }, { keeper, signal }) => {
      if (row.name !== 'sync' || row.source === null || kinds !== null) return;
      const { source, outcome, error } = row;
      // The daemon was stopped: no failure of the service. Where nobody starts it again, no success comes.
      if (outcome === 'interrupted') return;
      if (outcome === 'done' && report?.outcome === 'complete') {
        const mirror = keeper.reader();
        pinger.succeeded(
          source,
          sources().filter((other) => other !== source && isKnownNotWhole(mirror, other)),
        );
      } else {
        pinger.failed(source, `the sync ended as ${outcome}${error === null ? '' : `: ${error}`}`);
      }
      await pinger.settled(signal);
    },
  };
}

/** Runs and jobs looked through for one that was not cut short. */
const LATEST_READ = 10;

/** Kept by the mirror, so that a restart does not forget it. False for a source of which nothing is known yet. */
function isKnownNotWhole(mirror: Mirror, source: string): boolean {
  const run = mirror
    .runs({ source, isOfAllKinds: true, limit: LATEST_READ })
    .find(({ outcome, errorCode }) => outcome !== 'running' && errorCode !== 'interrupted');
  const [job] = mirror
    .daemonState()
    .jobs({ name: 'sync', source, limit: LATEST_READ })
    .filter(({ outcome }) => outcome !== 'running' && outcome !== 'interrupted');
  // It failed before a run came about.
  const isJobNewer =
    job?.run === null && (run === undefined || job.startedAt > (run.finishedAt ?? run.startedAt));
  return isJobNewer || (run !== undefined && run.outcome !== 'complete');
}
