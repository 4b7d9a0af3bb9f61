/**
 * A cell: one source with a mirror file, a schedule and backups of its own. What a worker sends to the process that works on a
 * cell, and what that process answers: plain values only.
 */
import type { Severity } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { TargetConfig } from '../config/config.ts';
import type { ErrorMessage } from '../core/child-process.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { RecordChange } from '../diff/change.ts';
import type { RateLogState } from '../mirror/rate-log.ts';

/** Sections of a configuration file, as the registry has them of one cell. No secret is in it. */
export interface CellConfig {
  /** As an element of `sources`, without name and key. */
  readonly source: Readonly<Record<string, unknown>>;
  readonly schedules: Readonly<Record<string, unknown>>;
  readonly retention?: Readonly<Record<string, unknown>> | undefined;
  readonly drift?: Readonly<Record<string, unknown>> | undefined;
}

/** What the registry knows of a cell's mirror. */
export interface KnownMirror {
  /** Number of the newest run of which it knows, whatever its outcome. */
  readonly lastRun: number;
  /** Root hash of the newest published run, in hex; null if none was published. */
  readonly root: string | null;
  /** The run whose records the registry shows; null where it shows none. */
  readonly projectedRun: number | null;
  /** Name of the newest backup in storage, and the run that it holds; null if there is none. */
  readonly stored: { readonly key: string; readonly run: number } | null;
}

/** A baseline that the mirror of a cell is to have. */
export interface BaselineOrder {
  /** Name of the snapshot. */
  readonly name: string;
  /** The state that is pinned where no snapshot of the mirror has that name yet. */
  readonly run: number;
  /** The state of that time instead, ISO 8601; then a snapshot of that name has to be of it. Null for none. */
  readonly time: string | null;
  /** Who asked for it. */
  readonly by: string;
}

export interface CellOrder {
  /** Name of the cell, of its source, and of its place in storage. */
  readonly cell: string;
  readonly config: CellConfig;
  /** The key of the service. */
  readonly secret: string;
  /** Absolute path of the cached mirror, and of the configuration file that is written beside it. */
  readonly mirror: string;
  readonly configFile: string;
  /** The path beside which the log of requests of the rate group is. */
  readonly rateLog: string;
  /** What the holder of the group before knew of its limits. */
  readonly requests: RateLogState | null;
  /** When a holder that vanished may have sent requests that nobody counted, epoch milliseconds; null without one. */
  readonly uncounted: { readonly since: number; readonly until: number } | null;
  /** Null for a cell that no worker has published yet. */
  readonly known: KnownMirror | null;
  /** Since when it is due as the registry knows, PostgreSQL's epoch milliseconds. */
  readonly dueAt: number;
  /** False where another worker may still have the runs that the registry knows and storage lacks. */
  readonly mayLoseRuns: boolean;
  /** Of the rate group: part of the names of backups. */
  readonly fence: number;
  /** Where backups of this cell go. */
  readonly storage: TargetConfig;
  /** Why the storage is not asked, until when, by PostgreSQL's clock in epoch milliseconds: it did not answer a moment ago. Null where it is. */
  readonly storageAway: { readonly error: ErrorMessage; readonly until: number } | null;
  /** age recipients of the backups; empty for none. */
  readonly recipients: readonly string[];
  /** age identities that open them. */
  readonly identities: readonly string[];
  /** PostgreSQL's clock minus this machine's. */
  readonly clockAheadMs: number;
  /** True where findings may hold values. */
  readonly showsValues: boolean;
  /** A baseline that the mirror is to have; null for none. */
  readonly baseline: BaselineOrder | null;
}

/** A run as the mirror has it; times in ISO 8601. */
export interface CellRun {
  readonly run: number;
  readonly outcome: 'complete' | 'partial' | 'failed';
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly requests: number;
  readonly retries: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** In hex; null unless published. */
  readonly root: string | null;
  /** Why it failed, or is partial. */
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
}

/** A place in the registry's tables: the scope as `organization_id=…&role_id=…`, an id that is a secret itself masked. */
export interface CellRecordKey {
  readonly kind: Kind;
  readonly scope: string;
  readonly id: string;
}

export interface CellChange extends CellRecordKey {
  readonly run: number;
  readonly name: string;
  readonly change: RecordChange['change'];
  /** RFC 6901 pointers of what differs; empty for a record that came or went. */
  readonly paths: readonly string[];
}

