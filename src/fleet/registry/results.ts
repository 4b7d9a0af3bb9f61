/** What the runs of a fleet's cells found, as it was published: the runs, the changes, and the open findings of drift. */
import {
  and,
  asc,
  count as rowCount,
  desc,
  eq,
  exists,
  gt,
  inArray,
  max,
  ne,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import { type ScopeKey, type Severity } from '../../catalog/definition.ts';
import type { CellChange, CellFinding, CellRun } from '../cell.ts';
import type { Database } from './connection.ts';
import type { CellFilter } from './overview.ts';
import { cells, changes, findings, records, runs } from './schema.ts';

/** The first of some rows. */
export interface Listed<Row> {
  readonly rows: readonly Row[];
  /** How many there are in all. */
  readonly total: number;
}

export interface RunOverview extends Omit<CellRun, 'errorCode'> {
  readonly cell: string;
  readonly errorCode: string | null;
  readonly worker: string;
  readonly publishedAt: string;
}

export interface RunFilter extends CellFilter {
  readonly limit: number;
  /** Only runs that are not complete. */
  readonly isFailing?: boolean;
}

/** Runs, newest first. */
export async function runOverviews(
  db: Database,
  { cells: names, limit, isFailing }: RunFilter,
): Promise<RunOverview[]> {
  return db
    .select({
      cell: cells.name,
      run: runs.run,
      outcome: runs.outcome,
      startedAt: runs.startedAt,
      finishedAt: runs.finishedAt,
      requests: runs.requests,
      retries: runs.retries,
      added: runs.added,
      changed: runs.changed,
      removed: runs.removed,
      unchanged: runs.unchanged,
      root: runs.root,
      errorCode: runs.errorCode,
      error: runs.error,
      worker: runs.worker,
      publishedAt: runs.publishedAt,
    })
    .from(runs)
    .innerJoin(cells, eq(cells.id, runs.cell))
    .where(
      and(
        names === undefined ? undefined : inArray(cells.name, [...names]),
        isFailing === true ? ne(runs.outcome, 'complete') : undefined,
      ),
    )
    .orderBy(desc(runs.publishedAt), asc(cells.name), desc(runs.run))
    .limit(limit);
}

/** A time: this many milliseconds ago, or ISO 8601. */
export type Since = { readonly ageMs: number } | { readonly at: string };

export interface ChangeFilter extends CellFilter {
  readonly since: Since;
  readonly kinds?: readonly string[] | undefined;
  /** Ids or names: changes of the organizations, and of what is below them and their projects. */
  readonly organizations?: readonly string[] | undefined;
  readonly limit: number;
}

export interface ChangeOverview extends Omit<CellChange, 'kind'> {
  readonly cell: string;
  /** When it was published. */
  readonly at: string;
  readonly kind: string;
}

/** How many records of a kind a run changed, if these are many. */
export interface ChangeSummary extends Pick<ChangeOverview, 'cell' | 'run' | 'at' | 'kind'> {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** Changes, newest first, and how many there are in all. */
export async function changeOverviews(db: Database, filter: ChangeFilter): Promise<Listed<ChangeOverview>> {
  const where = isOfFilter(db, await withOrganizationIds(db, filter));
  // Two statements: to count with the rows, PostgreSQL would sort all changes of a large fleet.
  const [counted] = await db
    .select({ total: rowCount() })
    .from(changes)
    .innerJoin(cells, eq(cells.id, changes.cell))
    .where(where);
  const rows = await db
    .select(changeColumns)
    .from(changes)
    .innerJoin(cells, eq(cells.id, changes.cell))
    .where(where)
    .orderBy(desc(changes.at), asc(cells.name), asc(changes.kind), asc(changes.id))
    .limit(filter.limit);
  return { rows, total: counted?.total ?? 0 };
}

/**
 * As `changeOverviews`, but with one summary if a run changed more than `most` records of a kind.
 * @returns `limit` rows at most; `total` and `shown` count changes
 */
export async function changeSummaries(
  db: Database,
  filter: ChangeFilter,
  most: number,
): Promise<Listed<ChangeOverview | ChangeSummary> & { readonly shown: number }> {
  const where = isOfFilter(db, await withOrganizationIds(db, filter));
  const amount = (change: ChangeOverview['change']) =>
    sql<number>`count(*) filter (where ${eq(changes.change, change)})`.mapWith(Number);
  const at = max(changes.at);
  const summaries = await db
    .select({
      id: changes.cell,
      cell: cells.name,
      run: changes.run,
      at: at.mapWith(changes.at),
      kind: changes.kind,
      added: amount('added'),
      changed: amount('changed'),
      removed: amount('removed'),
      total: sql<number>`sum(count(*)) over ()`.mapWith(Number),
    })
    .from(changes)
    .innerJoin(cells, eq(cells.id, changes.cell))
    .where(where)
    .groupBy(changes.cell, cells.name, changes.run, changes.kind)
    .orderBy(desc(at), asc(cells.name), desc(changes.run), asc(changes.kind))
    .limit(filter.limit);
  const total = summaries[0]?.total ?? 0;
  const sizeOf = ({ added, changed, removed }: ChangeSummary): number => added + changed + removed;
  const few = summaries.filter((each) => sizeOf(each) <= most);
  const listed =
    few.length === 0
      ? []
      : await db
          .select(changeColumns)
          .from(changes)
          .innerJoin(cells, eq(cells.id, changes.cell))
          .where(
            and(
              where,
              or(
                ...few.map(({ id, run, kind }) =>
                  and(eq(changes.cell, id), eq(changes.run, run), eq(changes.kind, kind)),
                ),
              ),
            ),
          )
          .orderBy(asc(changes.id));
  const keyOf = ({ cell, run, kind }: Pick<ChangeSummary, 'cell' | 'run' | 'kind'>): string =>
    JSON.stringify([cell, run, kind]);
  const listedByKey = Map.groupBy(listed, keyOf);
  const rows = summaries
    .flatMap((each): readonly (ChangeOverview | ChangeSummary)[] => listedByKey.get(keyOf(each)) ?? [each])
    .slice(0, filter.limit);
  const shown = rows.reduce((sum, row) => sum + ('paths' in row ? 1 : sizeOf(row)), 0);
  return { rows, total, shown };
}

const changeColumns = {
  cell: cells.name,
  run: changes.run,
  at: changes.at,
  kind: changes.kind,
  scope: changes.scope,
  id: changes.id,
  name: changes.name,
  change: changes.change,
  paths: changes.paths,
} as const;

/** The filter with the ids of organizations that it names; the id of a removed organization is in its changes. */
async function withOrganizationIds(db: Database, filter: ChangeFilter): Promise<ChangeFilter> {
  const { organizations: given } = filter;
  if (given === undefined) return filter;
  const named = (table: typeof records | typeof changes) =>
    db
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.kind, 'organizations'), inArray(table.name, [...given])));
  const found = [...(await named(records)), ...(await named(changes))].map(({ id }) => id);
  return { ...filter, organizations: [...new Set([...given, ...found])] };
}

