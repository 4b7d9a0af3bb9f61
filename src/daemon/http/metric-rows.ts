/** Every metric as a row: its name with the unit in it, what it says, and how it is read (docs/http.md, Metrics). */
import { type DriftSummary, summaryOf } from '../jobs/summaries.ts';
import type { DaemonView } from '../view.ts';
import type { HealthSnapshot } from './health-snapshot.ts';
import { HEALTH_STATES } from './health-input.ts';
import { drillScores } from '../last-jobs.ts';
import { tookMs } from './wording.ts';

/** What a scrape reads, of one moment. */
export interface MetricFacts {
  readonly view: DaemonView;
  readonly snapshot: HealthSnapshot;
  /** Runs that ended and changes that they published since the daemon started. */
  readonly totals: RunTotals;
  readonly files: { readonly mirror: number; readonly wal: number };
  readonly process: ProcessFigures;
}

export interface RunTotals {
  readonly runs: readonly { readonly source: string; readonly outcome: string; readonly count: number }[];
  readonly changes: readonly { readonly source: string; readonly change: string; readonly count: number }[];
}

export interface ProcessFigures {
  /** Since the last scrape, seconds. */
  readonly lag: { readonly mean: number; readonly p99: number; readonly max: number };
  readonly residentBytes: number;
  readonly cpuSeconds: number;
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface MetricRow {
  readonly name: string;
  readonly type: 'gauge' | 'counter';
  readonly help: string;
  /** Never `job` or `instance`: Prometheus gives these to whatever it scrapes, and renames ours. */
  readonly labels: readonly string[];
  readonly read: (facts: MetricFacts) => readonly Sample[];
}

export const METRICS: readonly MetricRow[] = [
  {
    name: 'tidemark_health_state',
    type: 'gauge',
    help: '1 for the state that holds, 0 for the others; with an empty source: of the daemon as a whole',
    labels: ['source', 'state'],
    read: ({ snapshot: { health } }) =>
      [{ source: '', state: health.state }, ...health.sources].flatMap(({ source, state }) =>
        HEALTH_STATES.map((each) => sample({ source, state: each }, each === state ? 1 : 0)),
      ),
  },
  {
    name: 'tidemark_start_time_seconds',
    type: 'gauge',
    help: 'When the daemon started, seconds since the epoch',
    labels: [],
    read: ({ view }) => [sample({}, seconds(view.startedAt))],
  },
  {
    name: 'tidemark_runs_total',
    type: 'counter',
    help: 'Sync runs that ended since the daemon started',
    labels: ['source', 'outcome'],
    read: ({ totals }) => totals.runs.map(({ source, outcome, count }) => sample({ source, outcome }, count)),
  },
  {
    name: 'tidemark_last_run_outcome',
    type: 'gauge',
    help: '1 for the outcome of the latest run that ended, 0 for the others',
    labels: ['source', 'outcome'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, lastEnded }) =>
        lastEnded === null
          ? []
          : ['complete', 'partial', 'failed'].map((outcome) =>
              sample({ source, outcome }, outcome === lastEnded.outcome ? 1 : 0),
            ),
      ),
  },
  {
    name: 'tidemark_last_run_timestamp_seconds',
    type: 'gauge',
    help: 'When the latest run ended, seconds since the epoch',
    labels: ['source'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, lastEnded }) =>
        lastEnded === null ? [] : at({ source }, lastEnded.finishedAt),
      ),
  },
  {
    name: 'tidemark_last_run_duration_seconds',
    type: 'gauge',
    help: 'How long the latest run that ended took',
    labels: ['source'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, lastEnded }) => {
        const ms = lastEnded === null ? null : tookMs(lastEnded);
        return ms === null ? [] : [sample({ source }, ms / 1000)];
      }),
  },
  {
    name: 'tidemark_last_success_timestamp_seconds',
    type: 'gauge',
    help: 'When the latest complete run ended, seconds since the epoch; missing before the first',
    labels: ['source'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, lastComplete }) =>
        lastComplete === null ? [] : at({ source }, lastComplete.finishedAt),
      ),
  },
  {
    name: 'tidemark_expected_interval_seconds',
    type: 'gauge',
    help: 'Usual time between two syncs by the schedule',
    labels: ['source'],
    read: ({ view }) =>
      view
        .schedules()
        .filter(({ schedule }) => schedule === 'sync')
        .flatMap(({ sources, intervalMs }) => sources.map((source) => sample({ source }, intervalMs / 1000))),
  },
  {
    name: 'tidemark_allowed_age_seconds',
    type: 'gauge',
    help: 'How old the last complete run may be before the source counts as failing',
    labels: ['source'],
    read: ({ snapshot }) =>
      snapshot.health.sources.flatMap(({ source, allowedMs }) =>
        allowedMs === null ? [] : [sample({ source }, allowedMs / 1000)],
      ),
  },
  {
    name: 'tidemark_sweep_duration_seconds',
    type: 'gauge',
    help: 'Time that the latest sync spent on the collections of a kind: of all of them, and of the longest',
    labels: ['source', 'kind', 'of'],
    read: ({ snapshot }) =>
      snapshot.lastJobs
        .of('sync')
        .flatMap((job) =>
          (summaryOf('sync', job)?.kinds ?? []).flatMap(({ kind, durationMs, longestMs }) => [
            sample({ source: job.source ?? '', kind, of: 'all' }, durationMs / 1000),
            sample({ source: job.source ?? '', kind, of: 'longest' }, longestMs / 1000),
          ]),
        ),
  },
  {
    name: 'tidemark_records',
    type: 'gauge',
    help: 'Records in the mirror',
    labels: ['source', 'kind'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, kinds }) =>
        kinds.map(({ kind, records }) => sample({ source, kind }, records)),
      ),
  },
  {
    name: 'tidemark_collections',
    type: 'gauge',
    help: 'Collections by whether the latest look proved them whole',
    labels: ['source', 'kind', 'is_whole'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, kinds }) =>
        kinds.flatMap(({ kind, collections, whole }) => [
          sample({ source, kind, is_whole: 'true' }, whole),
          sample({ source, kind, is_whole: 'false' }, collections - whole),
        ]),
      ),
  },
  {
    name: 'tidemark_held_removals',
    type: 'gauge',
    help: 'Removals that wait for a person or for the same finding again',
    labels: ['source'],
    read: ({ snapshot }) =>
      snapshot.sourceStatuses.map(({ source, held }) =>
        sample(
          { source },
          held.reduce((sum, { records }) => sum + records, 0),
        ),
      ),
  },
  {
    name: 'tidemark_changes_total',
    type: 'counter',
    help: 'Records that runs found added, changed or removed since the daemon started',
    labels: ['source', 'change'],
    read: ({ totals }) =>
      totals.changes.map(({ source, change, count }) => sample({ source, change }, count)),
  },
  {
    name: 'tidemark_drift_findings',
    type: 'gauge',
    help: 'Open findings of the latest drift job that came to its end',
    labels: ['source', 'severity'],
    read: ({ snapshot }) =>
      snapshot.lastJobs.finished('drift').flatMap((job) => {
        const summary: DriftSummary | null = summaryOf('drift', job);
        if (summary === null || !summary.hasBaseline) return [];
        return Object.entries(summary.severities).map(([severity, count]) =>
          sample({ source: job.source ?? '', severity }, count),
        );
      }),
  },
  {
    name: 'tidemark_job_timestamp_seconds',
    type: 'gauge',
    help: 'When the latest job of that name ended, seconds since the epoch',
    labels: ['name', 'source', 'outcome'],
    read: ({ snapshot }) =>
      (['sync', 'drift', 'verify', 'forget', 'drill', 'backup'] as const).flatMap((name) =>
        snapshot.lastJobs
          .of(name)
          .flatMap((job) => at({ name, source: job.source ?? '', outcome: job.outcome }, job.finishedAt)),
      ),
  },
  {
    name: 'tidemark_drill_score',
    type: 'gauge',
    help: 'Share of the records that the latest drill would bring back, 0 to 1',
    labels: ['source'],
    read: ({ snapshot: { mirror, lastJobs } }) =>
      mirror === null
        ? []
        : lastJobs.of('drill').flatMap(({ source }) => {
            const { last } = drillScores(mirror, source);
            return last === null ? [] : [sample({ source: source ?? '' }, last)];
          }),
  },
  {
    name: 'tidemark_verify_problems',
    type: 'gauge',
    help: 'Problems that the latest verification of the mirror found',
    labels: [],
    read: ({ snapshot }) =>
      snapshot.lastJobs.of('verify').flatMap((job) => {
        const summary = summaryOf('verify', job);
        return summary === null ? [] : [sample({}, summary.problems)];
      }),
  },
  {
    name: 'tidemark_requests_total',
    type: 'counter',
    help: 'Requests sent to the service since the daemon started, retries among them',
    labels: ['source'],
    read: ({ view }) => view.stats().map(({ source, requests }) => sample({ source }, requests)),
  },
  {
    name: 'tidemark_request_retries_total',
    type: 'counter',
    help: 'Requests that were sent again',
    labels: ['source'],
    read: ({ view }) => view.stats().map(({ source, retries }) => sample({ source }, retries)),
  },
  {
    name: 'tidemark_requests_throttled_total',
    type: 'counter',
    help: 'Answers 429',
    labels: ['source'],
    read: ({ view }) => view.stats().map(({ source, throttled }) => sample({ source }, throttled)),
  },
  {
    name: 'tidemark_rate_left_requests',
    type: 'gauge',
    help: 'Requests that the rate still allows; missing where there is no limit',
    labels: ['source', 'window'],
    read: ({ view }) =>
      view
        .stats()
        .flatMap(({ source, leftThisMinute, leftThisHour }) =>
          [['minute', leftThisMinute] as const, ['hour', leftThisHour] as const].flatMap(([window, left]) =>
            left === null ? [] : [sample({ source, window }, left)],
          ),
        ),
  },
  {
    name: 'tidemark_jobs_running',
    type: 'gauge',
    help: 'Jobs running now',
    labels: ['name', 'source'],
    read: ({ view }) => view.running().map(({ name, source }) => sample({ name, source: source ?? '' }, 1)),
  },
  {
    name: 'tidemark_jobs_queued',
    type: 'gauge',
    help: 'Jobs that wait for their turn',
    labels: [],
    read: ({ view }) => [sample({}, view.queued().length)],
  },
  {
    name: 'tidemark_schedule_due_timestamp_seconds',
    type: 'gauge',
    help: 'When the schedule starts next, seconds since the epoch',
    labels: ['schedule'],
    read: ({ view }) => view.schedules().flatMap(({ schedule, dueAt }) => at({ schedule }, dueAt)),
  },
  {
    name: 'tidemark_schedule_skipped_ticks_total',
    type: 'counter',
    help: 'Due times skipped because the same schedule was still running, since the mirror was created',
    labels: ['schedule'],
    read: ({ view }) =>
      view.schedules().map(({ schedule, skippedTicks }) => sample({ schedule }, skippedTicks)),
  },
  {
    name: 'tidemark_schedule_missed_ticks_total',
    type: 'counter',
    help: 'Ticks that fell while no daemon ran, since the mirror was made',
    labels: ['schedule'],
    read: ({ view }) =>
      view.schedules().map(({ schedule, missedTicks }) => sample({ schedule }, missedTicks)),
  },
  {
    name: 'tidemark_notices_pending',
    type: 'gauge',
    help: 'Notices that wait for their delivery',
    labels: ['channel'],
    read: ({ snapshot }) =>
      [...Map.groupBy(snapshot.pending, ({ channel }) => channel)].map(([channel, pending]) =>
        sample({ channel }, pending.length),
      ),
  },
  {
    name: 'tidemark_mirror_readable',
    type: 'gauge',
    help: '1 where the mirror can be read, else 0',
    labels: [],
    read: ({ snapshot }) => [sample({}, snapshot.mirror === null ? 0 : 1)],
  },
  {
    name: 'tidemark_mirror_bytes',
    type: 'gauge',
    help: 'Size of the mirror file',
    labels: [],
    read: ({ files }) => [sample({}, files.mirror)],
  },
  {
    name: 'tidemark_mirror_wal_bytes',
    type: 'gauge',
    help: 'Size of the write-ahead log beside it',
    labels: [],
    read: ({ files }) => [sample({}, files.wal)],
  },
  {
    name: 'tidemark_event_loop_lag_seconds',
    type: 'gauge',
    help: 'How late the event loop was since the last scrape',
    labels: ['of'],
    read: ({ process: { lag } }) => [
      sample({ of: 'mean' }, lag.mean),
      sample({ of: 'p99' }, lag.p99),
      sample({ of: 'max' }, lag.max),
    ],
  },
  {
    name: 'tidemark_process_resident_memory_bytes',
    type: 'gauge',
    help: 'Resident memory of the daemon',
    labels: [],
    read: ({ process: { residentBytes } }) => [sample({}, residentBytes)],
  },
  {
    name: 'tidemark_process_cpu_seconds_total',
    type: 'counter',
    help: 'Processor time of the daemon, user and system',
    labels: [],
    read: ({ process: { cpuSeconds } }) => [sample({}, cpuSeconds)],
  },
];

function sample(labels: Sample['labels'], value: number): Sample {
  return { labels, value };
}

/** A time as a sample; none where it is not known. */
function at(labels: Sample['labels'], time: string | null): Sample[] {
  return time === null ? [] : [sample(labels, seconds(time))];
}

function seconds(time: string): number {
  return Date.parse(time) / 1000;
}
