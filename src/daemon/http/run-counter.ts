/** Counts runs as they end: retention drops old runs from the mirror, but a counter must not decrease. */
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { CHANGES } from './changes.ts';

export interface RunTotals {
  readonly runs: readonly { readonly source: string; readonly outcome: string; readonly count: number }[];
  readonly changes: readonly { readonly source: string; readonly change: string; readonly count: number }[];
}

/** Runs that are counted between two scrapes at most; of more, the earlier ones are not. */
const RUNS_READ = 1_000;

export class RunCounter {
  /** ISO 8601, when the daemon started: earlier runs do not count. */
  readonly #since: string;
  #countedUpTo = 0;
  readonly #runs = new Map<string, { source: string; outcome: string; count: number }>();
  readonly #changes = new Map<string, { source: string; change: string; count: number }>();

  constructor(since: string) {
    this.#since = since;
  }

  /** Counts the runs that ended since the last call. Runs do not overlap, so they end in the order of their numbers. */
  read(mirror: Mirror): RunTotals {
    const newest = mirror.runs.list({ limit: 1 })[0]?.run ?? 0;
    // With lower numbers, the mirror was replaced.
    if (newest < this.#countedUpTo) this.#countedUpTo = 0;
    const limit = this.#countedUpTo === 0 ? RUNS_READ : Math.min(newest - this.#countedUpTo, RUNS_READ);
    const latest = limit === 0 ? [] : mirror.runs.list({ limit }).reverse();
    for (const run of latest) {
      if (run.outcome === ('running' as string)) continue;
      if (run.run > this.#countedUpTo) this.#count(run);
      this.#countedUpTo = Math.max(this.#countedUpTo, run.run);
    }
    return this.totals();
  }

  /** As of the last call of `read`. */
  totals(): RunTotals {
    return { runs: [...this.#runs.values()], changes: [...this.#changes.values()] };
  }

  #count(run: RunRow): void {
    if ((run.finishedAt ?? run.startedAt) < this.#since) return;
    const { source, outcome } = run;
    const key = `${outcome} ${source}`;
    this.#runs.set(key, { source, outcome, count: (this.#runs.get(key)?.count ?? 0) + 1 });
    for (const change of CHANGES) {
      const name = `${change} ${source}`;
      this.#changes.set(name, { source, change, count: (this.#changes.get(name)?.count ?? 0) + run[change] });
    }
  }
}
