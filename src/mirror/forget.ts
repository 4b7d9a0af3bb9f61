/**
 * Forgetting: the runs that retention lets go leave the history, in one transaction. The work is a generator that hands
 * control back after each slice; the caller has begun the transaction and commits it.
 */
import { TidemarkError } from '../core/errors.ts';
import { isKind } from '../catalog/catalog.ts';
import type { Connection } from './database.ts';
import { broken, prepareMerge, type MergedCollection, type MergeOptions } from './forget-records.ts';
import { moveSchemaChanges } from './forget-schema-changes.ts';
import { resealRuns, type ResealedRuns } from './forget-seals.ts';
import { carrySweeps } from './forget-sweeps.ts';
import type { RetentionPlan, RetentionPolicy } from './retention.ts';
import type { VerifyProblem } from './verify.ts';
import { verifyChain } from './verify-chain.ts';

export interface ForgetFacts {
  readonly at: string;
  readonly policy: RetentionPolicy;
  /** Names of the sources that were looked at. */
  readonly sources: readonly string[];
  /** At least one run is to be forgotten. */
  readonly plan: RetentionPlan;
  /** The one comparison: true when two bodies of a kind of that source are equal by value. */
  readonly isEqual: MergeOptions['isEqual'];
}

export interface ForgottenTotals extends ResealedRuns {
  /** Revisions that are no more. */
  readonly revisions: number;
}

/** Records per slice: at most some 20 ms. */
const SLICE = 200;

/** @throws TidemarkError `mirror_corrupt` when the history is not what was sealed: it must not get a new seal */
export function* forgetSteps(writer: Connection, facts: ForgetFacts): Generator<undefined, ForgottenTotals> {
  yield* checkChain(writer);
  const { forgotten } = facts.plan;
  const into = new Map(
    forgotten.flatMap(({ run, into: target }) => (target === null ? [] : [[run, target] as const])),
  );
  const revisions = yield* mergeRecords(writer, { into, isEqual: facts.isEqual });
  moveReferences(writer, into);
  moveSchemaChanges(writer, into);
  const carried = yield* carrySweeps(writer, facts.plan);
  const resealed = yield* resealRuns(writer, facts, carried.union(new Set(into.values())));
  return { ...resealed, revisions };
}

function* checkChain(writer: Connection): Generator<undefined> {
  let problem: VerifyProblem | undefined;
  yield* verifyChain(writer, {
    checked: { records: 0, revisions: 0, runs: 0 },
    add: (found) => {
      // The counts of revisions are those of a whole verification, which this is not.
      if (found.kind === 'chain') problem ??= found;
    },
    note: () => undefined,
  });
  if (problem === undefined) return;
  throw new TidemarkError('mirror_corrupt', `${problem.message}: nothing was forgotten`, {
    hint: '`tidemark verify` names everything that is damaged; put a copy of the mirror back',
  });
}

function* mergeRecords(writer: Connection, options: MergeOptions): Generator<undefined, number> {
  let dropped = 0;
  const merge = prepareMerge(writer, options);
  const collectionOf = rememberCollections(writer);
  const read = writer.prepare<[number, number], { collection: number; record: number }>(
    `SELECT collection, record FROM revisions WHERE run = ? LIMIT ?`,
  );
  const isLeft = writer.prepare<[number, number, number]>(
    `SELECT 1 FROM revisions WHERE run = ? AND collection = ? AND record = ?`,
  );
  for (const run of options.into.keys()) {
    for (;;) {
      const rows = read.all(run, SLICE);
      for (const { collection, record } of rows) {
        const found = collectionOf(collection);
        dropped += merge(found, record);
        // One that its record's history does not lead to would be met for ever.
        if (isLeft.get(run, collection, record) !== undefined) throw broken(found, record);
      }
      yield undefined;
      if (rows.length < SLICE) break;
    }
  }
  return dropped;
}

function rememberCollections(writer: Connection): (id: number) => MergedCollection {
  const known = new Map<number, MergedCollection>();
  const read = writer.prepare<[number], Omit<MergedCollection, 'kind'> & { kind: string }>(
    `SELECT c.id AS id, c.source AS source, s.name AS sourceName, c.kind AS kind, c.scope AS scope
     FROM collections c JOIN sources s ON s.id = c.source WHERE c.id = ?`,
  );
  return (id) => {
    const remembered = known.get(id);
    if (remembered !== undefined) return remembered;
    const row = read.get(id);
    if (row === undefined || !isKind(row.kind)) throw new Error(`revisions belong to no collection (${id})`);
    const collection: MergedCollection = { ...row, kind: row.kind };
    known.set(id, collection);
    return collection;
  };
}

/**
 * Rows that name a forgotten run name the kept one from now on. `checks` and the latest sweeps of `collections` keep
 * their numbers: they tell the order, and the time beside them tells the rest.
 */
function moveReferences(writer: Connection, into: ReadonlyMap<number, number>): void {
  writer.exec(`CREATE TEMP TABLE forgotten_runs (run INTEGER PRIMARY KEY, target INTEGER NOT NULL)`);
  const add = writer.prepare<[number, number]>(`INSERT INTO temp.forgotten_runs VALUES (?, ?)`);
  for (const [run, target] of into) add.run(run, target);
  const moved = (column: string): string =>
    `SET ${column} = (SELECT target FROM temp.forgotten_runs f WHERE f.run = ${column})
     WHERE ${column} IN (SELECT run FROM temp.forgotten_runs)`;
  writer.exec(`UPDATE held_records ${moved('since_run')}`);
  writer.exec(`UPDATE collections ${moved('retired_run')}`);
  // Of several rules that come to hold from the same run on, the latest does: it comes first.
  writer.exec(
    `INSERT OR IGNORE INTO sealing_rules (source, kind, run, volatile_fields)
     SELECT r.source, r.kind, f.target, r.volatile_fields FROM sealing_rules r
     JOIN temp.forgotten_runs f ON f.run = r.run ORDER BY r.run DESC;
     DELETE FROM sealing_rules WHERE run IN (SELECT run FROM temp.forgotten_runs)`,
  );
  writer.exec(`DROP TABLE temp.forgotten_runs`);
}
