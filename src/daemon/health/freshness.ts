/** How old the last complete run of each source is, and may be. */
import type { RunRow } from '../../mirror/run-rows.ts';
import { lastCompleteRun } from '../../state/runs.ts';
import { allowedAgeMs, expectedSince, isFirstSyncAtWork } from './allowed-age.ts';
import type { SourceFacts } from './facts.ts';
import { type HealthView, firstSyncOf, unreadSource } from './source-facts.ts';

/** The age of a source's last complete run, and the allowed one. */
export interface Freshness extends Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy' | 'sync'> {
  readonly source: string;
  /** When the last complete run ended, ISO 8601; null without one. */
  readonly completeAt: string | null;
  /** When the last published run of all kinds ended, complete or not, ISO 8601; null without one, or left out. */
  readonly readAt?: string | null;
  /** From when on a complete run is expected, ISO 8601. */
  readonly expectedSince: string;
  /** The greatest allowed age of the last complete run, milliseconds. */
  readonly allowedMs: number;
}

interface FreshnessNow extends Freshness {
  /** True while the first sync is running or waits: then nothing is overdue. */
  readonly isFirstSyncAtWork: boolean;
}

/**
 * The freshness of configured sources that a schedule syncs; null if the mirror cannot be read.
 * @param now milliseconds since the epoch
 * @param names only of these sources; if left out, of all
 */
export function readFreshness(
  view: HealthView,
  now: number,
  names?: readonly string[],
): readonly FreshnessNow[] | null {
  const config = view.config();
  const configured = config.sources.map(({ name }) => name);
  try {
    const mirror = view.mirror();
    return mirror.atOnce(() =>
      configured
        .filter((name) => names?.includes(name) !== false)
        .flatMap((source): FreshnessNow[] => {
          const lastComplete = lastCompleteRun(mirror, source);
          rememberComplete(view, source, lastComplete);
          const tried = {
            firstTriedAt: mirror.runs.firstStartedAt(source),
            lastComplete,
            firstSync: firstSyncOf(mirror, source, lastComplete),
          };
          const facts = { ...unreadSource(view, config, source), ...tried };
          const allowedMs = allowedAgeMs(facts);
          if (allowedMs === null) return [];
          const { behind, isQueued, limitHeldBy, sync = null } = facts;
          const expected = expectedSince(facts);
          const completeAt = lastComplete?.finishedAt ?? null;
          const [lastRead] = mirror.runs.list({ source, isOfAllKinds: true, isPublished: true, limit: 1 });
          return [
            {
              ...{ source, completeAt, expectedSince: expected, allowedMs },
              ...{ behind, isQueued, limitHeldBy, sync, readAt: lastRead?.finishedAt ?? null },
              isFirstSyncAtWork: isFirstSyncAtWork(facts, now),
            },
          ];
        }),
    );
  } catch {
    // Health and the jobs report why it cannot be read.
    return null;
  }
}

/** Remembers the last complete run of a source for the time when the mirror cannot be read. */
export function rememberComplete(
  { completeRuns }: Pick<HealthView, 'completeRuns'>,
  source: string,
  run: RunRow | null,
): void {
  if (run === null) completeRuns.delete(source);
  else completeRuns.set(source, run);
}
