/** Tells the dead man's switch of syncs of all kinds: what a narrowed one did says nothing of the whole. */
import type { JobObserver } from '../jobs/observer.ts';
import type { Pinger } from './pings.ts';

export function createPingObserver(pinger: Pinger): JobObserver {
  return {
    name: 'pings',
    began: async ({ row: { name, source }, kinds }) => {
      if (name !== 'sync' || source === null || kinds !== null) return;
      pinger.started(source);
      await pinger.settled();
    },
    ended: async ({ row, kinds, report }) => {
      if (row.name !== 'sync' || row.source === null || kinds !== null) return;
      const { outcome, error } = row;
      const isComplete = outcome === 'done' && report?.outcome === 'complete';
      pinger.ended(
        row.source,
        isComplete,
        `the sync ended as ${outcome}${error === null ? '' : `: ${error}`}`,
      );
      await pinger.settled();
    },
  };
}
