/** What runs read for the first time, found by their sweeps: their records are new to the mirror and no change of the service. */
import type { Kind, Scope } from '../../catalog/definition.ts';
import type { FirstRead } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { REVISION_CHANGE } from '../../mirror/publish-records.ts';
import { FirstReadCollections } from '../../state/first-read-collections.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { selectRows, kindOf, sqlNumber } from '../mirror-queries.ts';

/** An SQL condition on the number of a run: it took over changes of others. */
export const ABSORBED_FORGOTTEN_RUNS = `IN (SELECT into_run FROM replaced_roots WHERE into_run IS NOT NULL)`;

export interface NewlyReadCollection extends FirstRead {
  readonly run: number;
}

/** Of the kinds (null for all). A source's first run has none: there is nothing before it to compare with. */
export function readNewlyReadCollections(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): NewlyReadCollection[] {
  if (runs.length === 0) return [];
  const among = `IN (${runs.map(sqlNumber).join(', ')})`;
  const isOfKinds = kinds === null ? '' : `AND c.kind IN (${kinds.map((kind) => `'${kind}'`).join(', ')})`;
  const whole = `outcome = 'complete' AND mode = 'full'`;
  const rows = selectRows<{
    run: number;
    previous: number;
    source: string;
    kind: string;
    scope: string;
    added: number;
  }>(
    mirror,
    `WITH came AS (
       SELECT w.run, w.collection, w.added FROM sweeps w
       WHERE w.run ${among} AND w.run NOT ${ABSORBED_FORGOTTEN_RUNS} AND w.added > 0
       UNION ALL
       SELECT r.run, r.collection, count(*) FROM revisions r
       WHERE r.run ${among} AND r.run ${ABSORBED_FORGOTTEN_RUNS} AND r.change = ${REVISION_CHANGE.added} GROUP BY r.run, r.collection)
     SELECT a.run AS run, s.name AS source, c.kind AS kind, c.scope AS scope, a.added AS added,
       (SELECT max(p.run) FROM runs p WHERE p.source = c.source AND p.run < a.run AND p.root IS NOT NULL) AS previous
     FROM came a JOIN collections c ON c.id = a.collection JOIN sources s ON s.id = c.source
     WHERE previous IS NOT NULL ${isOfKinds}
       AND NOT EXISTS (SELECT 1 FROM sweeps b JOIN runs p ON p.run = b.run
         WHERE b.collection = a.collection AND b.run < a.run AND b.${whole} AND p.root IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM carried_sweeps d
         WHERE d.collection = a.collection AND d.run < a.run AND d.is_published AND d.${whole})
     ORDER BY a.run, c.id`,
  );
  const states = new Map<number, FirstReadCollections>();
  return rows.flatMap(({ run, previous, source, kind: name, scope: text, added }): NewlyReadCollection[] => {
    const kind = kindOf(name);
    if (kind === null) return [];
    const before = { ref: `run:${previous}`, run: previous, at: '', isLatest: false };
    const reads = states.get(previous) ?? new FirstReadCollections(openMirrorState(mirror, source, before));
    states.set(previous, reads);
    const scope = JSON.parse(text) as Scope;
    const reason = reads.reasonFor({ kind, scope });
    return reason === null ? [] : [{ run, kind, scope, records: added, reason }];
  });
}
