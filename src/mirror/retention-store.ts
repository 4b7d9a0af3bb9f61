/** The store of retention: plans and drops runs, and reads which runs were dropped and into which kept runs they were merged. */
import { and, asc, eq, gt, isNotNull, lt, lte, max, sql } from 'drizzle-orm';
import { alias } from 'drizzle-orm/sqlite-core';
import type { MirrorAccess } from './access.ts';
import type { Connection } from './database.ts';
import { readForgets, readStoredForgets, type StoredForget } from './forget-records.ts';
import { type ForgetOptions, type ForgetResult, forgetRuns, previewForget } from './forget.ts';
import { param, prepared } from './query.ts';
import { rangesOf } from './retention.ts';
import { forgets, replacedRoots } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';
import { sources } from './schema/source-tables.ts';
import { isMove } from './verify-chain.ts';

interface ForgottenRunRow {
  readonly run: number;
  /** When retention dropped it, ISO 8601. */
  readonly at: string;
  /** The kept run that has its changes now; null if it had none. */
  readonly into: number | null;
}

/** A run of another source, which a move of the mirror left behind. */
export interface MovedRunRow {
  readonly run: number;
  /** When the mirror was moved, ISO 8601. */
  readonly at: string;
  readonly wasPublished: boolean;
}

/** The runs of a source that retention dropped between two kept ones: their changes are part of the later one. */
export interface ForgottenBefore {
  readonly count: number;
  /** As ranges, ascending; runs of other sources may be within them. */
  readonly runs: readonly (readonly [first: number, last: number])[];
  /** When retention dropped the last of them, ISO 8601. */
  readonly at: string;
}

export type RetentionStore = ReturnType<typeof retentionStore>;

export function retentionStore(access: MirrorAccess) {
  return {
    ...access.reads({
      forgets: readForgets,
      forgottenRun: readForgottenRun,
      movedRun: readMovedRun,
      forgottenBefore: readForgottenBefore,
      sourcesForgottenAt: readSourcesForgottenAt,
      plan: previewForget,
    }),

    /**
     * Drops local history: what forgotten runs did and saw is merged into the next kept run of their source, so that every kept
     * run shows its source exactly as before. A run that a rule, a pin or `sources` keeps also shows every other source as before,
     * because the runs that this needs are kept beside it. These in turn may show other sources in an earlier state
     * (`sourcesForgottenAt`). The hash chain is recomputed in the same transaction; then the file is rebuilt by VACUUM.
     * @throws TidemarkError `usage`, `mirror_locked` while a run is in progress, `mirror_corrupt` if the history is not as it was
     * sealed; then nothing was forgotten
     */
    forget: async (options: ForgetOptions): Promise<ForgetResult> =>
      await forgetRuns(access.writerForForget(), options),
  };
}

/** When retention dropped a run, and which kept run has its changes now; undefined if it was not dropped. */
function readForgottenRun(connection: Connection, run: number): ForgottenRunRow | undefined {
  const found = forgetsNaming(connection, run).find((each) => !isMove(each));
  if (found === undefined) return undefined;
  return { run, at: found.at, into: readTargets(connection)(run) ?? null };
}

/**
 * When a move left behind a run of another source, or the run into which retention had merged it; undefined for a run that is here, or
 * that retention dropped.
 */
function readMovedRun(connection: Connection, run: number): MovedRunRow | undefined {
  const last = readTargets(connection)(run) ?? run;
  if (SOURCE_OF(connection).get({ run: last }) !== undefined) return undefined;
  const move = forgetsNaming(connection, last).findLast(isMove);
  if (move === undefined) return undefined;
  const { at, forget } = move;
  return { run, at, wasPublished: REPLACED_ROOT(connection).get({ forget, run: last }) !== undefined };
}

/** The forgets and moves that removed the run, oldest first. */
function forgetsNaming(connection: Connection, run: number): StoredForget[] {
  return readStoredForgets(connection).filter((each) =>
    (JSON.parse(each.runs) as [number, number][]).some(([first, last]) => first <= run && run <= last),
  );
}

