/** The metrics of a fleet, read from the registry at each scrape. */
import { Gauge, Registry as MetricRegistry } from 'prom-client';
import { SEVERITIES } from '../../catalog/definition.ts';
import { CELL_HEALTHS, type CellOverview, type WorkerOverview } from '../registry/overview.ts';

interface FleetFacts {
  readonly cells: readonly CellOverview[];
  readonly workers: readonly WorkerOverview[];
}

type Sample = readonly [value: number | null, ...labels: string[]];

interface FleetMetric {
  /** After `tidemark_fleet_`. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly samples: (facts: FleetFacts) => readonly Sample[];
}

/** Without `retired`: scrapes do not include retired cells. */
const STATUSES = CELL_HEALTHS.filter((health) => health !== 'retired');

/** @internal */
export const FLEET_METRICS: readonly FleetMetric[] = [
  {
    name: 'cells',
    help: 'Cells by what is most wrong with them',
    labels: ['status'],
    samples: ({ cells }) =>
      STATUSES.map((status) => [cells.filter(({ health }) => health === status).length, status]),
  },
  {
    name: 'due_cells',
    help: 'Cells that are due and that nobody works on',
    labels: [],
    samples: ({ cells }) => [[cells.filter(isWaiting).length]],
  },
  {
    name: 'oldest_due_seconds',
    help: 'For how long the cell that waits longest is due; 0 if none waits',
    labels: [],
    samples: ({ cells }) => [
      [Math.max(0, ...cells.filter(isWaiting).map(({ overdueMs }) => (overdueMs ?? 0) / 1000))],
    ],
  },
  {
    name: 'behind_in_storage',
    help: 'Cells whose newest mirror is not in storage',
    labels: [],
    samples: ({ cells }) => [[cells.filter(({ isStored }) => !isStored).length]],
  },
  {
    name: 'cells_without_baseline',
    help: 'Cells with a complete run and no baseline: no drift is reported of them',
    labels: [],
    samples: ({ cells }) => [
      [cells.filter(({ baseline, completeAt }) => baseline === null && completeAt !== null).length],
    ],
  },
  {
    name: 'cell_last_complete_age_seconds',
    help: 'How long ago a complete run of a cell was published; missing before the first',
    labels: ['cell'],
    samples: ({ cells }) =>
      cells.map(({ name, completeAgeMs }) => [completeAgeMs === null ? null : completeAgeMs / 1000, name]),
  },
  {
    name: 'cell_failures',
    help: 'Jobs of a cell that failed one after another',
    labels: ['cell'],
    samples: ({ cells }) => cells.map(({ name, failures }) => [failures, name]),
  },
  {
    name: 'cell_open_findings',
    help: 'Open findings of drift of a cell, 10,000 at most; missing where it was not compared with a baseline',
    labels: ['cell', 'severity'],
    samples: ({ cells }) =>
      cells.flatMap(({ name, findingsBySeverity: amounts }) =>
        amounts === null ? [] : SEVERITIES.map((severity): Sample => [amounts[severity], name, severity]),
      ),
  },
  {
    name: 'cell_records',
    help: 'Records of a cell',
    labels: ['cell'],
    samples: ({ cells }) => cells.map(({ name, records }) => [records, name]),
  },
  {
    name: 'workers',
    help: 'Workers that were heard of in the last two minutes',
    labels: [],
    samples: ({ workers }) => [[workers.filter(({ isAlive }) => isAlive).length]],
  },
  {
    name: 'worker_jobs',
    help: 'Rate groups that a worker has',
    labels: ['worker'],
    samples: ({ workers }) => workers.map(({ name, groups }) => [groups, name]),
  },
];

function isWaiting({ state, holder, overdueMs }: CellOverview): boolean {
  const isWorkable = state === 'active' || state === 'quarantined';
  return isWorkable && holder === null && (overdueMs ?? -1) >= 0;
}

/** The text of a scrape. */
export async function fleetMetrics(
  facts: FleetFacts,
): Promise<{ readonly text: string; readonly type: string }> {
  const registry = new MetricRegistry();
  for (const { name, help, labels, samples } of FLEET_METRICS) {
    const settings = { name: `tidemark_fleet_${name}`, help, labelNames: [...labels], registers: [registry] };
    const gauge = new Gauge(settings);
    for (const [value, ...values] of samples(facts)) {
      if (value === null) continue;
      gauge.set(Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ''])), value);
    }
  }
  return { text: await registry.metrics(), type: registry.contentType };
}
