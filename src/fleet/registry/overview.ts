/**
 * The cells and workers of a fleet, with their health. Ages are computed by PostgreSQL, so the clocks of readers do not matter.
 */
import { asc, eq, inArray, ne, not, or, sql } from 'drizzle-orm';
import { type Severity } from '../../catalog/definition.ts';
import type { BaselineOrder, CellRun } from '../cell.ts';
import type { Database } from './connection.ts';
import { ageMs, type CellState, cells, findings, groups, runs, workers } from './schema.ts';

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
