/** All metrics: name (with the unit), help, and how each is read at a scrape (docs/http.md, Metrics). */
import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Registry } from 'prom-client';
import { isLocalError } from '../../core/errors.ts';
import { programVersion } from '../../core/package-root.ts';
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { JOB_NAMES } from '../../mirror/daemon-store.ts';
import { jobKey } from '../jobs/job-log.ts';
import { summaryOf } from '../jobs/summaries.ts';
import type { DaemonCells } from '../cells.ts';
import type { DaemonView, ScheduleView, SourceRequestStats } from '../view.ts';
import type { SourceStatus } from '../../state/source-status.ts';
import { openBySource } from '../health/drift-counts.ts';
import { configuredOf } from '../health/status-answers.ts';
import { knownProblems } from '../health/verified.ts';
import { readBackups } from '../health/backup-facts.ts';
import { CHANGES } from './changes.ts';
import { RunCounter } from './run-counter.ts';
import type { DriftNow } from '../health/drift-now.ts';
import { allowedBackupAgeMs } from '../health/allowed-age.ts';
import { HEALTH_STATES } from '../health/reason.ts';
import { tookMs } from './wording.ts';

export interface Metrics {
  readonly contentType: string;
  /** All metrics as of now (milliseconds since the epoch). */
  scrape(now: number): Promise<string>;
  /** Stops watching the event loop. */
  close(): void;
}

/** How often the event loop is measured; not more often, as each measurement wakes an idle process. */
const RESOLUTION_MS = 1000;

/** How long the first scrape, and a later one, waits for the targets of backups. Prometheus gives up after 10 s. */
const FIRST_WAIT_MS = 5000;
const WAIT_MS = 1000;

/** Metrics in a registry of their own, without those of other parts of the process. */
export function createMetrics(cells: DaemonCells, drift: DriftNow): Metrics {
  const registry = new Registry();
  const rows = METRICS.map((row) => {
    const { name, help, labels } = row;
    const settings = { name, help, labelNames: [...labels], registers: [registry] };
    return { row, metric: row.type === 'counter' ? new Counter(settings) : new Gauge(settings) };
  });
  const runs = new RunCounter(cells.startedAt);
  let isFirst = true;
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  return {
    contentType: registry.contentType,
    scrape: async (now) => {
      const [only, ...others] = cells.cells();
      // The first scrape waits longer: without targets, pending alerts would begin again. Of many mirrors, none is opened.
      if (only !== undefined && others.length === 0 && !cells.isPerSource())
        await readBackups(only, isFirst ? FIRST_WAIT_MS : WAIT_MS);
      isFirst = false;
      await cells.refreshed();
      const facts = await readFacts(cells, { drift, runs, delay, now });
      delay.reset();
      for (const { row, metric } of rows) {
        metric.reset();
        // A metric without labels would be zero where its value is not known.
        if (row.labels.length === 0) metric.remove();
        for (const [value, ...values] of row.read(facts)) {
          if (value === null) continue;
          metric.inc(Object.fromEntries(row.labels.map((name, index) => [name, values[index] ?? ''])), value);
        }
      }
      return registry.metrics();
    },
    close: () => void delay.disable(),
  };
}

type MetricFacts = Awaited<ReturnType<typeof readFacts>>;
type Delay = ReturnType<typeof monitorEventLoopDelay>;

/** What a scrape reads, all as of one moment; lists are those of all mirrors together. */
async function readFacts(
  cells: DaemonCells,
  { drift, runs, delay, now }: { drift: DriftNow; runs: RunCounter; delay: Delay; now: number },
) {
  const views = cells.cells();
  const isPerSource = cells.isPerSource();
  const known = isPerSource ? cells.known() : null;
  const [only] = views;
  // Before the snapshot, which has the damage that this finds.
  const found = known === null && only !== undefined ? await drift.ofView(only, now) : null;
  const snapshot = cells.snapshot(now, drift);
  const openDrift: ReadonlyMap<string, Readonly<Record<Severity, number>>> = known?.openDrift ??
  (found === null ? new Map() : openBySource(found, snapshot.lastJobs));
  const mirrors = views.map((view) => view.config().mirror);
  return {
    startedAt: cells.startedAt,
    /** The configured ones; likewise the channels. */
    sources: cells.config().sources.map(({ name }) => name),
    channels: cells.config().notices.map(({ name }) => name),
    isPerSource,
    schedules: views.flatMap((view) => view.schedules()),
    stats: views.flatMap((view) => view.stats()),
    problems: views.flatMap((view) => view.problems()),
    activity: cells.activity(),
    snapshot,
    /** Without sources that cannot be compared; if too much changed to compare now, as of the latest drift job. */
    openDrift,
    /** Runs that ended, and the changes that they published, since the daemon started. */
    totals: known?.totals ?? (snapshot.mirror === null ? runs.totals() : runs.read(snapshot.mirror)),
    /** How many mirrors cannot be read. */
    unreadable: known?.unreadable ?? Number(snapshot.mirror === null),
    files: fileSizes(mirrors),
    volume: fullestVolume(mirrors),
    targets: views.flatMap((view) => targetFacts(view, isPerSource)),
    process: processStats(delay),
  };
}

