/** What the sources' clients counted since the daemon started. Clients come and go with each sync; the sums stay. */
import type { ReadClient } from '../../api/read-client.ts';
import type { WindowUse } from '../../api/request-stats.ts';
import type { SourceRequestStats } from '../view.ts';

interface Sums {
  requests: number;
  retries: number;
  throttled: number;
  /** The newest client. Its windows keep rolling after it was closed. */
  client: Pick<ReadClient, 'stats'> | null;
}

export class StatsBySource {
  readonly #sums = new Map<string, Sums>();

  /** From now on this client works for that source; the one before has ended. */
  begin(source: string, client: Pick<ReadClient, 'stats'>): void {
    const sums = this.#sums.get(source) ?? { requests: 0, retries: 0, throttled: 0, client: null };
    if (sums.client !== null) {
      const { requests, retries, throttled } = sums.client.stats();
      sums.requests += requests;
      sums.retries += retries;
      sums.throttled += throttled;
    }
    sums.client = client;
    this.#sums.set(source, sums);
  }

  all(): SourceRequestStats[] {
    return [...this.#sums].map(([source, sums]) => {
      const now = sums.client?.stats();
      return {
        source,
        requests: sums.requests + (now?.requests ?? 0),
        retries: sums.retries + (now?.retries ?? 0),
        throttled: sums.throttled + (now?.throttled ?? 0),
        leftThisMinute: now === undefined ? null : left(now.perMinute),
        leftThisHour: now === undefined ? null : left(now.perHour),
      };
    });
  }
}

function left({ used, limit }: WindowUse): number | null {
  return limit === 0 ? null : Math.max(0, limit - used);
}
