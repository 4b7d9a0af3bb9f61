/** A run's report put together again from the mirror, as the process that did the run would have shown it. */
import { collectionKey } from '../catalog/collection-key.ts';
import type { ResourceDefinition } from '../catalog/definition.ts';
import type { SyncSummary } from '../daemon/jobs/summaries.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import type { SweepMode, SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';

/**
 * @param summary of the daemon's job: what the run's own rows do not keep (hints, permissions, what is pending); of sweeps
 * that it does not name, these are left empty
 */
export function reportFromMirror(
  mirror: Mirror,
  run: RunRow,
  summary: SyncSummary | null,
  definitions: readonly ResourceDefinition[],
): RunReport {
  const caps = new Map(mirror.collectionsOf(run.source).map((each) => [collectionKey(each), each.pageCap]));
  const troubled = new Map(summary?.troubled.map((each) => [collectionKey(each), each]));
  const unfinished = new Map(summary?.unfinished?.map((each) => [collectionKey(each), each]));
  return {
    run: run.run,
    source: run.source,
    outcome: run.outcome === 'running' ? 'failed' : run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt ?? run.startedAt,
    requests: run.requests,
    retries: run.retries,
    sweeps: mirror.sweepsOf(run.run).map((row): SweepReport => {
      const { errorCode, error, ...sweep } = row;
      const trouble = troubled.get(collectionKey(row));
      return {
        kind: sweep.kind,
        scope: sweep.scope,
        outcome: sweep.outcome,
        mode: modeOf(row, definitions),
        pages: sweep.pages,
        records: sweep.records,
        added: sweep.added,
        changed: sweep.changed,
        removed: sweep.removed,
        unchanged: sweep.unchanged,
        held: sweep.held,
        leaked: unfinished.get(collectionKey(row))?.leaked ?? 0,
        pending: unfinished.get(collectionKey(row))?.pending ?? 0,
        count: sweep.count,
        pageCap: caps.get(collectionKey(row)) ?? null,
        error:
          errorCode === null
            ? null
            : {
                code: errorCode,
                message: error ?? '',
                hint: trouble?.hint ?? null,
                permission: trouble?.permission ?? null,
              },
      };
    }),
  };
}

/** The mirror keeps how a list was walked; of the rest, the kind and the outcome tell. */
function modeOf({ kind, mode, outcome }: SweepRow, definitions: readonly ResourceDefinition[]): SweepMode {
  if (mode !== null) return mode;
  const isOneByOne = definitions.find((definition) => definition.kind === kind)?.reading === 'each';
  if (isOneByOne && outcome !== 'skipped') return 'each';
  return outcome === 'complete' ? 'parent' : 'none';
}
