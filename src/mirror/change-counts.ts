/**
 * Counts of what runs changed, computed in SQL. A run into which `forget` merged others is counted by its revisions, because its own
 * sweeps do not include their changes.
 */
import { definitionOf, familyKinds } from '../catalog/catalog.ts';
import type { CollectionKey } from '../catalog/order.ts';
import {
  and,
  asc,
  count,
  eq,
  exists,
  gt,
  gte,
  inArray,
  isNotNull,
  lt,
  lte,
  max,
  min,
  not,
  notExists,
  or,
  sql,
} from 'drizzle-orm';
import { alias } from 'drizzle-orm/sqlite-core';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { type QueryBuilder, isAmong, param, prepared, unlessGiven } from './query.ts';
import { IS_PUBLISHED } from './run-rows.ts';
import { knownKind, storedScope } from './stored-names.ts';
import { allRevisions, records, revisions } from './schema/record-tables.ts';
import { replacedRoots } from './schema/retention-tables.ts';
import { carriedSweeps, runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** Published runs, and the kinds whose changes count; null for all kinds. */
interface ChangeSelection {
  readonly runs: readonly number[];
  readonly kinds: readonly Kind[] | null;
}

const IS_OF_KINDS = unlessGiven('kinds', isAmong(collections.kind, 'kinds'));
const HAS_CHANGES = sql`${runs.added} + ${runs.changed} + ${runs.removed} > 0`;

/** Runs into which `forget` merged others. */
function absorbingRuns(db: QueryBuilder) {
  return db
    .select({ run: replacedRoots.intoRun })
    .from(replacedRoots)
    .where(isNotNull(replacedRoots.intoRun));
}

const COUNTS = prepared((db) => {
  const times = (change: number) => sql<number>`sum(${allRevisions.change} = ${change})`;
  const byRevisions = db
    .select({
      run: allRevisions.run,
      added: times(REVISION_CHANGE.added),
      changed: times(REVISION_CHANGE.changed),
      removed: times(REVISION_CHANGE.removed),
    })
    .from(allRevisions)
    .innerJoin(collections, eq(collections.id, allRevisions.collection))
    .where(and(isAmong(allRevisions.run, 'runs'), inArray(allRevisions.run, absorbingRuns(db)), IS_OF_KINDS))
    .groupBy(allRevisions.run);
  return db
    .select({
      run: sweeps.run,
      added: sql<number>`sum(${sweeps.added})`,
      changed: sql<number>`sum(${sweeps.changed})`,
      removed: sql<number>`sum(${sweeps.removed})`,
    })
    .from(sweeps)
    .innerJoin(collections, eq(collections.id, sweeps.collection))
    .where(and(isAmong(sweeps.run, 'runs'), not(inArray(sweeps.run, absorbingRuns(db))), IS_OF_KINDS))
    .groupBy(sweeps.run)
    .unionAll(byRevisions);
});

/** By run; runs that changed nothing in the kinds may be missing. First readings count as additions. */
export function readChangeCounts(
  connection: Connection,
  selection: ChangeSelection,
): ReadonlyMap<number, ChangeCounts> {
  const rows = COUNTS(connection).all(parametersOf(selection));
  return new Map(rows.map(({ run, ...counts }) => [run, counts]));
}

/** Changes of a run that both the union of a family (`plugins`) and the list of the family show. */
interface RepeatedChanges extends CollectionKey, ChangeCounts {
  /** The kind of the family's list; `kind` is the union. */
  readonly familyKind: Kind;
  readonly run: number;
}

const REPEATS = prepared((db) => {
  const union = alias(collections, 'in_union');
  const family = alias(collections, 'in_family');
  const shown = alias(records, 'shown');
  const listed = alias(records, 'listed');
  const isPair = or(
    ...KINDS.filter((kind) => definitionOf(kind).isUnionOfFamily).map((kind) =>
      and(
        eq(union.kind, kind),
        inArray(
          family.kind,
          familyKinds(kind).filter((each) => each !== kind),
        ),
      ),
    ),
  );
  const isListed = db
    .select({ record: allRevisions.record })
    .from(allRevisions)
    .where(
      and(
        eq(allRevisions.record, listed.record),
        eq(allRevisions.run, sql`"changed"."run"`),
        eq(allRevisions.change, sql`"changed"."change"`),
      ),
    );
  // From the run to its few changes: the tables of revisions are large.
  const repeatsIn = (changed: typeof changedRecords | typeof changedRevisions) =>
    db
      .select({
        run: changed.run,
        kind: union.kind,
        scope: union.scope,
        familyKind: family.kind,
        change: changed.change,
        records: count().as('records'),
      })
      .from(union)
      .crossJoin(family)
      .crossJoin(changed)
      .crossJoin(shown)
      .crossJoin(listed)
      .where(
        and(
          isPair,
          unlessGiven('kinds', isAmong(union.kind, 'kinds')),
          unlessGiven('kinds', isAmong(family.kind, 'kinds')),
          eq(family.source, union.source),
          eq(family.scope, union.scope),
          isAmong(changed.run, 'runs'),
          eq(changed.collection, union.id),
          eq(shown.record, changed.record),
          eq(listed.collection, family.id),
          eq(listed.remoteId, shown.remoteId),
          exists(isListed),
        ),
      )
      .groupBy(changed.run, union.id, family.id, changed.change);
  const changedRecords = alias(records, 'changed');
  const changedRevisions = alias(revisions, 'changed');
  return repeatsIn(changedRecords).unionAll(repeatsIn(changedRevisions));
});

/** Changes that are twice in counts by sweep. Those that only the union lists are not included. */
export function readRepeatedChanges(connection: Connection, selection: ChangeSelection): RepeatedChanges[] {
  return REPEATS(connection)
    .all(parametersOf(selection))
    .map(({ run, kind, familyKind, scope, change, records: times }) => ({
      ...{ run, kind: knownKind(kind), familyKind: knownKind(familyKind), scope: storedScope(scope) },
      added: change === REVISION_CHANGE.added ? times : 0,
      changed: change === REVISION_CHANGE.changed ? times : 0,
      removed: change === REVISION_CHANGE.removed ? times : 0,
    }));
}

const CHANGING = prepared((db) =>
  db
    .selectDistinct({ run: runs.run })
    .from(runs)
    .crossJoin(sweeps)
    .crossJoin(collections)
    .where(
      and(
        isAmong(runs.run, 'runs'),
        HAS_CHANGES,
        eq(sweeps.run, runs.run),
        eq(collections.id, sweeps.collection),
        sql`${sweeps.added} + ${sweeps.changed} + ${sweeps.removed} > 0`,
        IS_OF_KINDS,
      ),
    )
    .union(
      db
        .select({ run: sql<number>`${replacedRoots.intoRun}` })
        .from(replacedRoots)
        .where(and(isNotNull(replacedRoots.intoRun), isAmong(replacedRoots.intoRun, 'runs'))),
    ),
);

/** The runs that changed something in the kinds, or into which others were merged. */
export function readChangingRuns(connection: Connection, selection: ChangeSelection): number[] {
  return CHANGING(connection)
    .all(parametersOf(selection))
    .map(({ run }) => run);
}

function parametersOf({ runs: numbers, kinds }: ChangeSelection): Record<string, unknown> {
  return { runs: JSON.stringify(numbers), kinds: kinds === null ? null : JSON.stringify(kinds) };
}

const UPPER_BOUND = prepared((db) =>
  db
    .select({ changes: sql<number>`total(${sweeps.added} + ${sweeps.changed} + ${sweeps.removed})` })
    .from(runs)
    .crossJoin(sources)
    .crossJoin(sweeps)
    .crossJoin(collections)
    .where(
      and(
        gt(runs.run, param('after')),
        lte(runs.run, param('upTo')),
        eq(sources.id, runs.source),
        eq(sources.name, param('source')),
        inArray(runs.outcome, ['complete', 'partial']),
        HAS_CHANGES,
        eq(sweeps.run, runs.run),
        eq(collections.id, sweeps.collection),
        not(isAmong(collections.kind, 'exceptKinds')),
      ),
    ),
);

/** The most records that the runs of (after, upTo] may have changed: a record that several runs changed counts several times. */
export function countChangesBetween(
  connection: Connection,
  range: {
    readonly source: string;
    readonly after: number;
    readonly upTo: number;
    readonly exceptKinds: readonly Kind[];
  },
): number {
  const row = UPPER_BOUND(connection).get({ ...range, exceptKinds: JSON.stringify(range.exceptKinds) });
  return row?.changes ?? 0;
}

const CHANGES_AFTER = prepared((db) =>
  db
    .select({ run: runs.run })
    .from(runs)
    .crossJoin(sources)
    .where(
      and(
        gt(runs.run, param('after')),
        eq(sources.id, runs.source),
        eq(sources.name, param('source')),
        IS_PUBLISHED,
        or(HAS_CHANGES, inArray(runs.run, absorbingRuns(db))),
      ),
    )
    .limit(1),
);

/** True if a later published run of the source changed something, or had others merged into it. */
export function hasChangesAfter(connection: Connection, source: string, after: number): boolean {
  return CHANGES_AFTER(connection).get({ source, after }) !== undefined;
}

/** A published run that changed something, or into which others were merged. */
interface ChangedRun {
  readonly run: number;
  /** ISO 8601. */
  readonly finishedAt: string;
  /** Hex. Another mirror has other roots, as has this one after a `forget`. */
  readonly root: string;
}

const CHANGED_SINCE = prepared((db) => {
  const first = db
    .select({ run: min(runs.run) })
    .from(runs)
    .where(IS_PUBLISHED)
    .groupBy(runs.source);
  return db
    .select({
      run: runs.run,
      finishedAt: sql<string>`${runs.finishedAt}`,
      root: sql<string>`lower(hex(${runs.root}))`,
    })
    .from(runs)
    .where(
      and(
        gte(runs.finishedAt, param('since')),
        IS_PUBLISHED,
        or(HAS_CHANGES, inArray(runs.run, absorbingRuns(db))),
        not(inArray(runs.run, first)),
      ),
    );
});

/** Runs of all sources that ended since then and changed something, without each source's first run, in which everything is new. */
export function readChangedRuns(connection: Connection, since: string): ChangedRun[] {
  return CHANGED_SINCE(connection).all({ since });
}

/** A collection that a run read completely for the first time after its source's first run. */
interface FirstReadRow extends CollectionKey {
  readonly run: number;
  /** The published run of the source before it. */
  readonly previous: number;
  readonly source: string;
  /** Records added. */
  readonly added: number;
}

const FIRST_READS = prepared((db) => {
  const earlier = alias(runs, 'earlier');
  const before = alias(sweeps, 'before');
  const came = db
    .select({
      run: sweeps.run,
      collection: sweeps.collection,
      added: sql<number>`${sweeps.added}`.as('added'),
    })
    .from(sweeps)
    .where(and(isAmong(sweeps.run, 'runs'), not(inArray(sweeps.run, absorbingRuns(db))), gt(sweeps.added, 0)))
    .unionAll(
      db
        .select({
          run: allRevisions.run,
          collection: allRevisions.collection,
          added: sql<number>`count(*)`.as('added'),
        })
        .from(allRevisions)
        .where(
          and(
            isAmong(allRevisions.run, 'runs'),
            inArray(allRevisions.run, absorbingRuns(db)),
            eq(allRevisions.change, REVISION_CHANGE.added),
          ),
        )
        .groupBy(allRevisions.run, allRevisions.collection),
    )
    .as('came');
  const previous = db
    .select({ run: max(earlier.run) })
    .from(earlier)
    .where(and(eq(earlier.source, collections.source), lt(earlier.run, came.run), isNotNull(earlier.root)));
  const wasRead = db
    .select({ run: before.run })
    .from(before)
    .innerJoin(earlier, eq(earlier.run, before.run))
    .where(
      and(
        eq(before.collection, came.collection),
        lt(before.run, came.run),
        eq(before.outcome, 'complete'),
        eq(before.mode, 'full'),
        isNotNull(earlier.root),
      ),
    );
  const wasReadByForgotten = db
    .select({ run: carriedSweeps.run })
    .from(carriedSweeps)
    .where(
      and(
        eq(carriedSweeps.collection, came.collection),
        lt(carriedSweeps.run, came.run),
        eq(carriedSweeps.isPublished, true),
        eq(carriedSweeps.outcome, 'complete'),
        eq(carriedSweeps.mode, 'full'),
      ),
    );
  return db
    .select({
      run: came.run,
      previous: sql<number | null>`(${previous})`,
      source: sources.name,
      kind: collections.kind,
      scope: collections.scope,
      added: came.added,
    })
    .from(came)
    .innerJoin(collections, eq(collections.id, came.collection))
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(and(IS_OF_KINDS, notExists(wasRead), notExists(wasReadByForgotten)))
    .orderBy(asc(came.run), asc(collections.id));
});

/** In order of the runs, without each source's first run. */
export function readFirstReads(connection: Connection, selection: ChangeSelection): FirstReadRow[] {
  return FIRST_READS(connection)
    .all(parametersOf(selection))
    .flatMap(({ previous, kind, scope, ...row }) =>
      previous === null ? [] : [{ ...row, previous, kind: knownKind(kind), scope: storedScope(scope) }],
    );
}