/**
 * Names of the sources whose state as of a kept run retention dropped: changes before this run, and after the source's previous kept
 * run, are part of a later run now. Sorted; mostly none, because the run beside it is kept too.
 */
function readSourcesForgottenAt(connection: Connection, run: number): string[] {
  const target = readTargets(connection);
  // Runs from before each source's kept run were merged into that one, or an earlier one.
  const later = GONE_WITHIN(connection)
    .all({ run })
    .flatMap(({ run: gone }) => target(gone) ?? [])
    .filter((into) => into > run);
  const sources = [...new Set(later)].flatMap(
    (into) => SOURCE_OF(connection).get({ run: into })?.source ?? [],
  );
  return [...new Set(sources)].sort();
}

/** The dropped runs that were merged into a kept run; undefined if there are none. */
function readForgottenBefore(connection: Connection, run: number): ForgottenBefore | undefined {
  const target = readTargets(connection);
  const gone = GONE_BEFORE(connection)
    .all({ run })
    .filter((row) => target(row.run) === run);
  if (gone.length === 0) return undefined;
  const at = gone.reduce((latest, row) => (row.at > latest ? row.at : latest), '');
  return { count: gone.length, runs: rangesOf(gone.map((row) => row.run)), at };
}

/** Returns a function for the run into which a dropped run was merged at last: that run may have been dropped later itself. */
function readTargets(connection: Connection): (run: number) => number | undefined {
  const next = (run: number): number | undefined => INTO(connection).get({ run })?.into ?? undefined;
  return (run) => {
    let at: number | undefined;
    for (let into = next(run); into !== undefined; into = next(into)) at = into;
    return at;
  };
}

const INTO = prepared((db) =>
  db
    .select({ into: replacedRoots.intoRun })
    .from(replacedRoots)
    .where(and(eq(replacedRoots.run, param('run')), isNotNull(replacedRoots.intoRun)))
    .limit(1),
);

/** A move replaces the roots of all published runs, also of those that it leaves behind. */
const REPLACED_ROOT = prepared((db) =>
  db
    .select({ run: replacedRoots.run })
    .from(replacedRoots)
    .where(and(eq(replacedRoots.forget, param('forget')), eq(replacedRoots.run, param('run')))),
);

const SOURCE_OF = prepared((db) =>
  db
    .select({ source: sources.name })
    .from(runs)
    .innerJoin(sources, eq(sources.id, runs.source))
    .where(eq(runs.run, param('run'))),
);

/** Dropped runs up to this one, and after the oldest of the sources' states as of it. */
const GONE_WITHIN = prepared((db) => {
  const shown = db
    .select({ run: max(runs.run) })
    .from(runs)
    .where(and(eq(runs.source, sources.id), lte(runs.run, param('run')), isNotNull(runs.root)));
  const oldestShown = db.select({ run: sql<number>`min(ifnull(${shown}, 0))` }).from(sources);
  return db
    .select({ run: replacedRoots.run })
    .from(replacedRoots)
    .where(
      and(
        isNotNull(replacedRoots.intoRun),
        lte(replacedRoots.run, param('run')),
        gt(replacedRoots.run, oldestShown),
      ),
    );
});

/** Dropped runs before this one, and after the previous published run of the same source. */
const GONE_BEFORE = prepared((db) => {
  const [own, earlier] = [alias(runs, 'own'), alias(runs, 'earlier')];
  const previous = db
    .select({ run: max(earlier.run) })
    .from(own)
    .innerJoin(earlier, eq(earlier.source, own.source))
    .where(and(eq(own.run, param('run')), lt(earlier.run, param('run')), isNotNull(earlier.root)));
  return db
    .select({ run: replacedRoots.run, at: sql<string>`max(${forgets.at})` })
    .from(replacedRoots)
    .innerJoin(forgets, eq(forgets.forget, replacedRoots.forget))
    .where(
      and(
        isNotNull(replacedRoots.intoRun),
        lt(replacedRoots.run, param('run')),
        gt(replacedRoots.run, sql`ifnull(${previous}, 0)`),
      ),
    )
    .groupBy(replacedRoots.run)
    .orderBy(asc(replacedRoots.run));
});
