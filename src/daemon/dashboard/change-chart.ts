/** Changes of configuration by day as columns. */
import { count } from '../../core/wording.ts';
import { columnChart } from './column-chart.ts';
import type { DayOfChanges } from './day-counts.ts';
import type { Html } from './html.ts';

const PARTS = ['added', 'changed', 'removed'] as const;
const STEPS = [
  1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 800, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
  100_000, 200_000, 500_000, 1_000_000,
];

export function changeChart(days: readonly DayOfChanges[]): Html {
  const total = days.reduce((sum, { added, changed, removed }) => sum + added + changed + removed, 0);
  const columns = days.map(({ day, added, changed, removed }) => ({
    label: day.slice(5),
    title: `${day}: ${count(added)} added, ${count(changed)} changed, ${count(removed)} removed`,
    parts: PARTS.map((name) => ({ name, value: { added, changed, removed }[name] })),
    sign: '',
  }));
  return columnChart(columns, {
    label: `${count(total)} changes of configuration in ${days.length} days, as each run counted them`,
    show: (value) => count(value),
    steps: STEPS,
    legend: PARTS.map((name) => ({ name, text: name })),
    narrow: 14,
  });
}