/** Sizes of all mirrors and of their write-ahead logs, bytes. */
function fileSizes(paths: readonly string[]) {
  const size = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const sum = (files: readonly string[]): number => files.reduce((all, file) => all + size(file), 0);
  return { mirror: sum(paths), wal: sum(paths.map((path) => `${path}-wal`)) };
}

/** The volume with a mirror and the least space left, bytes; null if none can be read. */
function fullestVolume(paths: readonly string[]) {
  const volumes = [...new Set(paths.map((path) => dirname(path)))].flatMap((directory) => {
    try {
      const { bavail, blocks, bsize } = statfsSync(directory);
      // Some file systems have no size.
      return blocks === 0 ? [] : [{ free: bavail * bsize, size: blocks * bsize }];
    } catch {
      // The directory is gone; health reports its mirror.
      return [];
    }
  });
  return volumes.toSorted((a, b) => a.free - b.free)[0] ?? null;
}

/** The backup targets of one mirror, as far as they are known. */
function targetFacts(view: DaemonView, isPerSource: boolean) {
  const { backup, sources } = view.config();
  if (backup === null) return [];
  // Empty for a mirror of all sources.
  const source = isPerSource ? (sources[0]?.name ?? '') : '';
  const syncs = view.schedules().filter(({ schedule }) => schedule === 'sync');
  const syncsMs = syncs.map(({ intervalMs }) => intervalMs);
  const interval = { everyMs: backup.everyMs, change: view.intervalChange('backup') };
  return view.backups.remembered(backup.targets).map(({ address, newest, volume, problem }) => {
    const at = newest?.madeAt ?? view.startedAt;
    // Without a schedule of syncs, no backup is due.
    const allowedMs = syncs.length === 0 ? null : allowedBackupAgeMs(at, interval, syncsMs);
    return { source, address, newest, volume, isReadable: problem === null, allowedMs };
  });
}

function processStats(delay: Delay) {
  // A sample is the time between two timer events: what exceeds the interval is lag. In nanoseconds; NaN before the first.
  const lag = (nanoseconds: number): number =>
    Number.isFinite(nanoseconds) ? Math.max(nanoseconds / 1e9 - RESOLUTION_MS / 1000, 0) : 0;
  const { user, system } = process.cpuUsage();
  return {
    lag: { mean: lag(delay.mean), p99: lag(delay.percentile(99)), max: lag(delay.max) },
    residentBytes: process.memoryUsage.rss(),
    cpuSeconds: (user + system) / 1e6,
  };
}

/** A value (null where it is not known), and the values of the labels in the order of the row. */
type Sample = readonly [value: number | null, ...labels: readonly string[]];

interface MetricRow {
  readonly name: string;
  readonly type: 'gauge' | 'counter';
  readonly help: string;
  /** Never `job` or `instance`: Prometheus adds these to what it scrapes, and renames ours. */
  readonly labels: readonly string[];
  readonly read: (facts: MetricFacts) => readonly Sample[];
}

type Reader = MetricRow['read'];

const gauge = (name: string, help: string, labels: readonly string[], read: Reader): MetricRow => {
  return { name: `tidemark_${name}`, type: 'gauge', help, labels, read };
};

const counter = (name: string, help: string, labels: readonly string[], read: Reader): MetricRow => {
  return { name: `tidemark_${name}_total`, type: 'counter', help, labels, read };
};

/** With a single value. */
const plainGauge = (name: string, help: string, valueOf: (facts: MetricFacts) => number | null): MetricRow =>
  gauge(name, help, [], (facts) => [[valueOf(facts)]]);

/** With a value for each source of the mirror. */
const sourceGauge = (
  name: string,
  help: string,
  valueOf: (status: SourceStatus) => number | null,
): MetricRow =>
  gauge(name, help, ['source'], ({ snapshot }) =>
    snapshot.sourceStatuses.map((status) => [valueOf(status), status.source]),
  );

/**
 * The counts, on top of a zero for each configured source: in a series that begins with its first count, `increase` would not see that
 * count. @param others values of the second label, if there is one
 */
