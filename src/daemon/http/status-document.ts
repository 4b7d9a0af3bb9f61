/** `tidemark.status/1` as `tidemark status --json` prints it, with what only the living daemon knows beside it. */
import { isoTime } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { recentSchemaChanges } from '../../state/recent-schema-changes.ts';
import { sourceDocument } from '../../state/status-document.ts';
import type { DaemonView } from '../view.ts';
import { healthDocument } from './documents.ts';
import type { HealthSnapshot } from './health-snapshot.ts';
import type { SourceStatus } from './source-status.ts';

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
export function statusDocument(view: DaemonView, situation: HealthSnapshot): object {
  const { mirror, health, standings, now } = situation;
  return {
    schema: 'tidemark.status/1',
    mirror: mirror?.path ?? view.config().mirror,
    sources: mirror === null ? [] : standings.map((standing) => documentOf(mirror, standing, situation)),
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

function documentOf(mirror: Mirror, standing: SourceStatus, { health, now }: HealthSnapshot): object {
  const { source, lastPublished } = standing;
  const own = health.sources.find((each) => each.source === source);
  return sourceDocument(
    {
      ...standing,
      schemaChanges: lastPublished === null ? [] : recentSchemaChanges(mirror, source, now),
      collections: mirror.collectionsOf(source).filter(({ retiredRun }) => retiredRun === null),
    },
    (own?.reasons ?? []).flatMap(({ hint }) => hint ?? []),
  );
}
