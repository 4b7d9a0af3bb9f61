/** Translates between the registry and the process for cells: a cell's row into an order, and a result into a publication. */
import { join } from 'node:path';
import type { TargetConfig, RetentionPolicy } from '../config/config.ts';
import type { ErrorMessage } from '../core/child-process.ts';
import type { JsonValue } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';
import type { RateLogState } from '../mirror/rate-log.ts';
import type { CellConfig, CellOrder, CellReport, CellResult, CellStorage, KnownMirror } from './cell.ts';
import type { Publication } from './registry/publish.ts';
import type { Cell, HeldGroup } from './registry/held-group.ts';
import { cachedFiles } from './worker-cache.ts';

/** Which backups of a cell are kept in storage. */
const RETENTION: RetentionPolicy = { last: 3, daily: 7, weekly: 4, monthly: 12 };
const AGAIN_AFTER_FAILURE_MS = 60_000;
/** The longest window of a rate limit: older requests do not count. */
const LONGEST_WINDOW_MS = 3_600_000;

interface OrderFacts extends Pick<CellOrder, 'storage' | 'storageAway' | 'recipients' | 'clockAheadMs'> {
  /** How long ago the group was taken, for an order that has the rate log of the group; null for others. */
  readonly heldMs: number | null;
  readonly secret: Secret;
  readonly cache: string;
  readonly identities: readonly Secret[];
  /** PostgreSQL's time, epoch milliseconds. */
  readonly now: number;
  /** How long a holder may send requests after its last heartbeat. */
  readonly leaseMs: number;
  readonly lostRunsMs: number;
}

/** The order for the work on one cell of a group. */
export function orderOf(held: HeldGroup, cell: Cell, facts: OrderFacts): CellOrder {
  const { heldMs, secret, cache, storage, storageAway, recipients, identities, now, clockAheadMs, leaseMs } =
    facts;
  const { abandonedMs, uncountedMs } = held;
  const uncountedUntil = Math.min(now, now - (heldMs ?? 0) - (abandonedMs ?? 0) + leaseMs);
  return {
    cell: cell.name,
    config: cellConfigOf(cell),
    secret: secret.reveal(),
    ...cachedFiles(cache, held.group, cell.name),
    requests: heldMs === null ? null : rateLogState(held.rateLog, held.rateLogAgeMs + heldMs),
    uncounted:
      heldMs !== null && abandonedMs !== null && uncountedUntil > now - LONGEST_WINDOW_MS
        ? { since: now - heldMs - uncountedMs, until: uncountedUntil }
        : null,
    known: knownMirror(cell),
    dueAt: now - (cell.overdueMs ?? 0),
    mayLoseRuns: (cell.overdueMs ?? 0) > facts.lostRunsMs,
    fence: held.fence,
    storage: cellStorage(storage, cell.name),
    storageAway,
    recipients,
    identities: identities.map((each) => each.reveal()),
    clockAheadMs,
    showsValues: cell.showsValues,
    baseline: cell.baselineOrder,
  };
}

/** The configuration of a cell, without its key. */
export function cellConfigOf({ address, profile, organizations, schedule, document }: Cell): CellConfig {
  const { source = {}, schedules = {}, retention, drift } = document;
  return {
    source: { ...source, baseUrl: address, profile, organizations: organizations ?? 'all' },
    schedules: { ...schedules, sync: { ...(schedules['sync'] as object | undefined), cron: schedule } },
    retention,
    drift,
  };
}

interface PublicationFacts extends Required<Pick<Publication, 'worker' | 'releases' | 'countsVanished'>> {
  /** PostgreSQL's time, epoch milliseconds. */
  readonly now: number;
  /** The rate log if the process made no report; undefined if it is not known. */
  readonly requests: () => JsonValue | undefined;
}

/** What is published about a cell that was worked on, or could not be. */
export function publicationOf(
  held: HeldGroup,
  cell: Cell,
  result: Exclude<CellResult, { status: 'left' | 'waits' }>,
  { worker, releases, countsVanished, now, requests }: PublicationFacts,
): Publication {
  const base = {
    cell: cell.id,
    configuredAt: cell.changedAt,
    group: held.group,
    fence: held.fence,
    worker,
    releases,
    countsVanished,
    baselineOrder: cell.baselineOrder,
    baselineDone: null,
  };
  if (result.status !== 'worked') {
    const { code, message } = result.error;
    return {
      ...base,
      rateLog: requests(),
      runs: [],
      error: { code, message },
      mirror: null,
      stored: null,
      findings: code === 'mirror_corrupt' ? FINDINGS_UNKNOWN : null,
      records: null,
      changes: [],
      quarantines: result.status === 'quarantined',
      dueInMs: AGAIN_AFTER_FAILURE_MS * (cell.failures + 1),
    };
  }
  const { report } = result;
  return {
    ...base,
    ...contentsOf(cell, report),
    baselineDone: baselineDone(cell, report),
    rateLog: storedRateLog(report.requests),
    dueInMs:
      report.waits?.ms ??
      (report.dueAt === null ? Number.MAX_SAFE_INTEGER : Math.max(0, Date.parse(report.dueAt) - now)),
  };
}