/** Those of these ids and names that no cell has in its records, its changes, or its declaration. */
export async function unknownOrganizations(
  db: Database,
  {
    cells: names,
    organizations: given,
  }: Required<CellFilter> & { readonly organizations: readonly string[] },
): Promise<readonly string[]> {
  const isOfCells = names === undefined ? undefined : inArray(cells.name, [...names]);
  const unknown: string[] = [];
  for (const each of given) {
    const isRecord = or(
      eq(records.organization, each),
      and(eq(records.kind, 'organizations'), or(eq(records.id, each), eq(records.name, each))),
    );
    const isChange = or(isBelow(db, [each]), and(eq(changes.kind, 'organizations'), eq(changes.name, each)));
    const isDeclared = sql`${cells.organizations} ? ${each}`;
    const found = await db
      .select({ id: cells.id })
      .from(cells)
      .where(
        and(
          isOfCells,
          or(
            isDeclared,
            exists(
              db
                .select()
                .from(records)
                .where(and(eq(records.cell, cells.id), isRecord)),
            ),
            exists(
              db
                .select()
                .from(changes)
                .where(and(eq(changes.cell, cells.id), isChange)),
            ),
          ),
        ),
      )
      .limit(1);
    if (found.length === 0) unknown.push(each);
  }
  return unknown;
}

