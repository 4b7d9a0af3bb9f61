/**
 * Changes of configuration by day. Recordings come by the thousand every day and would bury all else, so that the totals
 * of runs do not do: each run is counted once, in slices between which others have their turn, and its counts are kept.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isoTime } from '../../core/clock.ts';
import type { ChangeCounts, ChangedRun } from '../../mirror/change-counts.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { NO_CHANGES, readChangeCounts } from '../http/change-counts.ts';
import { CONFIGURED_KINDS } from '../http/feeds.ts';

export interface DayOfChanges extends ChangeCounts {
  /** `YYYY-MM-DD`. */
  readonly day: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const SLICE = 50;
/** Half a year of half-hourly runs. */
const KEPT = 10_000;

export class DayCounts {
  /** By the root of a run: another mirror, or a history that was forgotten in part, has others. */
  readonly #known = new Map<string, ChangeCounts>();

  /** The latest days up to today, also those without changes; without the first run of a source, in which all is new. */
  async read(mirror: Mirror, days: number, now: number): Promise<DayOfChanges[]> {
    const first = isoTime(now - (days - 1) * DAY_MS).slice(0, 10);
    const runs = mirror.runs.changedSince(first);
    const unknown = runs.filter(({ root }) => !this.#known.has(root));
    for (let start = 0; start < unknown.length; start += SLICE) {
      if (start > 0) await nextTurn();
      this.#learn(mirror, unknown.slice(start, start + SLICE));
    }
    const byDay = new Map<string, ChangeCounts>();
    for (const { finishedAt, root } of runs) {
      const day = finishedAt.slice(0, 10);
      byDay.set(day, sum(byDay.get(day), this.#known.get(root)));
    }
    for (const root of this.#known.keys()) {
      if (this.#known.size <= KEPT) break;
      this.#known.delete(root);
    }
    return Array.from({ length: days }, (_unused, index) => {
      const day = isoTime(now - (days - 1 - index) * DAY_MS).slice(0, 10);
      return { day, ...sum(byDay.get(day), undefined) };
    });
  }

  #learn(mirror: Mirror, runs: readonly ChangedRun[]): void {
    const numbers = runs.map(({ run }) => run);
    const byRun = readChangeCounts(mirror, numbers, CONFIGURED_KINDS);
    for (const { run, root } of runs) this.#known.set(root, byRun.get(run) ?? NO_CHANGES);
  }
}

function sum(one: ChangeCounts | undefined, other: ChangeCounts | undefined): ChangeCounts {
  const of = (name: keyof ChangeCounts): number => (one?.[name] ?? 0) + (other?.[name] ?? 0);
  return { added: of('added'), changed: of('changed'), removed: of('removed') };
}
