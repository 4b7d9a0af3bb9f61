/** Changes by day, as the runs counted them; the first run of a source, in which all is new, left out. */
import { isoTime } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { ask, sqlText } from '../http/question.ts';
import { count } from '../http/wording.ts';
import { columnChart } from './column-chart.ts';
import type { Html } from './html.ts';

export interface DayOfChanges {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const PARTS = ['added', 'changed', 'removed'] as const;
const STEPS = [
  1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 800, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
  100_000, 200_000, 500_000, 1_000_000,
];

/** The last so many days up to today, those without changes among them. Looks at runs, not at records. */
export function readDays(mirror: Mirror, days: number, now: number): DayOfChanges[] {
  const first = isoTime(now - (days - 1) * DAY_MS).slice(0, 10);
  const rows = ask<{ day: string; added: number; changed: number; removed: number }>(
    mirror,
    `SELECT substr(r.finished_at, 1, 10) AS day, sum(r.added) AS added, sum(r.changed) AS changed, sum(r.removed) AS removed
     FROM runs r WHERE r.finished_at >= ${sqlText(first)} AND r.outcome IN ('complete', 'partial') AND r.root IS NOT NULL
       AND r.run NOT IN (SELECT min(f.run) FROM runs f WHERE f.outcome IN ('complete', 'partial') AND f.root IS NOT NULL GROUP BY f.source)
     GROUP BY 1`,
  );
  const byDay = new Map(rows.map((row) => [row.day, row]));
  return Array.from({ length: days }, (_unused, index) => {
    const day = isoTime(now - (days - 1 - index) * DAY_MS).slice(0, 10);
    return byDay.get(day) ?? { day, added: 0, changed: 0, removed: 0 };
  });
}

export function changeChart(days: readonly DayOfChanges[]): Html {
  const total = days.reduce((sum, { added, changed, removed }) => sum + added + changed + removed, 0);
  const columns = days.map(({ day, added, changed, removed }) => ({
    label: day.slice(5),
    title: `${day}: ${count(added)} added, ${count(changed)} changed, ${count(removed)} removed`,
    parts: PARTS.map((name) => ({ name, value: { added, changed, removed }[name] })),
    sign: '',
  }));
  return columnChart(columns, {
    label: `${count(total)} changes in ${days.length} days`,
    show: (value) => count(value),
    steps: STEPS,
    legend: PARTS.map((name) => ({ name, text: name })),
    narrow: 14,
  });
}
