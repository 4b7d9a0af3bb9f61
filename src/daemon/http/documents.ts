/** Sweeps, jobs, requests, health and status as JSON documents. */
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { SweepRow } from '../../mirror/run-rows.ts';
import type { splitTrigger } from '../../core/actor.ts';
import { isoTime } from '../../core/clock.ts';
import type { TidemarkError } from '../../core/errors.ts';
import { localTime } from '../../core/wording.ts';
import { errorDocument, type RunProgress } from '../../state/documents.ts';
import type { DaemonCells } from '../cells.ts';
import type { DaemonView, JobIdentity, RequestStatus, RunningJob } from '../view.ts';
import type { HealthSnapshot } from '../health/health-facts.ts';
import { verifiedDocument } from '../health/verified.ts';
import { HEALTH_STATES, type HealthReason, type HealthState } from '../health/reason.ts';
import type { Health } from '../health/health.ts';
import { withoutRepeatedReasons } from '../health/waits.ts';

export function sweepDocument(sweep: SweepRow): object {
  return {
    kind: sweep.kind,
    scope: sweep.scope,
    outcome: sweep.outcome,
    mode: sweep.mode,
    pages: sweep.pages,
    count: sweep.count,
    records: sweep.records,
    added: sweep.added,
    changed: sweep.changed,
    removed: sweep.removed,
    unchanged: sweep.unchanged,
    held: sweep.held,
    error: errorDocument(sweep),
  };
}

/** A job, and who asked for it. */
export type AskedJob = Omit<JobRow, 'trigger'> & ReturnType<typeof splitTrigger>;

export function jobDocument(job: AskedJob): object {
  return {
    job: job.job,
    name: job.name,
    source: job.source,
    trigger: job.trigger,
    by: job.by,
    via: job.via,
    outcome: job.outcome,
    started_at: job.startedAt,
    finished_at: job.finishedAt,
    run: job.run,
    summary: job.summary,
    error: errorDocument(job),
  };
}

export function identityDocument({ name, source }: JobIdentity): object {
  return { job: name, source };
}

/** `tidemark.request/1`. */
export function requestDocument(request: number, status: RequestStatus): object {
  return {
    schema: 'tidemark.request/1',
    request,
    ...identityDocument(status),
    state: status.state,
    number: status.state === 'waiting' ? null : status.job,
    behind: status.state === 'waiting' ? status.before.map(identityDocument) : [],
    error:
      status.state === 'ended' && status.error !== null
        ? { code: status.error.code, message: status.error.message, hint: status.error.hint ?? null }
        : null,
  };
}

/** `tidemark.health/1`, the answer of `/readyz`. @param cells adds their slots and rate groups, if each source has its own mirror */
export function healthDocument(health: Health, at: string, cells: DaemonCells | null = null): object {
  return {
    schema: 'tidemark.health/1',
    state: health.state,
    at,
    reasons: health.reasons.map(reasonDocument),
    sources: health.sources.map(({ source, state, reasons, lastCompleteAt, allowedMs }) => ({
      source,
      state,
      last_complete_at: lastCompleteAt,
      allowed_age_seconds: allowedMs === null ? null : Math.round(allowedMs / 1000),
      reasons: reasons.map(reasonDocument),
    })),
    ...(cells?.isPerSource() === true ? { slots: cells.slots(), rate_groups: cells.rateGroups() } : {}),
  };
}

/** The same as text for people. */
export function healthText(health: Health, cells: DaemonCells): string {
  const shown = withoutRepeatedReasons([health, ...health.sources].flatMap(({ reasons }) => reasons));
  const lines = (reasons: readonly HealthReason[]): string[] =>
    reasons.filter((reason) => shown.includes(reason)).map(line);
  const line = (reason: HealthReason): string =>
    `  ${reason.state}: ${reason.message}${failedAt(reason)}${reason.hint === null ? '' : ` → ${reason.hint}`}`;
  const sources = health.sources
    .toSorted(byState)
    .flatMap(({ source, state, reasons }) => [`${source}: ${state}`, ...lines(reasons)]);
  return `${[health.state, ...lines(health.reasons), ...sources, ...slotLines(cells)].join('\n')}\n`;
}

/** The worst first. */
function byState(a: { readonly state: HealthState }, b: { readonly state: HealthState }): number {
  return HEALTH_STATES.indexOf(b.state) - HEALTH_STATES.indexOf(a.state);
}

