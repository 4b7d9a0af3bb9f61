/** Between the registry and the process for cells: what the registry says as an order, and a result as what is published. */
import { join } from 'node:path';
import type { TargetConfig, RetentionPolicy } from '../config/config.ts';
import type { ErrorMessage } from '../core/child-process.ts';
import type { JsonValue } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';
import type { RateLogState } from '../mirror/rate-log.ts';
import type { CellOrder, CellReport, CellResult, CellStorage, KnownMirror } from './cell.ts';
import type { Publication } from './registry/publish.ts';
import type { Cell, HeldGroup } from './registry/held-group.ts';
import { cellConfigOf } from './secret-reference.ts';
import { cachedFiles } from './worker-cache.ts';

/** Backups of a cell that stay in storage. */
const RETENTION: RetentionPolicy = { last: 3, daily: 7, weekly: 4, monthly: 12 };
const AGAIN_AFTER_FAILURE_MS = 60_000;
/** What was sent before that counts for no limit. */
const LONGEST_WINDOW_MS = 3_600_000;

interface OrderFacts {
  /** For cells that bring the limits of the key: how long ago the group was taken. Null for others. */
  readonly bringsLimitsAfterMs: number | null;
  readonly secret: Secret;
  readonly cache: string;
  readonly storage: TargetConfig;
  readonly storageAway: CellOrder['storageAway'];
  readonly recipients: readonly string[];
  readonly identities: readonly Secret[];
  /** Of PostgreSQL, epoch milliseconds, and by how much it is ahead of this machine's. */
  readonly now: number;
  readonly clockAheadMs: number;
  /** How long a holder may send requests after it was last heard of. */
  readonly leaseMs: number;
  readonly lostRunsMs: number;
}

/** What is to be done on one cell of a group. */
export function orderOf(held: HeldGroup, cell: Cell, facts: OrderFacts): CellOrder {
  const {
    bringsLimitsAfterMs: heldMs,
    secret,
    cache,
    storage,
    recipients,
    identities,
    now,
    clockAheadMs,
    leaseMs,
  } = facts;
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
    storageAway: facts.storageAway,
    recipients,
    identities: identities.map((each) => each.reveal()),
    clockAheadMs,
    showsValues: cell.showsValues,
    baseline: cell.baselineOrder,
  };
}

interface PublicationFacts {
  readonly worker: string;
  /** Gives the group back with it. */
  readonly releases: boolean;
  /** What holders that vanished may have sent was counted before. */
  readonly countsVanished: boolean;
  /** PostgreSQL's, epoch milliseconds. */
  readonly now: number;
  /** What is known of the requests of a process that made no report. */
  readonly requests: () => JsonValue | undefined;
}

/** What the registry learns of a cell that was worked on, or could not be. */
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
    const rateLog = requests();
    return {
      ...base,
      ...(rateLog === undefined ? {} : { rateLog }),
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
    ...(report.requests === null ? {} : { rateLog: report.requests as unknown as JsonValue }),
    dueInMs:
      report.waits?.ms ??
      (report.dueAt === null ? Number.MAX_SAFE_INTEGER : Math.max(0, Date.parse(report.dueAt) - now)),
  };
}

/**
 * It counts once the mirror with it is in storage: another worker continues from there. Null while that is open. It is given up where it
 * cannot be set, and where no storing would help: the mirror does not verify.
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

/** Why a mirror is not stored though it was synced: it does not verify. Null where that is not so. */
function unsound({ error }: CellStorage): ErrorMessage | null {
  return error?.code === 'mirror_corrupt' ? error : null;
}

/** What the registry says of a cell's mirror; null for one that has none. */
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

/** A rate log as the registry has it, with its ages as of now. */
export function rateLogState(stored: JsonValue, ageMs: number): RateLogState | null {
  // Written by a worker alone, by `exportRateLog`.
  const state = stored as unknown as RateLogState | null;
  if (state === null) return null;
  return {
    ages: Object.fromEntries(
      Object.entries(state.ages).map(([limit, ages]) => [limit, ages.map((age) => age + ageMs)]),
    ),
    paces: state.paces,
  };
}

/** What was found before says nothing of a mirror as it is now. */
const FINDINGS_UNKNOWN = { total: null, listed: [] };

/** The part of a publication that a report gives. */
export function contentsOf(
  cell: Pick<Cell, 'lastRun'>,
  report: CellReport,
): Pick<
  Publication,
  'runs' | 'error' | 'mirror' | 'baseline' | 'stored' | 'findings' | 'records' | 'changes'
> {
  const { runs, error, isRefusal, root, schemaVersion, recordCount, storage, findings, projection, changes } =
    report;
  const newest = runs.at(-1)?.run ?? cell.lastRun;
  const { waits } = report;
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
