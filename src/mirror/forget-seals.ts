/** The seals when runs are forgotten: their rows go, what they were sealed with is kept, and the rest gets new roots. */
import type { Connection } from './database.ts';
import { digestReplaced, linkOf, readStoredForgets, type MergeOptions } from './forget-records.ts';
import { rangesOf, type RetentionPolicy, type RetentionPlan } from './retention.ts';
import { rowSealer } from './row-seals.ts';
import { digestRun } from './run-digests.ts';
import { rootOf } from './sealing.ts';
import { resealSnapshots } from './verify-chain.ts';
import { type SealedRun, readSealed } from './verify-chain.ts';

export interface ResealedRuns {
  /** Number of the forget. */
  readonly forget: number;
  /** Root of the latest sealed run until now, and from now on; hex. */
  readonly rootBefore: string;
  readonly rootAfter: string;
}

/** Runs per slice. */
const SLICE = 200;

/** `changed`: the kept runs that took over changes or sweeps of others. */
export function* resealRuns(
  writer: Connection,
  facts: ForgetFacts,
  changed: ReadonlySet<number>,
): Generator<undefined, ResealedRuns> {
  const before = readStoredForgets(writer).at(-1);
  const forget = (before?.forget ?? 0) + 1;
  const tip = readSealed(writer).at(-1);
  if (tip === undefined) throw new Error('only runs that were never published are to be forgotten');
  writer
    .prepare<[number]>(
      `INSERT INTO replaced_roots (forget, run, root) SELECT ?, run, root FROM runs WHERE root IS NOT NULL`,
    )
    .run(forget);
  noteTargets(writer, forget, facts);
  const runs = facts.plan.forgotten.map(({ run }) => run);
  yield* dropRuns(writer, runs);
  const stored = {
    forget,
    at: facts.at,
    policy: JSON.stringify(facts.policy),
    sources: JSON.stringify(facts.sources),
    runs: JSON.stringify(rangesOf(runs)),
    runCount: runs.length,
    tipRun: tip.run,
    rootBefore: tip.root,
    replacedDigest: digestReplaced(writer, forget),
  };
  const link = linkOf(stored, before);
  const rootAfter = yield* chain(writer, link, changed);
  resealSnapshots(writer);
  writer
    .prepare(
      `INSERT INTO forgets (forget, at, policy, sources, runs, run_count, tip_run, root_before, root_after,
         replaced_digest, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      ...[stored.forget, stored.at, stored.policy, stored.sources, stored.runs, stored.runCount],
      ...[stored.tipRun, stored.rootBefore, rootAfter, stored.replacedDigest, link],
    );
  return { forget, rootBefore: tip.root.toString('hex'), rootAfter: rootAfter.toString('hex') };
}

/** Records into which run the forgotten runs were merged, for messages about them. */
function noteTargets(writer: Connection, forget: number, { plan }: ForgetFacts): void {
  const note = writer.prepare<[number, number, number]>(
    `UPDATE replaced_roots SET into_run = ? WHERE forget = ? AND run = ?`,
  );
  for (const { run, into } of plan.forgotten) if (into !== null) note.run(into, forget, run);
}

function* dropRuns(writer: Connection, runs: readonly number[]): Generator<undefined> {
  const dropSweeps = writer.prepare<[number]>(`DELETE FROM sweeps WHERE run = ?`);
  const dropCarried = writer.prepare<[number]>(`DELETE FROM carried_sweeps WHERE run = ?`);
  const dropRun = writer.prepare<[number]>(`DELETE FROM runs WHERE run = ?`);
  const unseal = rowSealer(writer, 'runs');
  for (const [index, run] of runs.entries()) {
    dropSweeps.run(run);
    dropCarried.run(run);
    dropRun.run(run);
    unseal([run]);
    if (index % SLICE === SLICE - 1) yield undefined;
  }
}

/** Recomputes the root of every run, the first one after `link`; returns the last root. */
function* chain(
  writer: Connection,
  link: Buffer,
  changed: ReadonlySet<number>,
): Generator<undefined, Buffer> {
  const seal = writer.prepare<[Buffer, Buffer | null, Buffer, Buffer, number]>(
    `UPDATE runs SET change_digest = ?, sweep_digest = ?, previous_root = ?, root = ? WHERE run = ?`,
  );
  let previousRoot = link;
  for (const [index, sealed] of readSealed(writer).entries()) {
    const digests = changed.has(sealed.run) ? yield* digestRun(writer, sealed.run) : sealed;
    const { changeDigest, sweepDigest } = digests;
    const next: SealedRun = { ...sealed, changeDigest, sweepDigest, previousRoot };
    const root = rootOf(next);
    seal.run(changeDigest, sweepDigest, previousRoot, root, sealed.run);
    previousRoot = root;
    if (index % SLICE === SLICE - 1) yield undefined;
  }
  return previousRoot;
}

export interface ForgetFacts {
  readonly at: string;
  readonly policy: RetentionPolicy;
  /** Names of the sources that were processed. */
  readonly sources: readonly string[];
  /** At least one run is to be forgotten. */
  readonly plan: RetentionPlan;
  /** The one comparison: true when two bodies of a kind of that source are equal by value. */
  readonly isEqual: MergeOptions['isEqual'];
}
