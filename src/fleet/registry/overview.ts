/** What the fleet's commands and pages show. Ages are computed by PostgreSQL, so the clocks of readers do not matter. */
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
  not,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import { type ScopeKey, type Severity } from '../../catalog/definition.ts';
import type { BaselineOrder, CellChange, CellFinding, CellRun } from '../cell.ts';
import type { Database } from './connection.ts';
import { ageMs, type CellState, cells, changes, findings, groups, records, runs, workers } from './schema.ts';

/** The health of a cell, worst first: of several problems, the first in this list. */
export const CELL_HEALTHS = [
  'quarantined', // it failed five times and is retried once an hour
  'failing', // the last job failed
  'not_stored', // storage lacks its newest mirror, and it is not expected to get it soon
  'late', // it is overdue and nobody works on it, or it waits too long for its limits
  'new', // nothing was published yet
  'partial', // the last run could not read all
  'checked_out', // a person has it
  'fine',
  'retired',
] as const;

export type CellHealth = (typeof CELL_HEALTHS)[number];

/** A cell that has been due for longer is late: workers are missing, or have too few slots. */
export const LATE_MS = 15 * 60_000;
/** The same for a cell that workers had to leave: there may be no worker that can do it. */
const LEFT_LATE_MS = 2 * 60_000;
/**
 * The same for a cell that waits for the service or a limit: from its first run that met the limit, or, for a new cell,
 * from when it was configured, until the end of the wait.
 */
const WAIT_LATE_MS = 2 * 60 * 60_000;
/** How long a mirror may be missing in storage: a cell stores it with its next run. The alert rule waits as long. */
const UNSTORED_MS = 60 * 60_000;
/** A worker that was silent for longer does not count as alive. */
const SILENT_MS = 2 * 60_000;

export interface CellOverview {
  readonly name: string;
  readonly owner: string | null;
  readonly address: string;
  readonly state: CellState;
  readonly health: CellHealth;
  readonly failures: number;
  readonly errorCode: string | null;
  readonly error: string | null;
  readonly lastRun: number | null;
  readonly lastOutcome: CellRun['outcome'] | null;
  /** Why the newest run failed, or is partial. */
  readonly runErrorCode: string | null;
  readonly runError: string | null;
  readonly publishedAt: string | null;
  readonly completeAt: string | null;
  readonly storedAt: string | null;
  readonly dueAt: string | null;
  /** Milliseconds since `publishedAt` and `completeAt`. */
  readonly publishedAgeMs: number | null;
  readonly completeAgeMs: number | null;
  /** Milliseconds since it was due; negative until then. */
  readonly overdueMs: number | null;
  readonly records: number;
  /** False if the registry does not show the records of the newest published run: there are too many, or the mirror is damaged. */
  readonly isProjected: boolean;
  /** False if storage lacks the mirror of the newest published run, as far as the registry knows or a worker found. */
  readonly isStored: boolean;
  /** Milliseconds since the oldest run was published that is not stored; null if the registry knows of none. */
  readonly unstoredAgeMs: number | null;
  /** Milliseconds since the first of the runs that failed after the newest success; null if the newest run did not fail. */
  readonly failingAgeMs: number | null;
  /** Milliseconds since the cell was added, or its configuration last changed. */
  readonly configuredAgeMs: number;
  /** Who published the newest run that did not fail, and so has its mirror; null before the first. */
  readonly lastWorker: string | null;
  readonly isLastWorkerAlive: boolean;
  /** Open findings; null if drift was not determined, or not since the mirror or its baseline was found damaged or altered. */
  readonly findings: number | null;
  /** The findings that the registry lists, 10,000 at most; null if `findings` is. */
  readonly findingsBySeverity: Readonly<Record<Severity, number>> | null;
  /** Worker or person who has its group. */
  readonly holder: string | null;
  readonly root: string | null;
  readonly checkoutHolder: string | null;
  /** Person who checked out this cell or another one of its group; null for none. */
  readonly groupCheckedOutBy: string | null;
  /** Name of the snapshot that drift is measured from, and its run; null without one. */
  readonly baseline: string | null;
  readonly baselineRun: number | null;
  /** The baseline that was asked for and that no worker has set yet. */
  readonly baselineOrder: BaselineOrder | null;
  /** Why the last baseline that was asked for could not be set. */
  readonly baselineError: string | null;
}