const fromZero = (others: readonly string[], counts: (facts: MetricFacts) => readonly Sample[]): Reader => {
  return (facts) => [
    ...facts.sources.flatMap((source) =>
      others.length === 0 ? [[0, source] as const] : others.map((label): Sample => [0, source, label]),
    ),
    ...counts(facts),
  ];
};

/** True where a later sync failed before it began a run, even if that could not be recorded, as on a full disk. */
function hasFailedSince(
  { snapshot, problems }: Pick<MetricFacts, 'snapshot' | 'problems'>,
  { source, lastEnded }: SourceStatus,
): boolean {
  const endedAt = lastEnded?.finishedAt ?? lastEnded?.startedAt ?? '';
  const job = snapshot.lastJobs.one('sync', source);
  const hasNoRun = job !== null && job.run === null && job.startedAt > endedAt;
  if (hasNoRun && (job.outcome === 'failed' || job.outcome === 'refused')) return true;
  const about = jobKey({ name: 'sync', source });
  return problems.some(
    (each) => each.about === about && isLocalError(each.error.code) && each.since > endedAt,
  );
}

/** Counts requests to each source. */
const requestCounter = (
  name: string,
  help: string,
  valueOf: (stats: SourceRequestStats) => number,
): MetricRow =>
  counter(
    name,
    help,
    ['source'],
    fromZero([], ({ stats }) => stats.map((each) => [valueOf(each), each.source])),
  );

/** A sample for each schedule, of all mirrors together. */
const perSchedule = (
  valueOf: (schedule: ScheduleView) => number | null,
  together: (values: readonly number[]) => number,
): Reader => {
  return ({ schedules }) =>
    [...Map.groupBy(schedules, ({ schedule }) => schedule)].map(([schedule, all]) => {
      const values = all.flatMap((each) => valueOf(each) ?? []);
      return [values.length === 0 ? null : together(values), schedule];
    });
};

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

/** With a value for each target of backups. */
const targetGauge = (
  name: string,
  help: string,
  valueOf: (target: MetricFacts['targets'][number]) => number | null,
): MetricRow =>
  gauge(name, help, ['source', 'target'], ({ targets }) =>
    targets.map((target) => [valueOf(target), target.source, target.address]),
  );

const OUTCOMES = ['complete', 'partial', 'failed'] as const;