function isOfFilter(
  db: Database,
  { cells: names, since, kinds, organizations }: ChangeFilter,
): SQL | undefined {
  const from =
    'at' in since
      ? sql`${since.at}::timestamptz`
      : sql`now() - ${Math.round(since.ageMs)} * interval '1 millisecond'`;
  return and(
    gt(changes.at, from),
    names === undefined ? undefined : inArray(cells.name, [...names]),
    kinds === undefined ? undefined : inArray(changes.kind, [...kinds]),
    organizations === undefined ? undefined : isBelow(db, organizations),
  );
}

/**
 * Matches the organizations and what is below them. A scope is stored as `organization_id=…&project_id=…`; the
 * organization may be missing.
 */
function isBelow(db: Database, organizations: readonly string[]): SQL | undefined {
  const parent = (scope: typeof changes.scope | typeof records.scope, key: ScopeKey) =>
    sql`split_part(split_part(${scope}, ${`${key}=`}, 2), '&', 1)`;
  const escaped = organizations.map((id) => new URLSearchParams({ id }).toString().slice('id='.length));
  const projects = db
    .select({ cell: records.cell, id: records.id })
    .from(records)
    .where(and(eq(records.kind, 'projects'), inArray(parent(records.scope, 'organization_id'), escaped)));
  return or(
    inArray(parent(changes.scope, 'organization_id'), escaped),
    and(eq(changes.kind, 'organizations'), inArray(changes.id, [...organizations])),
    sql`(${changes.cell}, ${parent(changes.scope, 'project_id')}) in ${projects}`,
  );
}

export interface FindingOverview extends Omit<CellFinding, 'kind' | 'otherKeys' | 'before' | 'after'> {
  readonly cell: string;
  readonly kind: string;
  readonly since: string;
  /** Undefined if the cell does not show values. */
  readonly before?: unknown;
  readonly after?: unknown;
}

export interface FindingFilter extends CellFilter {
  readonly severities: readonly Severity[];
  readonly limit: number;
}

/** Open findings, most severe first, and how many there are in all. */
export async function findingOverviews(
  db: Database,
  { cells: names, severities, limit }: FindingFilter,
): Promise<Listed<FindingOverview>> {
  const order = sql`array_position(array['critical', 'high', 'medium', 'low'], ${findings.severity})`;
  const rows = await db
    .select({
      finding: {
        cell: cells.name,
        kind: findings.kind,
        scope: findings.scope,
        id: findings.id,
        name: findings.name,
        path: findings.path,
        change: findings.change,
        severity: findings.severity,
        since: findings.since,
      },
      before: findings.before,
      after: findings.after,
      showsValues: cells.showsValues,
      total: sql<number>`count(*) over ()`.mapWith(Number),
    })
    .from(findings)
    .innerJoin(cells, eq(cells.id, findings.cell))
    .where(
      and(
        ne(cells.state, 'retired'),
        inArray(findings.severity, [...severities]),
        names === undefined ? undefined : inArray(cells.name, [...names]),
      ),
    )
    .orderBy(order, asc(cells.name), asc(findings.kind), asc(findings.name), asc(findings.path))
    .limit(limit);
  return {
    rows: rows.map(({ finding, showsValues, before, after }) => ({
      ...finding,
      ...(showsValues ? { before, after } : {}),
    })),
    total: rows[0]?.total ?? 0,
  };
}