export interface CellFinding extends CellRecordKey {
  readonly name: string;
  readonly change: CellChange['change'];
  readonly path: string;
  readonly severity: Severity;
  /** Where the same record is or was under other ids, by restores that created it again. */
  readonly otherKeys: readonly CellRecordKey[];
  /** Masked, and only where the cell allows it. */
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

export interface CellRecord extends CellRecordKey {
  readonly name: string;
  readonly organization: string | null;
  /** JSON text, without secrets. */
  readonly body: string;
}

/** Records of a cell that the registry shows at most: the rest is for the cell's own mirror. */
export const MOST_PROJECTED = 50_000;

/** How the records of a cell that the registry shows are to change. */
export interface Projection {
  readonly run: number;
  /** True if `records` are complete. */
  readonly isWhole: boolean;
  readonly records: readonly CellRecord[];
  readonly removed: readonly CellRecordKey[];
}

/** The result of the backup in storage. */
export interface CellStorage {
  /** Null where nothing had to be stored, or could be. */
  readonly stored: { readonly key: string; readonly run: number; readonly bytes: number } | null;
  /** Why it could not; the run counts even so. */
  readonly error: ErrorMessage | null;
}

export interface CellReport {
  /** How the mirror's chain followed what the registry knew. */
  readonly chain: ChainState;
  /** Ended runs that the registry does not know of, oldest first. */
  readonly runs: readonly CellRun[];
  /** Of the newest published run; null if there is none. */
  readonly root: string | null;
  readonly schemaVersion: number | null;
  readonly recordCount: number;
  readonly changes: readonly CellChange[];
  /** Null where nothing changed, or there are too many records to show. */
  readonly projection: Projection | null;
  /** Open findings; null where they are not known: without a baseline, with one that is not as the audit log has it, or with a damaged mirror. */
  readonly findings: { readonly count: number; readonly rows: readonly CellFinding[] } | null;
  /** The snapshot that drift is measured from; null without one, and with one that is not as the audit log has it. */
  readonly baseline: { readonly name: string; readonly run: number } | null;
  /** Why the baseline that was asked for cannot be set; null where it was, or none was asked for. */
  readonly baselineError: string | null;
  /** When a schedule of the cell is due next, by PostgreSQL's clock, ISO 8601; null for never. */
  readonly dueAt: string | null;
  readonly storage: CellStorage;
  /** Of the job that failed; null if none did. */
  readonly error: ErrorMessage | null;
  /** Set where the run met a limit, which does not count as a failure: the key may send nothing for so long, in milliseconds, and why. */
  readonly waits?: { readonly ms: number; readonly why: string };
  /** True where `error` is only that what people recorded is not as the audit log has it: the cell is still synced. */
  readonly isRefusal: boolean;
  /** Of the rate group's requests; null where nothing limits them. */
  readonly requests: RateLogState | null;
}

/**
 * `new`: neither had anything. `equal`: both end with the same run. `ahead`: the mirror has runs that a worker did not live
 * to publish. `behind`: runs were lost with the mirror of another worker.
 */
export type ChainState = 'new' | 'equal' | 'ahead' | 'behind';

export type CellResult =
  | { readonly status: 'worked'; readonly report: CellReport }
  /** Nothing was done: the limits of the key leave no request for so long. `requests` for the next one. */
  | {
      readonly status: 'waits';
      readonly ms: number;
      /** Null where it is what is assumed of a holder that vanished. */
      readonly why: string | null;
      readonly requests: RateLogState | null;
    }
  /** Nothing could be done. `left`: another worker may be able to; `quarantined`: a person has to look. */
  | {
      readonly status: 'failed' | 'left' | 'quarantined';
      readonly error: ErrorMessage;
      /** True where the storage as a whole is the cause: other cells meet the same. */
      readonly isOfStorage?: boolean;
    };

// Messages between the worker and the process that works on cells for it.

export type ToCellProcess =
  | { readonly type: 'order'; readonly order: CellOrder }
  /** No request is sent after that time, epoch milliseconds, nor longer than `forMs` after this message, without another one. */
  | { readonly type: 'lease'; readonly until: number; readonly forMs: number }
  | { readonly type: 'stop' }
  | { readonly type: 'known'; readonly isKnown: boolean };

export type FromCellProcess =
  | { readonly type: 'ready' }
  /** Whether the registry knows a run of this cell with that root hash. */
  | { readonly type: 'is known'; readonly root: string }
  | { readonly type: 'result'; readonly result: CellResult };
