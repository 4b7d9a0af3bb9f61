/** The latest runs as columns: how long each took, and how it ended. */
import { count, duration } from '../../core/wording.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { tookMs } from '../http/wording.ts';
import { columnChart } from './column-chart.ts';
import { type Html, NOTHING } from './html.ts';

const OUTCOMES = ['complete', 'partial', 'failed'] as const;
const SIGN: Readonly<Record<string, string>> = { partial: '!', failed: '×' };
const SECONDS = 1000;
const MINUTES = 60 * SECONDS;
/** Where a scale of durations may end. */
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 36_000, 86_400].map(
  (each) => each * SECONDS,
);

/** `runs`: newest first. */
export function runChart(runs: readonly RunRow[], hasOthers: boolean): Html {
  const ended = runs.filter(({ finishedAt }) => finishedAt !== null).reverse();
  if (ended.length === 0) return NOTHING;
  const columns = ended.map((run) => {
    const ms = tookMs(run) ?? 0;
    const what = hasOthers ? ` of ${run.source}` : '';
    const changes = `${count(run.added)} added, ${count(run.changed)} changed, ${count(run.removed)} removed`;
    return {
      label: labelOf(run.startedAt),
      title: `run ${run.run}${what}, ${run.startedAt.slice(0, 16).replace('T', ' ')} UTC: ${run.outcome} in ${duration(ms)}; ${changes}`,
      parts: [{ name: partOf(run.outcome), value: ms }],
      sign: SIGN[run.outcome] ?? '',
    };
  });
  const legend = OUTCOMES.filter((outcome) => ended.some((run) => run.outcome === outcome)).map(
    (outcome) => ({
      name: outcome,
      text: `${outcome}${SIGN[outcome] === undefined ? '' : ` ${SIGN[outcome]}`}`,
    }),
  );
  return columnChart(columns, {
    label: `Duration and outcome of the latest ${ended.length} runs; the table below has them in words`,
    show: (ms) => (ms === 0 ? '0' : ms < MINUTES ? `${ms / SECONDS} s` : duration(ms)),
    steps: STEPS,
    legend,
    narrow: 20,
  });
}

function partOf(outcome: string): string {
  return OUTCOMES.find((each) => each === outcome) ?? 'running';
}

function labelOf(at: string): string {
  return `${at.slice(5, 10)} ${at.slice(11, 16)}`;
}
