/** What had been read of each collection as of a run, and when its entire list was last read. */
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey } from '../catalog/order.ts';
import {
  type SQL,
  type SQLWrapper,
  and,
  desc,
  eq,
  gt,
  gte,
  inArray,
  isNotNull,
  isNull,
  lt,
  lte,
  or,
  sql,
} from 'drizzle-orm';
import type { ErrorCode } from '../core/errors.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import { readOrganizationsOfProjects } from './record-filter.ts';
import { type CollectionRow, readCollections, readRuns } from './run-rows.ts';
import { carriedSweeps, runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import type { SweepOutcome } from './sweep-result.ts';
import type { RunTime } from './record-page.ts';

export interface SeenCollection extends CollectionKey {
  /** The last run up to that one which tried to read it; null if none did, or retention dropped it. */
  readonly lastRun: number | null;
  readonly outcome: SweepOutcome | null;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  readonly wasRead: boolean;
  /** The last published run up to that one which read it, completely or not. */
  readonly readRun: number | null;
  /** The last one that read it completely, even if removals were held; null if none is known. */
  readonly completeRun: number | null;
  /** True if it was gone with its parent record by then. */
  readonly isRetired: boolean;
}

/** Outcomes of sweeps that read the collection, completely or not. */
export const READ: readonly SweepOutcome[] = ['complete', 'incomplete', 'held'];

/**
 * For each collection of a source, in catalog order, then by scope. Retention does not change the result for the runs that it keeps:
 * `carried_sweeps` has the last sweeps of dropped runs.
 */
export function readSweepsAsOf(connection: Connection, source: string, run: number): SeenCollection[] {
  const rows = readCollections(connection, source);
  const isLast = ({ lastRun }: CollectionRow): boolean => lastRun === null || lastRun <= run;
  // If no collection has a later sweep, their own rows have everything, and a long history need not be read.
  const earlier = rows.every(isLast) ? [] : AS_OF(connection).all({ source, run });
  const byCollection = new Map(earlier.map(({ collection, ...seen }) => [collection, seen]));
  return rows.map((row): SeenCollection => {
    const { id, kind, scope, lastOutcome, lastCompleteRun, retiredRun } = row;
    const isRetired = retiredRun !== null && retiredRun <= run;
    if (isLast(row)) {
      const isRead = lastOutcome !== null && READ.includes(lastOutcome);
      return {
        ...{ kind, scope, lastRun: row.lastRun, outcome: lastOutcome },
        ...{ errorCode: row.lastErrorCode, error: row.lastError },
        wasRead: isRead || lastCompleteRun !== null || row.records > 0,
        readRun: isRead ? row.lastRun : lastCompleteRun,
        ...{ completeRun: lastCompleteRun, isRetired },
      };
    }
    const found = byCollection.get(id);
    // Retention drops sweeps of forgotten runs, but the collection's row still has the last complete one.
    const known = lastCompleteRun !== null && lastCompleteRun <= run ? lastCompleteRun : null;
    if (found !== undefined)
      return {
        ...{ kind, scope, ...found, wasRead: found.readRun !== null },
        ...{ completeRun: known ?? found.completeRun, isRetired },
      };
    return {
      ...{ kind, scope, lastRun: known, outcome: known === null ? null : 'complete' },
      ...{ errorCode: null, error: null, wasRead: known !== null, readRun: known, completeRun: known },
      isRetired,
    };
  });
}

/** A collection that the newest run of all kinds did not try to read although it exists: the configuration left it out. */
export interface UnaskedCollection extends CollectionKey {
  /** Why it was left out: its kind, a parent in its path of which that run read nothing, or its project's organization. */
  readonly by: 'kind' | 'organization_id' | 'project_id' | 'organization_of_project';
  /** The last published run that read it; null if none did. */
  readonly readRun: number | null;
}

/**
 * As of a run, in catalog order, then by scope. A run of all kinds records a sweep of every collection that it knows of, even if it
 * could not read it; so a collection without one was left out. A run of some kinds says nothing about the others.
 */
export function readUnaskedCollections(
  connection: Connection,
  source: string,
  run: number,
  seen?: readonly SeenCollection[],
): UnaskedCollection[] {
  const [newest] = readRuns(connection, {
    source,
    isPublished: true,
    isOfAllKinds: true,
    upTo: run,
    limit: 1,
  });
  // Mostly nothing is left out, which one query shows.
  if (
    newest === undefined ||
    MAY_BE_UNASKED(connection).get({ source, newest: newest.run, run }) === undefined
  )
    return [];
  const there = (seen ?? readSweepsAsOf(connection, source, run)).filter(
    ({ isRetired, lastRun }) => !isRetired && lastRun !== null,
  );
  const isAsked = ({ lastRun }: SeenCollection): boolean => (lastRun ?? 0) >= newest.run;
  const asked = there.filter(isAsked);
  const isLeftOut = ({ scope }: SeenCollection, key: 'organization_id' | 'project_id'): boolean =>
    scope[key] !== undefined &&
    asked.some((each) => each.scope[key] !== undefined) &&
    !asked.some((each) => each.scope[key] === scope[key]);
  const unasked = there.filter((each) => !isAsked(each));
  const ofProjects = unasked.some(({ scope }) => scope.project_id !== undefined)
    ? readOrganizationsOfProjects(connection, source, run)
    : undefined;
  // By the organizations' own lists: a run without any of them may just not have needed one.
  const organizations = new Set(asked.flatMap(({ scope }) => scope.organization_id ?? []));
  const isOfLeftOut = ({ scope: { project_id: project } }: SeenCollection): boolean => {
    const own = project === undefined ? [] : (ofProjects?.get(project) ?? []);
    return organizations.size > 0 && own.length > 0 && !own.some((id) => organizations.has(id));
  };
  const leftOutBy = (each: SeenCollection): UnaskedCollection['by'] => {
    if (isLeftOut(each, 'organization_id')) return 'organization_id';
    if (isOfLeftOut(each)) return 'organization_of_project';
    return isLeftOut(each, 'project_id') ? 'project_id' : 'kind';
  };
  return unasked.map((each) => ({
    ...{ kind: each.kind, scope: each.scope },
    ...{ by: leftOutBy(each), readRun: each.readRun },
  }));
}

/** A sweep of a run of all kinds that read records by their ids instead of the list. */
interface NamedSweep {
  readonly run: number;
  readonly records: number;
  /** The last published run before that read the list, or more of it; null if none is known. */
  readonly widerRun: number | null;
}

/**
 * As of a run, for the kind's list at the root. Null if the newest run of all kinds read the list itself, or did not find one of the
 * records, or a later run read the list.
 */
export function readNamedSweep(
  connection: Connection,
  source: string,
  run: number,
  kind: Kind,
): NamedSweep | null {
  const [newest] = readRuns(connection, {
    ...{ source, isPublished: true, isOfAllKinds: true },
    ...{ upTo: run, limit: 1 },
  });
  if (newest === undefined) return null;
  const own = LAST_LISTED_OR_IN(connection).get({ source, kind, run, newest: newest.run });
  if (own === undefined || own.mode !== null || own.outcome !== 'complete') return null;
  const wider = LAST_WIDER(connection).get({ source, kind, run: own.run, records: own.records });
  return { run: own.run, records: own.records, widerRun: wider?.run ?? null };
}

/** The runs and collections of a source, of one kind. */
const OF_KIND = and(
  eq(sources.name, param('source')),
  eq(runs.source, sources.id),
  eq(collections.source, sources.id),
  eq(collections.kind, param('kind')),
);

const LAST_LISTED_OR_IN = prepared((db) =>
  db
    .select({ run: runs.run, mode: sweeps.mode, outcome: sweeps.outcome, records: sweeps.records })
    .from(runs)
    .crossJoin(sources)
    .crossJoin(collections)
    .innerJoin(sweeps, and(eq(sweeps.run, runs.run), eq(sweeps.collection, collections.id)))
    .where(
      and(
        OF_KIND,
        gte(runs.run, param('newest')),
        lte(runs.run, param('run')),
        isNotNull(runs.root),
        or(
          eq(runs.run, param('newest')),
          and(eq(sweeps.mode, 'full'), inArray(sweeps.outcome, ['complete', 'held'])),
        ),
      ),
    )
    .orderBy(desc(runs.run))
    .limit(1),
);

const LAST_WIDER = prepared((db) =>
  db
    .select({ run: runs.run })
    .from(runs)
    .crossJoin(sources)
    .crossJoin(collections)
    .innerJoin(sweeps, and(eq(sweeps.run, runs.run), eq(sweeps.collection, collections.id)))
    .where(
      and(
        OF_KIND,
        lt(runs.run, param('run')),
        isNotNull(runs.root),
        inArray(sweeps.outcome, READ),
        or(eq(sweeps.mode, 'full'), gt(sweeps.records, param('records'))),
      ),
    )
    .orderBy(desc(runs.run))
    .limit(1),
);

const MAY_BE_UNASKED = prepared((db) =>
  db
    .select({ id: collections.id })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(
      and(
        eq(sources.name, param('source')),
        or(isNull(collections.retiredRun), gt(collections.retiredRun, param('run'))),
        or(lt(collections.lastRun, param('newest')), gt(collections.lastRun, param('run'))),
      ),
    )
    .limit(1),
);

const AS_OF = prepared((db) => {
  const carriedUpTo = lte(carriedSweeps.run, param('run'));
  const seen = db.$with('seen').as(
    db
      .select({
        collection: sweeps.collection,
        run: sweeps.run,
        outcome: sweeps.outcome,
        // Sweeps of runs that were never published do not count as read.
        isPublished: sql<number>`${runs.root} IS NOT NULL`.as('is_published'),
      })
      .from(sweeps)
      .innerJoin(runs, eq(runs.run, sweeps.run))
      .where(lte(sweeps.run, param('run')))
      .unionAll(
        db
          .select({
            collection: carriedSweeps.collection,
            run: carriedSweeps.seenRun,
            outcome: carriedSweeps.outcome,
            isPublished: sql<number>`${carriedSweeps.isPublished}`.as('is_published'),
          })
          .from(carriedSweeps)
          .where(carriedUpTo),
      ),
  );
  const lastWith = (outcomes: readonly SweepOutcome[]) =>
    sql<
      number | null
    >`max(CASE WHEN ${seen.isPublished} AND ${inArray(seen.outcome, outcomes)} THEN ${seen.run} END)`;
  const latest = db.$with('latest').as(
    db
      .select({
        collection: seen.collection,
        run: sql<number>`max(${seen.run})`.as('latest_run'),
        readRun: lastWith(READ).as('read_run'),
        completeRun: lastWith(['complete', 'held']).as('complete_run'),
      })
      .from(seen)
      .groupBy(seen.collection),
  );
  const last = db
    .select()
    .from(carriedSweeps)
    .where(carriedUpTo)
    .groupBy(carriedSweeps.collection, carriedSweeps.seenRun)
    .as('last_carried');
  const ofLast = <T>(own: SQLWrapper, other: SQLWrapper) =>
    sql<T>`iif(${sweeps.run} IS NULL, ${other}, ${own})`;
  return db
    .with(seen, latest)
    .select({
      collection: latest.collection,
      lastRun: latest.run,
      outcome: ofLast<SweepOutcome>(sweeps.outcome, last.outcome),
      errorCode: ofLast<ErrorCode | null>(sweeps.errorCode, last.errorCode),
      error: ofLast<string | null>(sweeps.error, last.error),
      readRun: latest.readRun,
      completeRun: latest.completeRun,
    })
    .from(latest)
    .innerJoin(collections, eq(collections.id, latest.collection))
    .innerJoin(sources, eq(sources.id, collections.source))
    .leftJoin(sweeps, and(eq(sweeps.run, latest.run), eq(sweeps.collection, latest.collection)))
    .leftJoin(last, and(eq(last.collection, latest.collection), eq(last.seenRun, latest.run)))
    .where(eq(sources.name, param('source')));
});

/**
 * The last published run before `before` that read the entire list of the collection completely; undefined if none is known. A head
 * read does not count, because it does not read the rest of the list, nor does a sweep whose removals were held.
 */
export function readLastFullSweep(
  connection: Connection,
  collection: number,
  before: number,
): RunTime | undefined {
  const kept = LAST_FULL(connection).get({ collection, before });
  const carried = LAST_FULL_CARRIED(connection).get({ collection, before });
  return carried !== undefined && (kept === undefined || carried.run > kept.run) ? carried : kept;
}

/** From the latest full sweep backwards, with a look-up by key for each run: mostly the first one is found. */
const LAST_FULL = prepared((db) =>
  db
    .select({ run: runs.run, at: sql<string>`${runs.finishedAt}` })
    .from(collections)
    .crossJoin(runs)
    .crossJoin(sweeps)
    .where(
      and(
        eq(collections.id, param('collection')),
        lte(runs.run, collections.lastFullRun),
        lt(runs.run, param('before')),
        isNotNull(runs.root),
        eq(sweeps.run, runs.run),
        eq(sweeps.collection, collections.id),
        eq(sweeps.outcome, 'complete'),
        eq(sweeps.mode, 'full'),
      ),
    )
    .orderBy(desc(runs.run))
    .limit(1),
);

/** The latest sweep of a dropped run that meets the condition. */
function lastCarried(condition: SQL | undefined) {
  return prepared((db) =>
    db
      .select({ run: carriedSweeps.seenRun, at: sql<string>`${carriedSweeps.seenAt}` })
      .from(carriedSweeps)
      .where(condition)
      .orderBy(desc(carriedSweeps.seenRun))
      .limit(1),
  );
}

const IS_CARRIED_READING = and(
  eq(carriedSweeps.collection, param('collection')),
  eq(carriedSweeps.isPublished, true),
);

/** Merged into a kept run before `before`. */
const LAST_FULL_CARRIED = lastCarried(
  and(
    lt(carriedSweeps.run, param('before')),
    IS_CARRIED_READING,
    eq(carriedSweeps.outcome, 'complete'),
    eq(carriedSweeps.mode, 'full'),
  ),
);

/**
 * The last published run that retention merged into a kept run and that read the collection, completely or not; undefined if the
 * kept run read it itself, or none is known.
 */
export function readDroppedReading(
  connection: Connection,
  collection: number,
  run: number,
): RunTime | undefined {
  return LAST_READ_INTO(connection).get({ collection, run });
}

const LAST_READ_INTO = lastCarried(
  and(
    eq(carriedSweeps.run, param('run')),
    IS_CARRIED_READING,
    inArray(carriedSweeps.outcome, READ),
    sql`NOT EXISTS (SELECT 1 FROM ${sweeps} WHERE ${and(
      eq(sweeps.run, carriedSweeps.run),
      eq(sweeps.collection, carriedSweeps.collection),
      inArray(sweeps.outcome, READ),
    )})`,
  ),
);

/** When a dropped run ended, if it was the last one to read some list; otherwise null. */
export function readDroppedEnd(connection: Connection, run: number): string | null {
  return END_OF_DROPPED(connection).get({ run })?.at ?? null;
}

/** Its sweep is stored for the next kept run of its source, which is mostly the first row here. */
const END_OF_DROPPED = lastCarried(
  and(gt(carriedSweeps.run, param('run')), eq(carriedSweeps.seenRun, param('run'))),
);
