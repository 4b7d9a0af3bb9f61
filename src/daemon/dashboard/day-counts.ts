/**
 * Changes of configuration by day. Recordings come by the thousand every day and would bury all else, so that the totals
 * of runs do not do: each run is counted once, in slices between which others have their turn, and its counts are kept.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isoTime } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type ChangeCounts, NO_CHANGES, readChangeCounts } from '../http/change-counts.ts';
import { CONFIGURED_KINDS } from '../http/feeds.ts';
import { ABSORBED_FORGOTTEN_RUNS } from '../http/newly-read.ts';
import { selectRows, sqlText } from '../mirror-queries.ts';

export interface DayOfChanges extends ChangeCounts {
  /** `YYYY-MM-DD`. */
  readonly day: string;
}

interface RunOfDay {
  readonly run: number;
  readonly day: string;
  readonly seal: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const SLICE = 50;
/** Half a year of half-hourly runs. */
const KEPT = 10_000;

export class DayCounts {
  /** By the seal of a run: another mirror, or a history that was forgotten in part, has others. */
  readonly #known = new Map<string, ChangeCounts>();

  /** The latest days up to today, also those without changes; without the first run of a source, in which all is new. */
  async read(mirror: Mirror, days: number, now: number): Promise<DayOfChanges[]> {
    const first = isoTime(now - (days - 1) * DAY_MS).slice(0, 10);
    const runs = changedSince(mirror, first);
    const unknown = runs.filter(({ seal }) => !this.#known.has(seal));
    for (let start = 0; start < unknown.length; start += SLICE) {
      if (start > 0) await nextTurn();
      this.#learn(mirror, unknown.slice(start, start + SLICE));
    }
    const byDay = new Map<string, ChangeCounts>();
    for (const { day, seal } of runs) byDay.set(day, sum(byDay.get(day), this.#known.get(seal)));
    for (const seal of this.#known.keys()) {
      if (this.#known.size <= KEPT) break;
      this.#known.delete(seal);
    }
    return Array.from({ length: days }, (_unused, index) => {
      const day = isoTime(now - (days - 1 - index) * DAY_MS).slice(0, 10);
      return { day, ...sum(byDay.get(day), undefined) };
    });
  }

  #learn(mirror: Mirror, runs: readonly RunOfDay[]): void {
    const numbers = runs.map(({ run }) => run);
    const byRun = readChangeCounts(mirror, numbers, CONFIGURED_KINDS);
    for (const { run, seal } of runs) this.#known.set(seal, byRun.get(run) ?? NO_CHANGES);
  }
}

function changedSince(mirror: Mirror, first: string): RunOfDay[] {
  return selectRows<{ run: number; day: string; seal: string }>(
    mirror,
    `SELECT r.run AS run, substr(r.finished_at, 1, 10) AS day, hex(r.root) AS seal
     FROM runs r WHERE r.finished_at >= ${sqlText(first)} AND r.outcome IN ('complete', 'partial') AND r.root IS NOT NULL
       AND (r.added + r.changed + r.removed > 0 OR r.run ${ABSORBED_FORGOTTEN_RUNS})
       AND r.run NOT IN (SELECT min(f.run) FROM runs f WHERE f.outcome IN ('complete', 'partial') AND f.root IS NOT NULL GROUP BY f.source)`,
  );
}

function sum(one: ChangeCounts | undefined, other: ChangeCounts | undefined): ChangeCounts {
  const of = (name: keyof ChangeCounts): number => (one?.[name] ?? 0) + (other?.[name] ?? 0);
  return { added: of('added'), changed: of('changed'), removed: of('removed') };
}
