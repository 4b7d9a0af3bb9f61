/**
 * A cell: one source with a mirror file, a schedule and backups of its own. The messages between a worker and the
 * process that works on a cell: plain values only.
 */
import type { Severity } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { TargetConfig } from '../config/config.ts';
import type { ErrorMessage } from '../core/child-process.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { RecordChange } from '../diff/change.ts';
import type { RateLogState } from '../mirror/rate-log.ts';

/** The sections of a configuration file for one cell, from the registry. Without secrets. */
export interface CellConfig {
  /** An element of `sources`, without name and key. */
  readonly source: Readonly<Record<string, unknown>>;
  readonly schedules: Readonly<Record<string, unknown>>;
  readonly retention?: Readonly<Record<string, unknown>> | undefined;
  readonly drift?: Readonly<Record<string, unknown>> | undefined;
}

/** What the registry knows of a cell's mirror. */
export interface KnownMirror {
  /** Number of the newest run, whatever its outcome. */
  readonly lastRun: number;
  /** Root hash of the newest run that did not fail, in hex; null if there is none. */
  readonly root: string | null;
  /** The run whose records the registry shows; null if it shows none. */
  readonly projectedRun: number | null;
  /** Name of the newest backup in storage, and the run that it holds; null if there is none. */
  readonly stored: { readonly key: string; readonly run: number } | null;
}

