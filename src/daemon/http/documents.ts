/** Sweeps, jobs and health as JSON documents show them. */
import type { JobRow } from '../../mirror/daemon.ts';
import type { SweepRow } from '../../mirror/run-rows.ts';
import { errorDocument } from '../../state/run-document.ts';
import type { JobIdentity, RequestStatus } from '../view.ts';
import type { HealthReason } from './health-input.ts';
import type { Health } from './health.ts';

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
        ? { code: status.error.code, message: status.error.message }
        : null,
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