/** @internal */
export const METRICS: readonly MetricRow[] = [
  gauge(
    'health_state',
    '1 for the current state, 0 for the others; an empty source means the daemon itself',
    ['source', 'state'],
    ({ snapshot: { health } }) =>
      [{ source: '', state: health.state }, ...health.sources].flatMap(({ source, state }) =>
        HEALTH_STATES.map((each): Sample => [each === state ? 1 : 0, source, each]),
      ),
  ),
  plainGauge('start_time_seconds', 'When the daemon started', ({ startedAt }) => seconds(startedAt)),
  gauge('build_info', '1; the label is the version of the daemon', ['version'], () => [
    [1, programVersion()],
  ]),
  counter(
    'runs',
    'Sync runs that ended',
    ['source', 'outcome'],
    fromZero(OUTCOMES, ({ totals }) =>
      totals.runs.map(({ source, outcome, count }) => [count, source, outcome]),
    ),
  ),
  gauge(
    'last_run_outcome',
    '1 for the outcome of the latest run that ended, 0 for the others; failed also if a sync failed since, before its run began',
    ['source', 'outcome'],
    (facts) =>
      facts.snapshot.sourceStatuses.flatMap((status) => {
        const { source, lastEnded } = status;
        const last = hasFailedSince(facts, status) ? 'failed' : (lastEnded?.outcome ?? null);
        return OUTCOMES.map((outcome): Sample => [
          last === null ? null : Number(outcome === last),
          source,
          outcome,
        ]);
      }),
  ),
  sourceGauge('last_run_timestamp_seconds', 'When the latest run ended', ({ lastEnded }) =>
    seconds(lastEnded?.finishedAt),
  ),
  sourceGauge('last_run_duration_seconds', 'Duration of the latest run that ended', ({ lastEnded }) => {
    const ms = lastEnded === null ? null : tookMs(lastEnded);
    return ms === null ? null : ms / 1000;
  }),
  gauge(
    'last_success_timestamp_seconds',
    'When the latest complete run ended; absent before the first',
    ['source'],
    ({ snapshot: { sourceStatuses, health } }) => [
      ...sourceStatuses.map(({ source, lastComplete }): Sample => [
        seconds(lastComplete?.finishedAt),
        source,
      ]),
      // Of a mirror that cannot be read: the last known value.
      ...health.sources
        .filter((each) => !sourceStatuses.some(({ source }) => source === each.source))
        .map(({ source, lastCompleteAt }): Sample => [seconds(lastCompleteAt), source]),
    ],
  ),
  gauge('expected_interval_seconds', 'Time between two scheduled syncs', ['source'], ({ schedules }) =>
    schedules
      .filter(({ schedule }) => schedule === 'sync')
      .flatMap(({ sources, intervalMs }) => sources.map((source): Sample => [intervalMs / 1000, source])),
  ),
  gauge(
    'allowed_age_seconds',
    'Age of the last complete run from which the source is failing',
    ['source'],
    ({ snapshot }) =>
      snapshot.health.sources.map(({ source, allowedMs }) => [
        allowedMs === null ? null : allowedMs / 1000,
        source,
      ]),
  ),
  gauge(
    'sweep_duration_seconds',
    'Time that the latest sync spent on a kind: on all its collections, and on the slowest',
    ['source', 'kind', 'of'],
    ({ snapshot }) =>
      snapshot.lastJobs.of('sync').flatMap((job) =>
        (summaryOf('sync', job)?.kinds ?? []).flatMap(({ kind, durationMs, longestMs }): Sample[] => [
          [durationMs / 1000, job.source ?? '', kind, 'all'],
          [longestMs / 1000, job.source ?? '', kind, 'longest'],
        ]),
      ),
  ),
  gauge('records', 'Records in the mirror', ['source', 'kind'], ({ snapshot }) =>
    snapshot.sourceStatuses.flatMap(({ source, kinds }) =>
      kinds.map(({ kind, records }): Sample => [records, source, kind]),
    ),
  ),
  gauge(
    'collections',
    'Collections, by whether the latest reading proved them complete; of a kind that is read in turns, by whether it read its turn',
    ['source', 'kind', 'is_whole'],
    ({ snapshot }) =>
      snapshot.sourceStatuses.flatMap(({ source, kinds }) =>
        kinds.flatMap(({ kind, collections, whole }): Sample[] => [
          [whole, source, kind, 'true'],
          [collections - whole, source, kind, 'false'],
        ]),
      ),
  ),
  sourceGauge('held_removals', 'Removals that are held', ({ held }) =>
    held.reduce((sum, { records }) => sum + records, 0),
  ),
  counter(
    'changes',
    'Records that runs found added, changed or removed',
    ['source', 'change'],
    fromZero(CHANGES, ({ totals }) =>
      totals.changes.map(({ source, change, count }) => [count, source, change]),
    ),
  ),
  gauge(
    'baseline_set',
    '1 if the mirror has a baseline for the source, else 0: then no drift is reported',
    ['source'],
    ({ snapshot }) =>
      configuredOf(snapshot).map(({ source }) => [Number(snapshot.withBaseline.has(source)), source]),
  ),
  gauge(
    'drift_findings',
    'Open findings as of the latest run and the current acceptances. If too much changed to compare during a scrape: of the latest drift job. Absent where drift is not known: without a baseline, if too much changed and no drift job measured it, and while the comparison fails, as in a damaged mirror or with a baseline that is not as the audit log has it',
    ['source', 'severity'],
    ({ openDrift }) =>
      [...openDrift].flatMap(([source, counts]) =>
        SEVERITIES.map((level): Sample => [counts[level], source, level]),
      ),
  ),
  gauge(
    'job_timestamp_seconds',
    'When the latest job of that name ended; absent for a failed backup once each configured target has a newer one',
    ['name', 'source', 'outcome'],
    ({ snapshot }) =>
      JOB_NAMES.flatMap((name) =>
        snapshot.lastJobs
          .of(name)
          .filter(({ source }) => name !== 'backup' || !snapshot.resolvedFailures.has(source ?? ''))
          .map((job): Sample => [seconds(job.finishedAt), name, job.source ?? '', job.outcome]),
      ),
  ),
  gauge(
    'drill_score',
    'Share of records that the latest drill could restore, 0 to 1',
    ['source'],
    ({ snapshot: { drillScores } }) => [...drillScores].map(([source, { last }]) => [last, source]),
  ),
  gauge(
    'verify_problems',
    'Problems found by the latest verification; at least 1 from when something else, such as a backup, finds damage. The source is empty if one mirror holds all sources',
    ['source'],
    ({ snapshot, sources, isPerSource }) =>
      isPerSource
        ? sources.map((source): Sample => [knownProblems(snapshot, source), source])
        : [[knownProblems(snapshot, null), '']],
  ),
  requestCounter('requests', 'Requests sent to the service, including retries', ({ requests }) => requests),
  requestCounter('request_retries', 'Retries', ({ retries }) => retries),
  requestCounter('requests_throttled', 'Responses with status 429', ({ throttled }) => throttled),
  gauge(
    'rate_left_requests',
    'Requests left in the rate limit; absent without a limit. Of the hour: the same for all sources with the same key and limit',
    ['source', 'window'],
    ({ stats }) =>
      stats.flatMap(({ source, leftThisMinute, leftThisHour }): Sample[] => [
        [leftThisMinute, source, 'minute'],
        [leftThisHour, source, 'hour'],
      ]),
  ),
  gauge('jobs_running', 'Jobs running now', ['name', 'source'], ({ activity }) =>
    activity.running().map(({ name, source }) => [1, name, source ?? '']),
  ),
  plainGauge('jobs_queued', 'Jobs waiting', ({ activity }) => activity.queued().length),
  gauge(
    'schedule_due_timestamp_seconds',
    'When the schedule starts next',
    ['schedule'],
    perSchedule(
      ({ dueAt }) => seconds(dueAt),
      (times) => Math.min(...times),
    ),
  ),
  counter(
    'schedule_skipped_ticks',
    'Due times skipped because the same schedule was still running, since the mirror was created',
    ['schedule'],
    perSchedule(({ skippedTicks }) => skippedTicks, sum),
  ),
  counter(
    'schedule_missed_ticks',
    'Due times that passed while no daemon ran, since the mirror was created',
    ['schedule'],
    perSchedule(({ missedTicks }) => missedTicks, sum),
  ),
  gauge('notices_pending', 'Notices not delivered yet', ['channel'], ({ snapshot, channels }) => {
    const pending = snapshot.pending.map(({ channel }) => channel);
    // A channel that was removed from the configuration may still have some.
    return [...new Set([...channels, ...pending])].map((channel) => [
      pending.filter((each) => each === channel).length,
      channel,
    ]);
  }),
  plainGauge('mirror_readable', '1 if the mirror can be read, else 0', ({ unreadable }) =>
    unreadable === 0 ? 1 : 0,
  ),
  plainGauge('mirror_bytes', 'Size of the mirror file', ({ files }) => files.mirror),
  plainGauge('mirror_wal_bytes', 'Size of the write-ahead log beside it', ({ files }) => files.wal),
  plainGauge(
    'mirror_volume_free_bytes',
    'Space left for Tidemark on the volume of the mirror; with several volumes, on the one with the least',
    ({ volume }) => volume?.free ?? null,
  ),
  plainGauge('mirror_volume_size_bytes', 'Size of that volume', ({ volume }) => volume?.size ?? null),
  targetGauge(
    'backup_newest_timestamp_seconds',
    'When the newest complete backup in the target was made; absent without one. The source is empty if one mirror holds all sources',
    ({ newest }) => seconds(newest?.madeAt),
  ),
  targetGauge('backup_newest_bytes', 'Size of that backup', ({ newest }) => newest?.bytes ?? null),
  targetGauge(
    'backup_allowed_age_seconds',
    'Age of that backup from which it is overdue: twice `backup.every`, or twice the interval of syncs if that is longer (after a change, counted from it); absent without a sync schedule',
    ({ allowedMs }) => (allowedMs === null ? null : allowedMs / 1000),
  ),
  targetGauge(
    'backup_target_readable',
    '1 if the backups in the target could be listed, else 0',
    ({ isReadable }) => Number(isReadable),
  ),
  targetGauge(
    'backup_volume_free_bytes',
    'Space left for Tidemark on the volume of a target that is a directory; absent if that is the volume of the mirror',
    ({ volume }) => volume?.freeBytes ?? null,
  ),
  targetGauge('backup_volume_size_bytes', 'Size of that volume', ({ volume }) => volume?.sizeBytes ?? null),
  gauge(
    'event_loop_lag_seconds',
    'Delay of the event loop since the last scrape',
    ['of'],
    ({ process: { lag } }) => [
      [lag.mean, 'mean'],
      [lag.p99, 'p99'],
      [lag.max, 'max'],
    ],
  ),
  plainGauge(
    'process_resident_memory_bytes',
    'Resident memory of the daemon',
    ({ process }) => process.residentBytes,
  ),
  counter('process_cpu_seconds', 'CPU time of the daemon, user and system', [], ({ process }) => [
    [process.cpuSeconds],
  ]),
];

/** Null where the time is not known. */
function seconds(time: string | null | undefined): number | null {
  return time === null || time === undefined ? null : Date.parse(time) / 1000;
}