/** Number of a cell's newest run that did not fail; 0 for none. */
export const NEWEST_PUBLISHED = sql`coalesce((select max(${runs.run}) from ${runs} where ${runs.cell} = ${cells.id} and ${runs.root} is not null), 0)`;

const LAST_WORKER = sql`(select ${runs.worker} from ${runs} where ${runs.cell} = ${cells.id} and ${runs.run} = ${NEWEST_PUBLISHED})`;
const ofNewestRun = (column: unknown) =>
  sql<
    string | null
  >`(select ${column} from ${runs} where ${runs.cell} = ${cells.id} order by ${runs.run} desc limit 1)`;
const SILENT_SINCE = sql`now() - ${SILENT_MS} * interval '1 millisecond'`;

const roundedAgeMs = (column: unknown) =>
  ageMs(column).mapWith((ms): number | null => Math.round(Number(ms)));

/** The first of some rows. */
export interface Listed<Row> {
  readonly rows: readonly Row[];
  /** How many there are in all. */
  readonly total: number;
}

export interface CellFilter {
  /** Names; all if omitted. */
  readonly cells?: readonly string[] | undefined;
}

/** The cells that are not retired, those with the worst health first, then by name; if names are given, retired ones too. */
export async function cellOverviews(
  db: Database,
  { cells: names }: CellFilter = {},
): Promise<CellOverview[]> {
  const rows = await db
    .select({
      name: cells.name,
      owner: cells.owner,
      address: cells.address,
      state: cells.state,
      failures: cells.failures,
      errorCode: cells.errorCode,
      error: cells.error,
      lastRun: cells.lastRun,
      lastOutcome: cells.lastOutcome,
      runErrorCode: ofNewestRun(runs.errorCode),
      runError: ofNewestRun(runs.error),
      publishedAt: cells.publishedAt,
      completeAt: cells.completeAt,
      storedAt: cells.storedAt,
      dueAt: cells.dueAt,
      publishedAgeMs: roundedAgeMs(cells.publishedAt),
      completeAgeMs: roundedAgeMs(cells.completeAt),
      overdueMs: roundedAgeMs(cells.dueAt),
      records: cells.recordCount,
      isProjected: sql<boolean>`coalesce(${cells.projectedRun}, 0) >= ${NEWEST_PUBLISHED}`,
      unstoredAgeMs: roundedAgeMs(
        sql`(select min(${runs.publishedAt}) from ${runs} where ${runs.cell} = ${cells.id} and ${runs.root} is not null and ${runs.run} > coalesce(${cells.storedRun}, 0))`,
      ),
      failingAgeMs: roundedAgeMs(
        sql`(select min(${runs.publishedAt}) from ${runs} where ${runs.cell} = ${cells.id} and ${runs.run} > ${NEWEST_PUBLISHED})`,
      ),
      configuredAgeMs: ageMs(cells.changedAt).mapWith(Number),
      lastWorker: sql<string | null>`${LAST_WORKER}`,
      isLastWorkerAlive: sql<boolean>`exists (select from ${workers} where ${workers.name} = ${LAST_WORKER} and ${workers.seenAt} >= ${SILENT_SINCE})`,
      findings: cells.findingCount,
      bySeverity: sql<Partial<
        Record<Severity, number>
      > | null>`(select jsonb_object_agg(severity, amount) from (select severity, count(*) as amount from ${findings} where cell_id = ${cells.id} group by severity) as listed)`,
      holder: groups.holder,
      root: cells.root,
      checkoutHolder: cells.checkoutHolder,
      groupCheckedOutBy: sql<
        string | null
      >`case when ${groups.checkedOutCell} is not null then ${groups.holder} end`,
      baseline: cells.baseline,
      baselineRun: cells.baselineRun,
      baselineOrder: cells.baselineOrder,
      baselineError: cells.baselineError,
    })
    .from(cells)
    .innerJoin(groups, eq(groups.id, cells.group))
    .where(names === undefined ? ne(cells.state, 'retired') : inArray(cells.name, [...names]));
  return rows
    .map(({ bySeverity, ...row }) => {
      const cell = {
        ...row,
        findingsBySeverity: row.findings === null ? null : amountsOf(bySeverity ?? {}),
        isStored: row.unstoredAgeMs === null && !isMissed(row),
      };
      return { ...cell, health: healthOf(cell) };
    })
    .toSorted(
      (a, b) => CELL_HEALTHS.indexOf(a.health) - CELL_HEALTHS.indexOf(b.health) || (a.name < b.name ? -1 : 1),
    );
}