/** When a job failed, since its error may no longer be true. */
function failedAt({ code, since }: HealthReason): string {
  return code === 'job_failed' && since !== null ? ` (at ${localTime(since)})` : '';
}

/** If each source has its own mirror: how many jobs run, and which sources wait for each other. */
function slotLines(cells: DaemonCells): string[] {
  if (!cells.isPerSource()) return [];
  const { count, used } = cells.slots();
  return [
    `slots: ${used} of ${count} in use`,
    ...cells.rateGroups().map(({ origin, sources }) => `rate group ${origin}: ${sources.join(', ')}`),
  ];
}

function reasonDocument({ code, state, message, since, hint }: HealthReason): object {
  return { code, state, message, since, hint };
}

/** What a status shows in addition to health. */
interface StatusView extends Pick<DaemonView, 'startedAt' | 'schedules' | 'running' | 'queued' | 'stats'> {
  /** If each source has its own mirror, the pattern of the configuration. */
  readonly mirrorPath: string;
  /** Made by `sourceDocuments` or `sourceSummary`. */
  readonly sources: readonly object[];
  configProblem(): TidemarkError | null;
}

/**
 * `tidemark.status/1` as `tidemark status --json` prints it, and what only the running daemon knows. Within the version, keys may be added,
 * but not renamed. Times are ISO 8601 UTC.
 */
export function statusDocument(view: StatusView, snapshot: HealthSnapshot): object {
  const { health, now } = snapshot;
  return {
    schema: 'tidemark.status/1',
    mirror: view.mirrorPath,
    ...(snapshot.mirror === null ? {} : { verified: verifiedDocument(snapshot) }),
    sources: view.sources,
    daemon: {
      started_at: view.startedAt,
      at: isoTime(now),
      health: healthDocument(health, isoTime(now)),
      config_problem: view.configProblem()?.message ?? null,
      schedules: view.schedules().map((schedule) => ({
        schedule: schedule.schedule,
        cron: schedule.cron,
        zone: schedule.zone,
        sources: schedule.sources,
        due_at: schedule.dueAt,
        paused: schedule.paused ?? [],
        interval_seconds: schedule.intervalMs / 1000,
        skipped_ticks: schedule.skippedTicks,
        missed_ticks: schedule.missedTicks,
      })),
      running: view.running().map((job) => ({
        ...runningDocument(job),
        // Not in `runningDocument`: the stream of events would send it every second.
        silent_seconds: job.silentMs === undefined || job.silentMs === null ? null : job.silentMs / 1000,
        paused_until: job.pausedUntil === undefined ? null : isoTime(job.pausedUntil),
        waits_for: job.waitsFor ?? null,
      })),
      queued: view.queued().map((job) => ({
        ...queuedDocument(job),
        ...{ waits_for: job.waitsFor ?? null, since: job.since ?? null },
      })),
      requests: view.stats().map((stats) => ({
        source: stats.source,
        requests: stats.requests,
        retries: stats.retries,
        throttled: stats.throttled,
        left_this_minute: stats.leftThisMinute,
        left_this_hour: stats.leftThisHour,
      })),
      notices_pending: snapshot.pending.length,
    },
  };
}

/** What the running sync of a source has read so far; null if none is running. */
export function progressOf(view: Pick<DaemonView, 'running'>, source: string): RunProgress | null {
  return view.running().find((job) => job.name === 'sync' && job.source === source)?.progress ?? null;
}

/** The running and waiting jobs. */
export function activityDocument(view: Pick<DaemonView, 'running' | 'queued'>): object {
  return { running: view.running().map(runningDocument), queued: view.queued().map(queuedDocument) };
}

function runningDocument({ job, name, source, trigger, startedAt, progress }: RunningJob): object {
  return {
    job,
    name,
    source,
    trigger,
    started_at: startedAt,
    progress: progress === null ? null : progressDocument(progress),
  };
}

function queuedDocument({ name, source, trigger }: ReturnType<DaemonView['queued']>[number]): object {
  return { name, source, trigger };
}

/** Counts of a sync under way; `expected` as far as the mirror knows. */
function progressDocument(progress: NonNullable<RunningJob['progress']>): object {
  const { requests, records, pages, isLocal, waitingUntil, kinds } = progress;
  const waiting_until = waitingUntil === null ? null : isoTime(waitingUntil);
  return { requests, records, pages, is_publishing: isLocal, waiting_until, kinds };
}
