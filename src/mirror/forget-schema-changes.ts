/** What runs found of fields, when they are forgotten: what leads back to where it began is no news any longer. */
import type { Connection } from './database.ts';

interface FieldChange {
  run: number;
  source: number;
  kind: string;
  field: string;
  change: string;
  /** JSON arrays of types, as stored. */
  before: string;
  after: string;
}

const NONE = '[]';

/**
 * Changes of one field that come together in a kept run become one: from what the first began with to what the last led
 * to; none where that is the same. `into` has the forgotten runs with the kept ones into which they go.
 */
export function moveSchemaChanges(writer: Connection, into: ReadonlyMap<number, number>): void {
  const read = writer.prepare<[number], FieldChange>(
    `SELECT run, source, kind, field, change, before, after FROM schema_changes WHERE run = ?`,
  );
  const drop = writer.prepare<[number]>(`DELETE FROM schema_changes WHERE run = ?`);
  const add = writer.prepare(
    `INSERT INTO schema_changes (run, source, kind, field, change, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const runsOf = Map.groupBy(into.keys(), (run) => into.get(run) ?? run);
  for (const [target, forgotten] of runsOf) {
    const runs = [...forgotten.toSorted((a, b) => a - b), target];
    const changes = runs.flatMap((run) => read.all(run));
    if (changes.every(({ run }) => run === target)) continue;
    for (const run of runs) drop.run(run);
    const byField = Map.groupBy(changes, ({ source, kind, field }) => JSON.stringify([source, kind, field]));
    for (const group of byField.values()) {
      const merged = together(group);
      if (merged === undefined) continue;
      const { source, kind, field, change, before, after } = merged;
      add.run(target, source, kind, field, change, before, after);
    }
  }
}

/** Oldest first; a run has one change of a field at most. */
function together(group: readonly FieldChange[]): FieldChange | undefined {
  const [first] = group;
  const last = group.at(-1);
  if (first === undefined || last === undefined) return undefined;
  if (group.length === 1) return last;
  if (last.change === 'unwatched') return { ...last, before: first.before };
  // A field whose types are none was only null, which is not the same as not being there.
  const isNew = first.change === 'gained';
  const isGone = last.change === 'lost';
  if (isNew && isGone) return undefined;
  const { before } = first;
  const { after } = last;
  if (isNew) return { ...last, change: 'gained', before: NONE };
  if (isGone) return { ...last, change: 'lost', before, after: NONE };
  return before === after ? undefined : { ...last, change: 'retyped', before };
}