function amountsOf({ critical = 0, high = 0, medium = 0, low = 0 }: Partial<Record<Severity, number>>) {
  return { critical, high, medium, low } satisfies Record<Severity, number>;
}

function healthOf(cell: Omit<CellOverview, 'health'>): CellHealth {
  if (cell.state === 'retired' || cell.state === 'quarantined') return cell.state;
  if (cell.failures > 0) return 'failing';
  if (cell.state === 'checked_out') return 'checked_out';
  if (isNotStored(cell)) return 'not_stored';
  if (cell.holder === null && isLate(cell)) return 'late';
  if (cell.publishedAt === null) return 'new';
  return cell.lastOutcome === 'complete' ? 'fine' : 'partial';
}

function isLate(cell: Omit<CellOverview, 'health'>): boolean {
  const isNew = cell.lastRun === null;
  const hasMetLimit = cell.errorCode === 'throttled' && (isNew || cell.runErrorCode === 'throttled');
  const waitedMs = cell.failingAgeMs ?? (isNew ? cell.configuredAgeMs : 0);
  const lateMs = cell.error === null || hasMetLimit ? LATE_MS : LEFT_LATE_MS;
  const waits = waitsMs(cell);
  return (
    (cell.overdueMs ?? 0) > lateMs || (hasMetLimit ? waits + waitedMs > WAIT_LATE_MS : waits > LEFT_LATE_MS)
  );
}

type ErrorState = Pick<CellOverview, 'failures' | 'errorCode' | 'overdueMs'>;

/**
 * How long the cell still waits for limits that are used up, or may be by a holder that vanished, in milliseconds; 0 if
 * it does not.
 */
export function waitsMs({ failures, errorCode, overdueMs }: ErrorState): number {
  return failures === 0 && isOfLimits(errorCode) ? Math.max(0, -(overdueMs ?? 0)) : 0;
}

/** True for the code of a cell that was postponed because of limits (`Registry.postpone`), or whose run met one. */
export function isOfLimits(errorCode: string | null): boolean {
  return errorCode === 'throttled' || errorCode === 'interrupted';
}

/** True if a worker found that storage lacks the newest mirror. */
function isMissed({ failures, errorCode, overdueMs }: ErrorState): boolean {
  return failures === 0 && errorCode === 'mirror_missing' && (overdueMs ?? -1) >= 0;
}

function isNotStored(cell: Omit<CellOverview, 'health'>): boolean {
  if (cell.unstoredAgeMs === null) return !cell.isStored;
  return cell.unstoredAgeMs > UNSTORED_MS || !cell.isLastWorkerAlive;
}

export interface WorkerOverview {
  readonly name: string;
  readonly host: string;
  readonly version: string;
  readonly startedAt: string;
  readonly seenAt: string;
  /** Milliseconds since its last heartbeat. */
  readonly seenAgeMs: number;
  /** True if that is less than two minutes. */
  readonly isAlive: boolean;
  readonly isDraining: boolean;
  /** Rate groups that it has. */
  readonly groups: number;
}

/** `seenAgeMs` of `WorkerOverview`. */
export const SEEN_AGE_MS = ageMs(workers.seenAt).mapWith((ms) => Math.round(Number(ms)));
/** `isAlive` of `WorkerOverview`. */
export const IS_ALIVE = sql<boolean>`${workers.seenAt} >= ${SILENT_SINCE}`;

/** The workers by name. One that was asked to leave and is silent counts as gone. */
export async function workerOverviews(db: Database): Promise<WorkerOverview[]> {
  return db
    .select({
      name: workers.name,
      host: workers.host,
      version: workers.version,
      startedAt: workers.startedAt,
      seenAt: workers.seenAt,
      seenAgeMs: SEEN_AGE_MS,
      isAlive: IS_ALIVE,
      isDraining: workers.isDraining,
      groups: sql<number>`(select count(*) from ${groups} where ${groups.holder} = ${workers.name})`.mapWith(
        Number,
      ),
    })
    .from(workers)
    .where(or(not(workers.isDraining), IS_ALIVE))
    .orderBy(asc(workers.name));
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
