/**
 * Seals when runs are forgotten: their rows are deleted, their roots are kept, and the remaining runs get new roots. `forgets` and
 * `replaced_roots` have the old and new ones; an entry of the audit log and the first run of the new chain cover these tables.
 * `verify --root` finds an old root there, with the forget that replaced it, but exits with 3: what that root covered cannot be
 * recomputed any more.
 */
import { and, eq, isNotNull, sql } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import { recordAction } from './audit-log.ts';
import type { Connection } from './database.ts';
import { digestReplaced, linkOf, readStoredForgets, type MergeOptions } from './forget-records.ts';
import { param, paramsOf, prepared } from './query.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { rangesOf, type RetentionPlan } from './retention.ts';
import { rowSealer } from './row-seals.ts';
import { digestRun } from './run-seals.ts';
import { forgets, replacedRoots } from './schema/retention-tables.ts';
import { carriedSweeps, runs, sweeps } from './schema/run-tables.ts';
import { rootOf } from './run-seals.ts';
import { type SealedRun, readSealed } from './verify-chain.ts';

export interface ResealedRuns {
  /** Number of the forget. */
  readonly forget: number;
  /** Root of the latest sealed run before and after it; hex. */
  readonly rootBefore: string;
  readonly rootAfter: string;
}

/** Runs per slice. */
const SLICE = 200;

/** Drops the forgotten runs and seals the others again. @param changed kept runs that took over changes or sweeps of others */
export function* resealRuns(
  writer: Connection,
  facts: ForgetFacts,
  changed: ReadonlySet<number>,
): Generator<undefined, ResealedRuns> {
  const before = readStoredForgets(writer).at(-1);
  const forget = (before?.forget ?? 0) + 1;
  const tip = readSealed(writer).at(-1);
  if (tip === undefined) throw new Error('only runs that were never published are to be forgotten');
  KEEP_ROOTS(writer).run({ forget });
  noteTargets(writer, forget, facts);
  const dropped = facts.plan.forgotten.map(({ run }) => run);
  yield* dropRuns(writer, dropped);
  const stored = {
    forget,
    at: facts.at,
    by: facts.actor.by,
    policy: JSON.stringify(facts.policy),
    sources: JSON.stringify(facts.sources),
    runs: JSON.stringify(rangesOf(dropped)),
    runCount: dropped.length,
    tipRun: tip.run,
    rootBefore: tip.root,
    replacedDigest: digestReplaced(writer, forget),
  };
  const link = linkOf(stored, before);
  const rootAfter = yield* chain(writer, link, changed);
  const { actor, at } = facts;
  recordAction(writer, actor, { action: 'forget', at, about: 'forgets', key: [forget] }, () => {
    ADD_FORGET(writer).run({ ...stored, rootAfter, link });
  });
  return { forget, rootBefore: tip.root.toString('hex'), rootAfter: rootAfter.toString('hex') };
}

const KEEP_ROOTS = prepared((db) =>
  db.insert(replacedRoots).select(
    db
      .select({
        forget: sql<number>`${param('forget')}`.as('forget'),
        run: runs.run,
        root: sql<Buffer>`${runs.root}`.as('root'),
        intoRun: sql<null>`NULL`.as('into_run'),
      })
      .from(runs)
      .where(isNotNull(runs.root)),
  ),
);

const ADD_FORGET = prepared((db) => db.insert(forgets).values(paramsOf(forgets)));

const NOTE_TARGET = prepared((db) => {
  const { forget, run, intoRun } = paramsOf(replacedRoots);
  return db
    .update(replacedRoots)
    .set({ intoRun })
    .where(and(eq(replacedRoots.forget, forget), eq(replacedRoots.run, run)));
});

/** Stores into which runs the forgotten ones were merged, for messages about them. */
function noteTargets(writer: Connection, forget: number, { plan }: ForgetFacts): void {
  for (const { run, into } of plan.forgotten)
    if (into !== null) NOTE_TARGET(writer).run({ intoRun: into, forget, run });
}

const DROP_RUN = [sweeps, carriedSweeps, runs].map((table) =>
  prepared((db) => db.delete(table).where(eq(table.run, param('run')))),
);

function* dropRuns(writer: Connection, dropped: readonly number[]): Generator<undefined> {
  const drops = DROP_RUN.map((drop) => drop(writer));
  const unseal = rowSealer(writer, 'runs');
  for (const [index, run] of dropped.entries()) {
    for (const drop of drops) drop.run({ run });
    unseal([run]);
    if (index % SLICE === SLICE - 1) yield undefined;
  }
}

const SEAL = prepared((db) => {
  const { run, changeDigest, sweepDigest, previousRoot, root } = paramsOf(runs);
  return db.update(runs).set({ changeDigest, sweepDigest, previousRoot, root }).where(eq(runs.run, run));
});

/** Recomputes the roots of all runs, of which the first follows `link`; returns the last root. */
export function* chain(
  writer: Connection,
  link: Buffer,
  changed: ReadonlySet<number>,
): Generator<undefined, Buffer> {
  let previousRoot = link;
  for (const [index, sealed] of readSealed(writer).entries()) {
    const digests = changed.has(sealed.run) ? yield* digestRun(writer, sealed.run) : sealed;
    const { changeDigest, sweepDigest } = digests;
    const next: SealedRun = { ...sealed, changeDigest, sweepDigest, previousRoot };
    const root = rootOf(next);
    SEAL(writer).run({ changeDigest, sweepDigest, previousRoot, root, run: sealed.run });
    previousRoot = root;
    if (index % SLICE === SLICE - 1) yield undefined;
  }
  return previousRoot;
}

export interface ForgetFacts {
  readonly at: string;
  readonly actor: Actor;
  readonly policy: RetentionPolicy;
  /** Names of the sources that were processed. */
  readonly sources: readonly string[];
  /** Forgets at least one run. */
  readonly plan: RetentionPlan;
  readonly isEqual: MergeOptions['isEqual'];
}
