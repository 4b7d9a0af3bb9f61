/** Runs, jobs and standings as JSON documents show them; in the shapes that the command line prints. */
import type { JobRow } from '../../mirror/daemon-state.ts';
import type { RunRow, SweepRow } from '../../mirror/run-rows.ts';
import type { Health, HealthReason } from './health.ts';

/** As in `tidemark.runs/1`. */
export function runDocument(run: RunRow): object {
  return {
    run: run.run,
    source: run.source,
    trigger: run.trigger,
    outcome: run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    root: run.root,
    error: errorDocument(run),
  };
}

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

export function jobDocument(job: JobRow): object {
  return {
    job: job.job,
    name: job.name,
    source: job.source,
    trigger: job.trigger,
    outcome: job.outcome,
    started_at: job.startedAt,
    finished_at: job.finishedAt,
    run: job.run,
    summary: job.summary,
    error: errorDocument(job),
  };
}

/** `tidemark.health/1`, as `/readyz` answers it. */
export function healthDocument(health: Health, at: string): object {
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
  };
}

/** The same for people, a line each. */
export function healthText(health: Health): string {
  const line = ({ state, message, hint }: HealthReason): string =>
    `  ${state}: ${message}${hint === null ? '' : ` → ${hint}`}`;
  const sources = health.sources.flatMap(({ source, state, reasons }) => [
    `${source}: ${state}`,
    ...reasons.map(line),
  ]);
  return `${[health.state, ...health.reasons.map(line), ...sources].join('\n')}\n`;
}

function reasonDocument({ code, state, message, since, hint }: HealthReason): object {
  return { code, state, message, since, hint };
}

function errorDocument({
  errorCode,
  error,
}: {
  readonly errorCode: string | null;
  readonly error: string | null;
}): object | null {
  return errorCode === null ? null : { code: errorCode, message: error };
}
