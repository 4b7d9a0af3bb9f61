/** The one door to prom-client: the rows of `metric-rows.ts` in Prometheus' text form, read when they are asked for. */
import { statSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Registry } from 'prom-client';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { DaemonView } from '../view.ts';
import { readHealthSnapshot } from './health-snapshot.ts';
import { type MetricFacts, type ProcessFigures, METRICS, type RunTotals } from './metric-rows.ts';

export interface Metrics {
  readonly contentType: string;
  /** All metrics as of now (milliseconds since the epoch). */
  scrape(now: number): Promise<string>;
  /** Stops watching the event loop. */
  close(): void;
}

/** How often the event loop is measured: each measurement wakes an idle process. */
const RESOLUTION_MS = 1000;

/** A separate registry, without metrics of other parts of the process. */
export function createMetrics(view: DaemonView): Metrics {
  const registry = new Registry();
  const rows = METRICS.map((row) => {
    const { name, help, labels } = row;
    const settings = { name, help, labelNames: [...labels], registers: [registry] };
    return { row, metric: row.type === 'counter' ? new Counter(settings) : new Gauge(settings) };
  });
  const runs = new RunCounter(view.startedAt);
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  return {
    contentType: registry.contentType,
    scrape: async (now) => {
      const snapshot = readHealthSnapshot(view, now);
      const facts: MetricFacts = {
        view,
        snapshot,
        totals: snapshot.mirror === null ? runs.totals() : runs.read(snapshot.mirror),
        files: fileSizes(snapshot.mirror?.path ?? view.config().mirror),
        process: processFigures(delay),
      };
      delay.reset();
      for (const { row, metric } of rows) {
        metric.reset();
        // Without labels it would be zero, where nothing is known.
        if (row.labels.length === 0) metric.remove();
        for (const { labels, value } of row.read(facts)) metric.inc({ ...labels }, value);
      }
      return registry.metrics();
    },
    close: () => void delay.disable(),
  };
}

function fileSizes(path: string): MetricFacts['files'] {
  const size = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  return { mirror: size(path), wal: size(`${path}-wal`) };
}

function processFigures(delay: ReturnType<typeof monitorEventLoopDelay>): ProcessFigures {
  // Each sample is the time between two timer events: the excess over the interval is lag. Nanoseconds; NaN before the first.
  const lag = (nanoseconds: number): number =>
    Number.isFinite(nanoseconds) ? Math.max(nanoseconds / 1e9 - RESOLUTION_MS / 1000, 0) : 0;
  const { user, system } = process.cpuUsage();
  return {
    lag: { mean: lag(delay.mean), p99: lag(delay.percentile(99)), max: lag(delay.max) },
    residentBytes: process.memoryUsage.rss(),
    cpuSeconds: (user + system) / 1e6,
  };
}

// Counts runs as they end: the mirror forgets old ones, a counter must not.

/** Runs between two scrapes that are counted; earlier ones are lost to the counters. */
const RUNS_READ = 1_000;
const CHANGES = ['added', 'changed', 'removed'] as const;

class RunCounter {
  /** ISO 8601: runs that ended before are none of this daemon's life. */
  readonly #since: string;
  #countedUpTo = 0;
  readonly #runs = new Map<string, { source: string; outcome: string; count: number }>();
  readonly #changes = new Map<string, { source: string; change: string; count: number }>();

  constructor(since: string) {
    this.#since = since;
  }

  /** Takes in what ended since the last call. One run is under way at a time, so they end in the order of their numbers. */
  read(mirror: Mirror): RunTotals {
    const newest = mirror.runs.list({ limit: 1 })[0]?.run ?? 0;
    // The mirror was replaced: the numbers of its runs start again.
    if (newest < this.#countedUpTo) this.#countedUpTo = 0;
    const limit = this.#countedUpTo === 0 ? RUNS_READ : Math.min(newest - this.#countedUpTo, RUNS_READ);
    const unseen = limit === 0 ? [] : mirror.runs.list({ limit }).reverse();
    for (const run of unseen) {
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