/**
 * Whether a pending baseline is done: once the mirror with it is in storage, from which another worker continues. It is
 * given up if it cannot be set, or if the mirror does not verify, so that it will never be stored.
 * @internal
 */
export function baselineDone(
  { baselineOrder }: Pick<Cell, 'baselineOrder'>,
  { baselineError, storage }: Pick<CellReport, 'baselineError' | 'storage'>,
): Publication['baselineDone'] {
  if (baselineOrder === null) return null;
  const error = baselineError ?? unsound(storage)?.message ?? null;
  return error === null && storage.stored === null ? null : { error };
}

/** The error of storing a mirror that does not verify; null for other errors. */
function unsound({ error }: CellStorage): ErrorMessage | null {
  return error?.code === 'mirror_corrupt' ? error : null;
}

/** What the registry knows of a cell's mirror; null if there is none. */
export function knownMirror(cell: Cell): KnownMirror | null {
  const { lastRun, root, projectedRun, storedKey, storedRun } = cell;
  if (lastRun === null) return null;
  const stored = storedKey === null || storedRun === null ? null : { key: storedKey, run: storedRun };
  return { lastRun, root, projectedRun, stored };
}

/** Where the mirrors of a cell are stored. */
export function cellStorage(storage: TargetConfig, cell: string): TargetConfig {
  const place = ['cells', encodeURIComponent(cell)];
  return storage.type === 'directory'
    ? { ...storage, path: join(storage.path, ...place), retention: RETENTION }
    : {
        ...storage,
        prefix: [storage.prefix, ...place].filter((part) => part !== '').join('/'),
        retention: RETENTION,
      };
}

/** A rate log in the form of the registry. */
export function storedRateLog(state: RateLogState | null): JsonValue | undefined {
  return (state ?? undefined) as unknown as JsonValue | undefined;
}

/** A rate log from the registry, with its ages as of now. */
export function rateLogState(stored: JsonValue, ageMs: number): RateLogState | null {
  // Only workers write it, with `storedRateLog`.
  const state = stored as unknown as RateLogState | null;
  if (state === null) return null;
  return {
    ages: Object.fromEntries(
      Object.entries(state.ages).map(([limit, ages]) => [limit, ages.map((age) => age + ageMs)]),
    ),
    paces: state.paces,
  };
}

/** The findings of a mirror that could not be compared: earlier ones no longer count. */
const FINDINGS_UNKNOWN = { total: null, listed: [] };

/** The part of a publication that comes from a report. */
export function contentsOf(
  cell: Pick<Cell, 'lastRun'>,
  report: CellReport,
): Pick<
  Publication,
  'runs' | 'error' | 'mirror' | 'baseline' | 'stored' | 'findings' | 'records' | 'changes'
> {
  const { runs, error, isRefusal, root, schemaVersion, recordCount, storage, findings, projection } = report;
  const { changes, waits } = report;
  const newest = runs.at(-1)?.run ?? cell.lastRun;
  const unstorable = unsound(storage);
  const limit: ErrorMessage | null =
    waits === undefined ? null : { code: 'throttled', message: waits.why, hint: null, isRetryable: true };
  const failed = error ?? unstorable ?? limit;
  return {
    runs,
    error:
      failed === null
        ? null
        : {
            code: failed.code,
            message: failed === unstorable ? failed.message : (limit?.message ?? failed.message),
            isRefusal: isRefusal || failed === unstorable,
            waits: limit !== null && failed !== unstorable,
          },
    mirror: newest === null ? null : { run: newest, root, version: schemaVersion ?? 0, recordCount },
    baseline: report.baseline,
    stored: storage.stored,
    findings:
      findings === null
        ? FINDINGS_UNKNOWN
        : {
            total: findings.count,
            listed: findings.rows.map(({ before, after, ...row }) => ({
              ...row,
              ...(before === undefined ? {} : { before: JSON.stringify(before) }),
              ...(after === undefined ? {} : { after: JSON.stringify(after) }),
            })),
          },
    records:
      projection === null
        ? null
        : {
            run: projection.run,
            isWhole: projection.isWhole,
            present: projection.records,
            removed: projection.removed,
          },
    changes,
  };
}
