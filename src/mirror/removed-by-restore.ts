/**
 * Records that a restore or an undo of this mirror removed from the service, and that no run looked for since: that a list does
 * not show them does not make them lost. What cannot be decided is left out, and counts as a loss.
 */
import { familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isAsRecorded } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { storedSteps } from './restores.ts';
import { knownKind } from './stored-names.ts';

/** The part of a stored plan that says what a step removes. */
interface PlannedStep {
  readonly n: number;
  readonly action: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}

/** Of a collection, how far the runs came that may have seen a record of it. */
interface Looked {
  readonly source: string;
  readonly kind: string;
  readonly scope: string;
  /** Latest entry of the audit log that they knew; 0 for none. */
  readonly entry: number;
  /** When the last of them ended; empty for none. */
  readonly at: string;
}

// By entry and by time: after a change of the clock, and for a restore that was resumed after a run, one of the two
// says that the run may have come later. A sweep that received nothing may still have found a record by its id.
const LOOKED = `SELECT s.name AS source, c.kind, c.scope,
    coalesce(max(coalesce(r.last_entry, 0)), 0) AS entry, coalesce(max(r.finished_at), '') AS at
  FROM collections c JOIN sources s ON s.id = c.source
    LEFT JOIN runs r ON r.source = c.source AND r.root IS NOT NULL AND (
      EXISTS (SELECT 1 FROM sweeps w WHERE w.run = r.run AND w.collection = c.id
        AND (w.records > 0 OR w.outcome IN ('complete', 'incomplete', 'held')))
      OR EXISTS (SELECT 1 FROM carried_sweeps w WHERE w.run = r.run AND w.collection = c.id
        AND w.outcome NOT IN ('denied', 'missing', 'skipped')))
  WHERE c.id = ?`;

const SINCE = `SELECT restore, plan FROM restores WHERE source = :source AND json_valid(plan) AND :entry < (
    SELECT min(entry) FROM audit_log WHERE about = 'restores' AND member = json_array(restores.restore))`;

const REMOVED_SINCE = `SELECT step FROM restore_steps
  WHERE restore = :restore AND outcome = 'applied' AND verified = 1 AND sent_at > :at`;

/** Their ids, of one collection. */
export function removedByRestores(connection: Connection, collection: number): string[] {
  const looked = connection.prepare<[number], Looked>(LOOKED).get(collection);
  if (looked === undefined) return [];
  const kinds: readonly Kind[] = familyKinds(knownKind(looked.kind));
  const removedSince = connection.prepare<Record<string, unknown>, number>(REMOVED_SINCE).pluck();
  return connection
    .prepare<Record<string, unknown>, { restore: number; plan: string }>(SINCE)
    .all({ source: looked.source, entry: looked.entry })
    .filter(({ restore }) => isAsRecorded(connection, 'restores', [restore]))
    .flatMap(({ restore, plan }) => {
      const done = new Set(removedSince.all({ restore, at: looked.at }));
      // Written by the planner, and stored as it was approved.
      return (storedSteps(plan) as object[] as PlannedStep[])
        .filter(({ n, action }) => action === 'remove' && done.has(n))
        .filter(({ kind, scope }) => kinds.includes(kind) && scopeKey(scope) === looked.scope)
        .map(({ id }) => id);
    });
}
