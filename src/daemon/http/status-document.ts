/** `tidemark.status/1` as `tidemark status --json` prints it, with what only the living daemon knows beside it. */
import { isoTime } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { CollectionRow } from '../../mirror/run-rows.ts';
import type { DaemonView } from '../view.ts';
import { healthDocument, runDocument } from './documents.ts';
import type { Situation } from './health-facts.ts';
import type { SourceStanding } from './standing.ts';

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
export function statusDocument(view: DaemonView, situation: Situation): object {
  const { mirror, health, standings, now } = situation;
  return {
    schema: 'tidemark.status/1',
    mirror: mirror?.path ?? view.config().mirror,
    sources: mirror === null ? [] : standings.map((standing) => sourceDocument(mirror, standing, situation)),
    daemon: {
      started_at: view.startedAt,
      at: isoTime(now),
      health: healthDocument(health, isoTime(now)),
      config_trouble: view.configTrouble()?.message ?? null,
      schedules: view.schedules().map((schedule) => ({
        schedule: schedule.schedule,
        cron: schedule.cron,
        zone: schedule.zone,
        sources: schedule.sources,
        due_at: schedule.dueAt,
        interval_seconds: schedule.intervalMs / 1000,
        skipped_ticks: schedule.skippedTicks,
        missed_ticks: schedule.missedTicks,
      })),
      running: view.running().map(({ job, name, source, trigger, startedAt, progress }) => ({
        job,
        name,
        source,
        trigger,
        started_at: startedAt,
        progress,
      })),
      queued: view.queued().map(({ name, source, trigger }) => ({ name, source, trigger })),
      requests: view.figures().map((figures) => ({
        source: figures.source,
        requests: figures.requests,
        retries: figures.retries,
        throttled: figures.throttled,
        left_this_minute: figures.leftThisMinute,
        left_this_hour: figures.leftThisHour,
      })),
      notices_owed: situation.owed.length,
    },
  };
}

function sourceDocument(mirror: Mirror, status: SourceStanding, { health }: Situation): object {
  const own = health.sources.find(({ source }) => source === status.source);
  const { lastPublished } = status;
  return {
    source: status.source,
    is_configured: status.isConfigured,
    state: status.state,
    records: status.records,
    oldest_whole_at: status.oldestWholeAt,
    last_run: status.lastRun === null ? null : runDocument(status.lastRun),
    last_published_run: lastPublished === null ? null : runDocument(lastPublished),
    last_complete_run: status.lastComplete === null ? null : runDocument(status.lastComplete),
    held_removals: status.held,
    schema_changes:
      lastPublished === null
        ? []
        : mirror
            .schemaChanges({ source: status.source, run: lastPublished.run })
            .map(({ run, kind, field, change, before, after }) => ({
              run,
              kind,
              field,
              change,
              before,
              after,
            })),
    next_steps: (own?.reasons ?? []).flatMap(({ hint }) => hint ?? []),
    collections: mirror
      .collectionsOf(status.source)
      .filter(({ retiredRun }) => retiredRun === null)
      .map(collectionDocument),
  };
}

function collectionDocument(collection: CollectionRow): object {
  const { lastCompleteRun, lastFullRun, lastErrorCode } = collection;
  return {
    kind: collection.kind,
    scope: collection.scope,
    records: collection.records,
    outcome: collection.lastOutcome,
    last_complete: lastCompleteRun === null ? null : { run: lastCompleteRun, at: collection.lastCompleteAt },
    last_full: lastFullRun === null ? null : { run: lastFullRun, at: collection.lastFullAt },
    error: lastErrorCode === null ? null : { code: lastErrorCode, message: collection.lastError },
  };
}