/** The baseline that a cell's mirror is to get. */
export interface BaselineOrder {
  /** Name of the snapshot. */
  readonly name: string;
  /** The run that is pinned if the mirror has no snapshot of that name. */
  readonly run: number;
  /** ISO 8601: the state of this time instead, which an existing snapshot of that name must have too. Null to use `run`. */
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
  /** The log of requests of the rate group is beside this path. */
  readonly rateLog: string;
  /** The rate log of the previous holder of the group. */
  readonly requests: RateLogState | null;
  /** The period in which a holder that vanished may have sent requests that nobody counted, epoch milliseconds; null for none. */
  readonly uncounted: { readonly since: number; readonly until: number } | null;
  /** Null for a cell that no worker has published yet. */
  readonly known: KnownMirror | null;
  /** When the cell was due, PostgreSQL's epoch milliseconds. */
  readonly dueAt: number;
  /** False while another worker may have the runs that the registry knows and storage lacks. */
  readonly mayLoseRuns: boolean;
  /** Of the rate group: part of the names of backups. */
  readonly fence: number;
  /** Where backups of this cell are stored. */
  readonly storage: TargetConfig;
  /**
   * Set if the storage recently did not answer: its error, and until when no request is sent to it (PostgreSQL's epoch
   * milliseconds).
   */
  readonly storageAway: { readonly error: ErrorMessage; readonly until: number } | null;
  /** age recipients of the backups; empty for none. */
  readonly recipients: readonly string[];
  /** age identities that decrypt them. */
  readonly identities: readonly string[];
  /** PostgreSQL's clock minus this machine's. */
  readonly clockAheadMs: number;
  /** True if findings may contain values. */
  readonly showsValues: boolean;
  /** The baseline to set; null for none. */
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

/** The key of a record in the registry's tables: the scope as `organization_id=…&role_id=…`, an id that is a secret masked. */
export interface CellRecordKey {
  readonly kind: Kind;
  readonly scope: string;
  readonly id: string;
}

export interface CellChange extends CellRecordKey {
  readonly run: number;
  readonly name: string;
  readonly change: RecordChange['change'];
  /** RFC 6901 pointers of the fields that differ; empty for a record that was added or removed. */
  readonly paths: readonly string[];
}

export interface CellFinding extends CellRecordKey {
  readonly name: string;
  readonly change: CellChange['change'];
  readonly path: string;
  readonly severity: Severity;
  /** Other keys of the same record, which restores have recreated. */
  readonly otherKeys: readonly CellRecordKey[];
  /** Masked, and only if the cell allows it. */
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

export interface CellRecord extends CellRecordKey {
  readonly name: string;
  readonly organization: string | null;
  /** JSON text, without secrets. */
  readonly body: string;
}

/** The registry shows no records of a cell that has more than this. */
export const MOST_PROJECTED = 50_000;

/** A change of the records that the registry shows of a cell. */
export interface Projection {
  readonly run: number;
  /** True if `records` are complete. */
  readonly isWhole: boolean;
  readonly records: readonly CellRecord[];
  readonly removed: readonly CellRecordKey[];
}

/** The result of the backup in storage. */
export interface CellStorage {
  /** Null if nothing had to be stored, or it failed. */
  readonly stored: { readonly key: string; readonly run: number; readonly bytes: number } | null;
  /** Why it failed. The run is published nevertheless. */
  readonly error: ErrorMessage | null;
}

export interface CellReport {
  /** How the mirror related to what the registry knew. */
  readonly chain: ChainState;
  /** Ended runs that the registry does not know, oldest first. */
  readonly runs: readonly CellRun[];
  /** Of the newest run that did not fail; null if there is none. */
  readonly root: string | null;
  readonly schemaVersion: number | null;
  readonly recordCount: number;
  readonly changes: readonly CellChange[];
  /** Null if nothing changed, or there are too many records to show. */
  readonly projection: Projection | null;
  /** Open findings; null if they are not known: there is no baseline, it contradicts the audit log, or the mirror is damaged. */
  readonly findings: { readonly count: number; readonly rows: readonly CellFinding[] } | null;
  /** The snapshot that drift is measured from; null without one, or if it contradicts the audit log. */
  readonly baseline: { readonly name: string; readonly run: number } | null;
  /** Why the baseline that was asked for cannot be set; null if it was set, or none was asked for. */
  readonly baselineError: string | null;
  /** When a schedule of the cell is due next, by PostgreSQL's clock, ISO 8601; null for never. */
  readonly dueAt: string | null;
  readonly storage: CellStorage;
  /** Of the job that failed; null if none did. */
  readonly error: ErrorMessage | null;
  /** Set if the run met a limit, which is not a failure: for how many milliseconds the key may send nothing, and why. */
  readonly waits?: { readonly ms: number; readonly why: string };
  /** True if `error` only means that something that people recorded contradicts the audit log: the cell is still synced. */
  readonly isRefusal: boolean;
  /** The requests of the rate group; null if nothing limits them. */
  readonly requests: RateLogState | null;
}

/**
 * `new`: neither mirror nor registry has a run. `equal`: both end with the same run. `ahead`: the mirror has runs that
 * a worker did not publish before it ended. `behind`: runs were lost with the mirror of another worker.
 */
export type ChainState = 'new' | 'equal' | 'ahead' | 'behind';

export type CellResult =
  | { readonly status: 'worked'; readonly report: CellReport }
  /** Nothing was done: the limits of the key allow no request for `ms`. */
  | {
      readonly status: 'waits';
      readonly ms: number;
      /** Null if the reason is what a holder that vanished may have sent. */
      readonly why: string | null;
      readonly requests: RateLogState | null;
    }
  /** Nothing could be done. `left`: another worker may be able to; `quarantined`: a person has to look. */
  | {
      readonly status: 'failed' | 'left' | 'quarantined';
      readonly error: ErrorMessage;
      /** True if the storage is the cause, so that other cells will fail too. */
      readonly isOfStorage?: boolean;
    };

// Messages between the worker and the process that works on cells for it.

/** Without another lease, no request is sent after `until` (epoch milliseconds), nor later than `forMs` after this message. */
export interface LeaseEnd {
  readonly until: number;
  readonly forMs: number;
}

export type ToCellProcess =
  | { readonly type: 'order'; readonly order: CellOrder }
  | ({ readonly type: 'lease' } & LeaseEnd)
  | { readonly type: 'stop' }
  | { readonly type: 'known'; readonly isKnown: boolean };

export type FromCellProcess =
  | { readonly type: 'ready' }
  /** Asks whether the registry knows a run of this cell with that root hash. */
  | { readonly type: 'is known'; readonly root: string }
  | { readonly type: 'result'; readonly result: CellResult };
